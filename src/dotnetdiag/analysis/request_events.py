"""Begins, ends and failures of one kind of request, as windows bring them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, Texts, number_of, whole_numbers
from dotnetdiag.analysis.request_kinds import ARGUMENTS, ERROR, EVENT_NAME, RequestKind, readable
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

NO_REASON, STATUS = "failed", "status "
"""The reason of what failed where the event tells none: that of a host name that is not found has no fields."""


class _Arguments(Texts):
    """Names of what is told in pairs of keys and values: the values of some keys, one behind the other."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__()
        self._keys = keys

    def numbers(self, column: Column | None, count: int) -> Array:
        """Of each row the number of its name; negative where it does not have the first key."""
        rows = [None] * count if column is None else column.to_pylist()
        return np.array([self._number_of(row) for row in rows], np.int64)

    def _number_of(self, row: object) -> int:
        told = _pairs(row)
        if not told.get(self._keys[0]):
            return NONE
        return self.number(" ".join(told[key] for key in self._keys if told.get(key)))


class SpanEvents:
    """What waits of one kind until it is followed."""

    def __init__(self, kind: RequestKind) -> None:
        self.kind = kind
        self._reasons = Texts()
        self.texts = _Arguments(kind.arguments) if kind.arguments else Texts()
        fields = (ARGUMENTS,) if kind.arguments else kind.fields
        self.starts = KeptEvents(kind.begins, names=fields, texts=self.texts, activities=True)
        self.stops = KeptEvents(kind.ends, [kind.status] if kind.status else (), activities=True)
        self.failures = KeptEvents(
            kind.fails, names=[kind.reason] if kind.reason else (), texts=self._reasons, activities=True
        )

    @property
    def keepers(self) -> Sequence[KeptEvents]:
        """All that something waits in."""
        return self.starts, self.stops, self.failures

    def wants(self, schema: EventSchema) -> bool:
        """Begins, ends and failures."""
        return self.kind.begins(schema) or self.kind.ends(schema) or self.kind.fails(schema)

    def feed(self, window: EventTable) -> int:
        """Take the next window, and tell of how many events something waits."""
        count = len(self.failures.feed(window))
        ended = self.stops.events_of(window)
        if len(ended):
            kept = self.stops.of(ended)
            self.stops.add(kept)
            rows, why = _failed(self.kind, ended, self._reasons)
            if len(rows):
                some = kept.of(rows)
                fields = {name: some[name] for name in ("activity", "related")} | {self.kind.reason: why}
                self.failures.add(Kept(some.ms, some.pid, some.tid, fields))
        begun = self.starts.events_of(window)
        if len(begun):
            kept = self.starts.of(begun)
            self.starts.add(kept.of(np.flatnonzero(kept[ARGUMENTS] >= 0)) if self.kind.arguments else kept)
        return count + len(ended) + len(begun)

    def copy(self) -> SpanEvents:
        """One in which the same waits."""
        made = SpanEvents(self.kind)
        made._reasons, made.texts = self._reasons, self.texts
        made.starts, made.stops, made.failures = (one.copy() for one in self.keepers)
        return made

    def labels(self, starts: Kept) -> tuple[list[str], Array]:
        """Names of what is alike, and which of them each start has."""
        if self.kind.arguments:
            used, which = ranked(starts[ARGUMENTS])
            return [self.texts[one] for one in used.tolist()], which
        if not self.kind.fields:
            return [self.kind.label], np.zeros(len(starts), np.int64)
        first, which = combined([starts[name] for name in self.kind.fields], len(starts))
        words = [[readable(self.texts[code]) for code in starts[name][first].tolist()] for name in self.kind.fields]
        return [self.kind.label.format(*row).strip() or self.kind.nameless for row in zip(*words, strict=True)], which

    def reasons(self, failures: Kept) -> tuple[list[str], Array]:
        """Why something failed, and which of these each failure has."""
        if not self.kind.reason:
            return [NO_REASON], np.zeros(len(failures), np.int64)
        used, which = ranked(failures[self.kind.reason])
        told = [self._reasons[one] for one in used.tolist()]
        return [(self.kind.words or {}).get(text, text) or NO_REASON for text in told], which


def _failed(kind: RequestKind, ended: EventTable, reasons: Texts) -> tuple[Array, Array]:
    """Which of some ends tell that it failed, and the numbers of the ``reasons`` that they tell."""
    if kind.failures:
        names = Texts()
        which = names.numbers(ended.get(f"payload.{EVENT_NAME}"), len(ended))
        known = [kind.failures.get(name.rpartition(".")[2]) for name in names.names]
        rows = np.flatnonzero(np.isin(which, [number for number, why in enumerate(known) if why is not None]))
        told = ended.get(f"payload.{ARGUMENTS}")
        pairs = [None] * len(rows) if told is None else told.take(rows).to_pylist()
        texts = [
            _pairs(row).get(ERROR) or known[number] for row, number in zip(pairs, which[rows].tolist(), strict=True)
        ]
        return rows, np.array([reasons.number(text or "") for text in texts], np.int32)
    for name in kind.state:
        state = whole_numbers(number_of(ended.get(f"payload.{name}"), len(ended)))
        rows = np.flatnonzero((state != NONE) & (state & 1 == 0))
        if len(rows):
            codes, which = ranked(whole_numbers(number_of(ended.get(f"payload.{kind.code}"), len(ended)))[rows])
            words = [f"error {code}" if code > 0 else "" for code in codes.tolist()]
            return rows, np.array([reasons.number(text) for text in words], np.int32)[which]
    return np.zeros(0, np.int64), np.zeros(0, np.int32)


def _pairs(row: object) -> dict[str, str]:
    """What is told in pairs of keys and values."""
    pairs = [one for one in row if isinstance(one, Mapping)] if isinstance(row, list | tuple) else []
    return {str(one.get("Key")): str(one.get("Value") or "") for one in pairs}
