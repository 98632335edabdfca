"""What has begun and not ended yet: ends are looked for while windows come, and what is found is written into the rows of the begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.changing_rows import Change, ChangingRows
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.pairs import pairs, parts_of
from dotnetdiag.trace.distinct import is_among
from dotnetdiag.trace.scratch import Scratch, Stored
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

FOLLOWED_EVENTS = 1 << 14
"""So many are waited for before ends are looked for, which costs something each time."""
_SHARE_OF_OPEN = 8
"""As much more as this part of what is open, each of which is looked at then: so all is looked at a few times, however much never ends."""
OPEN = np.dtype([("ms", "f8"), ("key", "i8"), ("row", "u4"), ("owner", "i4")])
"""Of each begin its time, its row, and what its end has too."""
_OPEN_TOGETHER = 1 << 14
"""What is open lies in parts of so many or more: of a million none is copied as a whole."""
_HELD = 1 << 18
"""So much of what is open is in memory, 6 MB; what is more lies in a file."""
_ENDS_TOGETHER = 1 << 15
"""Ends that are looked for at once: for each there are 200 bytes meanwhile."""


class Followed:
    """Begins, whose ``rows`` are kept, and ends, which are ``stops``: an end has the same ``key`` (i64) and ``owner`` (i32: a process, or a
    thread, by its number). ``change`` says what is written down of begins that have ended (:data:`OPEN`), and of the ends of these.
    """

    def __init__(
        self,
        rows: ChangingRows,
        stops: KeptEvents,
        *,
        key: Callable[[Kept], Array],
        owner: Callable[[Kept], Array],
        change: Callable[[Array, Kept], Change],
    ) -> None:
        self._rows, self._stops = rows, stops
        self._key, self._owner, self._change = key, owner, change
        self._open, self._scratch = list[Stored](), Scratch()
        self._waiting = 0

    def began(self, kept: Kept, numbers: Array) -> None:
        """These have begun, with these rows."""
        fresh = np.empty(len(kept), OPEN)
        fresh["ms"], fresh["row"], fresh["key"], fresh["owner"] = kept.ms, numbers, self._key(kept), self._owner(kept)
        self._keep_open(fresh)
        self._waiting += len(kept)

    def feed(self, window: EventTable) -> None:
        """Take the ends of a window, whose begins have come."""
        self._waiting += len(self._stops.feed(window))
        if self._waiting >= max(FOLLOWED_EVENTS, self._count_open() // _SHARE_OF_OPEN):
            self._follow()

    def conclude(self) -> None:
        """Write down what is known if nothing more comes; more may come."""
        self._follow()
        waiting = self._stops.all()
        if len(waiting):
            self._rows.conclude([self._ended(waiting, np.inf)[2]])

    def _count_open(self) -> int:
        return sum(map(len, self._open))

    def _keep_open(self, starts: Array) -> None:
        if self._open and len(self._open[-1]) < _OPEN_TOGETHER:
            starts = np.concatenate([self._open.pop().read(), starts])
        is_large = len(starts) >= _OPEN_TOGETHER and self._count_open() >= _HELD
        self._open.append(self._scratch.put(starts) if is_large else Stored(starts))

    def _follow(self) -> None:
        """Look for ends of what is open. Events of the last time wait, for more may come: what begins and ends in one tick does so in that order."""
        self._waiting = 0
        if not len(self._stops):
            self._rows.settle(())
            return
        begun = max((float(part.read()["ms"].max(initial=-np.inf)) for part in self._open[-1:]), default=-np.inf)
        until = max(begun, self._stops.latest_ms)
        stops = self._stops.take(until)
        asked, ended, change = self._ended(stops, until)
        self._rows.settle([change])
        parts, self._open, self._scratch, before = self._open, [], Scratch(), 0
        for stored, own in zip(parts, asked, strict=True):
            count = int(own.sum())
            stays = ~own
            stays[own] = ~ended[before : before + count]
            before += count
            part = stored.read()
            self._keep_open(part if stays.all() else part[stays])

    def _ended(self, stops: Kept, until: float) -> tuple[list[Array], Array, Change]:
        """Of each part of what is open which began before that time and may have an end there (a mask), which of these have, and what that tells."""
        key, owner = self._key(stops), self._owner(stops)
        ordered = np.sort(key)
        asked, found = list[Array](), [np.zeros(0, OPEN)]
        for part in (stored.read() for stored in self._open):
            own = is_among(part["key"], ordered) & (part["ms"] < until)
            asked.append(own)
            found.append(part[own])
        some, stop = np.concatenate(found), np.full(sum(map(len, found)), -1)
        parts = 1 + len(key) // _ENDS_TOGETHER
        of_starts, of_stops = parts_of(some["key"], parts), parts_of(key, parts)
        for number in range(parts):
            first, last = np.flatnonzero(of_starts == number), np.flatnonzero(of_stops == number)
            one = some[first]
            told = pairs(one["ms"], [one["owner"], one["key"]], stops.ms[last], [owner[last], key[last]])
            stop[first] = np.append(last, -1)[told]
        ended = stop >= 0
        return asked, ended, self._change(some[ended], stops.of(stop[ended]))
