"""Collections of the garbage collector: why each was, how long it stopped the program and where that went, what it found and left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis import nameless
from dotnetdiag.analysis.answers import answer_table, mask, number, texts, whole
from dotnetdiag.analysis.condemned import INDUCED
from dotnetdiag.analysis.fold import FOLDED_ROWS, LossesToTell, Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.gc_events import (
    BACKGROUND_PHASES,
    GENERATIONS,
    START,
    GcEvents,
    is_gc,
)
from dotnetdiag.analysis.gc_process import COMPACT, MARKS, PLAN, RELOCATE_OR_SWEEP, ProcessCollections
from dotnetdiag.analysis.kept_events import having, words_of
from dotnetdiag.analysis.quantiles import quantiles_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import by_stack
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text, concat
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

_PROMOTED = tuple(f"TotalPromotedSize{place}" for place in range(len(GENERATIONS)))

NO_EVENTS = "no collections: none took place, or the recording lacks their events (record with --profile gc-collect, or gc-verbose)"

NO_CALLERS = (
    "who asked for the induced collections is not told: their events have no call stacks, as in recordings of NativeAOT and with --no-stacks, "
    "nor have those of collections that a session of its own asks for"
)


@dataclass(frozen=True, kw_only=True)
class GcTotals:
    """Of all collections. ``pause_percent`` is of the time of the recording, of several processes with collections their mean;
    ``allocated_bytes`` is the sum of what came
    to gen0, large and pinned objects from one collection to the next, ``allocated_bytes_per_second`` the same by the time of the recording. None:
    not known.
    """

    count: int
    induced: int
    pause_ms: float
    max_pause_ms: float
    mean_pause_ms: float | None
    pause_percent: float | None
    pauses_ms: Mapping[str, float]
    allocated_bytes: int | None
    allocated_bytes_per_second: float | None
    promoted_bytes: int
    max_before_bytes: int | None
    heaps: int | None


@dataclass(frozen=True, kw_only=True)
class GcReport(Report):
    """``collections``: a row for each. ``by_heap``: a row for each heap of a process, of which the server's collector has several. ``by_stack``:
    who asked for induced ones, ``collections`` and the names of the ``stack``, leaf first, most first. ``induced``: the same as a profile.
    ``notes``: what the recording lacks.
    """

    KIND = "gc"
    MAIN = "collections"

    collections: Table
    by_heap: Table
    by_stack: Table
    induced: StackProfile
    totals: GcTotals


def gc(trace: Trace) -> GcReport:
    """Every collection of a recording, and what they come to."""
    # of most windows it keeps a few rows of each of ten types: of half as many windows it is a tenth quicker
    (made,) = fold(trace, GcFold(seconds=seconds_of(trace)), rows=2 * FOLDED_ROWS)
    return made


class GcFold:
    """What :func:`gc` asks, window by window. ``seconds``: how long was recorded, for the share of the pauses."""

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None) -> None:
        self._seconds = seconds
        self._events = GcEvents()
        self.tally = self._events.tally
        self._losses = LossesToTell()
        self._words: dict[str, Callable[[int], str] | None] = {"Reason": None, "Type": None}

    def wants(self, schema: EventSchema) -> bool:
        """Events that tell of collections."""
        return is_gc(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._words = {name: known or words_of(window, having(START), name) for name, known in self._words.items()}
        self._events.feed(window)

    def result(self) -> GcReport:
        """The answer."""
        by_process = [made for pid in self._pids() if (made := ProcessCollections(self._events, pid)).count]
        columns = _columns(by_process, self._words)
        columns["induced_by"], induced, notes = self._induced(by_process)
        notes = notes if by_process else (NO_EVENTS,)
        losses = self._losses.told
        return GcReport(
            collections=answer_table("collections", columns, notes, losses),
            by_heap=answer_table("heaps", self._by_heap(), notes, losses),
            by_stack=answer_table("stacks of induced collections", self._by_stack(induced, notes), notes, losses),
            induced=induced,
            totals=_totals(by_process, in_seconds(self._seconds)),
            notes=notes,
        )

    def _by_stack(self, induced: StackProfile, notes: Sequence[str]) -> dict[str, Column]:
        """Who asked for collections; nobody where names are left out."""
        is_named = not any(note in nameless.ALL for note in notes)
        return by_stack(
            induced if is_named else induced.take(np.zeros(len(induced), np.bool_), "has names"), "collections"
        )

    def _by_heap(self) -> dict[str, Column]:
        """What each heap had in the mean before a collection, and what survived on it in all."""
        found = sorted(self._events.by_heap.items())
        pids, heaps = (np.array([key[place] for key, _ in found], np.int64) for place in (0, 1))
        count, before, survived = np.array([sums for _, sums in found], np.float64).reshape(-1, 3).T
        own = np.zeros(len(found))
        for pid in distinct(pids).tolist():
            own[pids == pid] = survived[pids == pid].sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "pid": whole(pids),
                "heap": whole(heaps),
                "collections": whole(count),
                "before_bytes": whole(before / count),
                "survived_bytes": whole(survived),
                "survived_percent": number(100 * survived / own),
            }

    def _induced(self, processes: Sequence[ProcessCollections]) -> tuple[Column, StackProfile, tuple[str, ...]]:
        """Who asked for each collection, of those that a program asks for: the collection begins next; the stacks; and notes on who is not told."""
        kept = self._events.triggered.kept
        made = self._events.triggered.result(
            "Induced collections", "collections", np.where(np.isin(kept["Reason"], INDUCED), 1.0, -1.0)
        )
        is_induced = bool(np.isin(kept["Reason"], INDUCED).any())
        notes = () if not is_induced else made.unnamed if made.has_stacks else (NO_CALLERS,)
        methods: list[Array] = []
        for one in processes:
            of = np.full(one.count, len(kept))
            rows = np.flatnonzero((kept.pid == one.pid) & np.isin(kept["Reason"], INDUCED))
            at = np.searchsorted(one.starts.ms, kept.ms[rows], "left")
            of[at[at < one.count]] = rows[at < one.count]
            of[~np.isin(one.starts["Reason"], INDUCED)] = len(kept)
            methods.append(of)
        rows = np.concatenate([np.zeros(0, np.int64), *methods])
        told = rows < len(kept)
        if not told.any():
            return texts([], np.full(len(rows), -1)), made.profile, notes
        method = made.method.take(np.where(told, rows, 0))
        known = told if method.valid is None else told & method.valid
        return Coded(method.texts, method.which, mask(known)), made.profile, notes

    def _pids(self) -> list[int]:
        pids: list[int] = distinct(self._events.kept(START).pid).tolist()
        return pids


_FIGURES: Mapping[str, Callable[[ProcessCollections], Array]] = {
    "start_ms": lambda one: one.starts.ms,
    "duration_ms": lambda one: one.stop_ms - one.starts.ms,
    "pause_start_ms": lambda one: one.pause_start_ms,
    "pause_ms": lambda one: one.pause_ms,
    "suspend_ms": lambda one: one.suspend_ms,
    "mark_ms": lambda one: one.phase_ms(MARKS),
    "plan_ms": lambda one: one.phase_ms(PLAN),
    "relocate_ms": lambda one: one.where(one.phase_ms(RELOCATE_OR_SWEEP), compacting=True),
    "compact_ms": lambda one: one.where(one.phase_ms(COMPACT), compacting=True),
    "sweep_ms": lambda one: one.where(one.phase_ms(RELOCATE_OR_SWEEP), compacting=False),
} | {f"{name}_ms": lambda one, name=name: one.phases[name] for name in BACKGROUND_PHASES}
_COUNTS: Mapping[str, Callable[[ProcessCollections], Array]] = {
    "before_bytes": lambda one: one.total("SizeBefore"),
    "after_bytes": lambda one: one.total("SizeAfter", one.has_generations | (one.heap_row >= 0)),
    "promoted_bytes": lambda one: one.summed(_PROMOTED),
    "allocated_bytes": lambda one: one.allocated,
    "committed_bytes": lambda one: one.committed,
    "heaps": lambda one: one.of_all("NumHeaps"),
    "pinned_objects": lambda one: one.of_heaps("PinnedObjectCount"),
    "finalized_objects": lambda one: one.of_heaps("FinalizationPromotedCount"),
    "handles": lambda one: one.of_heaps("GCHandleCount"),
    "memory_load_percent": lambda one: one.of_all("MemoryPressure"),
} | {
    f"{generation}_{name}_bytes": lambda one, place=place, fields=fields: np.asarray(
        sum(one.generation(place, field) for field in fields)
    )
    for place, generation in enumerate(GENERATIONS)
    for name, fields in {
        "before": ("SizeBefore",),
        "after": ("SizeAfter",),
        "survived": ("PinnedSurv", "NonePinnedSurv"),
        "free": ("FreeListAfter", "FreeObjAfter"),
        "budget": ("NewAllocation",),
    }.items()
}


def _columns(
    processes: Sequence[ProcessCollections], words: Mapping[str, Callable[[int], str] | None]
) -> dict[str, Column]:
    def joined(make: Callable[[ProcessCollections], Array]) -> Array:
        return np.concatenate([make(one) for one in processes]) if processes else np.zeros(0)

    def named(field: str) -> Column:
        numbers = joined(lambda one: one.starts[field]).astype(np.int64)
        return Coded.naming(Scalar(numbers, None, Kind.I8), words[field] or str)

    columns: dict[str, Column] = {
        "pid": whole(joined(lambda one: one.starts.pid)),
        "number": whole(joined(lambda one: one.starts["Count"])),
        "generation": whole(joined(lambda one: one.starts["Depth"])),
        "reason": named("Reason"),
        "type": named("Type"),
        "condemned": concat([Text.from_pylist([]), *(one.condemned for one in processes)]),
    }
    for name, make in _FIGURES.items():
        values = joined(make)
        columns[name] = number(values)
    for name, make in _COUNTS.items():
        columns[name] = whole(joined(make))
    return columns


def _totals(processes: Sequence[ProcessCollections], seconds: float | None) -> GcTotals:
    def joined(make: Callable[[ProcessCollections], Array]) -> Array:
        made = np.concatenate([make(one) for one in processes]) if processes else np.zeros(0)
        return made[~np.isnan(made.astype(np.float64))]

    pauses = joined(lambda one: one.pause_ms)
    allocated = joined(_COUNTS["allocated_bytes"])
    heaps, before = joined(_COUNTS["heaps"]), joined(_COUNTS["before_bytes"])
    return GcTotals(
        count=sum(one.count for one in processes),
        induced=int(sum(np.isin(one.starts["Reason"], INDUCED).sum() for one in processes)),
        pause_ms=float(pauses.sum()),
        max_pause_ms=float(pauses.max(initial=0.0)),
        mean_pause_ms=float(pauses.mean()) if len(pauses) else None,
        pause_percent=float(pauses.sum()) / max(1, len(processes)) / seconds / 10 if seconds else None,
        pauses_ms=quantiles_of(pauses),
        allocated_bytes=int(allocated.sum()) if len(allocated) else None,
        allocated_bytes_per_second=float(allocated.sum()) / seconds if len(allocated) and seconds else None,
        promoted_bytes=int(joined(_COUNTS["promoted_bytes"]).sum()),
        max_before_bytes=int(before.max()) if len(before) else None,
        heaps=int(heaps.max()) if len(heaps) else None,
    )
