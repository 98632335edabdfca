"""What is kept of the events that tell of collections: numbers in columns, some hundred bytes for each collection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.analysis.gc_beginnings import BEGUN, SEGMENT, Beginnings
from dotnetdiag.analysis.gc_finalizers import BEGIN as FINALIZING
from dotnetdiag.analysis.gc_finalizers import END as FINALIZED
from dotnetdiag.analysis.gc_finalizers import Finalizers
from dotnetdiag.analysis.gc_induced import TRIGGERED, InducedEvents
from dotnetdiag.analysis.gc_stops import GcStops
from dotnetdiag.analysis.kept_events import (
    Kept,
    KeptEvents,
    ListField,
    Places,
    having,
    named,
    number_of,
    of_source,
    whole_numbers,
)
from dotnetdiag.analysis.pool_threads import is_worker
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.tally import SumsBetween, Tally

Array: TypeAlias = "np.ndarray[Any, Any]"

START, STOP, RESTARTED, HEAP, SUSPENDED, SUSPENDING, TICK, PER_HEAP, GLOBAL = (
    1,
    2,
    3,
    4,
    8,
    9,
    10,
    204,
    205,
)
"""Ids of the events: GC/Start, GC/Stop, GC/RestartEEStop, GC/HeapStats, GC/SuspendEEStop, GC/SuspendEEStart, GC/AllocationTick,
GC/PerHeapHistory, GC/GlobalHeapHistory."""
GENERATIONS = ("gen0", "gen1", "gen2", "loh", "poh")
VALUES = "Values"
"""The list of an event: what each generation of a heap has, or how long each phase took."""
_SIZES = tuple(f"GenerationSize{place}" for place in range(len(GENERATIONS)))
_PROMOTED = tuple(f"TotalPromotedSize{place}" for place in range(len(GENERATIONS)))
_FIELDS: Mapping[int, Sequence[str]] = {
    START: ("Count", "Depth", "Reason", "Type"),
    STOP: ("Count", "Depth"),
    RESTARTED: (),
    HEAP: (*_SIZES, *_PROMOTED, "FinalizationPromotedSize", "FinalizationPromotedCount", "PinnedObjectCount", "GCHandleCount"),
    SUSPENDING: ("Reason",),
    SUSPENDED: (),
    PER_HEAP: ("HeapIndex", "CondemnReasons0", "CondemnReasons1", "CompactMechanisms", "ExpandMechanisms"),
    GLOBAL: ("NumHeaps", "GlobalMechanisms", "PauseMode", "MemoryPressure", "CondemnReasons0", "CondemnReasons1"),
}  # fmt: skip
_STOPS = (SUSPENDING, SUSPENDED, RESTARTED)
SUMMED = "HeapIndex"
"""Of GC/PerHeapHistory as it is kept: of how many heaps a row is the sum."""
PER_GENERATION = (
    "SizeBefore",
    "FreeListBefore",
    "FreeObjBefore",
    "SizeAfter",
    "FreeListAfter",
    "FreeObjAfter",
    "In",
    "PinnedSurv",
    "NonePinnedSurv",
    "NewAllocation",
)
"""Of GC/PerHeapHistory, for each generation of a heap."""
_BEFORE = PER_GENERATION.index("SizeBefore")
_SURVIVED = [PER_GENERATION.index(name) for name in ("PinnedSurv", "NonePinnedSurv")]
MOST_HEAPS = 1 << 14
"""Heaps that are told apart, of all processes together; a damaged file may have any number."""
TIMES = 8
"""Phases of GC/GlobalHeapHistory (5+), in µs: five of marking, the plan, relocation or the sweep, compaction."""


_LISTS: Mapping[int, Mapping[str, ListField]] = {
    PER_HEAP: {VALUES: ListField(names=PER_GENERATION, most=len(GENERATIONS))},
    GLOBAL: {VALUES: ListField(names=("Time",), most=TIMES)},
}


AMOUNTS = ("AllocationAmount64", "AllocationAmount")
"""Of GC/AllocationTick; before version 2 the second alone."""
COMMITTED = "GC/CommittedUsage"
"""What GC/DynamicEvent (39) tells at the begin and the end of a collection (6 and later)."""
PRIVATE = "Microsoft-Windows-DotNETRuntimePrivate"
BACKGROUND_PHASES: Mapping[str, tuple[int, int]] = {
    "initial_mark": (11, 12),
    "concurrent_mark": (12, 13),
    "final_mark": (14, 15),
    "concurrent_sweep": (16, 17),
}
"""Of a collection in the background: ids of the events of :data:`PRIVATE` that begin and end each phase, of each heap one: BGCStart,
BGC1stNonConStop, BGC1stConStop, BGC2ndNonConStart, BGC2ndNonConStop, BGC2ndConStart, BGC2ndConStop.
"""
_IN_BACKGROUND = sorted({number for both in BACKGROUND_PHASES.values() for number in both})
COMMITTED_FIELDS = (
    "TotalCommittedInUse",
    "TotalCommittedInGlobalDecommit",
    "TotalCommittedInFree",
    "TotalCommittedInGlobalFree",
    "TotalBookkeepingCommitted",
)


def is_gc(schema: EventSchema) -> bool:
    """Whether something is kept of events of a type."""
    return (
        (schema.provider == PRIVATE and schema.event_id in _IN_BACKGROUND)
        or (
            schema.provider == RUNTIME
            and (
                schema.event_id in _FIELDS
                or schema.event_id in (TICK, TRIGGERED, BEGUN, SEGMENT, FINALIZING, FINALIZED)
                or schema.name == COMMITTED
            )
        )
    ) or is_worker(schema)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Told:
    """What is kept of one process: events by their ids, those of phases in the ``background`` too, and those that tell how many bytes are
    ``committed``. ``before``: so many collections had begun that nothing is kept of any more. ``is_from_begin``: the process began while
    it was recorded.
    """

    pid: int
    kept: Mapping[int, Kept]
    background: Mapping[int, Kept]
    committed: Kept
    before: int
    is_from_begin: bool


class GcEvents:
    """Takes windows; :meth:`of` is what came, and has not been forgotten.

    Of allocation ticks, which may be millions, only their sum from one start of a collection to the next is kept, and of the heaps of one
    collection their sums.
    """

    def __init__(self) -> None:
        self._places = places = Places()
        self._kept = {
            number: KeptEvents(having(number), names, lists=_LISTS.get(number), places=places)
            for number, names in _FIELDS.items()
        }
        self.finalizers = Finalizers(places)
        self._stops = GcStops(*(self._kept[number] for number in _STOPS))
        self._background = {number: KeptEvents(of_source(PRIVATE, number), places=places) for number in _IN_BACKGROUND}
        self._ticks, self._starts = OfTypes(having(TICK)), OfTypes(having(START))
        self.induced = InducedEvents(places)
        """Who asked for collections, of those that a program asks for."""
        self._beginnings = Beginnings()
        self._committed = KeptEvents(named(COMMITTED), COMMITTED_FIELDS, places=places)
        self._before: Counter[int] = Counter()
        self._started: Counter[int] = Counter()
        self._ticked: defaultdict[int, SumsBetween] = defaultdict(SumsBetween)
        self.tally = Tally(having(TICK), AMOUNTS, having(START))
        """What ticks come to is added up where no window has them."""
        self.by_heap: dict[tuple[int, int], Array] = {}
        """By process and number of the heap: collections that tell of it, bytes that it had before them, and that survived, in all."""

    def feed(self, window: EventTable) -> None:
        """Keep what is needed of it."""
        with self._places.window(window):
            self._feed(window)

    def _feed(self, window: EventTable) -> None:
        self._beginnings.feed(window, self._starts)
        self._stops.feed(window)
        self.finalizers.feed(window)
        for number, keeper in self._kept.items():
            if number in _STOPS:
                continue
            events = keeper.events_of(window)
            if number == START:
                self._add_ticks(window, events)
            if len(events):
                kept = keeper.of(events)
                if number == PER_HEAP:
                    self._add_heaps(kept)
                keeper.add(_summed(kept) if number == PER_HEAP else kept)
        self.induced.feed(window)
        for one in self._background.values():
            one.feed(window)
        self._committed.feed(window)

    def __len__(self) -> int:
        """The collections of which something is kept."""
        return len(self._kept[START])

    def pids(self) -> list[int]:
        """The processes that these are of."""
        found: list[int] = distinct(self._kept[START].all().pid).tolist()
        return found

    def stops_elsewhere(self) -> tuple[Kept, Kept]:
        """The suspensions of processes of which no collection is kept, and restarts."""
        suspending = self._kept[SUSPENDING].all()
        others = ~is_among(suspending.pid.astype(np.int64), np.array(self.pids(), np.int64))
        return suspending.of(np.flatnonzero(others)), self._kept[RESTARTED].all()

    def of(self, pid: int) -> Told:
        """What is kept of a process."""

        def own(kept: Mapping[int, KeptEvents]) -> Mapping[int, Kept]:
            return {number: one.all().of_process(pid) for number, one in kept.items()}

        return Told(
            pid=pid,
            kept=own(self._kept),
            background=own(self._background),
            committed=self._committed.all().of_process(pid),
            before=self._before[pid],
            is_from_begin=self._beginnings.seen(pid),
        )

    def forget(self, pid: int, place: int, collections: int) -> None:
        """All that came of a process before a place, before which so many collections began."""
        for one in (*self._kept.values(), *self._background.values(), self._committed):
            one.forget(pid, place)
        self._before[pid] += collections

    def _add_heaps(self, told: Kept) -> None:
        missing = untold(told[VALUES])
        told = told.of(np.flatnonzero(~missing)) if missing.any() else told
        values = told[VALUES]
        sizes = values[:, :, _BEFORE].sum(axis=1), values[:, :, _SURVIVED].sum(axis=(1, 2))
        numbers = whole_numbers(told["HeapIndex"])
        first, which = combined([told.pid, numbers], len(told))
        sums = np.stack([np.bincount(which, weights, len(first)) for weights in (None, *sizes)], axis=1)
        for row, own in zip(first.tolist(), sums, strict=True):
            key = int(told.pid[row]), int(numbers[row])
            if key in self.by_heap or len(self.by_heap) < MOST_HEAPS:
                self.by_heap[key] = self.by_heap.get(key, 0) + own

    def _add_ticks(self, window: EventTable, starts: EventTable) -> None:
        """By the order of the events: a start and a tick may be of the same time."""
        ticks = self._ticks.of(window)
        begun_by = starts.numpy("pid").astype(np.int64)
        if len(ticks):
            pids, amounts, rows = ticks.numpy("pid"), _amounts(ticks), self._ticks.rows(window)
            begun = self._starts.rows(window)
            for pid in distinct(pids).tolist():
                own = np.flatnonzero(pids == pid)
                places, sizes = (rows, amounts) if len(own) == len(rows) else (rows[own], amounts[own])
                ends = np.append(np.searchsorted(places, begun[begun_by == pid]), len(places))  # collections are few
                sums = np.diff(np.append(0, np.cumsum(sizes))[ends], prepend=0)
                self._ticked[pid].mark(self._started[pid])
                self._ticked[pid].add(sums)
        self._started.update(begun_by.tolist())

    def ticked(self, pid: int) -> SumsBetween | None:
        """By how many collections had begun in a process: bytes that allocation ticks tell of; None where there are none. A recording whose ticks
        were added up in passing is of one process.
        """
        return next((one for one in (self._ticked[pid], self.tally.sums) if one.is_any), None)


def untold(values: Array) -> Array:
    """Of each row of lists whether it lacks something, which is NaN. Mostly none does: a sum of all tells that in a tenth of the time."""
    if not np.isnan(values.sum()):
        return np.zeros(len(values), np.bool_)
    return np.asarray(np.isnan(values).any(axis=(1, 2)))


def _amounts(ticks: EventTable) -> Array:
    """Bytes that allocation ticks tell of."""
    wide = whole_numbers(number_of(ticks.get(f"payload.{AMOUNTS[0]}"), len(ticks)))
    missing = wide < 0
    if missing.any():
        narrow = number_of(ticks.get(f"payload.{AMOUNTS[1]}"), len(ticks))
        wide = np.where(missing, whole_numbers(narrow), wide)
    return np.maximum(wide, 0)


def _summed(heaps: Kept) -> Kept:
    """One row for heaps that follow each other: those of one collection do, and the first has the number 0. :data:`SUMMED` are how many."""
    index = heaps["HeapIndex"]
    begins = np.ones(len(heaps), np.bool_)
    begins[1:] = (index[1:] <= index[:-1]) | (heaps.pid[1:] != heaps.pid[:-1]) | (heaps.tid[1:] != heaps.tid[:-1])
    first = np.flatnonzero(begins)
    summed: dict[str, Array] = {SUMMED: np.diff(first, append=len(heaps))}
    made = heaps
    if len(first) < len(heaps):  # else of one heap, as nearly always
        made = heaps.of(first)
        summed[VALUES] = np.add.reduceat(heaps[VALUES], first, axis=0)
    return Kept(made.ms, made.pid, made.tid, {**made.fields, **summed})
