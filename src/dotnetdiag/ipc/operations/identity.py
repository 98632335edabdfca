"""Who a runtime is."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dotnetdiag.errors import ProtocolError, UnsupportedCommand
from dotnetdiag.ipc import process_info as messages
from dotnetdiag.ipc.messages import OkReply
from dotnetdiag.ipc.operations.steps import Ask, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInformation:
    """Who a runtime says it is. What its version of the command does not tell is ``""``."""

    pid: int
    cookie: UUID
    command_line: str
    os: str
    arch: str
    entry_assembly: str = ""
    runtime_version: str = ""
    runtime_identifier: str = ""


def process_info() -> Operation[ProcessInformation]:
    """ProcessInfo 3, 2, 1. Raises UnsupportedCommand when none is known (.NET Core 3.x)."""
    for request in (messages.ProcessInfo3(), messages.ProcessInfo2()):
        try:
            reply = (yield Ask(request=request)).reply
        except UnsupportedCommand:
            continue
        return _information(reply)
    return _information((yield Ask(request=messages.ProcessInfo())).reply)


def _information(reply: OkReply) -> ProcessInformation:
    names = ("command_line", "os", "arch", "entry_assembly", "runtime_version", "runtime_identifier")
    texts = {name: getattr(reply, name, None) or "" for name in names}
    if not isinstance(reply, messages.ProcessInfoReply | messages.ProcessInfo2Reply | messages.ProcessInfo3Reply):
        raise ProtocolError("the reply is no process information", where="ProcessInfo")
    return ProcessInformation(pid=reply.pid, cookie=reply.cookie, **texts)
