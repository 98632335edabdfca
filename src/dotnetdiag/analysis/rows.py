"""From the events of a trace to the samples of a profile: threads, order, times, leaves, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.filters import without_tiers
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.profile import Origin, ProfileThread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.fields import join_fields
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.stack_tree import build_stack_tree
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

THREAD_POOL = ".NET ThreadPool"
_WORKER_EVENTS = frozenset({50, 57})
"""Start and Wait of a pool's worker, which workers send themselves. (The reference tool takes 55, the adjustment, which
few of them send, and the gate thread too.)"""
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


Reader: TypeAlias = Callable[[EventTable], tuple[Any, Any]]
"""State and value of each event of a table: columns; or one state for all, and None for values of 1."""


def types_where(trace: Trace, matches: Callable[[EventSchema], bool]) -> dict[int, EventSchema]:
    """The event types of a trace that are wanted, by metadata id."""
    found = {}
    for number in trace.raw.type_ids:
        schema = trace.raw.types.name_of(number)
        if matches(schema):
            found[number] = schema
    return found


def sample_rows(trace: Trace, types: Mapping[int, EventSchema], read: Reader) -> SampleRows:
    """All events of some types, read window by window: of a million events only these columns are in memory."""
    workers = types_where(trace, lambda schema: schema.provider == RUNTIME and schema.event_id in _WORKER_EVENTS)
    schemas = {number: trace.raw.schema(number) for number in types}
    fields = join_fields(schemas)
    only_workers = wanted_of(number for number in workers if number not in types)
    of_workers = wanted_of(workers)
    pool: set[int] = set()
    parts: list[tuple[Array, ...]] = []
    values: list[Array | None] = []
    for headers in trace.raw.source.windows(wanted_of([*types, *workers])):
        if workers:
            pool.update(headers.thread[lookup(of_workers, headers.metadata_id)].tolist())
            if len(only_workers):
                headers = headers[~lookup(only_workers, headers.metadata_id)]
        state, value = read(EventTable(trace.raw, schemas, headers, fields=fields))
        states = np.broadcast_to(np.asarray(state, np.uint8), len(headers))
        # OS thread ids and indices of rows are small: half the memory
        thread = headers.thread if len(headers) and headers.thread.max() >> 32 else headers.thread.astype(np.uint32)
        parts.append((headers.time, headers.stack, states, thread))
        values.append(value)
    kinds = (np.int64, np.uint32, np.uint8, np.uint32)
    time, stack, states, column = (_joined([part[at] for part in parts], kind) for at, kind in enumerate(kinds))
    counted = all(value is None for value in values)
    value = (
        None
        if counted
        else _joined(
            [np.ones(len(part[0])) if one is None else one for part, one in zip(parts, values, strict=True)], np.float64
        )
    )
    del parts, values
    distinct, thread = _dense(column)
    del column
    # of equal threads the order stays that of time; 16 bits are sorted by radix
    order = np.argsort(thread.astype(np.uint16) if len(distinct) <= 1 << 16 else thread, kind="stable")
    thread, time = thread[order], time[order]
    if ((time[1:] < time[:-1]) & (thread[1:] == thread[:-1])).any():  # a clock that went back, in a damaged file
        again = np.lexsort((time, thread))
        order, time = order[again], time[again]
    threads = _bounded([_thread(trace, number, number in pool) for number in distinct], thread)
    stack, states = stack[order], states[order]
    value = None if value is None else value[order]
    return SampleRows(time=time, stack=stack, thread=thread, state=states, value=value, threads=threads)


def _joined(parts: list[Array], kind: Any) -> Array:
    return np.concatenate([np.zeros(0, kind), *parts])


def _bounded(threads: list[ProfileThread] | tuple[ProfileThread, ...], thread: Array) -> tuple[ProfileThread, ...]:
    """The threads with the rows they have in a sorted column of their indices."""
    edges = np.searchsorted(thread, np.arange(len(threads) + 1, dtype=np.int32)).tolist()
    return tuple(
        replace(one, rows=range(first, last)) for one, first, last in zip(threads, edges[:-1], edges[1:], strict=True)
    )


def _thread(trace: Trace, number: int, in_pool: bool) -> ProfileThread:
    """What the trace says of a value of the ``thread`` column."""
    process = None if trace.raw.info is None else trace.raw.info.process_id
    tid, name = number, ""
    if trace.format.startswith("nettrace 6"):
        row = trace.raw.source.scan.threads.get(number)
        tid = 0 if row is None else row.os_thread_id or 0
        process = process if row is None or row.process_id is None else row.process_id
        name = "" if row is None else row.name or ""
    name = name or (THREAD_POOL if in_pool else "")
    return ProfileThread(thread_id=tid, process_id=process, name=name, rows=range(0))


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
    trace: Trace,
    samples: SampleRows,
    *,
    name: str,
    unit: str,
    length_ns: Array,
    weight: Array,
    notes: tuple[str, ...] = (),
) -> StackProfile:
    """The profile of samples whose lengths and weights are known. Threads without samples are left out; a method is one
    frame, whatever its tier.
    """
    symbols = trace.raw.symbols
    processes = None
    if len(symbols.processes) > 1:
        processes = np.array([thread.process_id or 0 for thread in samples.threads], np.int64)[samples.thread]
    tree = build_stack_tree(trace.raw.stacks, symbols, samples.stack, samples.time, processes)
    node = tree.leaves(samples.stack, samples.time, processes).astype(np.int32, copy=False)
    start_ns = trace.raw.meaning.info.elapsed_ns(samples.time)
    seen = np.array([len(thread.rows) > 0 for thread in samples.threads], np.bool_)
    number = (np.cumsum(seen) - 1).astype(np.int32)
    made = StackProfile(
        name=name,
        unit=unit,
        tree=tree,
        frames=Frames(symbols),
        threads=tuple(thread for thread in samples.threads if thread.rows),
        thread=samples.thread if seen.all() else number[samples.thread],
        start_ns=start_ns,
        length_ns=length_ns,
        weight=weight,
        node=node,
        state=samples.state,
        origin=origin_of(trace),
        from_ns=0,
        to_ns=int((start_ns + length_ns).max(initial=0)),
        notes=notes,
    )
    return without_tiers(made)


def origin_of(trace: Trace) -> Origin:
    """Where a profile comes from."""
    process, lost = trace.raw.process, trace.lost
    return Origin(
        name=trace.name,
        process_id=process.pid,
        command_line=process.command_line or "",
        start=trace.start,
        events=len(trace),
        lost=lost.total if lost.known else None,
        complete=trace.complete,
        damage=trace.damage,
    )
