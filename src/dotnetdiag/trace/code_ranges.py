"""Where code lies in memory and when, as columns: what the layers of an address space are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field_names
from dotnetdiag.trace.bounds import ALWAYS, FOREVER

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class CodeRanges:
    """One row per range ``[start, end)`` of a process.

    ===========  ====  ===================================================================
    column       kind  of each range
    ===========  ====  ===================================================================
    start end    u64   its addresses
    begin until  i64   from when and until when it was there, in ticks
    seen         i64   when its first event came, in ticks
    text         i64   the number of its texts, -1: it has none
    module       u64   the id of a method's module
    mapping      i64   the row of a native symbol's mapping, -1: it is no native symbol
    file_offset  u64   where in its file a mapping begins
    process      i64   whose it is
    method       u64   the id of the method
    token        u64   the method's token in its assembly, 0: not known
    version      u64   which of the method's codes it is (ReJITID)
    ===========  ====  ===================================================================
    """

    start: Array
    end: Array
    begin: Array
    until: Array
    seen: Array
    text: Array
    module: Array
    mapping: Array
    file_offset: Array
    process: Array
    method: Array
    token: Array
    version: Array

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def of(cls, **columns: Array) -> CodeRanges:
        """Ranges of some columns, ``start`` among them; the others have what is so when nothing is known."""
        rows = len(columns["start"])
        return cls(
            *(
                columns[name].astype(kind, copy=False) if name in columns else np.full(rows, default, kind)
                for name, (kind, default) in _COLUMNS.items()
            )
        )

    @classmethod
    def concatenate(cls, parts: Sequence[CodeRanges]) -> CodeRanges:
        """The rows of all parts, one behind the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in field_names(cls)))


_COLUMNS: dict[str, tuple[Any, int]] = {
    "start": (np.uint64, 0),
    "end": (np.uint64, 0),
    "begin": (np.int64, ALWAYS),
    "until": (np.int64, FOREVER),
    "seen": (np.int64, 0),
    "text": (np.int64, -1),
    "module": (np.uint64, 0),
    "mapping": (np.int64, -1),
    "file_offset": (np.uint64, 0),
    "process": (np.int64, 0),
    "method": (np.uint64, 0),
    "token": (np.uint64, 0),
    "version": (np.uint64, 0),
}

NO_RANGES = CodeRanges.of(start=np.zeros(0, np.uint64))
