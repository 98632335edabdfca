"""The events of a heap dump, and how the rows of those are laid out that there are thousands of (gcdump.md §6).

Objects, references and roots come in blocks of up to 64 KB, all rows of a block of the same size: they are read in place.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import EventSchema
from dotnetdiag.events.well_known import EVENT_PIPE

Array: TypeAlias = "np.ndarray[Any, Any]"

RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"

GC_START, GC_STOP, RESTARTED, HEAP_STATS, SUSPENDING = 1, 2, 3, 4, 9
TYPES = 15
ROOTS, DEPENDENT, NODES, EDGES = 16, 17, 18, 19
RANGE = 23
CCWS, RCWS, STATICS = 36, 37, 38
MODULE = 1000
"""Any event that tells the path of a module."""
PROCESS = 1001

INDEXED = (ROOTS, DEPENDENT, NODES, EDGES)
"""Their blocks are numbered."""
_OWN = {GC_START, GC_STOP, RESTARTED, HEAP_STATS, SUSPENDING, TYPES, *INDEXED, RANGE, CCWS, RCWS, STATICS}
_MODULES = {RUNTIME: (152, 153), RUNDOWN: (153, 154)}

HEADER_BYTES = 10
"""Of a numbered block: its number, its rows, the runtime's own number."""


def role(schema: EventSchema) -> int | None:
    """What an event is to a dump: one of the numbers above, None where it is nothing."""
    if schema.provider == RUNTIME and schema.event_id in _OWN:
        return schema.event_id
    if schema.event_id in _MODULES.get(schema.provider, ()):
        return MODULE
    if schema.provider == EVENT_PIPE and schema.name == "ProcessInfo":
        return PROCESS
    return None


def _rows(*fields: tuple[str, str]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The same rows for pointers of 4 and of 8 bytes."""
    wide = [(name, kind.replace("ptr", "<u8")) for name, kind in fields]
    return np.dtype([(name, kind.replace("ptr", "<u4")) for name, kind in fields]), np.dtype(wide)


_LAYOUTS = {
    ROOTS: _rows(("object", "ptr"), ("kind", "u1"), ("flags", "<u4"), ("id", "ptr")),
    DEPENDENT: _rows(("key", "ptr"), ("object", "ptr"), ("id", "ptr")),
    NODES: _rows(("address", "ptr"), ("size", "<u8"), ("type", "<u8"), ("edges", "<u8")),
    EDGES: _rows(("target", "ptr"), ("field", "<u4")),
}


def layout(number: int, pointer_size: int) -> np.dtype[Any]:
    """The row of a numbered block."""
    return _LAYOUTS[number][pointer_size == 8]


def read_block(data: Array, offset: int, length: int, number: int, pointer_size: int) -> tuple[int, Array] | None:
    """(number of the block, its rows, which still lie in ``data``); None when there are fewer bytes than it says."""
    if length < HEADER_BYTES or offset < 0 or offset + length > len(data):
        return None
    index, count = np.frombuffer(data, "<u4", 2, offset).tolist()
    row = layout(number, pointer_size)
    if count * row.itemsize > length - HEADER_BYTES:
        return None
    return index, np.frombuffer(data, row, count, offset + HEADER_BYTES)
