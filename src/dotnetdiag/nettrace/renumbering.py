"""Sequence numbers of a selection, or of a trace in another version: they count what is kept and what was lost, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.scanning import Contents

_HALF = 0x80000000


class Numbers:
    """Those of the events that ``keep`` marks (None: all), from 1 on for each capture thread (by ``os_threads``).

    ``lossy`` are the threads that lost something, by segment; ``needy`` those of them that did so before the first event
    of theirs that is kept in it. An id that was given to a new thread begins at 1 again where all of both were kept.
    """

    def __init__(self, contents: Contents, keep: npt.NDArray[np.bool_] | None, os_threads: Mapping[int, int]) -> None:
        rows = len(contents)
        losses = _losses(contents)
        places = [(os_threads.get(thread, thread), clock, count) for thread, _, clock, count in losses.places]
        owner = contents.headers.capture_thread
        if os_threads:
            distinct, which = np.unique(owner, return_inverse=True)
            owner = np.array([os_threads.get(one, one) for one in distinct.tolist()], np.uint64)[which]
        kept = np.ones(rows, np.int64) if keep is None else keep.astype(np.int64)
        # the losses stand before the events of their rows
        before = np.array([clock // 2 - segment for _, segment, clock, _ in losses.places], np.int64)
        thread = np.insert(owner, before, np.array([one for one, _, _ in places], np.uint64))
        weight = np.insert(kept, before, np.array([count for _, _, count in places], np.int64))
        self._clock = np.insert(_clock(contents), before, np.array([clock for _, clock, _ in places], np.int64))
        row = np.insert(np.arange(rows), before, -1)
        order = np.argsort(thread, kind="stable")
        thread, weight, self._clock, row = thread[order], weight[order], self._clock[order], row[order]
        is_event = row >= 0
        is_first = np.append(True, thread[1:] != thread[:-1])[: len(thread)]
        edges = [*np.flatnonzero(is_first).tolist(), len(thread)]
        self.threads = dict(zip(thread[is_first].tolist(), pairwise(edges), strict=True))
        """Where the entries of each stand."""
        total = np.cumsum(weight)
        restarts = self._restarts(losses.restarted, os_threads, is_event & (weight > 0), weight, is_first)
        self._numbers = _count(total, weight, is_first | restarts)
        if (self._numbers[np.flatnonzero(restarts) - 1] >= _HALF).any():  # would not be seen to fall back
            self._numbers = _count(total, weight, is_first)
        self.sequence = np.empty(rows, np.uint32)
        self.sequence[row[is_event]] = self._numbers[is_event].astype(np.uint32)
        self.lossy: dict[int, set[int]] = {}
        self.needy: dict[int, set[int]] = {}
        events = np.append(0, np.cumsum(np.where(is_event, weight, 0)))
        starts = contents.segment_starts.tolist()
        for (one, clock, _), (_, segment, _, _) in zip(places, losses.places, strict=True):
            self.lossy.setdefault(segment, set()).add(one)
            if events[self._find(one, clock - 1)] == events[self._find(one, 2 * (starts[segment] + segment))]:
                self.needy.setdefault(segment, set()).add(one)

    def at(self, thread: int, row: int, segment: int) -> int:
        """The last number of a thread that was attempted before the end of a segment, which is before that row."""
        place = self._find(thread, 2 * (row + segment))
        return int(self._numbers[place - 1]) & 0xFFFFFFFF if place > self.threads.get(thread, (place, 0))[0] else 0

    def _find(self, thread: int, clock: int) -> int:
        """Behind the thread's entries up to that time."""
        first, last = self.threads.get(thread, (0, 0))
        return int(first + np.searchsorted(self._clock[first:last], clock, side="right"))

    def _restarts(
        self,
        restarted: list[tuple[int, int]],
        os_threads: Mapping[int, int],
        is_kept: npt.NDArray[np.bool_],
        weight: npt.NDArray[np.int64],
        is_first: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.bool_]:
        """Entries that may begin at 1 again: kept, as what stands before it is, and nothing was lost between."""
        found = np.zeros(len(weight), np.bool_)
        for thread, clock in restarted:
            place = self._find(os_threads.get(thread, thread), clock) - 1
            found[place] = not is_first[place] and is_kept[place] and is_kept[place - 1]
        return found


def _count(
    total: npt.NDArray[np.int64], weight: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Sums of the weights, from nothing where something begins."""
    return total - np.maximum.accumulate(np.where(begins, total - weight, 0))


class _Losses(LossAccount):
    """Where events were lost: (thread, segment, time, how many), and (thread, time) where ids were given to other threads.

    Times are those of ``_clock``; the end of a segment, before a row, has 2 * (row + segment).
    """

    __slots__ = ("places", "restarted")

    def __init__(self, *, starts_at_one: bool) -> None:
        super().__init__(starts_at_one=starts_at_one)
        self.places: list[tuple[int, int, int, int]] = []
        self.restarted: list[tuple[int, int]] = []

    def _lose(self, thread: int, segment: int, after: int | None, before: int, count: int) -> None:  # noqa: ARG002
        if count:
            self.places.append((thread, segment, before, count))

    def _jump(self, thread: int, segment: int, before: tuple[int, int | None] | None, first: int, time: int) -> None:
        restarts = self.restarts
        super()._jump(thread, segment, before, first, time)
        if self.restarts > restarts:
            self.restarted.append((thread, time))


def _clock(contents: Contents) -> npt.NDArray[np.int64]:
    """2 * (row + segment) + 1 of each event."""
    rows = np.arange(len(contents))
    return 2 * (rows + np.searchsorted(contents.segment_starts, rows, side="right") - 1) + 1


def _losses(contents: Contents) -> _Losses:
    found = _Losses(starts_at_one=not contents.format.startswith("nettrace 6"))
    if not contents.lost.known or not (contents.lost.total or contents.lost.restarts):
        return found
    headers, points, removals = contents.headers, contents.sequence_points, contents.removals
    thread, number = headers.capture_thread, headers.sequence
    clock = _clock(contents)
    begins = np.ones(len(headers), np.bool_)
    begins[1:] = (thread[1:] != thread[:-1]) | (number[1:] - number[:-1] != 1)
    begins[contents.segment_starts[contents.segment_starts < len(headers)]] = True
    runs = np.flatnonzero(begins)
    removal = 0
    for segment, (first, last) in enumerate(pairwise([*contents.segment_starts.tolist(), len(headers)])):
        own = runs[np.searchsorted(runs, first) : np.searchsorted(runs, last)] - first
        found.add_block(segment, thread[first:last], number[first:last], clock[first:last], own)
        while removal < len(removals) and removals[removal][0] == segment:
            found.remove_thread(segment, 2 * (last + segment), *removals[removal][1:])
            removal += 1
        if segment < len(points):
            time, forget, threads = points[segment]
            before_start = contents.info is not None and time < contents.info.sync_ticks
            found.add_sequence_point(segment, 2 * (last + segment), threads, forget=forget, before_start=before_start)
    return found
