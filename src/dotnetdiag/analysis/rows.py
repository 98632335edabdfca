"""From the events of a trace to the samples of a profile: threads, order, times, leaves, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.profile import Origin, ProfileThread, StackProfile
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.stack_tree import build_stack_tree
from dotnetdiag.trace.symbols import RUNTIME
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
    """Events by thread and then by time. ``rows`` are theirs in ``table``; threads in the order of their first event."""

    table: EventTable
    rows: Array
    thread: Array
    threads: tuple[ProfileThread, ...]


def types_where(trace: Trace, matches: Callable[[EventSchema], bool]) -> dict[int, EventSchema]:
    """The event types of a trace that are wanted, by metadata id."""
    found = {}
    for number in trace.type_ids:
        schema = trace.types.name_of(number)
        if matches(schema):
            found[number] = schema
    return found


def sample_rows(trace: Trace, numbers: Iterable[int]) -> SampleRows:
    """All events of some types."""
    wanted = list(numbers)
    starts = types_where(trace, lambda schema: schema.provider == RUNTIME and schema.event_id in _WORKER_EVENTS)
    headers = trace.source.collect(wanted_of([*wanted, *starts]))
    pool: frozenset[int] = frozenset()
    if starts:
        is_start = np.isin(headers.metadata_id, np.array(list(starts), np.uint32))
        if is_start.any():
            pool = frozenset(trace.meaning.tid(headers[is_start]).tolist())
            if not set(wanted) & set(starts):
                headers = headers[~is_start]
    table = EventTable(trace, {number: trace.schema(number) for number in wanted}, headers)
    columns, thread = _dense(headers.thread)
    # of equal threads the order stays that of time; 16 bits are sorted by radix
    rows = np.argsort(thread.astype(np.uint16) if len(columns) <= 1 << 16 else thread, kind="stable")
    thread = thread[rows]
    heads = np.flatnonzero(np.diff(thread, prepend=-1))
    bounds = [*heads.tolist(), len(thread)]
    some = headers[rows[heads]]
    tids, pids = trace.meaning.tid(some).tolist(), trace.meaning.pid(some).tolist()
    names = _names(trace, columns)
    threads = []
    for index, (tid, pid) in enumerate(zip(tids, pids, strict=True)):
        name = names.get(columns[index], "") or (THREAD_POOL if tid in pool else "")
        rows_of = range(bounds[index], bounds[index + 1])
        threads.append(ProfileThread(thread_id=tid, process_id=None if pid < 0 else pid, name=name, rows=rows_of))
    return SampleRows(table=table, rows=rows, thread=thread, threads=tuple(threads))


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
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    order = there[np.argsort(first[there])]
    table = np.zeros(top + 1, np.int32)
    table[order] = np.arange(len(order))
    return order.tolist(), table[numbers]


def _names(trace: Trace, columns: list[int]) -> Mapping[int, str]:
    """Names that version 6 gives to threads."""
    if not trace.format.startswith("nettrace 6"):
        return {}
    rows = trace.source.scan.threads
    return {index: rows[index].name or "" for index in columns if index in rows}


def profile_of(
    trace: Trace,
    samples: SampleRows,
    *,
    name: str,
    unit: str,
    length_ns: Array,
    weight: Array,
    state: Array,
    keep: Array | None = None,
    notes: tuple[str, ...] = (),
) -> StackProfile:
    """The profile of events with what is known of each; columns in the order of ``samples``, less what ``keep`` leaves
    out.
    """
    headers = samples.table.headers
    symbols = trace.symbols
    processes = None
    if len(symbols.processes) > 1:
        processes = trace.meaning.pid(headers)
    tree = build_stack_tree(trace.stacks, symbols, headers.stack, headers.time, processes)
    node = tree.leaves(headers.stack, headers.time, processes)[samples.rows].astype(np.int32, copy=False)
    start_ns = trace.meaning.elapsed_ns(headers)[samples.rows]
    made = StackProfile(
        name=name,
        unit=unit,
        tree=tree,
        frames=Frames(symbols),
        threads=samples.threads,
        thread=samples.thread,
        start_ns=start_ns,
        length_ns=length_ns,
        weight=weight,
        node=node,
        state=state,
        origin=origin_of(trace),
        from_ns=0,
        to_ns=int((start_ns + length_ns).max(initial=0)),
        notes=notes,
    )
    return made if keep is None else made.take(keep)


def origin_of(trace: Trace) -> Origin:
    """Where a profile comes from."""
    process, lost = trace.process, trace.lost
    return Origin(
        name=trace.name,
        process_id=process.pid,
        command_line=process.command_line or "",
        start=trace.start,
        events=len(trace),
        lost=lost.total if lost.known else None,
        complete=trace.complete,
        broke=trace.broke,
    )
