"""Who a runtime is: ProcessInfo 1 to 3 and their replies (ipc-protocol.md §5.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_guid, read_text
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfoReply(OkReply):
    """Reply to ``ProcessInfo`` (0x0400).

    ======  =======  ===================================================
    order   type     field
    1       u64      pid, in the runtime's own pid namespace
    2       GUID     runtime cookie, new at each start
    3-5     string   command line, operating system, architecture
    ======  =======  ===================================================
    """

    pid: int
    cookie: UUID
    command_line: str | None
    os: str | None
    arch: str | None

    def _write(self, packer: Packer) -> None:
        packer.u64(self.pid).raw(self.cookie.bytes_le)
        for text in (self.command_line, self.os, self.arch):
            pack_text(packer, text)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return _read_info(cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo2Reply(OkReply):
    """Reply to ``ProcessInfo2`` (0x0404): adds the entry assembly's name and the CLR product version."""

    pid: int
    cookie: UUID
    command_line: str | None
    os: str | None
    arch: str | None
    entry_assembly: str | None
    runtime_version: str | None

    def _write(self, packer: Packer) -> None:
        packer.u64(self.pid).raw(self.cookie.bytes_le)
        for text in (self.command_line, self.os, self.arch, self.entry_assembly, self.runtime_version):
            pack_text(packer, text)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return _read_info(cursor) | {
            "entry_assembly": read_text(cursor, "managedEntrypointAssemblyName"),
            "runtime_version": read_text(cursor, "clrProductVersion"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo3Reply(OkReply):
    """Reply to ``ProcessInfo3`` (0x0408): ``u32 version`` first, the runtime identifier last; extensible at the end."""

    version: int = 1
    pid: int
    cookie: UUID
    command_line: str | None
    os: str | None
    arch: str | None
    entry_assembly: str | None
    runtime_version: str | None
    runtime_identifier: str | None = None

    def _write(self, packer: Packer) -> None:
        packer.u32(self.version).u64(self.pid).raw(self.cookie.bytes_le)
        for text in (self.command_line, self.os, self.arch, self.entry_assembly, self.runtime_version):
            pack_text(packer, text)
        if self.version >= 1:
            pack_text(packer, self.runtime_identifier)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        version = cursor.u32("version")
        values = _read_info(cursor) | {
            "version": version,
            "entry_assembly": read_text(cursor, "managedEntrypointAssemblyName"),
            "runtime_version": read_text(cursor, "clrProductVersion"),
        }
        if version >= 1:
            values["runtime_identifier"] = read_text(cursor, "portableRuntimeIdentifier")
        return values


def _read_info(cursor: Cursor) -> dict[str, Any]:
    # The cookie stands directly behind the pid, whatever the struct listings of the documents say (§18 no. 8).
    return {
        "pid": cursor.u64("processId"),
        "cookie": read_guid(cursor, "runtimeCookie"),
        "command_line": read_text(cursor, "commandLine"),
        "os": read_text(cursor, "OS"),
        "arch": read_text(cursor, "arch"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo(Request):
    """``0x0400``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo
    REPLY: ClassVar[type[OkReply]] = ProcessInfoReply
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo2(Request):
    """``0x0404``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo2
    REPLY: ClassVar[type[OkReply]] = ProcessInfo2Reply
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo3(Request):
    """``0x0408``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo3
    REPLY: ClassVar[type[OkReply]] = ProcessInfo3Reply
    NO_PAYLOAD: ClassVar[bool] = True
