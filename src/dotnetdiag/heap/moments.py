"""When collections began and ended, to be joined with walks by time.

A runtime writes down what each of its threads has told, one thread after the other: of a server's collector one thread may tell that the
collection begins, and another one of its objects, and then the begin comes behind some of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

from dotnetdiag._dataclasses import dataclass

MOST = 64
"""Moments of a kind that are kept: what belongs together comes within some 100 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """``time``: in ticks of the recording's clock, by which moments and blocks are compared; ``elapsed_ns``: since its start. ``value`` is the
    number of a collection, or of bytes.
    """

    time: int
    elapsed_ns: int
    value: int = 0
    thread: int = 0


class _OfKind:
    """The latest of a kind that have come, in the order of time."""

    def __init__(self) -> None:
        self._came: deque[Moment] = deque()
        self.times: list[int] = []
        self.moments: list[Moment] = []

    def add(self, moment: Moment) -> None:
        if len(self._came) == MOST:
            oldest = self._came.popleft()
            at = self.moments.index(oldest, bisect_left(self.times, oldest.time))
            del self.times[at], self.moments[at]
        self._came.append(moment)
        at = bisect_right(self.times, moment.time)
        self.times.insert(at, moment.time)
        self.moments.insert(at, moment)


class Moments:
    """The latest of each kind. Of several at a time the first that came is told."""

    def __init__(self) -> None:
        self._kept: dict[int, _OfKind] = {}

    def add(self, kind: int, moment: Moment) -> None:
        """One more."""
        if kind not in self._kept:
            self._kept[kind] = _OfKind()
        self._kept[kind].add(moment)

    def last_before(self, kind: int, time: int) -> Moment | None:
        """The last one that is not later than a time."""
        kept = self._kept.get(kind)
        at = 0 if kept is None else bisect_right(kept.times, time)
        return kept.moments[bisect_left(kept.times, kept.times[at - 1])] if kept is not None and at else None

    def first_after(self, kind: int, time: int, value: int | None = None) -> Moment | None:
        """The first one that is not earlier than a time, and of a value where one is given."""
        kept = self._kept.get(kind)
        if kept is None:
            return None
        after = range(bisect_left(kept.times, time), len(kept.times))
        return next((kept.moments[at] for at in after if value in (None, kept.moments[at].value)), None)
