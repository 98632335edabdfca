"""Whole operations, with their fall-backs, as generators that do no I/O: a module for each kind.

Each is made of exchanges (``ipc.exchange``); a refusal of the runtime is raised within it as the ServerError that it is.
A module is loaded when it is first named: a command that lists processes must not pay for the messages of sessions.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotnetdiag.ipc.operations import dumps as dumps
    from dotnetdiag.ipc.operations import environments as environments
    from dotnetdiag.ipc.operations import information as information
    from dotnetdiag.ipc.operations import perf_map as perf_map
    from dotnetdiag.ipc.operations import profilers as profilers
    from dotnetdiag.ipc.operations import sessions as sessions
    from dotnetdiag.ipc.operations import startup as startup


_MODULES = {"dumps", "environments", "information", "perf_map", "profilers", "sessions", "startup"}


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
