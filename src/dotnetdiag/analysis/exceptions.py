"""Exceptions that were thrown, caught or not: by type and by message, and how many in each second."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.fold import OfTypes, fold
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

THROWN = 80
"""Exception/Start: each throw, and each one that is thrown again."""
MOST_MESSAGES = 1 << 16
"""Messages that are told apart; those beyond count for their types alone."""
MOST_CHARACTERS = 300
"""Of a message."""
NO_EVENTS = "no exceptions: none was thrown, or the recording lacks their events (keyword exception of the runtime)"


@dataclass(frozen=True, kw_only=True)
class ExceptionReport:
    """``by_type`` and ``by_message``: the most frequent first; ``by_second``: how many in each second of the recording that had some."""

    by_type: Table
    by_message: Table
    by_second: Table
    count: int
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The tables, and the count of all."""
        return {
            "by_type": self.by_type.to_pylist(),
            "by_message": self.by_message.to_pylist(),
            "by_second": self.by_second.to_pylist(),
            "totals": {"count": self.count},
            "notes": list(self.notes),
        }


def exceptions(trace: Trace) -> ExceptionReport:
    """All that were thrown in a recording."""
    (made,) = fold(trace, ExceptionsFold())
    return made


@dataclass(slots=True)
class _Seen:
    """Of one type: how many, when first and last, in how many threads."""

    count: int = 0
    first_ms: float = np.inf
    last_ms: float = -np.inf
    threads: set[tuple[int, int]] = field(default_factory=set)


class ExceptionsFold:
    """What :func:`exceptions` asks, window by window."""

    def __init__(self) -> None:
        self._thrown = OfTypes(self.wants)
        self._types: dict[str, _Seen] = {}
        self._messages: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[int] = Counter()
        self._untold = 0
        self._losses: Losses | None = None

    def wants(self, schema: EventSchema) -> bool:
        """Exceptions that are thrown."""
        return schema.provider == RUNTIME and schema.event_id == THROWN

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses = window.trace.losses
        events = self._thrown.of(window)
        if not len(events):
            return
        types, messages = (self._texts(events, name) for name in ("ExceptionType", "ExceptionMessage"))
        ms = events.numpy("ms")
        self._seconds.update((ms // 1000).astype(np.int64).tolist())
        names = sorted(set(types))
        which = np.array([names.index(one) for one in types]) if len(names) > 1 else np.zeros(len(types), np.int64)
        threads = np.stack([events.numpy("pid"), events.numpy("tid")], axis=1)
        for number, name in enumerate(names):
            rows = np.flatnonzero(which == number)
            seen = self._types.setdefault(name, _Seen())
            seen.count += len(rows)
            seen.first_ms = min(seen.first_ms, float(ms[rows[0]]))
            seen.last_ms = max(seen.last_ms, float(ms[rows[-1]]))
            seen.threads.update(map(tuple, np.unique(threads[rows], axis=0).tolist()))
        for key, count in Counter(zip(types, messages, strict=True)).items():
            if key in self._messages or len(self._messages) < MOST_MESSAGES:
                self._messages[key] += count
            else:
                self._untold += count

    def _texts(self, events: EventTable, name: str) -> list[str]:
        column = events.get(f"payload.{name}")
        values = [None] * len(events) if column is None else column.to_pylist()
        return [str(value or "")[:MOST_CHARACTERS] for value in values]

    def result(self) -> ExceptionReport:
        """The answer."""
        count = sum(seen.count for seen in self._types.values())
        notes = [] if count else [NO_EVENTS]
        if self._untold:
            notes.append(
                f"{self._untold:,} have messages beyond the limit of {MOST_MESSAGES:,}: they count by type alone"
            )
        types = sorted(self._types.items(), key=lambda pair: (-pair[1].count, pair[0]))
        messages = sorted(self._messages.items(), key=lambda pair: (-pair[1], pair[0]))
        distinct = Counter(name for name, _ in self._messages)

        def table(columns: dict[str, list[Any]], title: str, **units: str) -> Table:
            losses = {} if self._losses is None else {"losses": self._losses}
            return Table(columns, title=title, units=units, notes=notes, **losses)

        return ExceptionReport(
            by_type=table(
                {
                    "type": [name for name, _ in types],
                    "count": [seen.count for _, seen in types],
                    "messages": [distinct[name] for name, _ in types],
                    "threads": [len(seen.threads) for _, seen in types],
                    "first_ms": [seen.first_ms for _, seen in types],
                    "last_ms": [seen.last_ms for _, seen in types],
                },
                "exceptions by type",
                first_ms="ms",
                last_ms="ms",
            ),
            by_message=table(
                {
                    "type": [name for (name, _), _ in messages],
                    "message": [text for (_, text), _ in messages],
                    "count": [number for _, number in messages],
                },
                "exceptions by message",
            ),
            by_second=table(
                {
                    "second": sorted(self._seconds),
                    "count": [self._seconds[second] for second in sorted(self._seconds)],
                },
                "exceptions by second",
                second="s",
            ),
            count=count,
            notes=tuple(notes),
        )
