"""From windows of events to the samples of a profile: threads, order, times, leaves, where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin, origin_of
from dotnetdiag.analysis.pool_threads import THREAD_POOL, PoolThreads
from dotnetdiag.analysis.profile import ProfileThread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.bounds import FOREVER
from dotnetdiag.trace.stack_ids import StackIds
from dotnetdiag.trace.stack_tree import NO_FRAME, StackTree, build_stack_tree
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context
    from dotnetdiag.trace.symbols import Symbols

Array: TypeAlias = "np.ndarray[Any, Any]"

_DENSE_LIMIT = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleRows:
    """Events by thread and then by time, with nothing that a profile does not need.

    ``time`` in ticks (i64), ``stack`` ids (u32), ``thread`` indices into ``threads``, whose order is that of their
    first events; ``state`` (u8) and ``value`` (f64, or None for one each) are what was read of the events.
    """

    time: Array
    stack: Array
    thread: Array
    state: Array
    value: Array | None
    threads: tuple[ProfileThread, ...]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def is_last(self) -> Array:
        """A mask of the last sample of each thread."""
        last = np.ones(len(self), np.bool_)
        last[:-1] = self.thread[1:] != self.thread[:-1]
        return last

    def take(self, rows: Array) -> SampleRows:
        """Some of the samples (a mask); the threads stay, with fewer or no rows."""
        thread = self.thread[rows]
        columns = {name: getattr(self, name)[rows] for name in ("time", "stack", "state")}
        value = None if self.value is None else self.value[rows]
        return replace(self, thread=thread, threads=_bounded(self.threads, thread), value=value, **columns)

    @property
    def values(self) -> Array:
        """The values (f64)."""
        return np.ones(len(self)) if self.value is None else self.value


class SampleColumns:
    """Samples as windows bring them: of a million events only these columns are in memory."""

    def __init__(self, pool: PoolThreads | None = None) -> None:
        """``pool``: where the windows that were before are known already."""
        self._parts: list[tuple[Array, ...]] = []
        self._values: list[Array | None] = []
        self.stacks = StackIds()
        self._pool = PoolThreads() if pool is None else pool
        self._numbers: Array = np.zeros(0, np.uint32)
        self._kept: Array = np.zeros(0, np.uint32)
        self._is_over = False

    @property
    def context(self) -> Context:
        """That of the latest window. Raises UsageError before the first."""
        if self.stacks.context is None:
            raise UsageError("a result of no window: feed one first")
        return self.stacks.context

    def look_at(self, window: EventTable) -> None:
        """Take note of whose window it is, and of the threads of the pool in it; to be done before :meth:`add`."""
        self.stacks.look_at(window.trace)
        self._is_over = False
        self._pool.look_at(window)

    def add(self, events: EventTable, state: Any, value: Array | None) -> None:
        """Events of the window that was looked at last: ``state`` of each or of all, and ``value`` of each, None for 1."""
        headers = events.headers
        states = np.broadcast_to(np.asarray(state, np.uint8), len(headers))
        # OS thread ids and indices of rows are small: half the memory
        thread = headers.thread if len(headers) and headers.thread.max() >> 32 else headers.thread.astype(np.uint32)
        self._parts.append((headers.time, self.stacks.of(headers.stack), states, thread))
        self._values.append(value)

    def __len__(self) -> int:
        """How many samples wait."""
        return sum(len(time) for time, *_ in self._parts)

    @property
    def numbers(self) -> Array:
        """Of the threads of what was taken last, the values of the ``thread`` column."""
        return self._numbers

    def hold(self, samples: SampleRows, numbers: Array) -> None:
        """Samples that were taken, with the numbers that their threads had then, are to be taken once more."""
        self._parts.append((samples.time, samples.stack, samples.state, numbers[samples.thread]))
        self._values.append(samples.value)

    def clear(self) -> None:
        """Forget the samples."""
        self._parts, self._values = [], []

    def end(self) -> None:
        """A result is made of what was added. Raises UsageError for a second one of nothing new."""
        if self._is_over:
            raise UsageError("the result was given already: what was kept went into it")
        self._is_over = True

    def take(self) -> SampleRows:
        """All that was added, sorted. It is forgotten here."""
        kinds = (np.int64, np.uint32, np.uint8, np.uint32)
        time, stack, states, column = (
            _joined([part[at] for part in self._parts], kind) for at, kind in enumerate(kinds)
        )
        value = self._joined_values()
        self.clear()
        samples, numbers = samples_in_order(time, stack, states, column, value, self.thread)
        self._numbers = np.array(numbers, column.dtype)
        return samples

    def forget(self) -> None:
        """The samples, and all stacks."""
        self.clear()
        self.stacks.keep(np.zeros(0, np.uint32))

    def keep_last(self, samples: SampleRows) -> None:
        """Of the samples that were just taken, keep the last of each thread, and of the stacks theirs: what follows tells how long it was.

        That of a thread which had none but the one kept before, while others had some, is forgotten: the thread is over.
        """
        last = samples.is_last
        numbers = self._numbers[samples.thread]
        is_only = last.copy()
        is_only[1:] &= last[:-1]
        idle = is_only & np.isin(numbers, self._kept)
        if (last & ~idle).any():
            last &= ~idle
        self._kept = numbers[last]
        self._parts = [(samples.time[last], self.stacks.keep(samples.stack[last]), samples.state[last], self._kept)]
        self._values = [None if samples.value is None else samples.value[last]]

    def _joined_values(self) -> Array | None:
        if all(value is None for value in self._values):
            return None
        pairs = zip(self._values, self._parts, strict=True)
        return _joined([np.ones(len(part[0])) if value is None else value for value, part in pairs], np.float64)

    def thread(self, number: int) -> ProfileThread:
        """What the recording says of a value of the ``thread`` column."""
        said = self.context.meaning.thread(number)
        name = said.name or (THREAD_POOL if number in self._pool else "")
        return ProfileThread(thread_id=said.os_thread_id or 0, process_id=said.process_id, name=name, rows=range(0))


def samples_in_order(
    time: Array,
    stack: Array,
    states: Array,
    column: Array,
    value: Array | None,
    thread_of: Callable[[int], ProfileThread],
) -> tuple[SampleRows, list[int]]:
    """Samples by thread and then by time, and the values of the ``column`` that tells the threads, in the order of these."""
    numbers, thread = _dense(column)
    # of equal threads the order stays that of time; 16 bits are sorted by radix
    order = np.argsort(thread.astype(np.uint16) if len(numbers) <= 1 << 16 else thread, kind="stable")
    thread, time = thread[order], time[order]
    if ((time[1:] < time[:-1]) & (thread[1:] == thread[:-1])).any():  # a clock that went back, in a damaged file
        again = np.lexsort((time, thread))
        order, time = order[again], time[again]
    threads = _bounded([thread_of(number) for number in numbers], thread)
    stack, states = stack[order], states[order]
    value = None if value is None else value[order]
    return SampleRows(time=time, stack=stack, thread=thread, state=states, value=value, threads=threads), numbers


def _joined(parts: list[Array], kind: Any) -> Array:
    return np.concatenate([np.zeros(0, kind), *parts])


def _bounded(threads: list[ProfileThread] | tuple[ProfileThread, ...], thread: Array) -> tuple[ProfileThread, ...]:
    """The threads with the rows they have in a sorted column of their indices."""
    edges = np.searchsorted(thread, np.arange(len(threads) + 1, dtype=np.int32)).tolist()
    return tuple(
        replace(one, rows=range(first, last)) for one, first, last in zip(threads, edges[:-1], edges[1:], strict=True)
    )


def _dense(column: Array) -> tuple[list[int], Array]:
    """Distinct values in the order of their first place, and the index of each value (i32): sorting takes ten times
    as long.
    """
    if not len(column):
        return [], np.zeros(0, np.int32)
    top = int(column.max())
    if top >= _DENSE_LIMIT:
        values, firsts, which = np.unique(column, return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        return values[order].tolist(), place[which.reshape(-1)]
    numbers = column.astype(np.int32)
    first = np.full(top + 1, -1, np.int64)
    heads = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)[::-1]
    first[numbers[heads]] = heads
    there = np.flatnonzero(first >= 0)
    order = there[np.argsort(first[there])]
    table = np.zeros(top + 1, np.int32)
    table[order] = np.arange(len(order))
    return order.tolist(), table[numbers]


def profile_of(
    columns: SampleColumns,
    samples: SampleRows,
    *,
    name: str,
    unit: str,
    length_ns: Array,
    weight: Array,
    notes: tuple[str, ...] = (),
    symbols: Symbols | None = None,
    sampled: bool = True,
) -> StackProfile:
    """The profile of samples of ``columns`` whose lengths and weights are known. Threads without samples are left out; a method is
    one frame, whatever its tier. ``symbols`` name the frames, None: those of the recording. ``sampled``: threads were stopped where their
    stacks begin; those of other events begin where a call returns to.
    """
    context = columns.context
    if not len(samples):
        return profile_of_none(origin_of(context), name, unit, notes)
    if not samples.stack.any():
        kept = context.keeps_stacks
        notes = (
            *notes,
            "no event has a call stack" if kept else "the session keeps no call stacks: watch it with symbols",
        )
    symbols = context.symbols if symbols is None else symbols
    processes = None
    owners = [min(thread.process_id or 0, FOREVER) for thread in samples.threads]  # as `process_ids` has them
    if symbols.are_of_several(owners):
        processes = np.array(owners, np.int64)[samples.thread]
    tree = build_stack_tree(columns.stacks.table, symbols, samples.stack, samples.time, processes, sampled=sampled)
    node = tree.leaves(samples.stack, samples.time, processes).astype(np.int32, copy=False)
    start_ns = context.meaning.info.elapsed_ns(samples.time)
    seen = np.array([len(thread.rows) > 0 for thread in samples.threads], np.bool_)
    number = (np.cumsum(seen) - 1).astype(np.int32)
    made = StackProfile(
        name=name,
        unit=unit,
        tree=tree,
        frames=Frames(symbols),
        threads=_told_apart(tuple(thread for thread in samples.threads if thread.rows)),
        thread=samples.thread if seen.all() else number[samples.thread],
        start_ns=start_ns,
        length_ns=length_ns,
        weight=weight,
        node=node,
        state=samples.state,
        origin=origin_of(context),
        from_ns=0,
        to_ns=int((start_ns + length_ns).max(initial=0)),
        notes=notes,
    )
    return filters.without_tiers(made)


def profile_of_none(origin: Origin, name: str, unit: str, notes: tuple[str, ...] = ()) -> StackProfile:
    """Without samples. What names frames is not asked for: that took 14 of the 227 ms of a report on 8,000 collections, none of which is induced."""
    nothing = np.zeros(0, np.int64)
    return StackProfile(
        name=name,
        unit=unit,
        tree=StackTree(np.full(1, -1, np.int32), np.full(1, NO_FRAME, np.int32)),
        frames=Frames(),
        threads=(),
        thread=np.zeros(0, np.int32),
        start_ns=nothing,
        length_ns=nothing,
        weight=np.zeros(0),
        node=np.zeros(0, np.int32),
        state=np.zeros(0, np.uint8),
        origin=origin,
        from_ns=0,
        to_ns=0,
        notes=notes,
    )


def _told_apart(threads: tuple[ProfileThread, ...]) -> tuple[ProfileThread, ...]:
    """With their processes, where there are several."""
    if len({thread.process_id for thread in threads}) < 2:
        return threads
    return tuple(replace(thread, tells_process=True) for thread in threads)
