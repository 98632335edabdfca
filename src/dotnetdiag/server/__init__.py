"""The other end of Diagnostic IPC: any Python process that answers as a .NET runtime does, embeddable in three lines.

May import ``errors``, ``ipc``, ``transport`` and ``nettrace``. Never ``client``. What decides is sans-IO (``dialogue``, ``dispatch``,
``sessions``, ``suspension``); ``serving`` writes the steps of I/O down once, and ``server`` and ``server_aio`` drive them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {
    "activities": "activity current_activity",
    "ages": "Age",
    "commands": "Caller Commands Handler Refused Reply Streaming",
    "dump_names": "dump_path",
    "event_source": "Event EventSource",
    "installing": "PythonCommands install",
    "open_telemetry": "OpenTelemetryReader",
    "process": "ProcessCommands ProcessFacts",
    "server": "DiagnosticServer",
    "server_aio": "AsyncDiagnosticServer",
    "serving": "ServerStatus",
    "source": "Source",
    # what commands are asked, and what they give
    "dotnetdiag.ipc.commands": "Command",
    "dotnetdiag.ipc.dump": "GenerateCoreDump3",
    "dotnetdiag.ipc.environment": "EnvironmentBlock",
    "dotnetdiag.ipc.hresults": "HResult",
    "dotnetdiag.ipc.replies": "ResultReply",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__getattr__ = loader(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)


if TYPE_CHECKING:
    from dotnetdiag.ipc.commands import Command as Command
    from dotnetdiag.ipc.dump import GenerateCoreDump3 as GenerateCoreDump3
    from dotnetdiag.ipc.environment import EnvironmentBlock as EnvironmentBlock
    from dotnetdiag.ipc.hresults import HResult as HResult
    from dotnetdiag.ipc.replies import ResultReply as ResultReply
    from dotnetdiag.server.activities import activity as activity
    from dotnetdiag.server.activities import current_activity as current_activity
    from dotnetdiag.server.ages import Age as Age
    from dotnetdiag.server.commands import Caller as Caller
    from dotnetdiag.server.commands import Commands as Commands
    from dotnetdiag.server.commands import Handler as Handler
    from dotnetdiag.server.commands import Refused as Refused
    from dotnetdiag.server.commands import Reply as Reply
    from dotnetdiag.server.commands import Streaming as Streaming
    from dotnetdiag.server.dump_names import dump_path as dump_path
    from dotnetdiag.server.event_source import Event as Event
    from dotnetdiag.server.event_source import EventSource as EventSource
    from dotnetdiag.server.installing import PythonCommands as PythonCommands
    from dotnetdiag.server.installing import install as install
    from dotnetdiag.server.open_telemetry import OpenTelemetryReader as OpenTelemetryReader
    from dotnetdiag.server.process import ProcessCommands as ProcessCommands
    from dotnetdiag.server.process import ProcessFacts as ProcessFacts
    from dotnetdiag.server.server import DiagnosticServer as DiagnosticServer
    from dotnetdiag.server.server_aio import AsyncDiagnosticServer as AsyncDiagnosticServer
    from dotnetdiag.server.serving import ServerStatus as ServerStatus
    from dotnetdiag.server.source import Source as Source
