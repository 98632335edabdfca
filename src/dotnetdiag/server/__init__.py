"""The other end of Diagnostic IPC: any Python process that answers as a .NET runtime does, embeddable in three lines.

May import ``errors``, ``ipc``, ``transport`` and ``nettrace``. Never ``client``. What decides is sans-IO (``dialogue``, ``dispatch``,
``sessions``, ``suspension``); ``serving`` writes the steps of I/O down once, and ``server`` and ``server_aio`` drive them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {
    "ages": "Age",
    "commands": "Caller Commands Refused Streaming",
    "event_source": "Event EventSource activity current_activity",
    "installing": "PythonCommands install",
    "open_telemetry": "OpenTelemetryReader",
    "process": "ProcessCommands ProcessFacts",
    "server": "DiagnosticServer",
    "server_aio": "AsyncDiagnosticServer",
    "serving": "ServerStatus",
    "source": "Source",
}
__getattr__ = loader(globals(), {name: module for module, names in _PUBLIC.items() for name in names.split()})

if TYPE_CHECKING:
    from dotnetdiag.server.ages import Age as Age
    from dotnetdiag.server.commands import Caller as Caller
    from dotnetdiag.server.commands import Commands as Commands
    from dotnetdiag.server.commands import Refused as Refused
    from dotnetdiag.server.commands import Streaming as Streaming
    from dotnetdiag.server.event_source import Event as Event
    from dotnetdiag.server.event_source import EventSource as EventSource
    from dotnetdiag.server.event_source import activity as activity
    from dotnetdiag.server.event_source import current_activity as current_activity
    from dotnetdiag.server.installing import PythonCommands as PythonCommands
    from dotnetdiag.server.installing import install as install
    from dotnetdiag.server.open_telemetry import OpenTelemetryReader as OpenTelemetryReader
    from dotnetdiag.server.process import ProcessCommands as ProcessCommands
    from dotnetdiag.server.process import ProcessFacts as ProcessFacts
    from dotnetdiag.server.server import DiagnosticServer as DiagnosticServer
    from dotnetdiag.server.server_aio import AsyncDiagnosticServer as AsyncDiagnosticServer
    from dotnetdiag.server.serving import ServerStatus as ServerStatus
    from dotnetdiag.server.source import Source as Source
