"""Who a runtime is."""

from __future__ import annotations

from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnsupportedCommand
from dotnetdiag.ipc import process_info as messages
from dotnetdiag.ipc.exchange import Operation, ask
from dotnetdiag.ipc.process_info import PYTHON_BUILD


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

    @property
    def is_python(self) -> bool:
        """Whether it is a Python program that serves: its version is none of .NET."""
        return self.runtime_version.endswith(PYTHON_BUILD)

    @property
    def runtime(self) -> str:
        """``.NET 9.0.22``; ``.NET`` alone for one that does not tell its version (.NET 5). ``Python 3.11.7`` for a Python program that serves."""
        if self.is_python:
            return f"Python {self.runtime_version.removesuffix(PYTHON_BUILD)}"
        return f".NET {self.runtime_version}".rstrip()


def process_info() -> Operation[ProcessInformation]:
    """ProcessInfo 3, 2, 1. Raises UnsupportedCommand when none is known (.NET Core 3.x)."""
    try:
        return _information((yield from ask(messages.ProcessInfo3())))
    except UnsupportedCommand:
        pass
    try:
        return _information((yield from ask(messages.ProcessInfo2())))
    except UnsupportedCommand:
        return _information((yield from ask(messages.ProcessInfo())))


def runtime_version() -> Operation[str]:
    """The version of .NET that the runtime tells; ``""`` for one that does not (.NET 5 and older), and for Python."""
    try:
        information = yield from process_info()
    except UnsupportedCommand:
        return ""
    return "" if information.is_python else information.runtime_version


def _information(reply: messages.ProcessInfoReply) -> ProcessInformation:
    return ProcessInformation(
        pid=reply.pid,
        cookie=reply.cookie,
        command_line=reply.command_line or "",
        os=reply.os or "",
        arch=reply.arch or "",
        entry_assembly=(reply.entry_assembly or "") if isinstance(reply, messages.ProcessInfo2Reply) else "",
        runtime_version=(reply.runtime_version or "") if isinstance(reply, messages.ProcessInfo2Reply) else "",
        runtime_identifier=(reply.runtime_identifier or "") if isinstance(reply, messages.ProcessInfo3Reply) else "",
    )
