"""What is in a trace, counted: per provider and event, per thread."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from dotnetdiag.nettrace import EventBatch, HeaderColumns
from dotnetdiag.trace.event_types import EventTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSummary:
    """One event of one provider: all its versions together. Times in ns since the start of the trace."""

    provider: str
    event: str
    versions: tuple[int, ...]
    count: int
    bytes: int
    first_ns: int
    last_ns: int

    @property
    def rate(self) -> float | None:
        """Events per second between the first and the last, None where there is only one moment."""
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
    """One pass over the headers: totals by metadata id, and events by the value of the ``thread`` column."""

    by_type: dict[int, TypeTotals]
    by_thread: dict[int, int]


FIRST_ROWS = 1 << 16
"""Payloads looked at to infer the layout of an event that nobody describes; so many rows are kept on the way."""
MOST_ROWS = 1 << 20
"""All of them together: 60 MB. Types that find no room any more are left out."""


def total(batches: Iterator[EventBatch], keep: Container[int] = ()) -> tuple[Totals, dict[int, HeaderColumns]]:
    """Count a whole trace in bounded memory. With it come the first FIRST_ROWS rows of each type of ``keep``."""
    types: dict[int, TypeTotals] = {}
    threads: dict[int, int] = {}
    kept: dict[int, list[HeaderColumns]] = {}
    room = MOST_ROWS
    for batch in batches:
        headers = batch.headers
        order = np.argsort(headers.metadata_id, kind="stable")
        sorted_ids = headers.metadata_id[order]
        starts = np.flatnonzero(np.concatenate([[True], sorted_ids[1:] != sorted_ids[:-1]]))
        time = headers.time[order]
        rows = zip(
            starts.tolist(),
            sorted_ids[starts].tolist(),
            np.diff(np.append(starts, len(headers))).tolist(),
            np.add.reduceat(headers.payload_length[order].astype(np.int64), starts).tolist(),
            np.minimum.reduceat(time, starts).tolist(),
            np.maximum.reduceat(time, starts).tolist(),
            strict=True,
        )
        for start, number, count, size, first, last in rows:
            old = types.get(number)
            missing = FIRST_ROWS - (old.count if old is not None else 0)
            if number in keep and missing > 0 and room > 0:
                kept.setdefault(number, []).append(headers[order[start : start + min(missing, count)]])
                room -= min(missing, count)
            if old is not None:
                count, size = count + old.count, size + old.bytes
                first, last = min(first, old.first), max(last, old.last)
            types[number] = TypeTotals(count=count, bytes=size, first=first, last=last)
        changes = np.flatnonzero(headers.thread[1:] != headers.thread[:-1]) + 1
        runs = np.concatenate([[0], changes])
        sizes = np.diff(np.append(runs, len(headers)))
        distinct, which = np.unique(headers.thread[runs], return_inverse=True)
        counts = np.bincount(which, weights=sizes, minlength=len(distinct))
        for thread, number_of in zip(distinct.tolist(), counts.tolist(), strict=True):
            threads[thread] = threads.get(thread, 0) + int(number_of)
    firsts = {number: HeaderColumns.concatenate(parts) for number, parts in kept.items()}
    firsts = {number: rows for number, rows in firsts.items() if len(rows) == min(types[number].count, FIRST_ROWS)}
    return Totals(by_type=types, by_thread=threads), firsts


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
