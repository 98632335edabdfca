"""A runtime's environment: read whole, changed variable by variable (ipc-protocol.md §5.9, §5.10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_text
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.wire import Cursor, Packer

# An environment is at most so large; measured up to 184,036 bytes, Linux allows 128 KiB a string and a few MB in all.
MAX_ENVIRONMENT_BYTES = 64 << 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnvironment(Request):
    """``0x0402``: the reply is followed by the environment block."""

    COMMAND: ClassVar[Command] = Command.ProcessEnvironment
    REPLY: ClassVar[type[OkReply]] = EnvironmentReply
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvironmentVariable(Request):
    """``0x0403``: ``string name · string value``. Value ``None`` removes the variable, ``""`` sets it empty (§21.2)."""

    COMMAND: ClassVar[Command] = Command.SetEnvironmentVariable
    REPLY: ClassVar[type[OkReply]] = ResultReply

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
