"""The table from command codes to request classes, and from requests to their replies."""

from __future__ import annotations

from dataclasses import dataclass

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc import choices, dump, environment, eventpipe, process, process_info, profiler
from dotnetdiag.ipc.commands import Command, command_name
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.messages import OkReply, Request

STREAMING: dict[Command, type[Request]] = {
    kind.COMMAND: kind
    for kind in (
        dump.GenerateCoreDump,
        dump.GenerateCoreDump2,
        dump.GenerateCoreDump3,
        eventpipe.StopTracing,
        eventpipe.CollectTracing,
        eventpipe.CollectTracing2,
        eventpipe.CollectTracing3,
        eventpipe.CollectTracing4,
        eventpipe.CollectTracing5,
        eventpipe.CollectTracing6,
        profiler.AttachProfiler,
        profiler.StartupProfiler,
        process_info.ProcessInfo,
        process.ResumeRuntime,
        environment.ProcessEnvironment,
        environment.SetEnvironmentVariable,
        process_info.ProcessInfo2,
        process.EnablePerfMap,
        process.DisablePerfMap,
        process.ApplyStartupHook,
        process_info.ProcessInfo3,
    )
}
USER_EVENTS: dict[Command, type[Request]] = {
    Command.CollectTracing5: eventpipe.CollectTracing5UserEvents,
    Command.CollectTracing6: eventpipe.CollectTracing6UserEvents,
}
ALL_REQUESTS: tuple[type[Request], ...] = (*STREAMING.values(), *USER_EVENTS.values())


def reply_type(command: Command) -> type[OkReply]:
    """The class of the OK reply to a command."""
    return STREAMING[command].REPLY


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRequest:
    """A request of a command that is not in the table; kept as it came."""

    frame: Frame

    def pack(self) -> bytes:
        """The bytes as they came."""
        return self.frame.pack()


def parse_request(frame: Frame) -> Request | UnknownRequest:
    """The request in a frame, for a server. Raises ProtocolError for a known command with a payload that does not parse."""
    try:
        command = Command(frame.code)
    except ValueError:
        return UnknownRequest(frame=frame)
    kind = STREAMING[command]
    if command in USER_EVENTS:
        if len(frame.payload) < 4:
            raise ProtocolError("session type is missing", offset=20, where=command_name(frame.code))
        if int.from_bytes(frame.payload[:4], "little") == choices.SESSION_USER_EVENTS:
            kind = USER_EVENTS[command]
    return kind.from_frame(frame)
