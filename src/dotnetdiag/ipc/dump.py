"""The Dump command set: GenerateCoreDump 1 to 3 (ipc-protocol.md §5.6).

All three have the payload ``string dumpName · u32 dumpType · u32 flags``. In the first the flags are a 4-byte boolean for logging.
The reply comes when the dump is finished, which can take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dotnetdiag.ipc.choices import DumpType
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_text
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dump(Request):
    REPLY: ClassVar[type[OkReply]] = ResultReply
    ALLOWED_FLAGS: ClassVar[int] = 0x0F

    path: str | None
    dump_type: int = DumpType.FULL
    flags: int = 0

    def check(self) -> None:
        if self.path is None:
            raise self.dangerous("a dump without a name kills the target (.NET 3.1 to 10); give a path")
        self.check_text("the dump path", self.path, empty=True)
        if self.dump_type not in (1, 2, 3, 4):
            raise self.refuse(f"dump type {self.dump_type} is none of 1 Mini, 2 Heap, 3 Triage, 4 Full")
        if self.flags & ~self.ALLOWED_FLAGS or self.flags < 0:
            raise self.refuse(f"flags 0x{self.flags:x} are not all known to this command")

    def _write(self, packer: Packer) -> None:
        pack_text(packer, self.path)
        packer.u32(self.dump_type).u32(self.flags)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "path": read_text(cursor, "dumpName"),
            "dump_type": cursor.u32("dumpType"),
            "flags": cursor.u32("flags"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateCoreDump(_Dump):
    """``0x0101``; ``flags`` is 0 or 1 (logging)."""

    COMMAND: ClassVar[Command] = Command.GenerateCoreDump
    ALLOWED_FLAGS: ClassVar[int] = 0x01


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateCoreDump2(_Dump):
    """``0x0102``."""

    COMMAND: ClassVar[Command] = Command.GenerateCoreDump2


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateCoreDump3(_Dump):
    """``0x0103``: an error reply carries a text as well."""

    COMMAND: ClassVar[Command] = Command.GenerateCoreDump3
