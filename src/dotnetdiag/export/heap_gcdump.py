"""A heap as a ``.gcdump``."""

from __future__ import annotations

from typing import IO

from dotnetdiag.heap.gcdump_writer import write_gcdump
from dotnetdiag.heap.heap import Heap


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the file."""
    write_gcdump(heap, file)
