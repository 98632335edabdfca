"""A row for each event of some type, and their stacks: exceptions that were thrown, waits, work in a queue.

A million of them need 64 MB and more, and so they are spilled. What one thread did with one stack, and with one type if that is told, is one
*kind*, of which there are few: what stacks mean, which is known when all is read, is found out of these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.changing_rows import ChangingRows
from dotnetdiag.analysis.distinct import first_of_each
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.nameless import without_nameless
from dotnetdiag.analysis.profile import ProfileThread, State
from dotnetdiag.analysis.rows import SampleColumns, profile_of, samples_in_order
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import own_frames
from dotnetdiag.analysis.thread_ids import ThreadIds
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table.table import PIECE_ROWS
from dotnetdiag.trace.distinct import distinct, ranked
from dotnetdiag.trace.spilled import SpilledRows
from dotnetdiag.trace.stack_tree import moments_of
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"
Values: TypeAlias = Callable[[str], Array]
"""Reads a field of some rows."""

_NS = 1e6
_FIELDS = (("ms", "f8"), ("time", "i8"), ("kind", "i4"))
"""Of all rows; ``time`` in ticks, as stacks are told by it."""
_LOW = (1 << 32) - 1


class Threads:
    """Different threads, numbered in the order in which they come: of each its number in the recording, its process and its id. ``of_ids`` may be
    shared with others.
    """

    def __init__(self, of_ids: ThreadIds) -> None:
        self._recorded, self._threads, self._of_ids = Numbering(), Numbering(), of_ids
        self.ids: Array = np.zeros(0, np.int32)
        """Of each what process and id together are in ``of_ids``: a thread may have several numbers in a recording."""

    def of(self, events: EventTable, kept: Kept) -> Array:
        """The thread of each event."""
        different, which = ranked(events.headers.thread)
        first = np.sort(first_of_each(which, len(different)))
        recorded = self._recorded.of(_whole(events.headers.thread[first]), in_turn=True)
        ids = self._of_ids.of_rows(first, kept)
        number = self._threads.of(recorded << 32 | ids, in_turn=True)
        if len(self._threads) > len(self.ids):
            self.ids = (self._threads.keys() & _LOW).astype(np.int32)
        place = np.empty(len(different), np.int32)
        place[which[first]] = number
        return place[which]

    def recorded(self) -> tuple[list[int], Array]:
        """The different numbers in the recording, in the order in which they came, and which of them each thread has."""
        return self._recorded.keys().view(np.uint64).tolist(), self._threads.keys() >> 32

    def told(self) -> tuple[Array, Array]:
        """The process and the id of each."""
        return self._of_ids.told(self.ids)


def _whole(values: Array) -> Array:
    return values.astype(np.int64, copy=False)


class Kinds:
    """Different threads, stacks and types together, numbered."""

    def __init__(self) -> None:
        self._stacks, self._kinds = Numbering(), Numbering()

    def __len__(self) -> int:
        return len(self._kinds)

    def of(self, thread: Array, stack: Array, type_: Array) -> Array:
        """Of each event its kind."""
        pair = self._stacks.of(thread.astype(np.int64) << 32 | stack)
        return self._kinds.of(pair << 32 | type_.astype(np.int64) + 1)

    def told(self) -> tuple[Array, Array, Array]:
        """The thread, the stack and the type (-1 for none) of each."""
        pair, type_ = np.divmod(self._kinds.keys(), 1 << 32)
        thread, stack = np.divmod(self._stacks.keys(), 1 << 32)
        return thread[pair], stack[pair].astype(np.uint32), type_ - 1


class KindRows(ChangingRows):
    """Takes windows, and makes a row of each event of a type: ``fields`` as of a structured array, beside ``ms``, ``time`` and ``kind``."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        super().__init__([*_FIELDS, *fields])
        self.columns = SampleColumns()
        self.thread_ids = ThreadIds()
        self.threads, self.kinds = Threads(self.thread_ids), Kinds()

    def add(self, events: EventTable, kept: Kept, thread: Array, type_: Array | None = None) -> tuple[Array, Array]:
        """Take events of the window that ``columns`` has looked at, the thread of each, and its type; their numbers, and rows whose fields are to be
        filled in.
        """
        rows = np.zeros(len(events), self.dtype)
        rows["ms"], rows["time"] = kept.ms, events.headers.time
        rows["kind"] = self.kind_of(events, thread, type_)
        return self.append(rows), rows

    def kind_of(self, events: EventTable, thread: Array, type_: Array | None = None) -> Array:
        """Of each event its kind: what came of one thread, of one stack, and of one type."""
        stack = self.columns.stacks.of(events.headers.stack)
        return self.kinds.of(thread, stack, np.full(len(thread), -1) if type_ is None else type_)


def columns_of(
    rows: SpilledRows, column: Callable[[str, Values], Column], names: Sequence[str], first: int, last: int
) -> dict[str, Column]:
    """Columns of some of the rows for a table, each of which ``column`` makes of its name and of what reads the fields that it needs."""
    some = rows.read(first, last) if last - first <= PIECE_ROWS else None

    def values(name: str) -> Array:
        return np.ascontiguousarray(some[name]) if some is not None else rows.column(name, first, last)

    return {name: column(name, values) for name in names}


class KindStacks:
    """What the stacks of kinds are. Where code moved while the recording ran, one is several: then also the time tells of which a row is.

    Of each stack ``frame`` is the method that counts as whose it is (``own_frames``), -1 without a stack, and ``method`` its number among all of
    these. ``unnamed``: the note that names of methods are missing, if they are; the ``frame`` of those without one is -1 too, in processes that
    lack names; ``has_names`` tells of which that is not so.
    """

    def __init__(self, of: KindRows, types: Sequence[str] | None = None, *, of_program: bool = True) -> None:
        rows, columns = of.given(), of.columns
        self._rows, self._count, self._info = rows, len(rows), columns.context.meaning.info
        thread, stack, type_ = of.kinds.told()
        numbers, recorded = of.threads.recorded()
        table = columns.stacks.table  # without stacks no names are needed: those of 100,000 methods take 50 MB
        self._moments = (
            moments_of(table, columns.context.symbols, sampled=False) if stack.any() else np.zeros(0, np.int64)
        )
        self._keys = self._keys_of(rows, len(type_))
        kind, epoch = np.divmod(self._keys, len(self._moments) + 1)
        time = (
            np.append(self._moments[:1] - 1, self._moments)[epoch]
            if len(self._moments)
            else np.zeros(len(kind), np.int64)
        )
        self._thread = recorded.astype(np.uint32)[thread]  # of kinds
        by_thread = np.argsort(self._thread[kind], kind="stable")
        samples, _ = samples_in_order(
            time[by_thread],
            stack[kind[by_thread]],
            np.zeros(len(kind), np.uint8),
            self._thread[kind[by_thread]],
            by_thread.astype(np.float64),
            lambda at: columns.thread(numbers[at]),
        )
        row, none = samples.values.astype(np.int64), np.zeros(len(kind), np.int64)
        profile = profile_of(
            columns, samples, name="", unit="", length_ns=none, weight=np.ones(len(kind)), sampled=False
        )
        own, context = own_frames(profile, of_program=of_program), columns.context
        shown = without_nameless(own, profile, context.losses, is_of_several=context.meaning.is_of_several)
        self.stackless, self.unnamed = shown.stackless, shown.notes
        self.frame, self.has_names = np.empty(len(kind), np.int64), np.empty(len(kind), np.bool_)
        self.frame[row], self.has_names[row] = shown.frame, shown.has_names
        self._used, self.method = ranked(self.frame)
        self._names = Text.from_pylist(["" if one < 0 else profile.frames.name(one) for one in self._used.tolist()])
        self._own, self._row = profile, row
        self._profile = profile if types is None else with_leaves(profile, type_[kind[row]], types)
        self._node = np.empty(len(kind), np.int32)
        self._node[row] = self._profile.node

    def _keys_of(self, rows: SpilledRows, kinds: int) -> Array:
        """``kind * epochs + epoch`` of all that there are, ascending."""
        if not len(self._moments):
            return np.arange(kinds)
        found = np.zeros(0, np.int64)
        for _, some in rows.slices():
            found = distinct(np.append(found, distinct(self._key(some["kind"], some["time"]))))
        return found

    def _key(self, kind: Array, time: Array) -> Array:
        return kind.astype(np.int64) * (len(self._moments) + 1) + np.searchsorted(self._moments, time, side="right")

    def frame_names(self, pid: int | None) -> list[str]:
        """The names of the frames of all stacks, or of those of a process."""
        if pid is None:
            return self.frames.names()
        is_own = np.array([thread.key[0] == pid for thread in self._own.threads], np.bool_)
        used = self._own.take(is_own[self._own.thread]).used_frames()
        return [self.frames.name(one) for one in used.tolist() if one >= 0]

    def of(self, kind: Array, time: Array) -> Array:
        """Which stack each row has."""
        return np.searchsorted(self._keys, self._key(kind, time)) if len(self._moments) else kind

    def told(self, of: Callable[[StackProfile], Array]) -> Array:
        """What is told of each of the stacks, which are samples of one profile."""
        values = of(self._own)
        told = np.empty(len(values), values.dtype)
        told[self._row] = values
        return told

    def methods(self, which: Array) -> Coded:
        """The first method of the program in each of these stacks; None without a stack."""
        return self.named(self.method[which])

    def named(self, methods: Array) -> Coded:
        """The names of methods by their numbers."""
        known = self._used[methods] >= 0
        return Coded(self._names, methods, None if known.all() else known)

    @property
    def frames(self) -> Frames:
        """What the numbers in ``frame`` stand for."""
        return self._profile.frames

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd of them."""
        return self._profile.notes

    def thread_names(self) -> dict[tuple[int, int], str]:
        """The names of threads that have one, by process (0: not told) and id."""
        threads: Sequence[ProfileThread] = self._profile.threads
        return {one.key: one.name for one in threads if one.name}

    def profile(
        self, name: str, unit: str, *, weight: str | Array | None = None, lasts: bool = False, state: State = State.NONE
    ) -> StackProfile:
        """A sample for each row, weighted by one of its fields or by values of all (NaN: 0; without 1), in ms if it ``lasts`` so long."""
        count = self._count
        time, kind = self._rows.column("time", 0, count), self._rows.column("kind", 0, count)
        weights = self._rows.column(weight, 0, count) if isinstance(weight, str) else weight
        weights = None if weights is None else np.nan_to_num(weights).astype(np.float64, copy=False)
        threads: Sequence[ProfileThread] = self._profile.threads
        samples, _ = samples_in_order(
            time, self.of(kind, time), np.full(count, state, np.uint8), self._thread[kind], weights, threads.__getitem__
        )
        del time, kind, weights
        start_ns = self._info.elapsed_ns(samples.time)
        length_ns = (samples.values * _NS).astype(np.int64) if lasts else np.zeros(count, np.int64)
        return replace(
            self._profile,
            name=name,
            unit=unit,
            threads=samples.threads,
            thread=samples.thread,
            start_ns=start_ns,
            length_ns=length_ns,
            weight=samples.values,
            node=self._node[samples.stack],
            state=samples.state,
            to_ns=int((start_ns + length_ns).max(initial=0)),
        )
