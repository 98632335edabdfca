"""How it is noted which socket is whose, for those who remove it in their place: the parent (``children.py``), the signal (``farewell.py``)."""

from __future__ import annotations

import os
import struct

from dotnetdiag._dataclasses import dataclass

_LAYOUT = struct.Struct("<QQQQ224p")
_LONGEST_PATH = 223

NOTE_BYTES = _LAYOUT.size
"""What one takes; one of zeros is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketNote:
    """Process, its start in clock ticks, and the socket: its path, absolute, and the file's device and inode."""

    pid: int
    ticks: int
    identity: tuple[int, int]
    path: str

    def pack(self) -> bytes | None:
        """None: the path is too long."""
        file = os.fsencode(self.path)
        return None if len(file) > _LONGEST_PATH else _LAYOUT.pack(self.pid, self.ticks, *self.identity, file)


def read_note(memory: object, at: int) -> SocketNote | None:
    """The one that stands there, if any."""
    pid, ticks, device, inode, path = _LAYOUT.unpack_from(memory, at)  # type: ignore[arg-type]
    return SocketNote(pid=pid, ticks=ticks, identity=(device, inode), path=os.fsdecode(path)) if pid else None
