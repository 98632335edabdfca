"""Whole operations, with their fall-backs, as generators that do no I/O.

Each is made of exchanges (``ipc.exchange``); a refusal of the runtime is raised within it as the ServerError that it is.
Each is loaded when it is first used: a command that lists processes must not pay for the messages of sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {
    "ProcessInformation": "information",
    "process_info": "information",
    "runtime_version": "information",
    "environment": "environments",
    "set_environment_variable": "environments",
    "resume": "startup",
    "apply_startup_hook": "startup",
    "enable_perf_map": "perf_map",
    "disable_perf_map": "perf_map",
    "write_dump": "dumps",
    "attach_profiler": "profilers",
    "startup_profiler": "profilers",
    "SessionConfiguration": "sessions",
    "StartedSession": "sessions",
    "collect": "sessions",
    "collect_user_events": "sessions",
    "stop": "sessions",
}
__getattr__ = loader(globals(), _PUBLIC)


if TYPE_CHECKING:
    from dotnetdiag.ipc.operations.dumps import write_dump
    from dotnetdiag.ipc.operations.environments import environment, set_environment_variable
    from dotnetdiag.ipc.operations.information import ProcessInformation, process_info, runtime_version
    from dotnetdiag.ipc.operations.perf_map import disable_perf_map, enable_perf_map
    from dotnetdiag.ipc.operations.profilers import attach_profiler, startup_profiler
    from dotnetdiag.ipc.operations.sessions import (
        SessionConfiguration,
        StartedSession,
        collect,
        collect_user_events,
        stop,
    )
    from dotnetdiag.ipc.operations.startup import apply_startup_hook, resume

__all__ = [
    "ProcessInformation",
    "SessionConfiguration",
    "StartedSession",
    "apply_startup_hook",
    "attach_profiler",
    "collect",
    "collect_user_events",
    "disable_perf_map",
    "enable_perf_map",
    "environment",
    "process_info",
    "resume",
    "runtime_version",
    "set_environment_variable",
    "startup_profiler",
    "stop",
    "write_dump",
]
