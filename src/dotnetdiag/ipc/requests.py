"""The table from command codes to request classes."""

from __future__ import annotations

from typing import Any

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc import dump, environment, process, process_info, profiler, tracing
from dotnetdiag.ipc.commands import Command, command_name
from dotnetdiag.ipc.constants import SESSION_USER_EVENTS
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.values import Value

_MODULES = (dump, environment, process, process_info, profiler, tracing)
# A class has the name of its command.
STREAMING: dict[Command, type[Request[Any]]] = {
    command: next(vars(module)[command.name] for module in _MODULES if command.name in vars(module))
    for command in Command
}
USER_EVENTS: dict[Command, type[Request[Any]]] = {
    Command.CollectTracing5: tracing.CollectTracing5UserEvents,
    Command.CollectTracing6: tracing.CollectTracing6UserEvents,
}
ALL_REQUESTS: tuple[type[Request[Any]], ...] = (*STREAMING.values(), *USER_EVENTS.values())


class UnknownRequest(Value):
    """A request of a command that is not in the table; kept as it came."""

    frame: Frame

    def pack(self) -> bytes:
        """The bytes as they came."""
        return self.frame.pack()


def parse_request(frame: Frame) -> Request[Any] | UnknownRequest:
    """The request in a frame, for a server. Raises ProtocolError for a known command with a payload that does not parse."""
    try:
        command = Command(frame.code)
    except ValueError:
        return UnknownRequest(frame=frame)
    kind = STREAMING[command]
    if command in USER_EVENTS:
        if len(frame.payload) < 4:
            raise ProtocolError("session type is missing", offset=20, where=command_name(frame.code))
        if int.from_bytes(frame.payload[:4], "little") == SESSION_USER_EVENTS:
            kind = USER_EVENTS[command]
    return kind.from_frame(frame)
