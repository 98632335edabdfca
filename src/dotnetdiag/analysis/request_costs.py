"""What requests spend while they run: on processors, in pauses of the collector, on locks, on allocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.analysis.gc_events import RESTARTED, SUSPENDING, TICK
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, having
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.analysis.request_spans import RequestSpans
from dotnetdiag.analysis.scratch import Scratch
from dotnetdiag.analysis.trees import with_all_below
from dotnetdiag.analysis.waits import CONTENDED, GOT
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.trace.distinct import distinct
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
        self._samples = OfTypes(lambda schema: schema.provider == SAMPLER and schema.event_id == SAMPLE)
        self._sampled: list[tuple[Array, Array, Array, Array]] = []

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
        samples = self._samples.of(window)
        if not len(samples):
            return
        state = samples.get("payload.Type")
        kinds = state.values if isinstance(state, Scalar) else np.full(len(samples), MANAGED)
        pid, tid = (samples.numpy(name).astype(np.int32) for name in ("pid", "tid"))
        self._sampled.append((samples.numpy("ms"), pid, tid, np.asarray(kinds == MANAGED)))

    def spent(self, spans: RequestSpans, messages: KeptEvents) -> Mapping[str, tuple[Array, bool]]:
        """Of each span what it and all within it spent, and whether that is told. ``messages`` tell of threads, too."""
        contended, got = self._contended.all(), self._got.all()
        stop = pairs(contended.ms, [contended.pid, contended.tid], got.ms, [got.pid, got.tid])
        waited = np.where(stop >= 0, np.append(got.ms, 0.0)[stop] - contended.ms, 0.0)
        has_ids = bool(spans.rows["activity"].any())
        suspending = self._suspending.all()
        return {
            "cpu_ms": (
                _sampled(spans, self._sampled, (self._ticks, self._contended, messages)),
                bool(self._sampled) and has_ids,
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


def _sampled(
    spans: RequestSpans, samples: list[tuple[Array, Array, Array, Array]], keepers: Sequence[KeptEvents]
) -> Array:
    """Of each row the time of samples that count for it, or for what is within it."""
    rows = spans.rows
    if not samples or not len(rows):
        return _nothing(spans)
    others = [keeper.all() for keeper in keepers]
    ms, pid, tid, is_cpu = (np.concatenate([part[at] for part in samples]) for at in range(4))
    order = np.lexsort((ms, tid, pid))
    same = (pid[order][1:] == pid[order][:-1]) & (tid[order][1:] == tid[order][:-1])
    apart = np.diff(ms[order])[same]
    interval = float(np.median(apart)) if len(apart) else 0.0
    ms, pid, tid = ms[is_cpu], pid[is_cpu], tid[is_cpu]
    ended = np.flatnonzero(rows["stop_tid"] > 0)
    of = [spans.of_activity(other.pid, other["activity"], other.ms) for other in others]
    marks = {
        "ms": [rows.ms, rows["stop_ms"][ended], *(other.ms for other in others)],
        "pid": [rows.pid, rows.pid[ended], *(other.pid for other in others)],
        "tid": [rows.tid, rows["stop_tid"][ended], *(other.tid for other in others)],
        "row": [np.arange(len(rows)), spans.parent[ended], *of],
    }
    mark = {name: np.concatenate([*parts]) for name, parts in marks.items()}
    first = len(mark["ms"])
    order = np.lexsort(
        (
            np.arange(first + len(ms)) >= first,
            np.append(mark["ms"], ms),
            np.append(mark["tid"], tid),
            np.append(mark["pid"], pid),
        )
    )
    is_mark = order < first
    last = np.maximum.accumulate(np.where(is_mark, np.arange(len(order)), -1))
    at, last = order[~is_mark] - first, last[~is_mark]
    at, last = at[last >= 0], order[last[last >= 0]]
    last_tid, last_pid = mark["tid"][last], mark["pid"][last]
    row = np.where((last_tid == tid[at]) & (last_pid == pid[at]), mark["row"][last], -1)
    runs = (row >= 0) & ~(rows["stop_ms"][row] < ms[at])
    return with_all_below(spans.parent, spans.depth, np.bincount(row[runs], minlength=len(rows)) * interval)


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
