"""Collections of the garbage collector: why each was, how long it stopped the program and where that went, what it found and left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, texts, told_number, whole
from dotnetdiag.analysis.fold import LossesToTell, Seconds, fold, recorded_in, seconds_of
from dotnetdiag.analysis.gc_events import START, GcEvents, is_gc
from dotnetdiag.analysis.gc_induced import UNIT, NoStacks
from dotnetdiag.analysis.gc_pauses import paused
from dotnetdiag.analysis.gc_process import OTHER_PAUSE
from dotnetdiag.analysis.gc_rows import ALLOCATED, COUNTS, FIGURES, WORDS, CollectionRows, ProcessRows
from dotnetdiag.analysis.kept_events import having, words_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.events.columns import Coded, ListOf, Text
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.recorded import Recorded, length_of
from dotnetdiag.trace.spilled import SLICE_ROWS
from dotnetdiag.trace.spilled_columns import SpilledColumns
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

if TYPE_CHECKING:
    from dotnetdiag.analysis.stack_profile import StackProfile

Array: TypeAlias = "np.ndarray[Any, Any]"

NO_EVENTS = "no collections: none took place, or the recording lacks their events (record with --profile gc-collect, or gc-verbose)"

NO_CALLERS = (
    "who asked for the induced collections is not told: their events have no call stacks, as in recordings of NativeAOT and with --no-stacks, "
    "nor have those of collections that a session of its own asks for"
)


UNTOLD_ALLOCATED = (
    "how much was allocated before some collections is not told (those in the background, and those behind others of which there are no events), "
    "and in all it is more than what the others come to (allocation ticks tell it: record with --profile gc-verbose)"
)
OTHER_PAUSES = (
    "{}, {:,.3f} ms together, in no collection that the events tell of as a whole (as of NoGC regions, of the first ms of a session, or of one in "
    "the background whose begin or end is not there), and not in the totals: they are in other_pauses"
)


@dataclass(frozen=True, kw_only=True)
class GcTotals:
    """Of all collections. ``pause_percent`` is of the time of the recording, of several processes with collections of all their times together;
    ``allocated_bytes`` is the sum of what came to gen0, large and pinned objects from one collection to the next, ``allocated_bytes_per_second``
    the same by the time that this took: up to the begin of the last, since the recording began, or since the first collection of a process that ran
    before, without the times before collections of which it is not told. Pauses are those of the collections of the table; ``other_pauses_ms`` is the
    sum of those that are of none. ``finalizers_ms``: how long the threads that run finalizers had some to run, to the end where one still has;
    ``finalized``: how many objects were, as far as that had an end. None: not known.
    """

    count: int
    induced: int
    pause_ms: float
    max_pause_ms: float
    mean_pause_ms: float | None
    pause_percent: float | None
    pauses_ms: Mapping[str, float]
    other_pauses_ms: float
    finalizers_ms: float | None
    finalized: int | None
    allocated_bytes: int | None
    allocated_bytes_per_second: float | None
    promoted_bytes: int | None
    max_before_bytes: int | None
    heaps: int | None


@dataclass(frozen=True, kw_only=True)
class GcReport(Report):
    """``collections``: a row for each. ``by_heap``: a row for each heap of a process, of which the server's collector has several. ``by_stack``:
    who asked for induced ones, ``collections`` and the names of the ``stack``, leaf first, most first. ``stacks``: what :attr:`induced` is made of.
    ``other_pauses``: ``pid``, ``start_ms`` and ``pause_ms`` of those that are in no row of ``collections``: of collections without events, as those
    of NoGC regions are, and of ones in the background whose begin or end is not there.
    ``notes``: what the recording lacks.
    """

    KIND = "gc"
    MAIN = "collections"

    collections: Table
    by_heap: Table
    by_stack: Table
    other_pauses: Table
    stacks: StackProfile | NoStacks
    totals: GcTotals

    @property
    def induced(self) -> StackProfile:
        """Who asked for induced collections, as a profile."""
        return self.stacks.profile() if isinstance(self.stacks, NoStacks) else self.stacks


def gc(trace: Trace) -> GcReport:
    """Every collection of a recording, and what they come to."""
    (made,) = fold(trace, GcFold(seconds=seconds_of(trace)))
    return made


class GcFold:
    """What :func:`gc` asks, window by window. ``seconds``: how long was recorded, for the share of the pauses."""

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None) -> None:
        self._seconds = seconds
        self._events, self._rows = GcEvents(), CollectionRows()
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
        self._rows.settle(self._events, self._words)

    def result(self) -> GcReport:
        """The answer."""
        rows = self._rows.finish(self._events, self._words)
        induced = self._induced([own for _, own in rows])
        notes = induced.notes if rows else (NO_EVENTS,)
        losses, lost, finalizers = self._losses.told, self._losses.between() or None, self._events.finalizers
        recorded = recorded_in(self._seconds) or Recorded(0.0, 0.0)
        columns = _Columns(
            [
                ProcessRows(
                    pid, own, self._events.ticked(pid), lost, recorded.missing_s(pid) > 0, losses.lost is not None
                )
                for pid, own in rows
            ],
            {name: Text.from_pylist([*texts.names, ""]) for name, texts in self._rows.texts.items()},
            induced.method,
        )
        pids, pauses = self._other_pauses(lost)
        lengths = pauses["end"] - pauses["begin"]
        if len(pauses):
            notes = (
                *notes,
                OTHER_PAUSES.format(
                    "1 pause is" if len(pauses) == 1 else f"{len(pauses):,} pauses are",
                    float(lengths.sum()),
                ),
            )
        if columns.lacks_ticks:
            notes = (*notes, UNTOLD_ALLOCATED)
        return GcReport(
            collections=columns.table(notes, losses),
            by_heap=answer_table("heaps", self._by_heap(), notes, losses),
            other_pauses=answer_table(
                "pauses of no collection",
                {
                    "pid": whole(pids),
                    "start_ms": number(pauses["begin"]),
                    "pause_ms": number(lengths),
                },
                notes,
                losses,
            ),
            by_stack=answer_table("stacks of induced collections", induced.by_stack, notes, losses),
            stacks=induced.profile,
            totals=_totals(
                columns,
                lengths,
                self._rows.induced,
                recorded,
                [pid for pid, _ in rows],
                (finalizers.ms(recorded, lost=losses.lost != 0), finalizers.finalized),
            ),
            notes=notes,
        )

    def _other_pauses(self, lost: LostBetween | None) -> tuple[Array, Array]:
        """The processes of those that are in no row, and when they were; not those whose thread has ``lost`` events meanwhile, which may be two."""
        of = {pid: np.concatenate(found) for pid, found in sorted(self._rows.other_pauses.items())}
        pids = np.repeat(np.array([*of], np.int64), [len(found) for found in of.values()])
        suspending, restarted = self._events.stops_elsewhere()
        own, ends = paused(suspending, restarted, None)
        elsewhere = np.zeros(len(own), OTHER_PAUSE)
        elsewhere["tid"], elsewhere["begin"], elsewhere["end"] = suspending.tid[own], suspending.ms[own], ends
        pids = np.append(pids, suspending.pid[own].astype(np.int64))
        pauses = np.concatenate([np.zeros(0, OTHER_PAUSE), *of.values(), elsewhere])
        if lost and len(pauses):
            own = ~lost.of(pids, pauses["tid"], pauses["begin"], pauses["end"])
            pids, pauses = pids[own], pauses[own]
        return pids, pauses

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

    def _induced(self, rows: Sequence[SpilledColumns]) -> _Induced:
        """Of those that a program asks for. Who asked for one that did not come, as for memory that was there, or whose recording ended before, has
        induced none.
        """
        count, made = self._events.induced.count, self._events.induced.result()
        if isinstance(made, NoStacks):
            nothing = ListOf(np.zeros(1, np.int64), texts([], np.zeros(0, np.int64)))
            return _Induced(texts([], np.zeros(0, np.int64)), made, {UNIT: whole(np.zeros(0)), "stack": nothing}, ())
        from dotnetdiag.analysis.stacked import by_stack

        has_come = np.zeros(count, np.bool_)
        for one in rows if count else ():
            for first in range(0, len(one), SLICE_ROWS):
                asked = one.column("asked", first, min(first + SLICE_ROWS, len(one)))
                has_come[asked[asked >= 0].astype(np.int64)] = True
        notes = (*made.unnamed, *made.stackless.notes(NO_CALLERS)) if count else ()
        came = has_come[made.row]
        profile = made.profile.take(came, "was followed by a collection")
        return _Induced(made.method, profile, by_stack(profile.take(made.has_names[came], "has names"), UNIT), notes)


@dataclass(frozen=True, slots=True, eq=False)
class _Induced:
    """Who asked for collections: by event of those that ask the ``method``, and of those that came a ``profile``, and the table ``by_stack`` without
    processes whose names are left out. ``notes``: who is not told.
    """

    method: Coded
    profile: StackProfile | NoStacks
    by_stack: Mapping[str, Column]
    notes: tuple[str, ...]


class _Columns:
    """Makes columns of the table, here or where it was sent to: of rows of each process, and what its ticks tell."""

    def __init__(self, processes: Sequence[ProcessRows], words: Mapping[str, Text], method: Coded) -> None:
        self._processes, self._words, self._method = processes, words, method

    def __len__(self) -> int:
        return sum(len(one.rows) for one in self._processes)

    def __call__(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return {name: self._made(name, lambda of: self.values(of, first, last)) for name in names}

    def told_s(self, begins_s: Sequence[float]) -> float:
        """For how long what was allocated is told, in seconds. ``begins_s``: when what is recorded of each process begins."""
        spans = list[tuple[float, float]]()
        for one, begin_s in zip(self._processes, begins_s, strict=True):
            before = begin_s
            for first in range(0, len(one.rows), SLICE_ROWS):
                last = min(first + SLICE_ROWS, len(one.rows))
                start = np.append(before, one.rows.column("start_ms", first, last) / 1000.0)
                told = np.concatenate([[0], ~np.isnan(one.allocated(first, last)), [0]])
                edges = np.flatnonzero(np.diff(told))  # of runs that are told the first, and the first behind
                spans += zip(start[edges[::2]].tolist(), start[edges[1::2]].tolist(), strict=True)
                before = float(start[-1])
        return length_of(spans)

    @property
    def lacks_ticks(self) -> bool:
        """Whether there are some behind the first of which only ticks tell what was allocated, and none tells it."""
        for rows in (one.rows for one in self._processes if one.ticks is None):
            for first in range(1, len(rows), SLICE_ROWS):
                values, place = (
                    rows.column(name, first, min(first + SLICE_ROWS, len(rows))) for name in (ALLOCATED, "place")
                )
                if (np.isnan(values) & (place >= 0)).any():
                    return True
        return False

    def table(self, notes: Sequence[str], losses: Losses) -> Table:
        """All of them, whose columns are made when somebody asks: to make all fifty was a tenth of the time of a report on 8,000."""
        return answer_sliced("collections", COLUMNS, len(self), self, notes, losses, gathered=self.gathered)

    def values(self, name: str, first: int, last: int) -> Array:
        """Of some rows, NaN where a figure is not known."""
        found, begin = list[Array](), 0
        for one in self._processes:
            of = max(first - begin, 0), min(last - begin, len(one.rows))
            if of[0] < of[1]:
                found.append(one.column(name, *of))
            begin += len(one.rows)
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0)

    def gathered(self, names: Sequence[str], rows: Sequence[int]) -> dict[str, Column]:
        """Columns of rows anywhere."""
        return {name: self._made(name, lambda of: self._at(of, rows)) for name in names}

    def _at(self, name: str, rows: Sequence[int]) -> Array:
        if all(one.rows.is_held for one in self._processes):
            return self.values(name, 0, len(self))[list(rows)]
        return np.concatenate([self.values(name, row, row + 1) for row in rows]) if rows else np.zeros(0)

    def slices(self, name: str) -> Iterator[Array]:
        """Those that are known, some at a time."""
        for first in range(0, len(self), SLICE_ROWS):
            values = self.values(name, first, min(first + SLICE_ROWS, len(self)))
            unknown = np.isnan(values)
            yield values[~unknown] if unknown.any() else values

    def _made(self, name: str, values_of: Callable[[str], Array]) -> Column:
        if name == INDUCED_BY:
            return self._induced_by(values_of("asked").astype(np.int64))
        values = values_of(name)
        if name in self._words:
            return Coded(self._words[name], values.astype(np.int64), mask(values >= 0))
        if name in ("number", "generation"):
            return told_number(values)
        return number(values) if name in FIGURES else whole(values)

    def _induced_by(self, asked: Array) -> Coded:
        told = asked >= 0
        if not told.any():
            return texts([], np.full(len(asked), -1))
        method = self._method.take(np.where(told, asked, 0))
        return Coded(method.texts, method.which, mask(told if method.valid is None else told & method.valid))


INDUCED_BY = "induced_by"
COLUMNS = ("pid", "number", "generation", *WORDS, *FIGURES, *COUNTS, INDUCED_BY)


def _totals(
    of: _Columns,
    other_pauses: Array,
    induced: int,
    recorded: Recorded,
    pids: Sequence[int],
    finalizers: tuple[float | None, int],
) -> GcTotals:
    times = [recorded.of(pid) for pid in pids]
    seconds = sum(time.seconds for time in times) if times else recorded.seconds
    pauses = Spread()
    for values in of.slices("pause_ms"):
        pauses.add(values)
    allocated_bytes, promoted = (_sum(of.slices(name)) for name in (ALLOCATED, "promoted_bytes"))
    lasted_s = of.told_s([time.begin_s for time in times])
    pause_ms = pauses.total
    return GcTotals(
        count=len(of),
        induced=induced,
        pause_ms=pause_ms,
        max_pause_ms=pauses.most,
        mean_pause_ms=pause_ms / len(pauses) if len(pauses) else None,
        pause_percent=pause_ms / seconds / 10 if seconds else None,
        pauses_ms=pauses.quantiles(),
        other_pauses_ms=float(other_pauses.sum()),
        finalizers_ms=finalizers[0],
        finalized=None if finalizers[0] is None else finalizers[1],
        allocated_bytes=None if allocated_bytes is None else int(allocated_bytes),
        allocated_bytes_per_second=allocated_bytes / lasted_s if allocated_bytes is not None and lasted_s > 0 else None,
        promoted_bytes=None if promoted is None else int(promoted),
        max_before_bytes=_most(of.slices("before_bytes")),
        heaps=_most(of.slices("heaps")),
    )


def _sum(slices: Iterator[Array]) -> float | None:
    """Of all, None of none."""
    found = [(float(values.sum()), len(values)) for values in slices]
    return sum(total for total, _ in found) if any(count for _, count in found) else None


def _most(slices: Iterator[Array]) -> int | None:
    """The largest of all, None of none."""
    found = [int(values.max()) for values in slices if len(values)]
    return max(found) if found else None
