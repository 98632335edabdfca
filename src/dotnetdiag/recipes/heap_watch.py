"""Heaps of one process over time: what only grows is likely to be a leak."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import Cancelled, DiagnosticsError, UsageError
from dotnetdiag.heap.difference import Growth, module_file, numbers_by_type
from dotnetdiag.heap.paths import ways_to_types
from dotnetdiag.heap.way_growth import BytesByWay, GrownWays
from dotnetdiag.recipes.heap_collect import HeapObserver, HeapOptions, collect_heap
from dotnetdiag.recipes.heap_starting import waiting_check
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import LOOK_S, Target, connected

if TYPE_CHECKING:
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.recipes.heap_collect import CollectedHeap
    from dotnetdiag.table import Table

MOST_SUSPECTS = 10
LEAST_GROWN, STEADY_STEPS = 1024, 3
"""Bytes that a type keeps alive more to be suspected, where it has not grown so often: in an idle process one thread comes, or some handles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapSample:
    """One heap of several, by its totals. ``at_s``: since the first began. ``pause_ms``: how long the program stood still for all of its walks, at
    least.
    """

    at_s: float
    nodes: int
    objects: int
    bytes: int
    grown_bytes: int
    complete: bool
    pause_ms: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A type that only grows, and the way on which most of what has grown is reached in the last heap: since the second heap where there are
    three, else since the first. ``held_by``: the type of the suspect that is nearest before it on that way; None where there is none. Of suspects
    that hold each other in a circle (an event and the list of its handlers) the one that is nearest to the roots has None: it stands before the
    others, and following ``held_by`` always comes to an end.
    """

    row: dict[str, Any]
    path: tuple[str, ...]
    held_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row of ``growing_types``, ``path`` and ``held_by``."""
        return {**self.row, "path": list(self.path), "held_by": self.held_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedHeaps:
    """``samples``, the first first, ``compared`` of them: those that are complete. ``growing``: a row for each type that only grew in these, as
    :func:`growing_types` has them (None for fewer than two); ``suspects``: those that keep most more alive than before, each before those
    that it holds. ``problem``: what ended it before its time.
    """

    samples: tuple[HeapSample, ...]
    compared: int
    growing: Table | None
    suspects: tuple[Suspect, ...]
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "heaps": [one.to_json() for one in self.samples],
            "compared": self.compared,
            "suspects": [one.to_json() for one in self.suspects],
            "problem": self.problem,
        }


@dataclass(slots=True, kw_only=True)
class HeapWatchObserver:
    """``sample`` gets each heap's totals when it has come, ``collecting`` is what each collection tells."""

    sample: Callable[[HeapSample, CollectedHeap], None] = lambda *_: None
    collecting: HeapObserver = field(default_factory=HeapObserver)


def watch_heaps(
    target: Target,
    *,
    every: float | str,
    count: int | None = None,
    timeout: float | str | None = None,
    observer: HeapWatchObserver | None = None,
    stop: Stop | None = None,
) -> WatchedHeaps:
    """Collect ``count`` heaps (None: until ``stop.stop()``, or until the process ends), the begin of each ``every`` so long after that of the one
    before. One heap is held at a time, and figures of the others.

    Raises what :func:`collect_heap` raises for the first; a later one that fails ends it, and the result says so. Cancelled after
    ``stop.cancel()``.
    """
    every_s = check_every(every)
    if count is not None and count < 1:
        raise UsageError(f"{count} heaps: give 1 or more")
    observer, stop = observer or HeapWatchObserver(), stop or Stop()
    seen = _Seen()
    check = waiting_check(stop, timeout)
    with connected(target, waiting=observer.collecting.waiting, check=check) as client:
        options = HeapOptions(target=Target(client=client))
        if timeout is not None:
            options = replace(options, timeout=timeout)
        began = time.monotonic()
        problem = None
        while not stop.is_stopping:
            begins = time.monotonic()
            try:
                done = collect_heap(options, observer.collecting, stop)
            except Cancelled:
                if stop.is_cancelled or not seen.samples:
                    raise
                break
            except DiagnosticsError as error:
                if not seen.samples:
                    raise
                problem = str(error)
                break
            observer.sample(seen.take(done, begins - began), done)
            del done
            if count is not None and len(seen.samples) >= count:
                break
            _wait_until(begins + every_s, stop)
    return seen.result(problem)


def check_every(every: float | str) -> float:
    """The seconds from one heap to the next. GrammarError, UsageError for what is no duration, or none."""
    every_s = seconds_of(every)
    if not every_s:
        raise UsageError("give how long it is from one heap to the next: every 10m")
    return every_s


def _wait_until(when: float, stop: Stop) -> None:
    while (left := when - time.monotonic()) > 0 and not stop.is_stopping:
        stop.check()
        time.sleep(min(LOOK_S, left))


class _Seen:
    """What is remembered of the heaps so far."""

    def __init__(self) -> None:
        self.samples: list[HeapSample] = []
        self._growth = Growth()
        self._ways: list[BytesByWay] = []
        """Of the first heap and the second: the first session of a process leaves objects behind."""
        self._last: Heap | None = None

    def take(self, done: CollectedHeap, at_s: float) -> HeapSample:
        heap = done.heap
        if heap.completeness.complete:  # what is missing would have shrunk, and then grown
            self._last = heap
            self._growth.take(numbers_by_type(heap))
            if len(self._ways) < 2:
                self._ways.append(BytesByWay.of(heap))
        sample = HeapSample(
            at_s=round(at_s, 3),
            nodes=heap.nodes,
            objects=heap.objects,
            bytes=heap.bytes,
            grown_bytes=heap.bytes - self.samples[0].bytes if self.samples else 0,
            complete=heap.completeness.complete,
            pause_ms=done.pause_ms if done.all_pauses_ms is None else done.all_pauses_ms,
        )
        self.samples.append(sample)
        return sample

    def result(self, problem: str | None) -> WatchedHeaps:
        compared = self._growth.heaps
        growing = self._growth.table() if compared > 1 else None
        rows = [] if growing is None else growing.to_pylist()
        rows = [row for row in rows if row["steps"] >= STEADY_STEPS or row["retained_bytes_grown"] >= LEAST_GROWN]
        rows.sort(key=lambda row: -int(row["retained_bytes_grown"]))
        grown = None
        if rows and self._last is not None:
            grown = GrownWays(self._ways[0 if compared < 3 else 1], self._last)
        suspects = held_below([Suspect(row=row, path=self._path(row, grown)) for row in rows[:MOST_SUSPECTS]])
        return WatchedHeaps(
            samples=tuple(self.samples), compared=compared, growing=growing, suspects=tuple(suspects), problem=problem
        )

    def _path(self, row: Mapping[str, Any], grown: GrownWays | None) -> tuple[str, ...]:
        assert self._last is not None
        name, module = row["type"], row["module"]
        if name and grown is not None and (path := grown.path(name, module)) is not None:
            return path
        names = zip(self._last.type_name.to_pylist(), self._last.type_module.to_pylist(), strict=True)
        kinds = [
            number for number, own in enumerate(names) if own[0] == name and module_file(own[1]) == module_file(module)
        ]
        ways = ways_to_types(self._last, kinds, 1).to_pylist() if name and kinds else []
        return tuple(ways[0]["path"]) if ways else ()


def held_below(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The same, each before those that it holds, directly or not. ``held_by`` ends at a row that no other holds. What holds the first of all comes
    first: what several variables hold is kept alive by none of them, and stood below the array of one behind all others.
    """
    above = _nearest_above(suspects)
    below: dict[int | None, list[int]] = {}
    first = [*range(len(suspects))]
    """Of each the first of those that it holds, itself included."""
    for place, over in enumerate(above):
        below.setdefault(over, []).append(place)
        while over is not None:
            first[over] = min(first[over], place)
            over = above[over]
    for some in below.values():
        some.sort(key=first.__getitem__)
    made: list[Suspect] = []
    waiting = below.pop(None, [])[::-1]
    while waiting:
        place = waiting.pop()
        over = above[place]
        made.append(replace(suspects[place], held_by=None if over is None else suspects[over].row["type"]))
        waiting += below.pop(place, [])[::-1]
    return made


def _nearest_above(suspects: Sequence[Suspect]) -> list[int | None]:
    """Of each the place of the one that is nearest before it on its way: of several of one name, which ways tell alone, of the first. Of those that
    hold each other in a circle one has None.
    """
    places: dict[str | None, int] = {}
    for place, one in enumerate(suspects):
        places.setdefault(one.row["type"], place)
    above = [
        next((places[step] for step in reversed(one.path[:-1]) if step in places and step != one.row["type"]), None)
        for one in suspects
    ]
    for place in range(len(suspects)):
        chain: list[int] = []
        at: int | None = place
        while at is not None and at not in chain:
            chain.append(at)
            at = above[at]
        if at is not None:
            above[_first_of_circle(chain[chain.index(at) :], suspects, places)] = None
    return above


def _first_of_circle(circle: list[int], suspects: Sequence[Suspect], places: Mapping[str | None, int]) -> int:
    """The one over which the shortest way from the root comes into a circle; of several the one that is first of all suspects."""
    return min(
        next((at, places[step]) for at, step in enumerate(suspects[place].path) if places.get(step) in circle)
        for place in circle
    )[1]
