"""What is in a trace, counted: per provider and event, per thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import EventBatch
from dotnetdiag.trace.event_types import EventTypes
from dotnetdiag.trace.payloads import FirstPayloads, Payloads


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSummary:
    """One event of one provider: all its versions together, ``count`` events with ``bytes`` bytes of payload. ``first_ns`` and ``last_ns`` are
    when the first and the last one were written, in nanoseconds since the start of the trace.
    """

    provider: str
    event: str
    versions: tuple[int, ...]
    count: int
    bytes: int
    first_ns: int
    last_ns: int

    @property
    def rate(self) -> float | None:
        """Events a second from the first to the last, the first not counted: ``(count - 1) / (last - first)``. So of a short burst it is high,
        however long the recording is. None where all are of one moment.
        """
        span = self.last_ns - self.first_ns
        return (self.count - 1) * 1e9 / span if span > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTotals:
    """One metadata id: events, payload bytes, first and last tick."""

    count: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """One pass over the headers: totals by metadata id, and events by the value of the ``thread`` column, with the tick of the first."""

    by_type: dict[int, TypeTotals]
    by_thread: dict[int, int]
    thread_began: dict[int, int]


def total(batches: Iterator[EventBatch], firsts: FirstPayloads) -> Totals:
    """Count a whole trace in bounded memory, and gather ``firsts`` on the way."""
    types: dict[int, TypeTotals] = {}
    threads: dict[int, int] = {}
    began: dict[int, int] = {}
    for batch in batches:
        headers = batch.headers
        order = _by_type(headers.metadata_id)
        sorted_ids = headers.metadata_id[order]
        starts = np.flatnonzero(np.concatenate([[True], sorted_ids[1:] != sorted_ids[:-1]]))
        time = headers.time[order]
        offsets, lengths = headers.payload_offset[order], headers.payload_length[order]
        rows = zip(
            starts.tolist(),
            sorted_ids[starts].tolist(),
            np.diff(np.append(starts, len(headers))).tolist(),
            np.add.reduceat(lengths, starts, dtype=np.int64).tolist(),
            np.minimum.reduceat(time, starts).tolist(),
            np.maximum.reduceat(time, starts).tolist(),
            strict=True,
        )
        for start, number, count, size, first, last in rows:
            run = slice(start, start + count)
            firsts.add(number, Payloads(offsets[run], lengths[run]))
            old = types.get(number)
            if old is not None:
                count, size = count + old.count, size + old.bytes
                first, last = min(first, old.first), max(last, old.last)
            types[number] = TypeTotals(count=count, bytes=size, first=first, last=last)
        changes = np.flatnonzero(headers.thread[1:] != headers.thread[:-1]) + 1
        runs = np.concatenate([[0], changes])
        sizes = np.diff(np.append(runs, len(headers)))
        distinct, which = np.unique(headers.thread[runs], return_inverse=True)
        counts = np.bincount(which, weights=sizes, minlength=len(distinct))
        earliest = np.full(len(distinct), np.iinfo(np.int64).max)
        np.minimum.at(earliest, which, np.minimum.reduceat(headers.time, runs))
        for thread, number_of, tick in zip(distinct.tolist(), counts.tolist(), earliest.tolist(), strict=True):
            threads[thread] = threads.get(thread, 0) + int(number_of)
            began[thread] = min(began.get(thread, tick), tick)
    return Totals(by_type=types, by_thread=threads, thread_began=began)


def _by_type(ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64] | slice:
    """What brings rows of one type together, in their order."""
    highest = int(ids.max())
    if highest == int(ids.min()):
        return slice(None)
    # numbers of 16 bits are sorted in one pass
    return np.argsort(ids.astype(np.uint16) if highest <= 0xFFFF else ids, kind="stable")


def summarize(totals: Totals, types: EventTypes, elapsed: dict[int, int]) -> tuple[EventSummary, ...]:
    """By provider and event, most events first. ``elapsed``: ns since the start for every tick in the totals."""
    found: dict[tuple[str, str], EventSummary] = {}
    for number, row in totals.by_type.items():
        schema = types.name_of(number)
        key = schema.provider, schema.name
        old = found.get(key)
        versions = {schema.version, *(old.versions if old else ())}
        first, last = elapsed[row.first], elapsed[row.last]
        found[key] = EventSummary(
            provider=schema.provider,
            event=schema.name,
            versions=tuple(sorted(versions)),
            count=row.count + (old.count if old else 0),
            bytes=row.bytes + (old.bytes if old else 0),
            first_ns=min(first, old.first_ns) if old else first,
            last_ns=max(last, old.last_ns) if old else last,
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.count, one.provider, one.event)))
