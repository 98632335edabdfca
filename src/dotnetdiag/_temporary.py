"""Where files lie for as long as something is made of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO

_PIECE = 1 << 18
"""Zeros that are written at once, where a file can't be told how large it is to be."""
_ON_DISK = "/var/tmp"  # noqa: S108  # where the folder for what is temporary is memory, this one is not


def folder_on_disk() -> str | None:
    """A folder for what is too large for memory; None for that of ``tempfile``, which is asked for with ``TMPDIR``."""
    return None if "TMPDIR" in os.environ or not os.access(_ON_DISK, os.W_OK) else _ON_DISK


def unnamed_file() -> FileIO:
    """One that is gone when it is closed. OSError where none can be made."""
    import tempfile  # brings all ways of packing with it

    return tempfile.TemporaryFile(buffering=0, dir=folder_on_disk())


def reserve(file: FileIO, before: int, size_bytes: int) -> None:
    """Have a place on the disk for all of a file that is so long already: to write to a mapped page that has none would end the program. OSError
    where there is none.
    """
    if size_bytes <= before:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), before, size_bytes - before)
        return
    file.seek(before)
    for first in range(before, size_bytes, _PIECE):
        rest = memoryview(bytes(min(_PIECE, size_bytes - first)))
        while rest:
            rest = rest[file.write(rest) :]
