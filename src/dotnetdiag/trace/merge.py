"""Several traces as one, in nettrace 6, which alone can tell processes apart.

Clocks. Files of one machine since its last start share a clock: when their clocks have the same frequency and agree with
their dates to 10 ms, ticks are taken as they are. Otherwise times are UTC, from the dates of the files, which are
known to the millisecond. The merged trace begins with the earliest.

Processes. One is (file, pid): in containers every pid is 1. Where an earlier file has a process of that number too, it gets
another, which no system gives: 10,000,001. So two recordings of one process are two processes, each with its own symbols.

Numbers. Event types that are equal become one. Threads get a row for each file, with process id and OS thread id; stacks
and activity ids are written again. Sequence numbers stay, so that lost events are counted as before; a thread id that
was given to a new thread gets a row of its own for it. What says where events were lost gets coarser.

Not possible: files of different pointer sizes; two files with mappings of native code (``Universal.System``), whose
numbers mean something in their own file only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import UsageError
from dotnetdiag.events.kernels import gather
from dotnetdiag.events.well_known import UNIVERSAL_SYSTEM
from dotnetdiag.nettrace import Contents, GuidTable, HeaderColumns, Metadata, ThreadInfo, TraceInfo, Writer
from dotnetdiag.nettrace.output import Sink
from dotnetdiag.nettrace.rewriting import written_labels
from dotnetdiag.trace.recorded import SESSION, Recorded

Rows: TypeAlias = "npt.NDArray[np.int64]"

SAME_CLOCK_NS = 10_000_000
"""Clocks that agree with the dates so well are one: a date is cut to 1 ms, and read some time beside the clock."""
CHUNK_ROWS = 1 << 18
NEXT_PROCESS = 10_000_000
"""From a pid to the number of another process that has it too. Linux has pids to 4,194,304."""
_HALF = 1 << 31
_WORD = 0xFFFFFFFF


def merge(files: Sequence[Contents], out: Sink, recorded: Sequence[Recorded] = ()) -> list[dict[int, int]]:
    """Write the events of all files in time order, and which time each tells of, where that is given. UsageError, and nothing is written, for what
    cannot be merged.

    Returns for each file the numbers of its processes by their pids.
    """
    _check(files)
    infos = [_info(contents) for contents in files]
    clock, times, apart = _clock(infos, files)
    processes = _number_processes(files)
    writer = Writer(
        out,
        version=6,
        pointer_size=infos[0].pointer_size,
        start_ns=clock.start_ns,
        sync_ticks=clock.sync_ticks,
        frequency=clock.frequency,
        processors=max((info.processors or 0 for info in infos), default=0) or None,
        sampling_ns=next((info.sampling_ns for info in infos if info.sampling_ns), None),
        key_values=_sessions(apart, processes, recorded) if recorded else (),
    )
    metadata = _add_metadata(files, writer)
    numbered: list[_Numbers] = []
    for contents, own in zip(files, processes, strict=True):
        first = sum(len(one.threads) for one in numbered) + 1
        numbered.append(_number(contents, own, first))
    for one in numbered:
        for thread in one.threads:
            writer.add_thread(thread)
    begin = {index: number for one in numbered for index, number in one.initial.items()}
    if begin:
        earliest = min((int(time.min()) for time in times if len(time)), default=clock.sync_ticks)
        writer.write_sequence_point(min(earliest, clock.sync_ticks), begin)
    which, rows = _order(files, times)
    for first, last in pairwise([*range(0, len(which), CHUNK_ROWS), len(which)]):
        _write_chunk(files, numbered, metadata, times, which[first:last], rows[first:last], writer)
        if last < len(which):
            writer.write_sequence_point()  # stacks and labels begin anew: memory stays bounded
    writer.flush()
    writer.write_sequence_point(threads={index: n for one in numbered for index, n in one.final.items()})
    writer.close(sequence_point=False)
    return processes


def _sessions(
    apart: Sequence[int], processes: Sequence[Mapping[int, int]], recorded: Sequence[Recorded]
) -> list[tuple[str, str]]:
    """From when to when each process was recorded: no event says when that began, or that a part of a recording, or what breaks off, is over."""
    made = dict[int, str]()
    for apart_ns, numbers, told in zip(apart, processes, recorded, strict=True):
        for pid, number in numbers.items():
            begin_ns, end_ns = (max(0, apart_ns + round(1e9 * at)) for at in told.of(pid).span)
            missing_ns = round(1e9 * told.missing_s(pid))
            made[number] = f"{number} {begin_ns} {end_ns}" + (f" {missing_ns}" if missing_ns else "")
    return [(SESSION, said) for _, said in sorted(made.items())]


def _number_processes(files: Sequence[Contents]) -> list[dict[int, int]]:
    taken: set[int] = set()
    made = []
    for contents in files:
        said = (_info(contents).process_id, *(thread.process_id for thread in contents.threads.values()))
        own = {pid for pid in said if pid}  # 0 is the kernel's
        kept = own - taken
        numbers = {pid: pid for pid in kept}  # of a file that was merged itself one may be what another would get
        taken |= kept
        for pid in sorted(own - kept):
            numbers[pid] = next(number for number in count(pid, NEXT_PROCESS) if number not in taken)
            taken.add(numbers[pid])
        made.append(numbers)
    return made


def _info(contents: Contents) -> TraceInfo:
    if contents.info is None:
        raise UsageError("a file without a Trace object cannot be merged: its clock is not known")
    if contents.info.start_ns is None:
        raise UsageError("a file without a valid date cannot be merged")
    return contents.info


def _check(files: Sequence[Contents]) -> None:
    if len(files) < 2:
        raise UsageError("two files or more are needed")
    sizes = {_info(contents).pointer_size for contents in files}
    if len(sizes) > 1:
        raise UsageError("files of 32-bit and 64-bit processes cannot be merged")
    for contents in files:
        missing = set(np.unique(contents.headers.metadata_id).tolist()) - set(contents.metadata)
        if missing:
            raise UsageError(f"events of metadata ids that the file does not define: {sorted(missing)[:5]}")
    mapped = [
        contents
        for contents in files
        if any(
            metadata.provider == UNIVERSAL_SYSTEM and "Mapping" in metadata.name
            for metadata in contents.metadata.values()
        )
    ]
    if len(mapped) > 1:
        raise UsageError("only one of the files may have mappings of native code (Universal.System)")


def _clock(infos: Sequence[TraceInfo], files: Sequence[Contents]) -> tuple[TraceInfo, list[Rows], list[int]]:
    """The clock of the merged trace, the times of all events in its ticks, and how many ns behind its start each file's is."""
    earliest = min(infos, key=lambda info: info.start_ns or 0)
    frequency = earliest.frequency
    one_clock = all(info.frequency == frequency for info in infos)
    for info in infos:
        apart_ns = (info.start_ns or 0) - (earliest.start_ns or 0)
        ticked_ns = (info.sync_ticks - earliest.sync_ticks) * 10**9 // frequency
        one_clock = one_clock and abs(apart_ns - ticked_ns) <= SAME_CLOCK_NS
    if one_clock:  # dates are told to the ms
        ticked = [(info.sync_ticks - earliest.sync_ticks) * 10**9 // frequency for info in infos]
        return earliest, [contents.headers.time for contents in files], ticked
    start = earliest.start_ns or 0
    apart = [(info.start_ns or 0) - start for info in infos]
    if max(apart) > np.iinfo(np.int64).max:
        raise UsageError("files that began centuries apart cannot be merged")
    times = [
        np.minimum(info.elapsed_ns(contents.headers.time), np.iinfo(np.int64).max - ns) + np.int64(ns)
        for info, contents, ns in zip(infos, files, apart, strict=True)
    ]
    return replace(earliest, frequency=1_000_000_000, sync_ticks=0), times, apart


def _order(files: Sequence[Contents], times: Sequence[Rows]) -> tuple[npt.NDArray[np.int16], Rows]:
    """(file, row) of all events in time order; within a file in the order in which they happened."""
    orders = [contents.order() for contents in files]
    which = np.concatenate([np.full(len(order), file, np.int16) for file, order in enumerate(orders)])
    rows = np.concatenate(orders)
    moments = np.concatenate(
        [np.maximum.accumulate(time[order]) if len(order) else time for time, order in zip(times, orders, strict=True)]
    )
    merged = np.argsort(moments, kind="stable")
    return which[merged], rows[merged]


def _add_metadata(files: Sequence[Contents], writer: Writer) -> list[dict[int, int]]:
    """New ids by old ones, per file."""
    known: dict[Metadata, int] = {}
    made = []
    for contents in files:
        ids: dict[int, int] = {}
        for number, metadata in contents.metadata.items():
            bare = replace(metadata, metadata_id=0)
            if bare not in known:
                known[bare] = len(known) + 1
                writer.add_metadata(replace(metadata, metadata_id=known[bare]))
            ids[number] = known[bare]
        made.append(ids)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Threads of one file: the new index of each event's thread and capture thread, sequence numbers, and what
    sequence points at the beginning and the end have to say.
    """

    threads: list[ThreadInfo]
    thread: npt.NDArray[np.uint64]
    capture_thread: npt.NDArray[np.uint64]
    sequence: npt.NDArray[np.uint32]
    initial: dict[int, int]
    final: dict[int, int]


def _number(contents: Contents, processes: Mapping[int, int], first_index: int) -> _Numbers:
    headers = contents.headers
    rows_of_threads = contents.format.startswith("nettrace 6")
    numbered = not contents.format.startswith("NetPerf")
    starts_at_one = numbered and not rows_of_threads
    pid = _info(contents).process_id
    threads: list[ThreadInfo] = []

    def add(thread: int) -> int:
        known = contents.threads.get(thread) if rows_of_threads else None
        index = first_index + len(threads)
        own = pid if known is None or known.process_id is None else known.process_id
        process = processes[own] if own else own
        if known is None:
            threads.append(
                ThreadInfo(index=index, process_id=process, os_thread_id=None if rows_of_threads else thread)
            )
        else:
            threads.append(replace(known, index=index, process_id=process))
        return index

    # lives: a capture thread begins anew where its numbers fall back, and where a sequence point forgets all
    forgets = np.cumsum([0, *(forget for _, forget, _ in contents.sequence_points)])
    segment_ends = np.append(contents.segment_starts[1:], len(headers))
    epoch = np.zeros(len(headers), np.int64)
    for segment, (first, last) in enumerate(zip(contents.segment_starts.tolist(), segment_ends.tolist(), strict=True)):
        epoch[first:last] = forgets[min(segment, len(forgets) - 1)]
    order = np.argsort(headers.capture_thread, kind="stable")
    capture, sequence = headers.capture_thread[order], headers.sequence[order].astype(np.int64)
    begins = np.ones(len(order), np.bool_)
    if len(order):
        steps = (sequence[1:] - sequence[:-1]) & _WORD
        begins[1:] = capture[1:] != capture[:-1]
        if numbered:
            begins[1:] |= (steps == 0) | (steps >= _HALF) | (epoch[order][1:] != epoch[order][:-1])
    life = np.cumsum(begins) - 1
    first_rows = np.flatnonzero(begins)
    last_rows = np.append(first_rows[1:], len(order))[: len(first_rows)] - 1
    index_of_life = np.array([add(thread) for thread in capture[first_rows].tolist()], np.uint64)
    new_capture = np.empty(len(headers), np.uint64)
    new_capture[order] = index_of_life[life] if len(order) else np.zeros(0, np.uint64)
    numbers = headers.sequence
    if not numbered:
        counted = np.arange(len(order)) - first_rows[life] + 1
        numbers = np.empty(len(headers), np.uint32)
        numbers[order] = counted
    first_index_of = dict(zip(capture[first_rows][::-1].tolist(), index_of_life[::-1].tolist(), strict=True))
    distinct, which = np.unique(headers.thread, return_inverse=True)
    mapped = [first_index_of[thread] if thread in first_index_of else add(thread) for thread in distinct.tolist()]
    new_thread = np.array(mapped, np.uint64)[which]

    initial: dict[int, int] = {}
    final: dict[int, int] = {}
    if numbered:
        firsts, lasts = sequence[first_rows].tolist(), sequence[last_rows].tolist()
        for index, number, last in zip(index_of_life.tolist(), firsts, lasts, strict=True):
            final[index] = last
            if starts_at_one and 1 < number < _HALF:
                initial[index] = 0
        _settle(
            contents, order, capture, sequence, life, epoch[order], index_of_life, initial, final, add,
            starts_at_one=starts_at_one,
        )  # fmt: skip
    return _Numbers(
        threads=threads,
        thread=new_thread,
        capture_thread=new_capture,
        sequence=numbers,
        initial=initial,
        final=final,
    )


def _settle(
    contents: Contents,
    order: Rows,
    capture: npt.NDArray[np.uint64],
    sequence: Rows,
    life: Rows,
    epoch: Rows,
    index_of_life: npt.NDArray[np.uint64],
    initial: dict[int, int],
    final: dict[int, int],
    add: Callable[[int], int],
    *,
    starts_at_one: bool,
) -> None:
    """What the sequence points and removals of the file say, as the numbers that threads begin and end with."""
    ghosts: dict[int, int] = {}  # threads that only sequence points know
    bounds = [*contents.segment_starts[1:].tolist(), len(order)]
    forgets = 0
    removed: dict[int, list[tuple[int, int]]] = {}
    for segment, thread, number in contents.removals:
        removed.setdefault(segment, []).append((thread, number))
    begin = _info(contents).sync_ticks
    points = [(time < begin, forget, threads) for time, forget, threads in contents.sequence_points]
    for segment, ((is_early, forget, threads), boundary) in enumerate(
        zip([*points, (False, False, ())], bounds, strict=False)
    ):
        begins = not starts_at_one or (is_early and not segment and not boundary)  # a part of a stream
        for thread, number in (*removed.get(segment, ()), *threads):
            low = int(np.searchsorted(capture, np.uint64(thread), side="left"))
            high = int(np.searchsorted(capture, np.uint64(thread), side="right"))
            at = low + int(np.searchsorted(order[low:high], boundary))
            if at > low and epoch[at - 1] == forgets:
                index = int(index_of_life[life[at - 1]])
                ahead = (number - int(sequence[at - 1])) & _WORD
                if 0 < ahead < _HALF and (number - final[index]) & _WORD < _HALF:
                    final[index] = number
            elif low == high:
                if thread not in ghosts:
                    if starts_at_one and not number:
                        continue
                    ghosts[thread] = index = add(thread)
                    initial[index] = number if begins else 0
                final[ghosts[thread]] = number
            elif at < high and begins:
                index = int(index_of_life[life[at]])
                initial[index] = number if starts_at_one else initial.get(index, number)
        forgets += forget


def _write_chunk(
    files: Sequence[Contents],
    numbered: Sequence[_Numbers],
    metadata: Sequence[dict[int, int]],
    times: Sequence[Rows],
    which: npt.NDArray[np.int16],
    rows: Rows,
    writer: Writer,
) -> None:
    headers = HeaderColumns.allocate(len(rows))
    payloads: list[npt.NDArray[np.uint8]] = []
    size = 0
    for file, contents in enumerate(files):
        places = np.flatnonzero(which == file)
        if not len(places):
            continue
        source = rows[places]
        own, numbers = contents.headers[source], numbered[file]
        ids = metadata[file]
        headers.metadata_id[places] = _mapped(own.metadata_id, ids.__getitem__)
        headers.sequence[places] = numbers.sequence[source]
        headers.thread[places] = numbers.thread[source]
        headers.capture_thread[places] = numbers.capture_thread[source]
        headers.processor[places] = own.processor
        headers.time[places] = times[file][source]
        headers.stack[places] = _mapped(own.stack, partial(_stack, contents, writer))
        headers.label_list[places] = written_labels(
            contents, own, writer, from_v6=contents.format.startswith("nettrace 6")
        )
        offsets, data = gather(contents.buffer, own.payload_offset, own.payload_length.astype(np.int64))
        headers.payload_offset[places] = offsets[:-1] + size
        headers.payload_length[places] = own.payload_length
        payloads.append(data)
        size += len(data)
    headers.activity[:] = 0
    headers.related[:] = 0
    headers.is_sorted[:] = True
    writer.write_events(headers, np.concatenate(payloads) if payloads else np.zeros(0, np.uint8), guids=GuidTable())


def _stack(contents: Contents, writer: Writer, stack: int) -> int:
    return writer.add_stack(contents.stacks.raw(stack)) if stack else 0


def _mapped(column: npt.NDArray[np.uint32], new: Callable[[int], int]) -> npt.NDArray[np.uint32]:
    distinct, which = np.unique(column, return_inverse=True)
    return np.array([new(number) for number in distinct.tolist()], np.uint32)[which]
