"""The collections of one process: which events belong to which, and what these tell.

A pause is from the beginning of a suspension for the collector to the end of the restart behind it. A collection has the pause in which it
begins; one in the background has also those behind it that the collector asks for by another reason (*preparation*), until it ends. Where
several begin in one pause (8 to 10: a young one right behind one in the background) each has it from its own begin to that of the next: no
time counts twice.

Which event is of which collection is told by their places (:class:`~.kept_events.Places`), never by their times. What would have lasted less than
nothing, for a file goes back in time within it, is not known.

Sizes before are those that the heaps tell of themselves (GC/PerHeapHistory), those after of GC/HeapStats: the heaps of 3.1 tell nothing of
generations older than the collected. Where a recording has no heaps' history (.NET Core before 3) sizes before are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.condemned import INDUCED, condemned
from dotnetdiag.analysis.gc_events import (
    BACKGROUND_PHASES,
    COMMITTED_FIELDS,
    GENERATIONS,
    GLOBAL,
    HEAP,
    PER_GENERATION,
    PER_HEAP,
    RESTARTED,
    START,
    STOP,
    SUMMED,
    SUSPENDED,
    SUSPENDING,
    VALUES,
    Told,
    untold,
)
from dotnetdiag.analysis.gc_pauses import PREPARATION, are_for_gc, are_last_of_threads, next_in_order, next_of_same
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.pairs import Picked, picked
from dotnetdiag.trace.distinct import distinct, ranked

Array: TypeAlias = "np.ndarray[Any, Any]"

_YOUNG = GENERATIONS[:2]
_BACKGROUND, _FOREGROUND = 1, 2
"""Types of collections: one of the latter begins while one of the former is under way."""
_SIZES = tuple(f"GenerationSize{place}" for place in range(len(GENERATIONS)))
MARKS, PLAN, RELOCATE_OR_SWEEP, COMPACT = slice(0, 5), 5, 6, 7
"""Phases of GC/GlobalHeapHistory."""
_COMPACTING = 1 << 1
"""Of GlobalMechanisms."""
_BELOW_NOTHING = 1 << 31
"""Of a time in µs of 32 bits: half an hour, which no phase takes."""
_US = 1000.0
TIDS = ("start_tid", "stop_tid", "heap_tid")
OTHER_PAUSE = np.dtype([("place", "i8"), ("tid", "i8"), ("begin", "f8"), ("end", "f8")])
"""The place of a suspension, its thread, and from when to when it was, in ms."""
NEVER = int(np.iinfo(np.int64).max)
"""The place of a stop that has not come."""


class ProcessCollections:
    """The collections of one process, in the order of their starts."""

    def __init__(self, told: Told) -> None:
        self.pid = told.pid
        self.starts = told.kept[START]
        self.count = len(self.starts)
        stops, heaps = told.kept[STOP], told.kept[HEAP]
        self.is_background = self.starts["Type"] == _BACKGROUND
        self.stop_row = _stops(self.starts, stops)
        """Of each, the row of its stop; -1: none came."""
        self.stop_ms = picked(stops.ms, self.stop_row, np.nan)
        self.stop_ms[self.stop_ms < self.starts.ms] = np.nan
        self._stop_place = self._ended(stops)
        self._pauses(told.kept[SUSPENDING], told.kept[SUSPENDED], told.kept[RESTARTED])
        started = np.full(len(stops), -1)
        started[self.stop_row[self.stop_row >= 0]] = np.flatnonzero(self.stop_row >= 0)
        of = _latest(stops.place, heaps.place)
        # one of a collection that has begun since is not of that stop: its own was lost
        since = picked(self.starts.place, _latest(self.starts.place, heaps.place), -1) > picked(stops.place, of, NEVER)
        self._of_heaps = Picked(_rows(self.count, started, np.where(since, -1, of)))
        self.heaps = heaps
        tids = [
            self.starts.tid.astype(np.int64),
            picked(stops.tid.astype(np.int64), self.stop_row, -1),
            self._of_heaps.of(heaps.tid.astype(np.int64), -1),
        ]
        self.tids = dict(zip(TIDS, tids, strict=True))
        """Of which threads the events are that tell of each; -1 for none."""
        self.since_ms = np.fmin(self.stopped_ms, self.starts.ms)
        self.until_ms = np.fmax(np.fmax(self.went_on_ms, self.stop_ms), self._of_heaps.of(heaps.ms, np.nan))
        """From when to when these are."""
        self._history(stops, started, told.kept[PER_HEAP], told.kept[GLOBAL])
        self._allocated(is_from_begin=told.is_from_begin)
        self._committed(told.committed)
        self.phases = {name: self._background_ms(told, *both) for name, both in BACKGROUND_PHASES.items()}
        """Of those in the background, in ms; NaN where the recording does not tell."""

    def _background_ms(self, told: Told, begin: int, end: int) -> Array:
        """From the first event of one id within each to the last of another: each heap writes its own."""
        rows = np.flatnonzero(self.is_background)
        made = np.full(self.count, np.nan)
        begins, ends = told.background[begin], told.background[end]
        first, last = np.full(len(rows), len(begins)), np.full(len(rows), -1)
        for events, bound, wider in ((begins, first, np.minimum), (ends, last, np.maximum)):
            of = _latest(self.starts.place[rows], events.place)
            fits = np.flatnonzero(of >= 0)
            fits = fits[events.place[fits] < self._stop_place[rows[of[fits]]]]
            wider.at(bound, of[fits], fits)
        both = np.flatnonzero((first < len(begins)) & (last >= 0))
        made[rows[both]] = _lengths(begins.ms[first[both]], ends.ms[last[both]])
        return made

    def _pauses(self, suspensions: Kept, suspended: Kept, restarted: Kept) -> None:
        # of the same thread: others (a sampler) stop the program too, and end that while this one waits for its turn
        own = np.flatnonzero(are_for_gc(suspensions))
        end_row, stopped_row = next_in_order(restarted, suspensions)[own], next_in_order(suspended, suspensions)[own]
        may_end = (end_row < 0) & are_last_of_threads(suspensions)[own]
        suspensions = suspensions.of(own)
        begin, end = suspensions.ms, picked(restarted.ms, end_row, np.nan)
        end_place = picked(restarted.place, end_row, -1)
        stopped_row[picked(suspended.place, stopped_row, NEVER) > end_place] = -1
        suspend_ms = _lengths(begin, picked(suspended.ms, stopped_row, np.nan))
        starts = self.starts.ms
        since = _latest(suspensions.place, self.starts.place)
        at = np.where(picked(end_place, since, -1) > self.starts.place, since, -1)
        follows, precedes = np.zeros(self.count, np.bool_), np.zeros(self.count, np.bool_)
        follows[1:] = (at[1:] == at[:-1]) & (at[1:] >= 0)
        precedes[:-1] = follows[1:]
        self.shares_pause = follows | precedes
        """Whether others begin in its pause: what of the phases of one in the background lies in whose part is not told."""
        self.pause_start_ms = np.where(follows, starts, picked(begin, at, np.nan))
        until = np.where(precedes, np.append(starts[1:], np.nan), picked(end, at, np.nan))
        self.pause_ms = _lengths(self.pause_start_ms, until)
        self.suspend_ms = np.where(follows, 0, picked(suspend_ms, at, np.nan))
        alone = np.where(follows, -1, at)
        self.begin_place = np.where(alone >= 0, picked(suspensions.place, alone, -1), self.starts.place)
        """Of each where its events begin: with its pause, else with itself."""
        self.pause_tid = picked(suspensions.tid.astype(np.int64), at, -1)
        self.stopped_ms, self.went_on_ms = picked(begin, at, np.nan), picked(end, at, np.nan)
        """From when to when that whole pause was, and of which thread: what that has lost meanwhile may have been the end of it, and the next."""
        pause_over = np.where(picked(may_end, since, 0), NEVER, picked(end_place, at, -1))
        self.end_place = np.maximum(pause_over, self._stop_place)
        """Of each where it and its first pause are over; :data:`NEVER` where that may still come: what was lost will not."""
        background = np.flatnonzero(self.is_background)
        self.other_pauses = np.zeros(0, OTHER_PAUSE)
        """Those that are in no collection's ``pause_ms``."""
        loose = end_row >= 0
        loose[at[at >= 0]] = False
        if not len(background):
            self._add_other_pauses(np.flatnonzero(loose), suspensions, begin[loose], end[loose])
            return
        endless = background[self.stop_row[background] < 0]  # more pauses of it may have come
        self._add_other_pauses(at[endless], suspensions, self.pause_start_ms[endless], until[endless])
        self.pause_ms[endless] = self.suspend_ms[endless] = np.nan
        self.went_on_ms[background] = np.fmax(self.went_on_ms, self.stop_ms)[background]
        # pauses behind the first: those in which no other collection begins
        rows = np.flatnonzero(loose & (suspensions["Reason"] == PREPARATION))
        of = _latest(self.starts.place[background], suspensions.place[rows])
        owner = background[np.maximum(of, 0)]
        fits = (of >= 0) & (suspensions.place[rows] < self._stop_place[owner])
        np.add.at(self.pause_ms, owner[fits], _lengths(begin, end)[rows[fits]])
        np.add.at(self.suspend_ms, owner[fits], np.nan_to_num(suspend_ms[rows[fits]]))
        loose[rows[fits & (self.stop_row[owner] >= 0)]] = False
        self._add_other_pauses(np.flatnonzero(loose), suspensions, begin[loose], end[loose])

    def _add_other_pauses(self, rows: Array, suspensions: Kept, begin: Array, end: Array) -> None:
        """Some of these suspensions, each from when to when; none where the end is not known."""
        known = (rows >= 0) & (end >= begin)
        made = np.zeros(int(known.sum()), OTHER_PAUSE)
        made["place"], made["tid"] = suspensions.place[rows[known]], suspensions.tid[rows[known]]
        made["begin"], made["end"] = begin[known], end[known]
        self.other_pauses = np.append(self.other_pauses, made)

    def _ended(self, stops: Kept) -> Array:
        """Of each the place of its stop; of one whose stop was lost that of the next of its kind, and :data:`NEVER` where it may still come. One
        in the background is over when another of gen2 begins, which waits for it.
        """
        made = picked(stops.place, self.stop_row, NEVER)
        for kind in (False, True):
            rows = np.flatnonzero(self.is_background == kind)
            lost = np.flatnonzero(self.stop_row[rows[:-1]] < 0)
            made[rows[lost]] = self.starts.place[rows[lost + 1]]
        full = np.flatnonzero(self.starts["Depth"] == len(_YOUNG))
        lost = np.flatnonzero(self.is_background & (self.stop_row < 0))
        following = np.searchsorted(full, lost, "right")
        lost, following = lost[following < len(full)], following[following < len(full)]
        made[lost] = self.starts.place[full[following]]
        return made

    def _history(self, stops: Kept, started: Array, per_heap: Kept, overall: Kept) -> None:
        generations, values = len(GENERATIONS), len(PER_GENERATION)
        self.generations = np.zeros((values, self.count, generations)).transpose(1, 2, 0)  # a field's side by side
        rows = _owners(self.starts, self.is_background, stops, started, per_heap)
        known = (rows >= 0) & ~untold(per_heap[VALUES])
        own, told = rows[known], per_heap[VALUES] if known.all() else per_heap[VALUES][known]
        if len(own) == self.count and (own == np.arange(self.count)).all():  # as nearly always: one row for each
            self.generations = told  # what is written to it below is the same each time: a copy is 10 MB for 20,000
        elif (own[1:] > own[:-1]).all():
            self.generations[own] = told
        else:
            np.add.at(self.generations, own, told)
        overall_row = np.full(self.count, -1)
        of = _owners(self.starts, self.is_background, stops, started, overall)
        overall_row[of[of >= 0]] = np.flatnonzero(of >= 0)
        self.overall, self._of_overall = overall, Picked(overall_row)
        mechanisms = self.of_all("GlobalMechanisms")
        self._tells_how = ~np.isnan(mechanisms)
        self._is_compacting = (np.where(self._tells_how, mechanisms, 0).astype(np.int64) & _COMPACTING) > 0
        times = overall[VALUES][:, :, 0]
        self._phases_us = np.where(times >= _BELOW_NOTHING, np.nan, times)
        heaps = np.bincount(own, np.maximum(per_heap[SUMMED][known], 1), self.count)
        # where some of several heaps are not told of, nothing is of all
        self.has_generations = (heaps > 0) & ~(heaps < self.of_all("NumHeaps"))
        # what came of one that has not ended is not what it found and left
        self.has_generations &= ~self.is_background | (self.stop_row >= 0)
        per_heap_row = np.full(self.count, -1)
        per_heap_row[rows[rows >= 0][::-1]] = np.flatnonzero(rows >= 0)[::-1]
        self.per_heap, self._of_per_heap = per_heap, Picked(per_heap_row)
        after = PER_GENERATION.index("SizeAfter")
        self._are_told: list[Array] = []
        """Of each generation whether anything is told of it: .NET Core 3.1 has no heap of pinned objects."""
        for place, name in enumerate(_SIZES):
            told = self.of_heaps(name)
            is_known = ~np.isnan(told)
            np.copyto(self.generations[:, place, after], told, where=is_known)
            self._are_told.append(self.has_generations & (is_known | ~self._of_heaps.is_there))

    def _allocated(self, *, is_from_begin: bool) -> None:
        """What came to gen0, large and pinned objects since the collection before; of the first of a process that began while it was recorded all
        that is there. Of the first of one that began earlier sizes do not tell it, for what is there may be hours old, nor of one in the background,
        and of those behind it up to the first that begins when it has ended they tell what is left, for it frees large objects meanwhile: there it is
        what allocation ticks tell, where there are any; of the first since the recording began. So it is of one that has others between it and the
        one before of which there are no events, as of NoGC regions, and while one in the background is under way of which there are none.
        """
        places = [GENERATIONS.index(name) for name in ("gen0", "loh", "poh")]
        before, after = self._objects("Before")[:, places], self._objects("After")[:, places]
        grown = np.full_like(before, np.nan)
        # one in the background neither collects what is young nor tells how it was when it began
        own = np.flatnonzero(~self.is_background)
        grown[own[1:]] = np.maximum(before[own[1:]] - after[own[:-1]], 0)
        number = self.starts["Count"]
        follows = (number[own[1:]] - number[own[:-1]] == own[1:] - own[:-1]) & self.has_generations[own[:-1]]
        grown[own[1:][~follows]] = np.nan  # others were between them, and are lost, or what the one before left
        self.allocated = np.where(self.has_generations & ~self.is_background, grown.sum(axis=1), np.nan)
        self.by_ticks = self.is_background.copy()
        """Of which the ticks tell it, where there are any."""
        rows = np.flatnonzero(self.is_background)
        self.last_by_ticks = np.searchsorted(self.starts.place, self._stop_place[rows])
        """Of each in the background the last such behind it; as many as there are where that has not come."""
        for row, last in zip(rows.tolist(), self.last_by_ticks.tolist(), strict=True):
            self.by_ticks[row : last + 1] = True
        foreground = self.starts["Type"] == _FOREGROUND
        self.by_ticks |= foreground
        self.by_ticks[1:] |= foreground[:-1] | (np.diff(number) > 1)
        self.by_ticks[own[:1]] = True  # none of those before it, if any is there, tells what it left
        self.by_ticks[1:] &= np.diff(number) > 0
        is_first = (number[:1] == 1) & is_from_begin & ~self.is_background[:1]
        self.allocated[:1] = np.where(is_first & self.has_generations[:1], before[:1].sum(axis=1), np.nan)
        # of one that began while it was recorded those before it were lost
        self.by_ticks[:1] = ~(is_first & self.has_generations[:1]) & ~(is_from_begin & (number[:1] > 1))
        self.allocated[self.allocated < 0] = np.nan  # of sizes that are beyond belief

    def _committed(self, told: Kept) -> None:
        """What was committed at the end of each, as the last that was told until then. Of one in the background that is told at its begin alone (seen
        on .NET 10), and it may have more than that at its end.
        """
        total = np.zeros(len(told))
        for name in COMMITTED_FIELDS:
            total += np.maximum(told[name], 0)
        at = _latest(told.place, self._stop_place)
        is_own = (picked(told.place, at, -1) > self.starts.place) & (self.stop_row >= 0) & ~self.is_background
        self.committed = np.where(is_own, picked(total, at, np.nan), np.nan)

    @property
    def condemned(self) -> tuple[list[str], Array]:
        """Why collections are of their generations, in words, and of each the number of its own; -1 where nothing tells."""
        names = [f"CondemnReasons{one}" for one in (0, 1)]
        own = [self._of_overall.of(self.overall[name], -1).astype(np.int64) for name in names]
        local = [self._of_per_heap.of(self.per_heap[name], -1).astype(np.int64) for name in names]
        reasons, conditions = (np.maximum(a, 0) | np.maximum(b, 0) for a, b in zip(own, local, strict=True))
        known = (own[0] >= 0) | (local[0] >= 0)
        kinds, which = ranked(reasons << 32 | conditions)  # of 32 bits each
        words = [
            condemned(one >> 32, one & 0xFFFFFFFF, is_induced=asked)
            for one in kinds.tolist()
            for asked in (False, True)
        ]
        return words, np.where(known, 2 * which + np.isin(self.starts["Reason"], INDUCED), -1)

    def _objects(self, when: str) -> Array:
        """Bytes of objects: without what is free between them."""
        size, listed, between = (
            self.generations[:, :, PER_GENERATION.index(f"{name}{when}")] for name in ("Size", "FreeList", "FreeObj")
        )
        return np.asarray(size - listed - between)

    def generation(self, place: int, *names: str) -> Array:
        """Values of one generation together, NaN where the heaps have told nothing, or have none such."""
        first, *others = (self.generations[:, place, PER_GENERATION.index(name)] for name in names)
        return np.where(self._are_told[place], sum(others, first), np.nan)

    @property
    def knows_sizes(self) -> Array:
        """Whether it is told how large the heaps were behind each."""
        return np.asarray(self.has_generations | self._of_heaps.is_there)

    def of_heaps(self, name: str) -> Array:
        """A field of GC/HeapStats."""
        return _known(self._of_heaps.of(self.heaps[name].astype(np.float64), np.nan))

    def summed(self, names: Sequence[str]) -> Array:
        """Several fields of GC/HeapStats."""
        made = np.zeros(self.count)
        for name in names:
            values = self.of_heaps(name)
            np.add(made, values, out=made, where=~np.isnan(values))
        made[~self._of_heaps.is_there] = np.nan
        return made

    def of_all(self, name: str) -> Array:
        """A field of GC/GlobalHeapHistory."""
        return _known(self._of_overall.of(self.overall[name].astype(np.float64), np.nan))

    def total(self, name: str, known: Array | None = None) -> Array:
        """A value of all generations together, NaN where it is not ``known``: as a rule, where the heaps have told nothing."""
        values = self.generations[:, :, PER_GENERATION.index(name)].sum(axis=1)
        return np.where(self.has_generations if known is None else known, values, np.nan)

    def where(self, values: Array, *, compacting: bool, others: float = np.nan) -> Array:
        """Of collections that compact, or of those that sweep; NaN where that is not told, and ``others`` of the others."""
        made: Array = np.where(self._is_compacting == compacting, values, others)
        made[~self._tells_how] = np.nan
        return made

    def phase_ms(self, phase: int | slice) -> Array:
        """What a phase took; NaN where .NET 8 has what is below nothing, written without a sign."""
        times = self._phases_us[:, phase]
        return self._of_overall.of(times.sum(axis=1) if times.ndim > 1 else times, np.nan) / _US

    def rest_ms(self) -> Array:
        """What is left of the pause without the suspension and the phases: to let the threads go is most of it, to begin and to end the rest. NaN
        where a phase is not told, or the pause is that of others too.
        """
        works = self.phase_ms(slice(0, COMPACT)) + self.where(self.phase_ms(COMPACT), compacting=True, others=0.0)
        in_pauses = self.phases["initial_mark"] + self.phases["final_mark"]
        rest = self.pause_ms - self.suspend_ms - np.where(self.is_background, in_pauses, works)
        rest[self.shares_pause] = np.nan
        return np.where(rest < 0, 0.0, rest)  # phases are told in whole µs


def _known(values: Array) -> Array:
    """The same array, NaN where a version of the event does not have the field."""
    np.copyto(values, np.nan, where=values < 0)
    return values


def _stops(starts: Kept, stops: Kept) -> Array:
    """Of each start the row of the first stop behind it with its number; -1 where there is none, or another start with that number comes before: the
    runtime began anew under the same process id, or a number is wrong.
    """
    return next_of_same(stops, starts, np.append(starts["Count"], stops["Count"]))


def _owners(starts: Kept, is_background: Array, stops: Kept, started: Array, events: Kept) -> Array:
    """The collections that histories are of. They come before the next stop, which another thread may have written where there are several heaps;
    those of the threads of the background come before or behind it, and there is one in the background at a time. -1 where none is found.
    """
    made = np.full(len(events), -1)
    in_background = (started >= 0) & is_background[np.maximum(started, 0)]
    # on a busy machine the thread that asks for one in the background ends it itself now and then (8 to 10)
    threads = distinct(stops.tid[in_background])
    threads = threads[~np.isin(threads, stops.tid[~in_background])]
    apart = np.isin(events.tid, threads)
    rows, own = np.flatnonzero(~apart), np.flatnonzero(~np.isin(stops.tid, threads))
    at = np.searchsorted(stops.place[own], events.place[rows])
    there = at < len(own)
    made[rows[there]] = started[own[at[there]]]
    # the next stop is of one that began later where that of its own was lost
    is_later = np.append(starts.place, -1)[made[rows]] > events.place[rows]
    made[rows[is_later]] = -1
    rows, own = np.flatnonzero(apart), np.flatnonzero(is_background)
    at = _latest(starts.place[own], events.place[rows])
    there = at >= 0
    made[rows[there]] = own[at[there]]
    return made


def _rows(count: int, started: Array, stop: Array) -> Array:
    """Of each collection, the first event that belongs to its stop."""
    rows = np.flatnonzero(stop >= 0)
    of = started[stop[rows]]
    rows, of = rows[of >= 0], of[of >= 0]
    made = np.full(count, -1)
    made[of[::-1]] = rows[::-1]  # of several values for one place the last stays
    return made


def _latest(places: Array, of: Array) -> Array:
    """Of each place the row of the last of others that is before it; -1 where none is."""
    return np.searchsorted(places, of) - 1


def _lengths(begin: Array, end: Array) -> Array:
    """From the one time to the other; NaN where one is not known, or they go back."""
    made = end - begin
    return np.where(made < 0, np.nan, made)
