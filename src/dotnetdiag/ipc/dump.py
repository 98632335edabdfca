"""The Dump command set: GenerateCoreDump 1 to 3 (ipc-protocol.md §5.6).

All three have the payload ``string dumpName · u32 dumpType · u32 flags``. In the first the flags are a 4-byte boolean for logging.
The reply comes when the dump is finished, which can take minutes.
"""

from __future__ import annotations

from typing import ClassVar

from dotnetdiag.errors import RequestRefused
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import DumpFlags, DumpType
from dotnetdiag.ipc.fields import TEXT, U32, Field, text_problem
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.replies import ResultReply


class GenerateCoreDump(Request[ResultReply], command=Command.GenerateCoreDump):
    """``0x0101``; ``flags`` is 0 or 1 (logging)."""

    FIELDS = (Field("path", "dumpName", TEXT), Field("dump_type", "dumpType", U32), Field("flags", "flags", U32))
    ALLOWED_FLAGS: ClassVar[int] = DumpFlags.LOGGING

    path: str | None
    dump_type: int = DumpType.FULL
    flags: int = 0

    def refusal(self) -> RequestRefused | None:
        """Why it is not sent though it is valid: it would kill a runtime, or makes no sense."""
        if self.path is None:
            return self.dangerous("a dump without a name kills the target (.NET 3.1 to 10); give a path")
        if problem := text_problem(self.path, empty=True):
            return self.refuse(f"the dump's path {problem}")
        if self.dump_type not in (1, 2, 3, 4):
            return self.refuse(f"dump type {self.dump_type} is none of 1 Mini, 2 Heap, 3 Triage, 4 Full")
        if not isinstance(self.flags, int) or self.flags & ~self.ALLOWED_FLAGS:
            return self.refuse(f"flags {self.flags!r} are not all known to this command")
        return None


class GenerateCoreDump2(GenerateCoreDump, command=Command.GenerateCoreDump2):
    """``0x0102``."""

    ALLOWED_FLAGS: ClassVar[int] = 0x0F


class GenerateCoreDump3(GenerateCoreDump2, command=Command.GenerateCoreDump3):
    """``0x0103``: an error reply carries a text as well."""
