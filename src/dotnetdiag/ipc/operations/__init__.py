"""Whole operations, with their fall-backs, as generators that do no I/O.

An operation yields :class:`~steps.Ask` and is sent the :class:`~steps.Answer`; a refusal of the runtime is thrown into it as the
ServerError that it is. The sync and the async client are two drivers of a few lines each (architecture, decision 1).
Each is loaded when it is first used: a command that lists processes must not pay for the messages of sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {
    "ProcessInformation": "identity",
    "process_info": "identity",
    "environment": "variables",
    "set_environment_variable": "variables",
    "resume": "startup",
    "is_suspended": "suspension",
    "enable_perf_map": "suspension",
    "disable_perf_map": "startup",
    "apply_startup_hook": "startup",
    "write_dump": "dumps",
    "attach_profiler": "profilers",
    "startup_profiler": "profilers",
    "SessionConfiguration": "sessions",
    "StartedSession": "sessions",
    "collect": "sessions",
    "collect_user_events": "sessions",
    "stop": "sessions",
    "Answer": "steps",
    "Ask": "steps",
    "Drain": "steps",
    "Operation": "steps",
    "continuation_bytes": "steps",
    "read_reply": "steps",
}
__getattr__ = loader(globals(), _PUBLIC)


if TYPE_CHECKING:
    from dotnetdiag.ipc.operations.dumps import write_dump
    from dotnetdiag.ipc.operations.identity import ProcessInformation, process_info
    from dotnetdiag.ipc.operations.profilers import attach_profiler, startup_profiler
    from dotnetdiag.ipc.operations.sessions import (
        SessionConfiguration,
        StartedSession,
        collect,
        collect_user_events,
        stop,
    )
    from dotnetdiag.ipc.operations.startup import apply_startup_hook, disable_perf_map, resume
    from dotnetdiag.ipc.operations.steps import Answer, Ask, Drain, Operation, continuation_bytes, read_reply
    from dotnetdiag.ipc.operations.suspension import enable_perf_map, is_suspended
    from dotnetdiag.ipc.operations.variables import environment, set_environment_variable

__all__ = [
    "Answer",
    "Ask",
    "Drain",
    "Operation",
    "ProcessInformation",
    "SessionConfiguration",
    "StartedSession",
    "apply_startup_hook",
    "attach_profiler",
    "collect",
    "collect_user_events",
    "continuation_bytes",
    "disable_perf_map",
    "enable_perf_map",
    "environment",
    "is_suspended",
    "process_info",
    "read_reply",
    "resume",
    "set_environment_variable",
    "startup_profiler",
    "stop",
    "write_dump",
]
