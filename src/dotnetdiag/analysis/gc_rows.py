"""A row for each collection: what is told of it, made once nothing can be told of it any more, and spilled.

Of a collection a kilobyte of events is kept, and half of that is told: of a program that makes large objects these were 140,000 in half a minute.
When there are :data:`MOST_KEPT` their events are looked at, rows are made of those that are over, and what is kept of these goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.condemned import INDUCED
from dotnetdiag.analysis.gc_events import (
    BACKGROUND_PHASES,
    GENERATIONS,
    GcEvents,
    Told,
)
from dotnetdiag.analysis.gc_process import COMPACT, MARKS, NEVER, PLAN, RELOCATE_OR_SWEEP, TIDS, ProcessCollections
from dotnetdiag.analysis.kept_events import NONE, Texts
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.freed import give_back_freed
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.spilled_columns import SpilledColumns
from dotnetdiag.trace.tally import SumsBetween

Array: TypeAlias = "np.ndarray[Any, Any]"
Words: TypeAlias = Mapping[str, Callable[[int], str] | None]
"""By field of GC/Start what its numbers mean."""

MOST_KEPT = 1 << 13
"""Collections whose events are kept; half as many once there are rows in a file: 8 of 130 MB of a report on a million, for 3 % of its time."""
_BEHIND = 4
"""So many more have to have begun since a collection, and since one in the background ended: some events of it come when it is over."""
_PROMOTED = tuple(f"TotalPromotedSize{place}" for place in range(len(GENERATIONS)))

FIGURES: Mapping[str, Callable[[ProcessCollections], Array]] = {
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
    "rest_ms": ProcessCollections.rest_ms,
} | {f"{name}_ms": lambda one, name=name: one.phases[name] for name in BACKGROUND_PHASES}
ALLOCATED = "allocated_bytes"
CERTAIN = ("pid", "number", "generation", "reason", "type", "asked", "place", "start_ms", "duration_ms")
"""Of the events that begin and end it, which have its number."""
PAUSES = ("pause_start_ms", "pause_ms", "suspend_ms", "rest_ms")
COUNTS: Mapping[str, Callable[[ProcessCollections], Array]] = {
    "before_bytes": lambda one: one.total("SizeBefore"),
    "after_bytes": lambda one: one.total("SizeAfter", one.knows_sizes),
    "promoted_bytes": lambda one: one.summed(_PROMOTED),
    ALLOCATED: lambda one: one.allocated,
    "committed_bytes": lambda one: one.committed,
    "heaps": lambda one: one.of_all("NumHeaps"),
    "pinned_objects": lambda one: one.of_heaps("PinnedObjectCount"),
    "finalized_objects": lambda one: one.of_heaps("FinalizationPromotedCount"),
    "handles": lambda one: one.of_heaps("GCHandleCount"),
    "memory_load_percent": lambda one: one.of_all("MemoryPressure"),
} | {
    f"{generation}_{name}_bytes": lambda one, place=place, fields=fields: one.generation(place, *fields)
    for place, generation in enumerate(GENERATIONS)
    for name, fields in {
        "before": ("SizeBefore",),
        "after": ("SizeAfter",),
        "survived": ("PinnedSurv", "NonePinnedSurv"),
        "free": ("FreeListAfter", "FreeObjAfter"),
        "budget": ("NewAllocation",),
    }.items()
}
WORDS = ("reason", "type", "condemned")
"""Columns of texts, by their numbers in :attr:`CollectionRows.texts`."""
_FIELDS = {"reason": "Reason", "type": "Type"}


class CollectionRows:
    """Rows of the collections of several processes. The columns are :data:`FIGURES` and :data:`COUNTS`, ``pid``, ``number``, ``generation``, those of
    :data:`WORDS`, ``asked``: which of the events of who asks for collections, -1 for none, and ``place``: of those whose ``allocated_bytes`` the
    ticks tell, where there are any, how many had begun before it; else -1. ``pause_tid``, ``stopped_ms`` and ``went_on_ms``: the
    thread that stopped the program, and from when to when; those of ``TIDS``, ``since_ms`` and ``until_ms`` the same of all that tells of each.
    """

    def __init__(self) -> None:
        self._of: dict[int, SpilledColumns] = {}
        self.texts = {name: Texts() for name in WORDS}
        self.other_pauses: dict[int, list[Array]] = {}
        """Of processes the pauses that are in no row, as :data:`~.gc_process.OTHER_PAUSE`."""
        self.induced = 0
        """How many somebody asked for."""
        self._enough = MOST_KEPT
        self._asked: dict[int, int] = {}

    def settle(self, events: GcEvents, words: Words) -> None:
        """Make rows of collections that are over, when events of many are kept."""
        if len(events) < self._enough:
            return
        for pid in events.pids():
            told = events.of(pid)
            made = ProcessCollections(told)
            last = _last_over(made)
            if last is not None:
                self._add(made, told, events, words, last + 1)
                self._add_other_pauses(made, int(made.begin_place[last]))
                events.forget(pid, int(made.begin_place[last]), last)
        is_spilled = not all(rows.is_held for rows in self._of.values())
        self._enough = max(MOST_KEPT // 2 if is_spilled else MOST_KEPT, 2 * len(events))
        if is_spilled:
            give_back_freed()  # what went lay between what stays

    def finish(self, events: GcEvents, words: Words) -> list[tuple[int, SpilledColumns]]:
        """Rows of all others too: by process."""
        for pid in events.pids():
            told = events.of(pid)
            made = ProcessCollections(told)
            self._add(made, told, events, words, made.count)
            self._add_other_pauses(made, NEVER)
        return sorted(self._of.items())

    def _add(self, made: ProcessCollections, told: Told, events: GcEvents, words: Words, last: int) -> None:
        """Rows of those before ``last``; the first has a row already where others were before it."""
        first = 1 if told.before else 0
        if last <= first:
            return
        some = slice(first, last)
        condemned, which = made.condemned
        numbers = {name: made.starts[field].astype(np.int64)[some] for name, field in _FIELDS.items()}
        values: dict[str, Array] = {
            "pid": made.starts.pid[some].astype(np.int64),
            "number": made.starts["Count"][some],
            "generation": made.starts["Depth"][some],
            **{name: self._numbers(name, words[_FIELDS[name]] or str, own) for name, own in numbers.items()},
            "condemned": np.append(self.texts["condemned"].each(condemned), np.int32(-1))[which[some]],
            "asked": self._asked_by(made, events, last)[some],
            "pause_tid": made.pause_tid[some],
            "is_background": made.is_background[some].astype(np.int64),
            **{name: tids[some] for name, tids in made.tids.items()},
            **{name: getattr(made, name)[some] for name in ("stopped_ms", "went_on_ms", "since_ms", "until_ms")},
            "place": np.where(made.by_ticks, told.before + np.arange(made.count), -1)[some],
        }
        values |= {name: make(made)[some] for name, make in {**FIGURES, **COUNTS}.items()}
        self.induced += int(np.isin(made.starts["Reason"][some], INDUCED).sum())
        self._of.setdefault(made.pid, SpilledColumns()).append(values)

    def _add_other_pauses(self, made: ProcessCollections, before: int) -> None:
        """Those that began before a place."""
        found = made.other_pauses[made.other_pauses["place"] < before]
        if len(found):
            self.other_pauses.setdefault(made.pid, []).append(found)

    def _numbers(self, name: str, word: Callable[[int], str], values: Array) -> Array:
        kinds, which = ranked(values)
        numbers: Array = self.texts[name].each([word(one) for one in kinds.tolist()])[which]
        # events of version 0 do not tell
        return numbers if kinds[:1] >= 0 or not len(kinds) else np.where(values == NONE, np.int32(-1), numbers)

    def _asked_by(self, made: ProcessCollections, events: GcEvents, last: int) -> Array:
        """Who asked for each collection, of those that a program asks for: the collection begins next. Who asked for those before ``last`` is looked
        at once.
        """
        kept, since = events.induced.kept, self._asked.get(made.pid, 0)
        rows = since + np.flatnonzero(kept.pid[since:] == made.pid)
        at = np.searchsorted(made.starts.place, kept.place[rows])
        over = rows[at < last]
        if len(over):
            self._asked[made.pid] = int(over[-1]) + 1
        found = np.full(made.count, -1)
        found[at[at < made.count]] = rows[at < made.count]
        found[~np.isin(made.starts["Reason"], INDUCED)] = -1
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ProcessRows:
    """The collections of one process, what its allocation ticks tell, and when events were lost. ``is_part``: what was recorded of it begins later
    than its recording did: its first collection here is not the first, whatever of its begin is kept for the names. ``tells_losses``: where it does
    not, what came behind others of which there are no events is not known, for what ticks tell may be lost with these.
    """

    pid: int
    rows: SpilledColumns
    ticks: SumsBetween | None
    lost: LostBetween | None = None
    is_part: bool = False
    tells_losses: bool = True
    _lost_rows: dict[tuple[int, int], Array] = field(default_factory=dict)
    """Of the rows that were asked for last: each of fifty columns asks."""

    def column(self, name: str, first: int, last: int) -> Array:
        """Of some rows; NaN where that is not known, or may be of another collection, as events were lost."""
        if name == ALLOCATED:
            return self.allocated(first, last)
        values = self.rows.column(name, first, last)
        if not self.lost or name in CERTAIN:
            return values
        is_lost = self._lose_pauses(first, last) if name in PAUSES else self._lose(first, last)
        return np.where(is_lost, -1 if name in WORDS else np.nan, values)

    def _lose_pauses(self, first: int, last: int) -> Array:
        """Of which rows the pause may end with that of another, or lack one of a collection in the background."""
        assert self.lost is not None
        tid, begin, end = (self.rows.column(one, first, last) for one in ("pause_tid", "stopped_ms", "went_on_ms"))
        is_lost = self.lost.of(np.full(len(tid), self.pid), tid, begin, end)
        others = self.lost.of_process(self.pid).overlap(begin, end)
        return is_lost | (others & (self.rows.column("is_background", first, last) > 0))

    def _lose(self, first: int, last: int) -> Array:
        """Of which rows events that tell of them may be lost, or be those of another."""
        assert self.lost is not None
        known = self._lost_rows.get((first, last))
        if known is not None:
            return known
        pids, times = (
            np.full(last - first, self.pid),
            [self.rows.column(one, first, last) for one in ("since_ms", "until_ms")],
        )
        made = np.zeros(last - first, np.bool_)
        for name in (*TIDS, "pause_tid"):
            made |= self.lost.overlap(pids, self.rows.column(name, first, last), *times)
        others = self.lost.of_process(self.pid).overlap(*times)
        self._lost_rows.clear()
        self._lost_rows[first, last] = made = made | (others & (self.rows.column("is_background", first, last) > 0))
        return made

    def allocated(self, first: int, last: int) -> Array:
        """``allocated_bytes`` of some rows; NaN where that is not known, as where ticks tell it of which some were lost, or a collection."""
        values = self.rows.column(ALLOCATED, first, last)
        if self.lost:
            begin = max(first - 1, 0)
            is_lost = self._lose(begin, last)  # what the one before left, too
            before = is_lost[:-1] if first else np.append(False, is_lost[:-1])
            values = np.where(is_lost[first - begin :] | before, np.nan, values)
        place = self.rows.column("place", first, last)
        if self.is_part and not first and len(place):
            values, place = np.append(np.nan, values[1:]), np.append(0, place[1:])
        if self.ticks is None:
            return values
        own = np.flatnonzero(place >= 0)
        if len(own):
            values = values.copy()
            values[own] = self.ticks.at(place[own])
            if self.lost:
                start = self.rows.column("start_ms", max(first - 1, 0), last)
                start = start if first else np.append(-np.inf, start)
                values[own[self.lost.of_process(self.pid).overlap(start[own], start[own + 1])]] = np.nan
            if not self.tells_losses:
                number = self.rows.column("number", max(first - 1, 0), last)
                step = np.diff(number) if first else np.append(1, np.diff(number))
                values[step != 1] = np.nan
        return values


def _last_over(made: ProcessCollections) -> int | None:
    """The last collection of which, and of all before it, nothing is told any more, and which can be the first whose events are kept: what is before
    its begin tells nothing of it and of those behind it, but for what it left, which is told anew of it then. None where there is none, or it is
    among the first.
    """
    count = made.count
    if count < 4 * _BEHIND:
        return None
    over = np.maximum.accumulate(made.end_place)
    background = np.maximum.accumulate(np.where(made.is_background, over, -1))
    rows = np.arange(_BEHIND, count - _BEHIND)
    can = ~made.is_background[rows] & (over[rows] < NEVER) & (made.begin_place[rows] > over[rows - 1])
    can &= made.starts.place[rows - _BEHIND] > background[rows]
    found = rows[can]
    return int(found[-1]) if len(found) and found[-1] >= count // 4 else None
