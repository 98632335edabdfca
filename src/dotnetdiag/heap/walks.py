"""The walks of a process in the order of time, and how many a recording may have.

Each block whose number is 0 may begin another walk: where nothing limited them, a recording of 1 MB would have 20,000, of 50 KB each.
"""
# ruff: noqa: ARG002 - what is left out is not looked at

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.heap.walk import Walk

if TYPE_CHECKING:
    from dotnetdiag.events import Column
    from dotnetdiag.heap.facts import Segment
    from dotnetdiag.heap.kernels import Window
    from dotnetdiag.heap.moments import Moment, Moments

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_WALKS = 1_000
"""Of a recording: one with a heap every minute has as many in 17 hours."""
_MOST_EMPTY = 8
"""Collections without objects that are kept: these may still come."""


class LeftOut(Walk):
    """What is told from a time on, where there is no room for another walk. Nothing of it is kept."""

    def __init__(self, pointer_size: int) -> None:  # columns that stay empty are not made
        self.pointer_size = pointer_size
        self.number = self.start = self.first = self.end = self.begun = self.thread = self.end_thread = None
        self.resolved = None
        self.damaged = self.overlong = 0

    has_any = False
    objects = edges = 0

    def begins(self, moment: Moment) -> None:
        """Its first event, or one before that."""
        if self.first is None or moment.time < self.first:
            self.first = moment.time

    def starts(self, moment: Moment, utc_ns: int) -> None:
        """The begin of a collection."""
        self.begins(moment)

    def may_start(self, time: int) -> bool:
        """Any collection is as good."""
        return True

    def settle(self, moments: Moments) -> None:
        """Nothing belongs to it."""

    def begins_again(self, number: int, index: int) -> bool:
        """Whatever comes is left out."""
        return False

    def take_blocks(self, window: Window, done: int, most: tuple[int, int]) -> int:
        """Pass over all."""
        return len(window[1])

    def take(self, number: int, index: int, rows: Array) -> None:
        """Pass over it."""

    def take_range(self, time: int, segment: Segment) -> None:
        """Pass over it."""

    def take_statics(self, fields: Mapping[str, Column]) -> None:
        """Pass over them."""

    take_ccws = take_rcws = take_statics


class WalkRoom:
    """Makes the walks of a recording, as long as there is room: from then on :class:`LeftOut`, and ``is_over`` is true."""

    def __init__(self) -> None:
        self.ready: Walk | None = None
        """A walk that was made early."""
        self.is_over = False
        self.most = MOST_WALKS
        self._held = 0

    def make(self, pointer_size: int) -> Walk:
        """A new one."""
        if self._held >= self.most:
            self.is_over = True
            return LeftOut(pointer_size)
        self._held += 1
        made, self.ready = self.ready, None
        return made if made is not None and made.pointer_size == pointer_size else Walk(pointer_size)

    def give_back(self) -> None:
        """One less is held."""
        self._held -= 1


def _begin(walk: Walk) -> int:
    return walk.begin


class Walks:
    """Those of a process, by their begin. One of them is the :attr:`current`, which events go to."""

    def __init__(self, room: WalkRoom, pointer_size: int) -> None:
        self._room, self._pointer_size = room, pointer_size
        self._all: list[Walk] = []
        self._empty: list[Walk] = []
        self._now = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Walk]:
        return iter(self._all)

    def turn(self, time: int) -> int | None:
        """Make the walk of a time the current one: when the next one begins, None where it is the last."""
        self._now = max(bisect_right(self._all, time, key=_begin) - 1, 0)
        return self._all[self._now + 1].begin if self._now + 1 < len(self._all) else None

    @property
    def current(self) -> Walk:
        """The walk of this time; a new one where none was seen to begin."""
        if not self._all:
            self._add(self._new(), 0)
        return self._all[self._now]

    @property
    def near(self) -> list[Walk]:
        """The current one, the one before and the one behind."""
        return self._all[max(self._now - 1, 0) : self._now + 2]

    def begin_again(self, time: int) -> Walk:
        """A new walk from a time on, which is the current one then."""
        self._add(self._new(), time)
        return self.current

    def start(self, moment: Moment, utc_ns: int) -> None:
        """A collection that walks the heap begins: its walk is the current one then."""
        at = [
            one for one in range(self._now, min(self._now + 2, len(self._all))) if self._all[one].may_start(moment.time)
        ]
        at.sort(key=lambda one: isinstance(self._all[one], LeftOut))
        walk = self._all.pop(at[0]) if at else self._new()
        walk.starts(moment, utc_ns)
        self._add(walk, walk.begin)

    def taken(self) -> list[Walk]:
        """All of them: none are left."""
        found, self._all, self._empty, self._now = self._all, [], [], 0
        return found

    def _new(self) -> Walk:
        self._empty = [one for one in self._empty if not one.has_any]
        for one in self._empty[:-_MOST_EMPTY]:
            self._all.remove(one)
            self._room.give_back()
        del self._empty[:-_MOST_EMPTY]
        made = self._room.make(self._pointer_size)
        if not isinstance(made, LeftOut):
            self._empty.append(made)
        return made

    def _add(self, walk: Walk, time: int) -> None:
        """Two that are left out are one, where no other is between them."""
        at = bisect_right(self._all, time, key=_begin)
        if isinstance(walk, LeftOut):
            for near in (at - 1, at):
                if 0 <= near < len(self._all) and isinstance(self._all[near], LeftOut):
                    self._now = near
                    return
        self._all.insert(at, walk)
        self._now = at
