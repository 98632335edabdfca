"""What a runtime says first on each connection to a ``connect`` port (ipc-protocol.md §11)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from dotnetdiag.errors import ProtocolError, UsageError
from dotnetdiag.ipc.exchange import Operation, receive_exactly
from dotnetdiag.ipc.fields import GUID, U16, U64, Field
from dotnetdiag.ipc.messages import payload_of, values_of
from dotnetdiag.ipc.values import Value
from dotnetdiag.wire import Cursor

MAGIC = b"ADVR_V1\0"
SIZE = 34


class Advertise(Value):
    """34 bytes.

    ======  =======  =========================================
    offset  type     field
    0       8        ``ADVR_V1`` and a zero
    8       GUID     runtime cookie, as in ProcessInfo
    24      u64 LE   pid, in the runtime's own pid namespace
    32      u16 LE   future, 0
    ======  =======  =========================================
    """

    FIELDS = (Field("cookie", "runtimeCookie", GUID), Field("pid", "processId", U64), Field("future", "future", U16))

    cookie: UUID
    pid: int
    future: int = 0
    trailing: bytes = b""

    def pack(self) -> bytes:
        """The 34 bytes (and what followed them). Raises UsageError for a value that does not fit its field."""
        payload, problem = payload_of(self, self.FIELDS)
        if problem:
            raise UsageError(f"Advertise: {problem}")
        return MAGIC + payload + self.trailing

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Advertise:
        """Raises ProtocolError for another magic or fewer bytes."""
        cursor = Cursor(data, where="advertise", error=ProtocolError)
        magic = cursor.take(8, "magic")
        if magic != MAGIC:
            raise ProtocolError(f"magic is {magic!r}, not ADVR_V1", offset=0, where="advertise")
        return cls(**values_of(cursor, cls.FIELDS), trailing=cursor.rest())


def receive_advertise(connection: Any) -> Operation[Advertise]:
    """The advertise that a connection begins with. Raises ConnectionEnded, and ProtocolError for one that says something else."""
    return Advertise.parse((yield from receive_exactly(connection, SIZE)))
