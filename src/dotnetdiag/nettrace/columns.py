"""Event headers as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, field_names


@dataclass(frozen=True, slots=True, eq=False)
class HeaderColumns:
    """Arrays of equal length, one row per event, in the order of the file.

    ``time`` is in ticks of the trace's clock. ``stack``, ``activity``, ``related`` and ``label_list`` are indices
    into the tables of the batch or trace (0 = none); ``metadata_id`` is 0 where the file does not define its id.
    ``thread`` is the OS thread id; in version 6 the index of the thread's row. ``processor`` 0xFFFFFFFF = unknown.
    ``sequence`` is 0 in NetPerf, which has none.
    ``is_sorted``: no event behind this one is older, up to the next sequence point. There readers let out, in the order
    of time, what they have queued by capture thread; and only there does the capture thread change: they take an event
    that is not sorted for one of the same thread as the event before. The events of a capture thread stand in the order
    of time, and no event is older than a sequence point before it (nettrace.md §8).
    ``payload_offset`` counts from the start of the batch's (or whole file's) buffer. Columns may be read-only.
    """

    metadata_id: npt.NDArray[np.uint32]
    sequence: npt.NDArray[np.uint32]
    capture_thread: npt.NDArray[np.uint64]
    thread: npt.NDArray[np.uint64]
    processor: npt.NDArray[np.uint32]
    stack: npt.NDArray[np.uint32]
    time: npt.NDArray[np.int64]
    activity: npt.NDArray[np.uint32]
    related: npt.NDArray[np.uint32]
    payload_offset: npt.NDArray[np.int64]
    payload_length: npt.NDArray[np.uint32]
    is_sorted: npt.NDArray[np.bool_]
    label_list: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> HeaderColumns:
        """The rows of a slice (views), a mask or an index array (copies)."""
        if not isinstance(rows, slice):
            # a mask would be counted for every column: of rows here and there this takes 40 % of the time
            rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            return HeaderColumns(*(self.column(name).take(rows) for name in COLUMN_NAMES))
        # written out: a stream cuts small windows, and to go through the names took as long as all else of it
        return HeaderColumns(
            self.metadata_id[rows],
            self.sequence[rows],
            self.capture_thread[rows],
            self.thread[rows],
            self.processor[rows],
            self.stack[rows],
            self.time[rows],
            self.activity[rows],
            self.related[rows],
            self.payload_offset[rows],
            self.payload_length[rows],
            self.is_sorted[rows],
            self.label_list[rows],
        )

    def later(self, rows: npt.NDArray[np.int64]) -> HeaderColumns:
        """The rows of an index array, each column taken when it is first asked for: while these columns are as they are. Who wants one type
        of a window needs five of them, and thirteen took a tenth of a report's time.
        """
        made = object.__new__(_TakenLater)
        object.__setattr__(made, "_whole", self)
        object.__setattr__(made, "_rows", rows)
        return made

    @classmethod
    def joined(cls, parts: Sequence[HeaderColumns]) -> HeaderColumns:
        """As :meth:`concatenate`, each column when it is first asked for: while the parts are as they are."""
        if len(parts) == 1:
            return parts[0]
        made = object.__new__(_JoinedLater)
        object.__setattr__(made, "_parts", tuple(parts))
        object.__setattr__(made, "_count", sum(map(len, parts)))
        return made

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column, which is not kept for the next who asks, where it has to be made."""
        found: npt.NDArray[Any] = getattr(self, name)
        return found

    @classmethod
    def allocate(cls, rows: int) -> Self:
        """Room for ``rows`` events. Columns that are nearly always zero are zeroed; the others hold anything."""
        return cls(
            **{name: (np.zeros if name in MOSTLY_ZERO else np.empty)(rows, kind) for name, kind in COLUMN_TYPES.items()}
        )

    @classmethod
    def concatenate(cls, parts: Sequence[HeaderColumns]) -> HeaderColumns:
        """One after another; payload offsets stay as they are."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.allocate(0)
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMN_NAMES))

    def equals(self, other: HeaderColumns) -> bool:
        """True when every column has the same values."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMN_NAMES)


class _MadeLater(HeaderColumns):
    """Columns that are made, and kept, when they are first asked for."""

    __slots__ = ()

    def __new__(cls, *columns: npt.NDArray[Any], **named: npt.NDArray[Any]) -> HeaderColumns:  # type: ignore[misc]
        """What ``dataclasses.replace`` makes of it has all its columns."""
        return HeaderColumns(*columns, **named)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name not in COLUMN_TYPES:
            raise AttributeError(name)
        made = self._made(name, kept=True)
        object.__setattr__(self, name, made)
        return made

    def column(self, name: str) -> npt.NDArray[Any]:
        try:
            found: npt.NDArray[Any] = object.__getattribute__(self, name)
        except AttributeError:
            return self._made(name, kept=False)
        return found

    def _made(self, name: str, *, kept: bool) -> npt.NDArray[Any]:
        """A column; ``kept``: what others are made of too stays."""
        raise NotImplementedError


class _TakenLater(_MadeLater):
    """Some rows of other columns."""

    __slots__ = ("_rows", "_whole")
    _whole: HeaderColumns
    _rows: npt.NDArray[np.int64]

    def _made(self, name: str, *, kept: bool) -> npt.NDArray[Any]:
        whole = getattr(self._whole, name) if kept else self._whole.column(name)
        made: npt.NDArray[Any] = whole.take(self._rows)
        return made

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> HeaderColumns:
        return self._whole[self._rows[rows]]

    def later(self, rows: npt.NDArray[np.int64]) -> HeaderColumns:
        return self._whole.later(self._rows[rows])


class _JoinedLater(_MadeLater):
    """Columns one behind another."""

    __slots__ = ("_count", "_parts")
    _parts: tuple[HeaderColumns, ...]
    _count: int

    def _made(self, name: str, *, kept: bool) -> npt.NDArray[Any]:  # noqa: ARG002 - what it is made of never stays
        return np.concatenate([part.column(name) for part in self._parts])

    def __len__(self) -> int:
        return self._count


COLUMN_NAMES = field_names(HeaderColumns)
COLUMN_TYPES: dict[str, npt.DTypeLike] = {
    "metadata_id": np.uint32,
    "sequence": np.uint32,
    "capture_thread": np.uint64,
    "thread": np.uint64,
    "processor": np.uint32,
    "stack": np.uint32,
    "time": np.int64,
    "activity": np.uint32,
    "related": np.uint32,
    "payload_offset": np.int64,
    "payload_length": np.uint32,
    "is_sorted": np.bool_,
    "label_list": np.uint32,
}
SPARSE_COLUMNS = frozenset({"activity", "related", "label_list"})
MOSTLY_ZERO = SPARSE_COLUMNS | {"is_sorted"}
