"""When collections began and ended, to be joined with walks by time.

A runtime writes down what each of its threads has told, one thread after the other: of a server's collector one thread may tell that the
collection begins, and another one of its objects, and then the begin comes behind some of them.
"""

from __future__ import annotations

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


class Moments:
    """The latest of each kind."""

    def __init__(self) -> None:
        self._kept: dict[int, deque[Moment]] = {}

    def add(self, kind: int, moment: Moment) -> None:
        """One more."""
        self._kept.setdefault(kind, deque(maxlen=MOST)).append(moment)

    def last_before(self, kind: int, time: int) -> Moment | None:
        """The last one that is not later than a time."""
        before = [one for one in self._kept.get(kind, ()) if one.time <= time]
        return max(before, key=lambda one: one.time, default=None)

    def first_after(self, kind: int, time: int, value: int | None = None) -> Moment | None:
        """The first one that is not earlier than a time, and of a value where one is given."""
        after = [one for one in self._kept.get(kind, ()) if one.time >= time and value in (None, one.value)]
        return min(after, key=lambda one: one.time, default=None)
