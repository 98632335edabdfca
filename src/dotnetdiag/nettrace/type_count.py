"""Events and payload bytes by type, counted as ``loss_count`` goes over a trace: without numpy, whose import and exit cost more than a
pass over 4 million events (a third of ``dotnetdiag.open(path).counts()``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.nettrace.loss_count import PIECE_BYTES, LossCounter, Unusual
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.records import parse_record
from dotnetdiag.wire import Cursor

IDS = 1 << 12
"""Metadata ids that are followed; runtimes give them from 1 on."""
RECORDS_LIMIT = 1 << 20
"""Bytes of metadata that are read; runtimes write less than 100 KB."""
SHARED_BYTES = 1 << 30
"""Larger files are counted by several threads (``Scan.counts``). One thread has counted less than this before a pool of them is
imported, started, and has taken its page faults (316 MB: 24 ms, 42 of two).
"""
KEPT_BYTES, RELEASE_BYTES = 1 << 26, 32 << 20
"""Of a larger file, pages that were counted are given back, so many bytes at a time."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class TypeCounts:
    """(events, payload bytes) by metadata id, and what the file says of each; how many events were ``lost``. Nothing was damaged."""

    by_type: Mapping[int, tuple[int, int]]
    records: Mapping[int, Metadata]
    lost: int | None = None


class TypeTally:
    """What a :class:`LossCounter` is given to count by type. ``rows`` are events and payload bytes by metadata id."""

    def __init__(self) -> None:
        room = memoryview(bytearray(16 * IDS))
        self.rows, self._numbers = room.cast("q", (2, IDS)), room.cast("q")
        self.records: dict[int, Metadata] = {}
        self._size = 0

    def define(self, record: Cursor) -> None:
        """Unusual when the id was used already, or is not followed."""
        self._size += record.left
        made = parse_record(record)
        number = made.metadata_id
        if not 0 < number < IDS or number in self.records or self.rows[0, number] or self._size > RECORDS_LIMIT:
            raise Unusual
        self.records[number] = made

    def counts(self) -> TypeCounts | None:
        """None when an event is of no known type."""
        numbers = self._numbers.tolist()
        found = {number: (count, numbers[IDS + number]) for number, count in enumerate(numbers[:IDS]) if count}
        return TypeCounts(by_type=found, records=self.records) if found.keys() <= self.records.keys() else None


def count_types(buffer: memoryview, release: Callable[[int, int], None] | None = None) -> TypeCounts | None:
    """As ``scan(buffer).counts()``; None for a trace that is cut, damaged, or not of the usual form, and without kernels.

    ``release`` is told (start, end) of bytes that were counted, of a file that is large.
    """
    types = TypeTally()
    counter = LossCounter(types=types)
    left = 0
    for at in range(0, len(buffer), PIECE_BYTES):
        counter.feed(buffer[at : at + PIECE_BYTES])
        if counter.is_over:
            break
        if release is not None and at - left >= RELEASE_BYTES and len(buffer) >= KEPT_BYTES:
            release(left, at)
            left = at
    counted = counter.close()
    if counted is None or not counted.complete:
        return None
    found = types.counts()
    return found and replace(found, lost=counted.lost)
