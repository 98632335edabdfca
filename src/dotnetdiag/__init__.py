"""Diagnostics for running .NET processes: attach, record, read and understand.

Everything public is reachable from here and loaded when it is first used, so that ``import dotnetdiag`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader as _loader

__version__ = "0.1.0"

# name -> module that defines it
_PUBLIC: dict[str, str] = {
    "AsyncClient": "dotnetdiag.client.aio",
    "Client": "dotnetdiag.client.client",
    "BufferingMode": "dotnetdiag.ipc.constants",
    "DumpFlags": "dotnetdiag.ipc.constants",
    "DumpType": "dotnetdiag.ipc.constants",
    "EventFilter": "dotnetdiag.ipc.eventpipe",
    "EventLevel": "dotnetdiag.ipc.constants",
    "PerfMapType": "dotnetdiag.ipc.constants",
    "ProcessInformation": "dotnetdiag.ipc.operations.information",
    "Provider": "dotnetdiag.ipc.eventpipe",
    "TraceFormat": "dotnetdiag.ipc.constants",
    "ConnectedRuntime": "dotnetdiag.client.server",
    "RuntimeServer": "dotnetdiag.client.server",
    "listen": "dotnetdiag.client.server",
    "AsyncConnectedRuntime": "dotnetdiag.client.server_aio",
    "AsyncRuntimeServer": "dotnetdiag.client.server_aio",
    "Router": "dotnetdiag.router.router",
    "Security": "dotnetdiag.transport.security",
    "TraceSession": "dotnetdiag.client.session",
    "AsyncTraceSession": "dotnetdiag.client.session_aio",
    "Trace": "dotnetdiag.trace.trace",
    "fold": "dotnetdiag.analysis.fold",
    "CountersFold": "dotnetdiag.analysis.counters",
    "CpuFold": "dotnetdiag.analysis.cpu",
    "StacksFold": "dotnetdiag.analysis.stacks",
    "watch": "dotnetdiag.recipes.watching",
    "open": "dotnetdiag.recipes.heap_files:open_file",
    "heap": "dotnetdiag.recipes.heaps:room",
    "Heap": "dotnetdiag.heap.heap",
    "write": "dotnetdiag.recipes.exporting",
    "StackProfile": "dotnetdiag.analysis.stack_profile",
    "Table": "dotnetdiag.table",
    **dict.fromkeys(
        (
            "collect",
            "convert",
            "diff",
            "filter",
            "follow",
            "info",
            "merge",
            "redact",
            "report",
            "stack",
            "trim",
        ),
        "dotnetdiag.recipes.verbs",
    ),
    **dict.fromkeys(
        (
            "advice",
            "allocations",
            "ask",
            "contention",
            "counters",
            "cpu",
            "dataset",
            "exceptions",
            "gc",
            "jit",
            "loader",
            "logs",
            "requests",
            "spans",
            "sql",
            "stacks",
            "startup",
            "tasks",
            "threadpool",
            "threads",
            "waits",
        ),
        "dotnetdiag.recipes.questions",
    ),
    "source_lines": "dotnetdiag.recipes.source_lines",
    "with_lines": "dotnetdiag.recipes.lines",
    "FlightRecorder": "dotnetdiag.recipes.flight_recorder",
    "Startup": "dotnetdiag.recipes.startup",
    "Stop": "dotnetdiag.recipes.stop",
    "Process": "dotnetdiag.recipes.processes",
    "processes": "dotnetdiag.recipes.processes:list_processes",
}

# the errors, all of them
_PUBLIC |= dict.fromkeys(
    (
        "AmbiguousName",
        "BadEncoding",
        "Cancelled",
        "ConnectFailed",
        "ConnectionEnded",
        "DangerousRequest",
        "DiagnosticsError",
        "FormatError",
        "GrammarError",
        "InputError",
        "InsecureAddress",
        "MalformedError",
        "MissingDependency",
        "NoDiagnostics",
        "NotPossible",
        "NotSupported",
        "NotUnderstood",
        "OutputError",
        "OutputExists",
        "ProcessNotFound",
        "ProfilerAlreadyActive",
        "ProtocolError",
        "RequestRefused",
        "RuntimeTooOld",
        "ServerError",
        "TargetError",
        "TargetStopped",
        "TimedOut",
        "TransportError",
        "UnknownName",
        "UnsupportedCommand",
        "UsageError",
        "WrongCombination",
    ),
    "dotnetdiag.errors",
)

__all__ = ["__version__", *_PUBLIC]
__getattr__ = _loader(globals(), _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import CountersFold as CountersFold
    from dotnetdiag.analysis.cpu import CpuFold as CpuFold
    from dotnetdiag.analysis.fold import fold as fold
    from dotnetdiag.analysis.stack_profile import StackProfile as StackProfile
    from dotnetdiag.analysis.stacks import StacksFold as StacksFold
    from dotnetdiag.client.aio import AsyncClient as AsyncClient
    from dotnetdiag.client.client import Client as Client
    from dotnetdiag.client.server import ConnectedRuntime as ConnectedRuntime
    from dotnetdiag.client.server import RuntimeServer as RuntimeServer
    from dotnetdiag.client.server import listen as listen
    from dotnetdiag.client.server_aio import AsyncConnectedRuntime as AsyncConnectedRuntime
    from dotnetdiag.client.server_aio import AsyncRuntimeServer as AsyncRuntimeServer
    from dotnetdiag.client.session import TraceSession as TraceSession
    from dotnetdiag.client.session_aio import AsyncTraceSession as AsyncTraceSession
    from dotnetdiag.errors import AmbiguousName as AmbiguousName
    from dotnetdiag.errors import BadEncoding as BadEncoding
    from dotnetdiag.errors import Cancelled as Cancelled
    from dotnetdiag.errors import ConnectFailed as ConnectFailed
    from dotnetdiag.errors import ConnectionEnded as ConnectionEnded
    from dotnetdiag.errors import DangerousRequest as DangerousRequest
    from dotnetdiag.errors import DiagnosticsError as DiagnosticsError
    from dotnetdiag.errors import FormatError as FormatError
    from dotnetdiag.errors import GrammarError as GrammarError
    from dotnetdiag.errors import InputError as InputError
    from dotnetdiag.errors import InsecureAddress as InsecureAddress
    from dotnetdiag.errors import MalformedError as MalformedError
    from dotnetdiag.errors import MissingDependency as MissingDependency
    from dotnetdiag.errors import NoDiagnostics as NoDiagnostics
    from dotnetdiag.errors import NotPossible as NotPossible
    from dotnetdiag.errors import NotSupported as NotSupported
    from dotnetdiag.errors import NotUnderstood as NotUnderstood
    from dotnetdiag.errors import OutputError as OutputError
    from dotnetdiag.errors import OutputExists as OutputExists
    from dotnetdiag.errors import ProcessNotFound as ProcessNotFound
    from dotnetdiag.errors import ProfilerAlreadyActive as ProfilerAlreadyActive
    from dotnetdiag.errors import ProtocolError as ProtocolError
    from dotnetdiag.errors import RequestRefused as RequestRefused
    from dotnetdiag.errors import RuntimeTooOld as RuntimeTooOld
    from dotnetdiag.errors import ServerError as ServerError
    from dotnetdiag.errors import TargetError as TargetError
    from dotnetdiag.errors import TargetStopped as TargetStopped
    from dotnetdiag.errors import TimedOut as TimedOut
    from dotnetdiag.errors import TransportError as TransportError
    from dotnetdiag.errors import UnknownName as UnknownName
    from dotnetdiag.errors import UnsupportedCommand as UnsupportedCommand
    from dotnetdiag.errors import UsageError as UsageError
    from dotnetdiag.errors import WrongCombination as WrongCombination
    from dotnetdiag.heap.heap import Heap as Heap
    from dotnetdiag.ipc.constants import BufferingMode as BufferingMode
    from dotnetdiag.ipc.constants import DumpFlags as DumpFlags
    from dotnetdiag.ipc.constants import DumpType as DumpType
    from dotnetdiag.ipc.constants import EventLevel as EventLevel
    from dotnetdiag.ipc.constants import PerfMapType as PerfMapType
    from dotnetdiag.ipc.constants import TraceFormat as TraceFormat
    from dotnetdiag.ipc.eventpipe import EventFilter as EventFilter
    from dotnetdiag.ipc.eventpipe import Provider as Provider
    from dotnetdiag.ipc.operations.information import ProcessInformation as ProcessInformation
    from dotnetdiag.recipes import processes as _processes
    from dotnetdiag.recipes import trace_files as _trace_files
    from dotnetdiag.recipes.exporting import write as write
    from dotnetdiag.recipes.flight_recorder import FlightRecorder as FlightRecorder
    from dotnetdiag.recipes.heaps import heap as heap
    from dotnetdiag.recipes.lines import with_lines as with_lines
    from dotnetdiag.recipes.processes import Process as Process
    from dotnetdiag.recipes.questions import advice as advice
    from dotnetdiag.recipes.questions import allocations as allocations
    from dotnetdiag.recipes.questions import ask as ask
    from dotnetdiag.recipes.questions import contention as contention
    from dotnetdiag.recipes.questions import counters as counters
    from dotnetdiag.recipes.questions import cpu as cpu
    from dotnetdiag.recipes.questions import dataset as dataset
    from dotnetdiag.recipes.questions import exceptions as exceptions
    from dotnetdiag.recipes.questions import gc as gc
    from dotnetdiag.recipes.questions import jit as jit
    from dotnetdiag.recipes.questions import loader as loader
    from dotnetdiag.recipes.questions import logs as logs
    from dotnetdiag.recipes.questions import requests as requests
    from dotnetdiag.recipes.questions import spans as spans
    from dotnetdiag.recipes.questions import sql as sql
    from dotnetdiag.recipes.questions import stacks as stacks
    from dotnetdiag.recipes.questions import startup as startup
    from dotnetdiag.recipes.questions import tasks as tasks
    from dotnetdiag.recipes.questions import threadpool as threadpool
    from dotnetdiag.recipes.questions import threads as threads
    from dotnetdiag.recipes.questions import waits as waits
    from dotnetdiag.recipes.source_lines import source_lines as source_lines
    from dotnetdiag.recipes.startup import Startup as Startup
    from dotnetdiag.recipes.stop import Stop as Stop
    from dotnetdiag.recipes.verbs import collect as collect
    from dotnetdiag.recipes.verbs import convert as convert
    from dotnetdiag.recipes.verbs import diff as diff
    from dotnetdiag.recipes.verbs import filter as filter
    from dotnetdiag.recipes.verbs import follow as follow
    from dotnetdiag.recipes.verbs import info as info
    from dotnetdiag.recipes.verbs import merge as merge
    from dotnetdiag.recipes.verbs import redact as redact
    from dotnetdiag.recipes.verbs import report as report
    from dotnetdiag.recipes.verbs import stack as stack
    from dotnetdiag.recipes.verbs import trim as trim
    from dotnetdiag.recipes.watching import watch as watch
    from dotnetdiag.router.router import Router as Router
    from dotnetdiag.table import Table as Table
    from dotnetdiag.trace.trace import Trace as Trace
    from dotnetdiag.transport.security import Security as Security

    open = _trace_files.open_trace
    processes = _processes.list_processes
