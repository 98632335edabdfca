"""The sort of a whole file is the rule for streams: queues per capture thread, let out by sorted
events (nettrace.md §8).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import flood

from dotnetdiag.nettrace import HeaderColumns, read, sort_order


def by_queues(headers: HeaderColumns, segment_starts: list[int]) -> list[int]:
    """The rule as it stands in the document, event by event."""
    queues: dict[int, list[int]] = {}
    delivered: list[int] = []
    time = headers.time.tolist()

    def let_out(before: int | None) -> None:
        while True:
            best: tuple[int, list[int]] | None = None
            for queue in queues.values():  # in order of appearance: the first of equals wins
                if queue and (before is None or time[queue[0]] < before) and (best is None or time[queue[0]] < best[0]):
                    best = (time[queue[0]], queue)
            if best is None:
                return
            delivered.append(best[1].pop(0))

    for row, (thread, is_sorted) in enumerate(
        zip(headers.capture_thread.tolist(), headers.is_sorted.tolist(), strict=True)
    ):
        if row in segment_starts:
            let_out(None)
        queue = queues.setdefault(thread, [])
        if is_sorted:
            let_out(time[row])
            delivered.append(row)
        else:
            queue.append(row)
    let_out(None)
    return delivered


def conforming(rng: np.random.Generator, events: int) -> HeaderColumns:
    """A file as a runtime writes it: per flush a run of each thread, the first event of the flush sorted;
    many equal times.
    """
    headers, _ = flood(events)
    rows, now = 0, 100
    while rows < events:
        size = min(int(rng.integers(1, 30)), events - rows)
        cuts = sorted(rng.integers(0, size + 1, 2).tolist())
        for first, last in ((0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], size)):
            part = slice(rows + first, rows + last)
            headers.time[part] = np.sort(now + rng.integers(0, 6, last - first))
            headers.capture_thread[part] = int(rng.integers(1, 5))
        flush = slice(rows, rows + size)
        # a thread that comes twice within a flush must stay in time order
        for thread in range(1, 5):
            mine = np.flatnonzero(headers.capture_thread[flush] == thread) + rows
            headers.time[mine] = np.sort(headers.time[mine])
        headers.is_sorted[flush] = False
        for row in range(rows, rows + size):
            headers.is_sorted[row] = (
                bool(headers.time[row : rows + size].min() >= headers.time[row]) and rng.random() < 0.5
            )
        rows += size
        now += int(rng.integers(5, 8))
    return headers


def test_sort_is_what_the_queues_deliver() -> None:
    rng = np.random.default_rng(11)
    moved = 0
    for _ in range(60):
        headers = conforming(rng, 120)
        starts = sorted({0, *rng.integers(0, 120, 2).tolist()})
        later = np.searchsorted(starts, np.arange(120), side="right") * 1000
        headers = replace(headers, time=headers.time + later)
        order = sort_order(headers, np.array(starts)).tolist()
        assert order == by_queues(headers, starts)
        moved += order != list(range(120))
    assert moved > 50


@pytest.mark.parametrize("name", [name for name in recordings() if "nettrace" in name])
def test_sort_of_a_recording_is_what_the_queues_deliver(name: str) -> None:
    contents = read(data_of(name))
    end = min(len(contents), 20_000)
    starts = [start for start in contents.segment_starts.tolist() if start < end]
    headers = contents.headers[:end]
    assert sort_order(headers, np.array(starts)).tolist() == by_queues(headers, starts)


def test_netperf_stays_in_file_order() -> None:
    headers, _ = flood(10)
    assert sort_order(headers[np.arange(10)[::-1]], in_file_order=True).tolist() == list(range(10))


def test_nothing_sorts_to_nothing() -> None:
    assert sort_order(HeaderColumns.allocate(0)).tolist() == []
