"""What has begun and not ended yet: ends are looked for while windows come, and what is found is written into the rows of the begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.changing_rows import Change, ChangingRows
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.trace.distinct import is_among
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
        self._open: list[Array] = []
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
        if self._waiting >= max(FOLLOWED_EVENTS, sum(map(len, self._open)) // _SHARE_OF_OPEN):
            self._follow()

    def conclude(self) -> None:
        """Write down what is known if nothing more comes; more may come."""
        self._follow()
        waiting = self._stops.all()
        if len(waiting):
            self._rows.conclude([self._ended(waiting, np.inf)[2]])

    def _keep_open(self, starts: Array) -> None:
        if self._open and len(self._open[-1]) < _OPEN_TOGETHER:
            starts = np.concatenate([self._open.pop(), starts])
        self._open.append(starts)

    def _follow(self) -> None:
        """Look for ends of what is open. Events of the last time wait, for more may come: what begins and ends in one tick does so in that order."""
        self._waiting = 0
        if not len(self._stops):
            self._rows.settle(())
            return
        begun = max((float(part["ms"].max(initial=-np.inf)) for part in self._open[-1:]), default=-np.inf)
        until = max(begun, self._stops.latest_ms)
        stops = self._stops.take(until)
        asked, ended, change = self._ended(stops, until)
        self._rows.settle([change])
        parts, self._open, before = self._open, [], 0
        for part, own in zip(parts, asked, strict=True):
            count = int(own.sum())
            stays = ~own
            stays[own] = ~ended[before : before + count]
            before += count
            self._keep_open(part if stays.all() else part[stays])

    def _ended(self, stops: Kept, until: float) -> tuple[list[Array], Array, Change]:
        """Of each part of what is open which began before that time and may have an end there (a mask), which of these have, and what that tells."""
        key, owner = self._key(stops), self._owner(stops)
        ordered = np.sort(key)
        asked = [is_among(part["key"], ordered) & (part["ms"] < until) for part in self._open]
        some = np.concatenate([np.zeros(0, OPEN), *(part[own] for part, own in zip(self._open, asked, strict=True))])
        stop = pairs(some["ms"], [some["owner"], some["key"]], stops.ms, [owner, key])
        ended = stop >= 0
        return asked, ended, self._change(some[ended], stops.of(stop[ended]))
