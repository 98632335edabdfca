"""What is kept of each exception that was thrown, and their stacks.

A million of them need 64 MB, and so they are spilled. What was thrown by one thread with one stack and one type is one *kind*, of which there are
few: what stacks mean, which is known when all is read, is found out of these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.distinct import first_of_each
from dotnetdiag.analysis.exception_ends import Ends
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.profile import ProfileThread
from dotnetdiag.analysis.rows import SampleColumns, profile_of, samples_in_order
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.spilled import SpilledRows
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import own_frames
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.trace.distinct import distinct, ranked
from dotnetdiag.trace.stack_tree import moments_of
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

ROW = np.dtype(
    [
        *((name, "f8") for name in ("ms", "catch_ms", "handled_ms", "finally_ms")),
        ("time", "i8"),
        *((name, "i4") for name in ("kind", "message", "flags", "caught_by", "finallys", "filters")),
    ]
)
"""``time`` in ticks, as stacks are told by it; ``flags`` are 0 where a version of the event has none."""


_LOW = (1 << 32) - 1


class ThreadIds:
    """What processes and ids of threads together are, numbered. Of each no more than a few numbers are kept: there may be 200,000."""

    def __init__(self) -> None:
        self._processes, self._ids, self._both = Numbering(), Numbering(), Numbering()

    def of(self, events: EventTable, kept: Kept) -> Array:
        """Of each event its number."""
        different, which = ranked(events.headers.thread)
        return self.of_rows(first_of_each(which, len(different)), kept)[which]

    def of_rows(self, rows: Array, kept: Kept) -> Array:
        """Of some events."""
        process, thread = self._processes.of(_whole(kept.pid[rows])), self._ids.of(_whole(kept.tid[rows]))
        return self._both.of(process << 32 | thread)

    def told(self, which: Array) -> tuple[Array, Array]:
        """The processes and the ids that these numbers stand for."""
        both = self._both.keys()[which]
        return self._processes.keys()[both >> 32], self._ids.keys()[both & _LOW]


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


class ThrownRows:
    """Takes windows of throws, and what became of them."""

    def __init__(self) -> None:
        self.columns = SampleColumns()
        self.thread_ids = ThreadIds()
        self.threads, self.kinds = Threads(self.thread_ids), Kinds()
        self._rows, self._is_given = SpilledRows(ROW), False
        self._before: tuple[Array, Array] | None = None
        self._fresh: list[Array] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, events: EventTable, kept: Kept, thread: Array) -> Array:
        """Take throws of the window that ``columns`` has looked at, and the thread of each; their numbers."""
        rows = np.zeros(len(events), ROW)
        rows["ms"], rows["time"] = kept.ms, events.headers.time
        rows["catch_ms"] = rows["handled_ms"] = np.nan
        rows["caught_by"] = -1
        rows["message"], rows["flags"] = kept["ExceptionMessage"], np.maximum(kept["ExceptionFlags"], 0)
        stack = self.columns.stacks.of(events.headers.stack)
        rows["kind"] = self.kinds.of(thread, stack, kept["ExceptionType"])
        self._fresh.append(rows)
        self._count += len(rows)
        return np.arange(self._count - len(rows), self._count)

    def settle(self, ends: Ends) -> None:
        """Write down what was found, in the place of what the last :meth:`conclude` did."""
        fresh = np.concatenate([np.zeros(0, ROW), *self._fresh])
        self._fresh = []
        if self._is_given and (len(fresh) or len(ends) or self._before is not None):
            self._rows, self._is_given = self._rows.copy(), False  # who has them has what was told then
        if self._before is not None:
            rows, was = self._before
            self._before = None
            for some, places, which in self._rows.changing(rows):
                some[places] = was[which]
        self._write_down(ends, fresh)
        if len(fresh):
            self._rows.append(fresh)

    def conclude(self, ends: Ends) -> None:
        """Write down what is found if nothing more comes, once all else is settled; the next :meth:`settle` takes it back."""
        if not len(ends):
            return
        rows = distinct(np.concatenate([ends.caught[0], ends.handled[0], ends.filters, ends.finallys, ends.lasted[0]]))
        was = np.empty(len(rows), ROW)
        if self._is_given:
            self._rows, self._is_given = self._rows.copy(), False
        for some, places, which in self._rows.changing(rows):
            was[which] = some[places]
        self._write_down(ends, np.zeros(0, ROW))
        self._before = rows, was

    def _write_down(self, ends: Ends, fresh: Array) -> None:
        for rows, columns in (
            (ends.caught[0], {"catch_ms": ends.caught[1], "caught_by": ends.caught[2]}),
            (ends.handled[0], {"handled_ms": ends.handled[1]}),
        ):
            for some, places, which in self._changing(fresh, rows):
                for name, values in columns.items():
                    some[name][places] = values[which]
        for rows, name, values in (
            (ends.filters, "filters", np.ones(len(ends.filters), np.int32)),
            (ends.finallys, "finallys", np.ones(len(ends.finallys), np.int32)),
            (ends.lasted[0], "finally_ms", ends.lasted[1]),
        ):
            for some, places, which in self._changing(fresh, rows):
                np.add.at(some[name], places, values[which])

    def _changing(self, fresh: Array, rows: Array) -> Any:
        """As ``SpilledRows.changing``, of those that are not there yet too."""
        order = np.argsort(rows, kind="stable")
        rows, first = rows[order], len(self._rows)
        old = int(np.searchsorted(rows, first))
        parts = chain(self._rows.changing(rows[:old]), [(fresh, rows[old:] - first, np.arange(old, len(rows)))])
        return ((some, places, order[which]) for some, places, which in parts)

    def given(self) -> SpilledRows:
        """What was settled until now; it stays so."""
        self._is_given = True
        return self._rows


class ThrownStacks:
    """What the stacks of kinds are. Where code moved while the recording ran, one is several: then also the time tells of which a row is.

    Of each stack ``frame`` is the first method of the program, else the leaf, -1 without a stack, and ``method`` its number among all of these.
    """

    def __init__(self, thrown: ThrownRows, types: Sequence[str]) -> None:
        rows, columns = thrown.given(), thrown.columns
        self._rows, self._count, self._info = rows, len(rows), columns.context.meaning.info
        thread, stack, type_ = thrown.kinds.told()
        numbers, recorded = thrown.threads.recorded()
        self._moments = moments_of(columns.stacks.table, columns.context.symbols)
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
            columns, samples, name="Exceptions", unit="exceptions", length_ns=none, weight=np.ones(len(kind))
        )
        self.frame = np.empty(len(kind), np.int64)
        self.frame[row] = own_frames(profile)
        self._used, self.method = ranked(self.frame)
        self._names = Text.from_pylist(["" if one < 0 else profile.frames.name(one) for one in self._used.tolist()])
        self._profile = with_leaves(profile, type_[kind[row]], types)
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

    def of(self, kind: Array, time: Array) -> Array:
        """Which stack each row has."""
        return np.searchsorted(self._keys, self._key(kind, time)) if len(self._moments) else kind

    def methods(self, which: Array) -> Coded:
        """The first method of the program in each of these stacks; None without a stack."""
        return self.named(self.method[which])

    def named(self, methods: Array) -> Coded:
        """The names of methods by their numbers."""
        known = self._used[methods] >= 0
        return Coded(self._names, methods, None if known.all() else known)

    def profile(self) -> StackProfile:
        """A sample for each row, whose stack ends in the type."""
        count = self._count
        time, kind = self._rows.column("time", 0, count), self._rows.column("kind", 0, count)
        threads: Sequence[ProfileThread] = self._profile.threads
        samples, _ = samples_in_order(
            time, self.of(kind, time), np.zeros(count, np.uint8), self._thread[kind], None, threads.__getitem__
        )
        start_ns = self._info.elapsed_ns(samples.time)
        return replace(
            self._profile,
            threads=samples.threads,
            thread=samples.thread,
            start_ns=start_ns,
            length_ns=np.zeros(count, np.int64),
            weight=np.ones(count),
            node=self._node[samples.stack],
            state=samples.state,
            to_ns=int(start_ns.max(initial=0)),
        )
