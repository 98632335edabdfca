"""What requests spend while they run: on processors, in pauses of the collector, on locks, on allocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.gc_events import RESTARTED, SUSPENDING, TICK
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, having
from dotnetdiag.analysis.pairs import LatestRows, pairs
from dotnetdiag.analysis.request_spans import RequestSpans
from dotnetdiag.analysis.scratch import Scratch
from dotnetdiag.analysis.trees import with_all_below
from dotnetdiag.analysis.waits import CONTENDED, GOT
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import distinct, ranked
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

SAMPLER, SAMPLE = "Microsoft-DotNETCore-SampleProfiler", 0
MANAGED = 2
"""Of a sample: the thread ran code of .NET."""
_FOR_GC = (1, 6)


class RequestCosts:
    """Takes windows; :meth:`spent` is what came, by spans."""

    def __init__(self, scratch: Scratch) -> None:
        amounts = ("AllocationAmount64", "AllocationAmount")
        self._ticks = KeptEvents(having(TICK), amounts, activities=True, scratch=scratch)
        self._contended = KeptEvents(having(CONTENDED), activities=True, scratch=scratch)
        self._got = KeptEvents(having(GOT), scratch=scratch)
        self._suspending = KeptEvents(having(SUSPENDING), ("Reason",))
        self._restarted = KeptEvents(having(RESTARTED))
        self._samples = KeptEvents(
            lambda schema: schema.provider == SAMPLER and schema.event_id == SAMPLE, ("Type",), scratch=scratch
        )
        self._in_time = _SamplesInTime()
        self._is_sampled = False

    @property
    def _keepers(self) -> Sequence[KeptEvents]:
        return (self._ticks, self._contended, self._got, self._suspending, self._restarted)

    def wants(self, schema: EventSchema) -> bool:
        """What costs something."""
        return any(one.wants(schema) for one in self._keepers) or self._samples.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        for keeper in self._keepers:
            keeper.feed(window)
        samples = self._samples.events_of(window)
        if not len(samples):
            return
        self._is_sampled = True
        kept = self._samples.of(samples)
        runs = np.isin(kept["Type"], (MANAGED, NONE))
        self._samples.add(self._in_time.of(_samples(kept.ms, kept.pid, kept.tid, runs)))

    def spent(self, spans: RequestSpans, messages: KeptEvents) -> Mapping[str, tuple[Array, bool]]:
        """Of each span what it and all within it spent, and whether that is told. ``messages`` tell of threads, too."""
        contended, got = self._contended.all(), self._got.all()
        stop = pairs(contended.ms, [contended.pid, contended.tid], got.ms, [got.pid, got.tid])
        waited = np.where(stop >= 0, np.append(got.ms, 0.0)[stop] - contended.ms, 0.0)
        has_ids = bool(spans.rows["activity"].any())
        suspending = self._suspending.all()
        return {
            "cpu_ms": (
                _sampled(spans, self._samples.parts(), (self._ticks, self._contended, messages)),
                self._is_sampled and has_ids,
            ),
            "gc_ms": (_paused(spans, suspending, self._restarted.all()), len(suspending) > 0),
            "lock_ms": (_of_events(spans, [(contended, waited)]), len(contended) > 0 and has_ids),
            "allocated_bytes": (
                _of_events(spans, ((ticks, _amounts(ticks)) for ticks in self._ticks.parts())),
                len(self._ticks) > 0 and has_ids,
            ),
        }


def _amounts(ticks: Kept) -> Array:
    wide, narrow = ticks["AllocationAmount64"], ticks["AllocationAmount"]
    made: Array = np.where(wide >= 0, wide, np.maximum(narrow, 0))
    return made


def _nothing(spans: RequestSpans) -> Array:
    return np.broadcast_to(np.zeros(1), len(spans.rows))


def _of_events(spans: RequestSpans, parts: Iterable[tuple[Kept, Array]]) -> Array:
    """What events come to, of each span with all that is within it."""
    own: Array | None = None
    for events, values in parts:
        if len(events):
            own = np.zeros(len(spans.rows)) if own is None else own
            of = spans.of_activity(events.pid, events["activity"], events.ms)
            np.add.at(own, of[of >= 0], values[of >= 0])
    return _nothing(spans) if own is None else with_all_below(spans.parent, spans.depth, own)


def _sampled(spans: RequestSpans, samples: Iterable[Kept], keepers: Sequence[KeptEvents]) -> Array:
    """Of each row the time of samples that count for it, or for what is within it."""
    rows = spans.rows
    own: Array | None = None
    for part in samples:
        if len(part) and len(rows):
            if own is None:
                own, marks = np.zeros(len(rows)), _Marks(spans, keepers)
            row = marks.of(part)
            runs = (row >= 0) & ~(rows["stop_ms"][row] < part.ms)
            np.add.at(own, row[runs], part["weight_ms"][runs])
    return _nothing(spans) if own is None else with_all_below(spans.parent, spans.depth, own)


class _Marks:
    """What tells which row a thread works for: begins and ends, and events of an activity."""

    def __init__(self, spans: RequestSpans, keepers: Sequence[KeptEvents]) -> None:
        rows, others = spans.rows, [keeper.all() for keeper in keepers]
        ended = np.flatnonzero(rows["stop_tid"] > 0)
        of = [spans.of_activity(other.pid, other["activity"], other.ms) for other in others]
        ms = np.concatenate([rows.ms, rows["stop_ms"][ended], *(other.ms for other in others)])
        order = np.argsort(ms, kind="stable")

        def ordered(*parts: Array) -> Array:
            made: Array = np.concatenate(parts)[order]
            return made

        self._row = ordered(np.arange(len(rows)), spans.parent[ended], *of)
        tid = ordered(rows.tid, rows["stop_tid"][ended], *(other.tid for other in others))
        pid = ordered(rows.pid, rows.pid[ended], *(other.pid for other in others))
        self._threads, which = ranked(tid)
        self._latest = LatestRows(pid, which + 1, ms[order])

    def of(self, samples: Kept) -> Array:
        """Of each sample the row that its thread works for by then; -1 for none."""
        which = np.minimum(np.searchsorted(self._threads, samples.tid), len(self._threads) - 1)
        number = np.where(self._threads[which] == samples.tid, which + 1, 0)
        at = self._latest.of(samples.pid, number, samples.ms)
        return np.where(at >= 0, self._row[at], -1)


class _SamplesInTime:
    """Samples, each with the time to the next of its thread, as in a profile: the last of each thread counts nothing."""

    def __init__(self) -> None:
        self._waiting = _samples(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_))

    def of(self, samples: Kept) -> Kept:
        """Those on processors whose time is known now; the last of each thread waits for what follows."""
        waiting = self._waiting
        ms, pid, tid = (np.append(getattr(waiting, name), getattr(samples, name)) for name in ("ms", "pid", "tid"))
        order = np.lexsort((ms, tid, pid))
        ms, pid, tid = ms[order], pid[order], tid[order]
        runs = np.append(waiting["runs"], samples["runs"])[order]
        is_last = np.ones(len(ms), np.bool_)
        is_last[:-1] = (pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1])
        self._waiting = _samples(ms[is_last], pid[is_last], tid[is_last], runs[is_last])
        known = np.flatnonzero(~is_last & runs)
        return Kept(ms[known], pid[known], tid[known], {"weight_ms": ms[known + 1] - ms[known]})


def _samples(ms: Array, pid: Array, tid: Array, runs: Array) -> Kept:
    return Kept(ms, pid, tid, {"runs": runs})


def _paused(spans: RequestSpans, suspending: Kept, restarted: Kept) -> Array:
    """For how long the program was stopped between the begin and the end of each span."""
    rows = spans.rows
    suspending = suspending.of(np.flatnonzero(np.isin(suspending["Reason"], _FOR_GC)))
    stop = pairs(suspending.ms, [suspending.pid, suspending.tid], restarted.ms, [restarted.pid, restarted.tid])
    until = np.where(np.isnan(rows["stop_ms"]), rows.ms, rows["stop_ms"])
    if not (stop >= 0).any():
        return _nothing(spans)
    made = np.zeros(len(rows))
    for pid in distinct(suspending.pid[stop >= 0]).tolist():
        own = np.flatnonzero((suspending.pid == pid) & (stop >= 0))
        begin, end = suspending.ms[own], restarted.ms[stop[own]]
        reached = np.maximum.accumulate(end)
        begin = np.maximum(begin, np.append(-np.inf, reached[:-1]))  # of two that overlap, the rest
        end = np.maximum(end, begin)
        times = np.stack([begin, end], axis=1).reshape(-1)
        so_far = np.cumsum(end - begin)
        total = np.stack([np.append(0.0, so_far[:-1]), so_far], axis=1).reshape(-1)
        of = np.flatnonzero(rows.pid == pid)
        made[of] = np.interp(until[of], times, total) - np.interp(rows.ms[of], times, total)
    return made
