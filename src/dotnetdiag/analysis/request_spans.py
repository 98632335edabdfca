"""What began and ended, of all kinds together, and what is within what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import compact
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, Texts, narrow, number_of
from dotnetdiag.analysis.pairs import LatestRows, latest_rows, pairs, picked
from dotnetdiag.analysis.request_kinds import ARGUMENTS, ERROR, EVENT_NAME, KINDS, RequestKind, readable
from dotnetdiag.analysis.scratch import Scratch
from dotnetdiag.analysis.trees import levels
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

DEEPEST = 100
"""Spans within each other."""
NO_REASON = "failed"
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
    """What is kept of one kind."""

    def __init__(self, kind: RequestKind, scratch: Scratch) -> None:
        self.kind = kind
        self.reasons = Texts()
        self.labels = _Arguments(kind.arguments) if kind.arguments else Texts()
        fields = (ARGUMENTS,) if kind.arguments else kind.fields
        self.starts = KeptEvents(kind.begins, names=fields, texts=self.labels, activities=True, scratch=scratch)
        self.stops = KeptEvents(kind.ends, [kind.status] if kind.status else (), activities=True, scratch=scratch)
        self.failures = KeptEvents(
            kind.fails, names=[kind.reason] if kind.reason else (), texts=self.reasons, activities=True, scratch=scratch
        )

    def wants(self, schema: EventSchema) -> bool:
        """Begins, ends and failures."""
        return self.kind.begins(schema) or self.kind.ends(schema) or self.kind.fails(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self.failures.feed(window)
        ended = self.stops.events_of(window)
        if len(ended):
            kept = self.stops.of(ended)
            self.stops.add(kept)
            rows, why = _failed(self.kind, ended, self.reasons)
            if len(rows):
                some = kept.of(rows)
                fields = {name: some[name] for name in ("activity", "related")} | {self.kind.reason: why}
                self.failures.add(Kept(some.ms, some.pid, some.tid, fields))
        begun = self.starts.events_of(window)
        if len(begun):
            kept = self.starts.of(begun)
            self.starts.add(kept.of(np.flatnonzero(kept[ARGUMENTS] >= 0)) if self.kind.arguments else kept)


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
        state = number_of(ended.get(f"payload.{name}"), len(ended))
        rows = np.flatnonzero((state != NONE) & (state & 1 == 0))
        if len(rows):
            codes, which = ranked(number_of(ended.get(f"payload.{kind.code}"), len(ended))[rows])
            words = [f"error {code}" if code > 0 else "" for code in codes.tolist()]
            return rows, np.array([reasons.number(text) for text in words], np.int32)[which]
    return np.zeros(0, np.int64), np.zeros(0, np.int32)


def _pairs(row: object) -> dict[str, str]:
    """What is told in pairs of keys and values."""
    pairs = [one for one in row if isinstance(one, Mapping)] if isinstance(row, list | tuple) else []
    return {str(one.get("Key")): str(one.get("Value") or "") for one in pairs}


class RequestSpans:
    """All spans of all kinds, by the time of their begins. Columns are as narrow as they may be, and made one kind after the other: of all kinds at
    once, starts, stops and what joins them were 80 of the 250 MB of a report on 30,000 requests.
    """

    def __init__(self, kinds: Sequence[SpanEvents]) -> None:
        within: list[tuple[int, Kept, Array]] = []
        parts: dict[str, list[Array]] = {}
        labels = list[str]()
        self.reasons: list[str] = []
        for number, one in enumerate(kinds):
            starts, stops, failures = one.starts.all(), one.stops.all(), one.failures.all()
            stop = _ends(starts, stops)
            told = stops[one.kind.status] if one.kind.status else np.zeros(len(stops), np.int64)
            failed = np.full(len(starts), -1, np.int32)
            of = latest_rows(_keys(starts), starts.ms, _keys(failures), failures.ms)
            failed[of[of >= 0]] = np.flatnonzero(of >= 0)
            texts = [NO_REASON, *((one.kind.words or {}).get(text, text) or NO_REASON for text in one.reasons.names)]
            why = failures[one.kind.reason] - NONE if one.kind.reason else np.zeros(len(failures), np.int32)
            within.append((number, failures.of(np.flatnonzero(of < 0)), why[of < 0] + len(self.reasons)))
            own, which = _labels(one, starts)
            columns = {
                "ms": starts.ms,
                "pid": starts.pid,
                "tid": starts.tid,
                "activity": starts["activity"],
                "related": starts["related"],
                "stop_ms": picked(stops.ms, stop, np.nan),
                "stop_tid": narrow(picked(stops.tid, stop, 0)),
                "status": compact(picked(told, stop, 0)),
                "reason": narrow(np.where(failed >= 0, picked(why, failed, -1) + len(self.reasons), -1)),
                "kind": np.full(len(starts), number, np.int8),
                "label": narrow(which + len(labels)),
            }
            for name, values in columns.items():
                parts.setdefault(name, []).append(values)
            self.reasons += texts
            labels += own
        del starts, stops, failures, stop, told, failed, of, why, which, columns, values
        order = np.argsort(np.concatenate(parts["ms"]), kind="stable")
        joined = {name: np.concatenate(parts.pop(name))[order] for name in list(parts)}
        self.rows = Kept(joined.pop("ms"), joined.pop("pid"), joined.pop("tid"), joined)
        self.labels = labels
        self.kinds = [one.kind.name for one in kinds]
        del order
        self._latest = LatestRows(self.rows.pid, self.rows["activity"], self.rows.ms)
        parent = self.of_activity(self.rows.pid, joined.pop("related"), self.rows.ms)
        parent[parent == np.arange(len(parent), dtype=parent.dtype)] = -1
        self.parent, self.depth = levels(parent, DEEPEST)
        del parent
        for number, failures, why in within:
            self._fail(number, failures, why)

    def _fail(self, kind: int, failures: Kept, why: Array) -> None:
        """HttpClient tells that a request failed within the activity of its answer's content, where that breaks off."""
        if not len(failures):
            return
        at = self.of_activity(failures.pid, failures["activity"], failures.ms)
        for _ in range(DEEPEST):
            other = np.flatnonzero((at >= 0) & (np.append(self.rows["kind"], kind)[at] != kind))
            if not len(other):
                break
            at[other] = self.parent[at[other]]
        fits = (at >= 0) & (np.append(self.rows["kind"], -1)[at] == kind)
        fits[fits] = self.rows["reason"][at[fits]] < 0
        self.rows["reason"][at[fits]] = why[fits]

    def of_activity(self, pid: Array, activity: Array, ms: Array) -> Array:
        """The rows of activities at some times, for an id may come again; -1 for none."""
        return self._latest.of(pid, activity, ms)

    def parents_among(self, wanted: Array) -> Array:
        """Of each row the first above it that is wanted; -1 for none."""
        made = self.parent.copy()
        for _ in range(DEEPEST):
            other = np.flatnonzero(made >= 0)
            other = other[~wanted[made[other]]]
            if not len(other):
                break
            made[other] = self.parent[made[other]]
        return made

    def last(self, wanted: Array) -> Kept:
        """Some of the rows, when nothing else is asked any more: column by column, and the others are gone."""
        nothing = np.zeros(0)
        rows, self.rows = self.rows, Kept(nothing, nothing, nothing, {})
        self._latest = LatestRows(nothing, nothing, nothing)
        fields = dict(rows.fields)
        ms, pid, tid = rows.ms[wanted], rows.pid[wanted], rows.tid[wanted]
        del rows
        return Kept(ms, pid, tid, {name: fields.pop(name)[wanted] for name in list(fields)})

    def reason(self, number: int) -> str:
        """Why something failed."""
        return self.reasons[number] if number >= 0 else ""

    def nearest(self, wanted: Array) -> Array:
        """Each row, or the first above it, that is wanted; -1 for none, also behind the last, which stands for no row."""
        made = np.append(self.parents_among(wanted), self.parent.dtype.type(-1))
        own = np.flatnonzero(wanted)
        made[own] = own
        return made

    def of_provider(self, provider: str) -> Array:
        """Which rows are of a provider (bool)."""
        return self.of_kinds(kind.provider == provider for kind in KINDS)

    def of_kinds(self, wanted: Iterable[bool]) -> Array:
        """Which rows are of kinds that are wanted (bool)."""
        made: Array = np.fromiter(wanted, np.bool_)[self.rows["kind"]]
        return made


def _keys(events: Kept) -> tuple[Array, Array]:
    """What tells which end is of which begin: the activity, or the thread where there is none."""
    return events.pid, np.where(events["activity"] > 0, events["activity"], -events.tid)


def _ends(starts: Kept, stops: Kept) -> Array:
    """Of each start the row of its stop, -1 for none: by their activities where both have one, and what is left by threads."""
    made = pairs(starts.ms, _keys(starts), stops.ms, _keys(stops))
    for has_activity in (True, False):  # where one of the two has none, which the runtime does now and then
        is_open, is_loose = made < 0, np.ones(len(stops), np.bool_)
        is_loose[made[made >= 0]] = False
        first = np.flatnonzero(is_open & ((starts["activity"] > 0) == has_activity))
        last = np.flatnonzero(is_loose & ((stops["activity"] > 0) != has_activity))
        if len(first) and len(last):
            one, other = starts.of(first), stops.of(last)
            found = pairs(one.ms, (one.pid, one.tid), other.ms, (other.pid, other.tid))
            made[first[found >= 0]] = last[found[found >= 0]]
    return made


def _labels(one: SpanEvents, starts: Kept) -> tuple[list[str], Array]:
    """Names of what is alike, and which of them each row has."""
    if one.kind.arguments:
        return one.labels.names, starts[ARGUMENTS]
    if not one.kind.fields:
        return [one.kind.label], np.zeros(len(starts), np.int64)
    first, which = combined([starts[name] for name in one.kind.fields], len(starts))
    texts = one.starts.texts
    words = [[readable(texts[code]) for code in starts[name][first].tolist()] for name in one.kind.fields]
    return [one.kind.label.format(*row).strip() or one.kind.nameless for row in zip(*words, strict=True)], which
