"""Several event blocks decoded together: one call of the kernels, one set of columns.

Two phases: :func:`decode_group` needs nothing but the bytes and may run in any thread; :func:`settle_group` brings
the result into the state of the trace and must be called in file order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.blocks import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.decode import COMPRESSED_FORMS, NO_TALLY, Checked, Decoded, Form, Job, decode, fill, split
from dotnetdiag.nettrace.kernels import DETAIL, GUIDS, KERNELS, PROBLEM, ROWS, RUNS, STOP, TABLE_WIDTH, WIDE
from dotnetdiag.nettrace.state import TraceState, move_threads

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""``map`` itself, or the ``map`` of a thread pool: kernels release the GIL."""
SMALLEST_SHARE = 1 << 18
"""Bytes of blocks below which a second thread does not pay."""


@dataclass(frozen=True, slots=True)
class EventBlock:
    """An event block with what is needed to decode it; ``moved``: see ``TraceState.moved_threads``."""

    block: Block
    job: Job
    segment: int
    moved: dict[int, int] | None


@dataclass(frozen=True, slots=True)
class Group:
    """What the first phase made: joined columns (``headers`` and the rest), or ``parts``, one for each block.

    ``firsts`` are the rows where blocks begin, and the number of rows. ``findings``: (block, problem, position, bytes
    missing, strays) of the blocks with something wrong.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    findings: list[tuple[int, int, int, int, tuple[int, int, int]]]
    parts: list[Decoded] | None = None


def one_form(jobs: Iterable[Job]) -> Form | None:
    """The form of all jobs when it is one and compressed."""
    forms = {job.form for job in jobs}
    form = forms.pop() if len(forms) == 1 else None
    return form if form in COMPRESSED_FORMS else None


def check(
    view: memoryview, base: int, jobs: Sequence[Job], form: Form, threads: int, map: Map, ids: int
) -> tuple[Checked, npt.NDArray[np.int64] | None]:
    """The check pass over compressed blocks; with ``ids`` also events and bytes by metadata id (None: ids
    too large).
    """
    assert KERNELS is not None
    kernels = KERNELS
    starts = np.array([job.start - base for job in jobs], np.int64)
    ends = np.array([job.end - base for job in jobs], np.int64)
    table = np.zeros((len(jobs), TABLE_WIDTH), np.int64)
    v6 = form is Form.COMPRESSED_V6
    if ids > 1 << 20:
        return Checked(jobs, v6, starts, table), None

    def share(bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        tally = np.zeros((2, ids + 1), np.int64) if ids else NO_TALLY
        kernels.count(view, starts, ends, bounds[0], bounds[1], v6, table, tally)
        return tally

    tallies = list(map(share, _shares(ends - starts, threads)))
    tally: npt.NDArray[np.int64] | None = sum(tallies[1:], tallies[0]) if tallies else NO_TALLY
    if ids and table[:, WIDE].any():
        tally = None
    return Checked(jobs, v6, starts, table), tally


def _shares(sizes: npt.NDArray[np.int64], threads: int) -> list[tuple[int, int]]:
    if threads <= 1:
        return [(0, len(sizes))] if len(sizes) else []
    return split(sizes + 1, max(1, min(threads, int(sizes.sum()) // SMALLEST_SHARE + 1)))


def decode_group(
    events: Sequence[EventBlock],
    view: memoryview,
    base: int,
    *,
    threads: int = 1,
    map: Map = map,
) -> Group:
    """First phase. ``view[0]`` stands at ``base``; payload offsets are positions in ``view``."""
    jobs = [event.job for event in events]
    form = one_form(jobs)
    if KERNELS is None or form is None:
        parts = [decode(view, job, base) for job in jobs]
        nothing = np.zeros(0, np.int64)
        return Group(HeaderColumns.allocate(0), nothing, nothing, nothing, [], parts)
    v6 = form is Form.COMPRESSED_V6
    checked, _ = check(view, base, jobs, form, threads, map, 0)
    table, starts = checked.table, checked.starts
    places, (stacks, labels, metadata) = checked.places()
    rows, runs_count, guids_count = (int(table[:, column].sum()) for column in (ROWS, RUNS, GUIDS))
    headers = HeaderColumns.allocate(rows)
    runs, guids = np.empty(runs_count, np.int64), np.empty(guids_count, np.int64)
    strays = np.zeros((len(jobs), 3), np.int64)

    def share(bounds: tuple[int, int]) -> None:
        first, last = bounds
        fill(
            KERNELS, view, starts, first, last, v6, table, places, stacks, labels, metadata, strays, headers, runs,
            guids,
        )  # fmt: skip

    for _ in map(share, _shares(table[:, STOP] - starts, threads)):
        pass
    findings = []
    for row in np.flatnonzero(table[:, PROBLEM] | strays.any(axis=1)).tolist():
        problem, stop, detail = (int(table[row, column]) for column in (PROBLEM, STOP, DETAIL))
        one, two, three = strays[row].tolist()
        findings.append((row, problem, stop, detail, (one, two, three)))
    return Group(headers, runs, guids, np.append(places[:, 0], rows), findings)


def settle_group(
    state: TraceState, events: Sequence[EventBlock], group: Group, view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Second phase: (columns, rows where sequence numbers may jump, rows where blocks begin and the number of rows)."""
    if group.parts is not None:
        return _settle_parts(state, events, group.parts, view, base)
    headers, firsts = group.headers, group.firsts
    for row, problem, stop, detail, strays in group.findings:
        event = events[row]
        found = headers[int(firsts[row]) : int(firsts[row + 1])]
        left = state.strays(found, event.job, strays)
        state.check_counts(event.block, problem, stop + base, detail, len(found), left)
    state.settle(view, headers, group.guids)
    for row, event in enumerate(events):
        if event.moved:
            move_threads(headers[int(firsts[row]) : int(firsts[row + 1])], event.moved)
    return headers, group.runs, firsts


def _settle_parts(
    state: TraceState, events: Sequence[EventBlock], parts: Sequence[Decoded], view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    made, all_runs, firsts = [], [], [0]
    for event, found in zip(events, parts, strict=True):
        headers = found.headers
        if found.frames is not None:
            headers = state.netperf(event.block, view, base, found)
        strays = state.strays(headers, event.job, found.strays)
        state.check_counts(event.block, found.problem, found.stop + base, found.detail, len(found.headers), strays)
        headers = state.settle(view, headers, found.guids)
        move_threads(headers, event.moved)
        all_runs.append(found.runs + firsts[-1])
        firsts.append(firsts[-1] + len(headers))
        made.append(headers)
    runs = np.concatenate(all_runs) if all_runs else np.zeros(0, np.int64)
    return HeaderColumns.concatenate(made), runs, np.array(firsts, np.int64)
