"""A runtime's environment: read whole, changed variable by variable (ipc-protocol.md §5.9, §5.10)."""

from __future__ import annotations

from dotnetdiag.errors import ProtocolError, RequestRefused, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.fields import TEXT, U16, Field, Unsigned, pack_text, read_count, read_text, text_problem
from dotnetdiag.ipc.messages import OkReply, Request
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.ipc.values import Value
from dotnetdiag.wire import Cursor, Packer

# An environment is at most so large; measured up to 184,036 bytes, Linux allows 128 KiB a string and 6 MB in all.
MAX_ENVIRONMENT_BYTES = 16 << 20
# Far more than anybody has; with more, taking them apart would be a call that does not end in its time.
MAX_VARIABLES = 1 << 16


class EnvironmentReply(OkReply):
    """Reply to ``ProcessEnvironment``: ``u32 nIncomingBytes · u16 future``; so many bytes of block follow on the connection."""

    FIELDS = (
        Field("size_bytes", "nIncomingBytes", Unsigned(4, largest=MAX_ENVIRONMENT_BYTES)),
        Field("future", "future", U16),
    )

    size_bytes: int
    future: int = 0


class EnvironmentBlock(Value):
    """The continuation of a ProcessEnvironment reply: ``u32 count · count × string NAME=VALUE``."""

    entries: tuple[str | None, ...] = ()
    trailing: bytes = b""

    def pack(self) -> bytes:
        """The bytes of the block. Raises UsageError for an entry that is no text."""
        packer = Packer().u32(len(self.entries))
        for entry in self.entries:
            if problem := TEXT.problem(entry):
                raise UsageError(f"EnvironmentBlock: an entry {problem}")
            pack_text(packer, entry)
        return bytes(packer.raw(self.trailing))

    @classmethod
    def parse(cls, data: bytes | memoryview) -> EnvironmentBlock:
        """The block. Raises ProtocolError."""
        cursor = Cursor(data, where="environment", error=ProtocolError)
        count = read_count(cursor, "entry", 4)
        if count > MAX_VARIABLES:
            raise cursor.fail(f"{count} variables are more than the limit of {MAX_VARIABLES}")
        entries = tuple(read_text(cursor, "entry") for _ in range(count))
        return cls(entries=entries, trailing=cursor.rest())

    def variables(self) -> dict[str, str]:
        """Name to value. Windows has names that begin with ``=``: the split is at the first ``=`` after the first character."""
        found = {}
        for entry in self.entries:
            if entry:
                at = entry.find("=", 1)
                found[entry[:at] if at > 0 else entry] = entry[at + 1 :] if at > 0 else ""
        return found


class ProcessEnvironment(Request[EnvironmentReply], command=Command.ProcessEnvironment):
    """``0x0402``: the reply is followed by the environment block."""


class SetEnvironmentVariable(Request[ResultReply], command=Command.SetEnvironmentVariable):
    """``0x0403``: ``string name · string value``. Value ``None`` removes the variable, ``""`` sets it empty (§21.2)."""

    FIELDS = (Field("name", "name", TEXT), Field("value", "value", TEXT))

    name: str | None
    value: str | None

    def refusal(self) -> RequestRefused | None:
        if problem := text_problem(self.name):
            return self.refuse(f"the variable's name {problem}")
        if self.name is not None and "=" in self.name:
            return self.refuse(f"a variable's name has no '=': {self.name!r}")
        if problem := text_problem(self.value, optional=True, empty=True):
            return self.refuse(f"the variable's value {problem}")
        return None
