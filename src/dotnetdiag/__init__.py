"""Diagnostics for running .NET processes: attach, record, read and understand.

Everything public is reachable from here and loaded when it is first used, so that ``import dotnetdiag`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

__version__ = "0.1.0"

# name -> module that defines it
_PUBLIC: dict[str, str] = {
    "AsyncClient": "dotnetdiag.client.aio",
    "Client": "dotnetdiag.client.client",
    "DumpFlags": "dotnetdiag.ipc.constants",
    "DumpType": "dotnetdiag.ipc.constants",
    "Trace": "dotnetdiag.trace.trace",
    "cpu": "dotnetdiag.analysis.cpu",
    "stacks": "dotnetdiag.analysis.stacks",
    "watch": "dotnetdiag.live.watch",
    "open": "dotnetdiag.recipes.trace_files:open_trace",
    "write": "dotnetdiag.recipes.exporting",
    "Process": "dotnetdiag.recipes.processes",
    "processes": "dotnetdiag.recipes.processes:list_processes",
}

__all__ = ["__version__", *_PUBLIC]
__getattr__ = loader(globals(), _PUBLIC)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


if TYPE_CHECKING:
    from dotnetdiag.analysis.cpu import cpu as cpu
    from dotnetdiag.analysis.stacks import stacks as stacks
    from dotnetdiag.client.aio import AsyncClient as AsyncClient
    from dotnetdiag.client.client import Client as Client
    from dotnetdiag.ipc.constants import DumpFlags as DumpFlags
    from dotnetdiag.ipc.constants import DumpType as DumpType
    from dotnetdiag.live.watch import watch as watch
    from dotnetdiag.recipes import trace_files as _trace_files
    from dotnetdiag.recipes.exporting import write as write
    from dotnetdiag.recipes.processes import Process as Process
    from dotnetdiag.recipes.processes import list_processes as processes  # noqa: F401 - public here
    from dotnetdiag.trace.trace import Trace as Trace

    open = _trace_files.open_trace
