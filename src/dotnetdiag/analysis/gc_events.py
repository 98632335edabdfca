"""What is kept of the events that tell of collections: numbers in columns, some hundred bytes for each collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import ListOf, Struct, numbers_of
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

START, STOP, RESTARTED, HEAP, SUSPENDED, SUSPENDING, TICK, PER_HEAP, GLOBAL = 1, 2, 3, 4, 8, 9, 10, 204, 205
"""Ids of the events: GC/Start, GC/Stop, GC/RestartEEStop, GC/HeapStats, GC/SuspendEEStop, GC/SuspendEEStart, GC/AllocationTick,
GC/PerHeapHistory, GC/GlobalHeapHistory."""
GENERATIONS = ("gen0", "gen1", "gen2", "loh", "poh")
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
TIMES = 8
"""Phases of GC/GlobalHeapHistory (5+), in µs: five of marking, the plan, relocation or the sweep, compaction."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Events of one type in time order. ``fields`` are as numbers, -1 where a version of the event has none; ``more`` are the values of each
    generation, or the times of the phases.
    """

    ms: Array
    pid: Array
    tid: Array
    fields: Mapping[str, Array]
    more: Array

    def __len__(self) -> int:
        return len(self.ms)

    def of(self, rows: Array) -> Kept:
        """Some of them."""
        return Kept(
            self.ms[rows],
            self.pid[rows],
            self.tid[rows],
            {name: values[rows] for name, values in self.fields.items()},
            self.more[rows],
        )


def is_gc(schema: EventSchema) -> bool:
    """Whether something is kept of events of a type."""
    return schema.provider == RUNTIME and (schema.event_id in _FIELDS or schema.event_id == TICK)


class GcEvents:
    """Takes windows; :meth:`kept` is what came.

    Of allocation ticks, which may be millions, only their sum from one start of a collection to the next is kept, and of the heaps of one
    collection their sums.
    """

    def __init__(self) -> None:
        self._types = {number: OfTypes(_having(number)) for number in _FIELDS}
        self._ticks = OfTypes(_having(TICK))
        self._parts: dict[int, list[Kept]] = {number: [] for number in _FIELDS}
        self._started: Counter[int] = Counter()
        self.ticked: Counter[tuple[int, int]] = Counter()
        """By process and by how many collections had begun there: bytes that allocation ticks tell of."""

    def feed(self, window: EventTable) -> None:
        """Keep what is needed of it."""
        found: dict[int, Kept] = {}
        for number, of_type in self._types.items():
            events = of_type.of(window)
            if len(events):
                found[number] = _kept(number, events)
                self._parts[number].append(found[number])
        self._add_ticks(self._ticks.of(window), found.get(START))

    def _add_ticks(self, ticks: EventTable, starts: Kept | None) -> None:
        if len(ticks):
            ms, pids = ticks.numpy("ms"), ticks.numpy("pid").astype(np.int64)
            wide, narrow = (
                _numbers(ticks.get(f"payload.{name}"), len(ticks))
                for name in ("AllocationAmount64", "AllocationAmount")
            )
            amounts = np.where(wide >= 0, wide, narrow)
            for pid in np.unique(pids).tolist():
                own = pids == pid
                begun = np.zeros(0) if starts is None else starts.ms[starts.pid == pid]
                sums = np.bincount(np.searchsorted(begun, ms[own]), amounts[own])
                for place in np.flatnonzero(sums).tolist():
                    self.ticked[pid, self._started[pid] + place] += int(sums[place])
        if starts is not None:
            self._started.update(starts.pid.tolist())

    def kept(self, number: int) -> Kept:
        """All events with an id."""
        parts = self._parts[number] or [_nothing(number)]
        return Kept(
            np.concatenate([part.ms for part in parts]),
            np.concatenate([part.pid for part in parts]),
            np.concatenate([part.tid for part in parts]),
            {name: np.concatenate([part.fields[name] for part in parts]) for name in _FIELDS[number]},
            np.concatenate([part.more for part in parts]),
        )


def _having(number: int) -> Any:
    return lambda schema: schema.provider == RUNTIME and schema.event_id == number


def _kept(number: int, events: EventTable) -> Kept:
    count = len(events)
    more = np.zeros((count, 0, 0))
    if number == PER_HEAP:
        more = _listed(events, PER_GENERATION, len(GENERATIONS))
    elif number == GLOBAL:
        more = _listed(events, ("Time",), TIMES)
    made = Kept(
        events.numpy("ms"),
        events.numpy("pid").astype(np.int64),
        events.numpy("tid").astype(np.int64),
        {name: _numbers(events.get(f"payload.{name}"), count) for name in _FIELDS[number]},
        more,
    )
    return _summed(made) if number == PER_HEAP else made


def _summed(heaps: Kept) -> Kept:
    """One row for heaps that follow each other: those of one collection do, and the first has the number 0."""
    index = heaps.fields["HeapIndex"]
    begins = np.ones(len(heaps), np.bool_)
    begins[1:] = (index[1:] <= index[:-1]) | (heaps.pid[1:] != heaps.pid[:-1]) | (heaps.tid[1:] != heaps.tid[:-1])
    first = np.flatnonzero(begins)
    made = heaps.of(first)
    return Kept(made.ms, made.pid, made.tid, made.fields, np.add.reduceat(heaps.more, first, axis=0))


def _nothing(number: int) -> Kept:
    shape = {PER_HEAP: (0, len(GENERATIONS), len(PER_GENERATION)), GLOBAL: (0, TIMES, 1)}.get(number, (0, 0, 0))
    none = np.zeros(0, np.int64)
    return Kept(np.zeros(0), none, none, dict.fromkeys(_FIELDS[number], none), np.zeros(shape))


def _numbers(column: Column | None, count: int) -> Array:
    plain = None if column is None else numbers_of(column)
    if not isinstance(plain, Scalar):
        return np.full(count, -1, np.int64)
    values = plain.values.astype(np.int64)
    return values if plain.valid is None else np.where(plain.valid, values, -1)


def _listed(events: EventTable, names: Sequence[str], most: int) -> Array:
    """The structs of a list, as rows of ``most`` places: what is missing is 0, and NaN where a version of the event has no list."""
    shape = len(events), most, len(names)
    column = events.get("payload.Values")
    if not isinstance(column, ListOf) or not isinstance(column.child, Struct):
        return np.full(shape, np.nan)
    made = np.zeros(shape)
    if column.valid is not None:
        made[~column.valid] = np.nan
    lengths = np.diff(column.offsets)
    rows = np.repeat(np.arange(len(events)), lengths)
    places = np.arange(len(rows)) - np.repeat(column.offsets[:-1] - column.offsets[0], lengths)
    fit = places < most
    for at, name in enumerate(names):
        field = column.child.fields.get(name)
        if isinstance(field, Scalar):
            values = field.values[column.offsets[0] : column.offsets[-1]]
            made[rows[fit], places[fit], at] = values[fit]
    return made
