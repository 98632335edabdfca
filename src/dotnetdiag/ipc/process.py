"""The Process command set: who the runtime is, resume, environment, perf map, startup hook (ipc-protocol.md §5.8-5.12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar
from uuid import UUID

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_guid, read_text
from dotnetdiag.wire import Cursor, Packer

# An environment is at most so large; measured up to 184,036 bytes, Linux allows 128 KiB a string and a few MB in all.
MAX_ENVIRONMENT_BYTES = 64 << 20


class PerfMapType(IntEnum):
    """What EnablePerfMap writes."""

    ALL = 1
    JITDUMP = 2
    PERFMAP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo(Request):
    """``0x0400``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo2(Request):
    """``0x0404``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo2
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo3(Request):
    """``0x0408``."""

    COMMAND: ClassVar[Command] = Command.ProcessInfo3
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRuntime(Request):
    """``0x0401``: resumes only the port that its connection came through (§11)."""

    COMMAND: ClassVar[Command] = Command.ResumeRuntime
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnvironment(Request):
    """``0x0402``: the reply is followed by the environment block."""

    COMMAND: ClassVar[Command] = Command.ProcessEnvironment
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePerfMap(Request):
    """``0x0406``."""

    COMMAND: ClassVar[Command] = Command.DisablePerfMap
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvironmentVariable(Request):
    """``0x0403``: ``string name · string value``. Value ``None`` removes the variable, ``""`` sets it empty (§21.2)."""

    COMMAND: ClassVar[Command] = Command.SetEnvironmentVariable

    name: str | None
    value: str | None

    def check(self) -> None:
        self.check_text("the variable's name", self.name)
        if self.name is not None and "=" in self.name:
            raise self.refuse(f"a variable's name has no '=': {self.name!r}")
        if self.value is not None and "\0" in self.value:
            raise self.refuse("the variable's value must not contain a NUL character")

    def _write(self, packer: Packer) -> None:
        pack_text(packer, self.name)
        pack_text(packer, self.value)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"name": read_text(cursor, "name"), "value": read_text(cursor, "value")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePerfMap(Request):
    """``0x0405``: ``u32 type``. Kills a suspended .NET 8 or 9 (§21.1): the operation looks first."""

    COMMAND: ClassVar[Command] = Command.EnablePerfMap

    perf_map_type: int = PerfMapType.ALL

    def check(self) -> None:
        if self.perf_map_type not in (1, 2, 3):
            raise self.refuse(f"perf map type {self.perf_map_type} is none of 1 All, 2 JitDump, 3 PerfMap")

    def _write(self, packer: Packer) -> None:
        packer.u32(self.perf_map_type)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"perf_map_type": cursor.u32("type")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStartupHook(Request):
    """``0x0407``: ``string path``. A hook that cannot be used kills .NET 9 and 10 (§21.1): the operation looks first."""

    COMMAND: ClassVar[Command] = Command.ApplyStartupHook

    path: str | None

    def check(self) -> None:
        self.check_text("the startup hook's path", self.path)
        path = self.path or ""
        windows = len(path) > 2 and path[1] == ":" and path[2] in "\\/"
        if not (path.startswith("/") or path.startswith("\\\\") or windows):
            raise self.dangerous(f"a relative path kills .NET 9 and 10; give an absolute one, not {path!r}")
        if not windows and ":" in path:
            raise self.dangerous(
                f"':' separates startup hooks, and a list kills .NET 9 and 10; give one path: {path!r}"
            )
        if (windows or path.startswith("\\\\")) and ";" in path:
            raise self.dangerous(
                f"';' separates startup hooks, and a list kills .NET 9 and 10; give one path: {path!r}"
            )

    def _write(self, packer: Packer) -> None:
        pack_text(packer, self.path)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"path": read_text(cursor, "path")}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupHookProbe(Request):
    """``0x0407`` with a null path: applies nothing, on any runtime (§21.2); the refusal tells CoreCLR from NativeAOT."""

    COMMAND: ClassVar[Command] = Command.ApplyStartupHook

    def _write(self, packer: Packer) -> None:
        pack_text(packer, None)


# ---------------------------------------------------------------------------------------------------- replies


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
class EnvironmentReply(OkReply):
    """Reply to ``ProcessEnvironment``: ``u32 nIncomingBytes · u16 future``; so many bytes of block follow on the connection."""

    size_bytes: int
    future: int = 0

    def _write(self, packer: Packer) -> None:
        packer.u32(self.size_bytes).u16(self.future)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        size = cursor.u32("nIncomingBytes")
        if size > MAX_ENVIRONMENT_BYTES:
            raise cursor.fail(f"an environment of {size} bytes is larger than the limit of {MAX_ENVIRONMENT_BYTES}")
        return {"size_bytes": size, "future": cursor.u16("future")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBlock:
    """The continuation of a ProcessEnvironment reply: ``u32 count · count × string NAME=VALUE``."""

    entries: tuple[str, ...] = field(default=())
    trailing: bytes = b""

    def pack(self) -> bytes:
        """The bytes of the block."""
        packer = Packer().u32(len(self.entries))
        for entry in self.entries:
            pack_text(packer, entry)
        return bytes(packer.raw(self.trailing))

    @classmethod
    def parse(cls, data: bytes | memoryview) -> EnvironmentBlock:
        """The block. Raises ProtocolError."""
        cursor = Cursor(data, where="environment", error=ProtocolError)
        count = cursor.u32("count")
        if count * 4 > cursor.left:
            raise cursor.fail(f"{count} entries need more than the {cursor.left} bytes left")
        entries = tuple(read_text(cursor, "entry") or "" for _ in range(count))
        return cls(entries=entries, trailing=cursor.rest())

    def variables(self) -> dict[str, str]:
        """Name to value. Windows has names that begin with ``=``: the split is at the first ``=`` after the first character."""
        found = {}
        for entry in self.entries:
            at = entry.find("=", 1)
            if at > 0:
                found[entry[:at]] = entry[at + 1 :]
            elif entry:
                found[entry] = ""
        return found
