"""Spans of one kind that have begun and not ended. Of a recording whose ends are lacking these are all that there are: those that nothing asks for
wait in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.scratch import GrownArray
from dotnetdiag.trace.spilled import SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

OPEN = np.dtype([
    ("ms", "f8"), *((name, "i8") for name in ("pid", "tid", "activity", "status")), ("row", "i4"), ("is_unknown", "i1")
])  # fmt: skip
"""A start whose end has not come, or an end of which no start is known. ``is_unknown``: as of ``unnamed_ends``."""
_HELD = 1 << 15
"""So many are in memory, 1.3 MB."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.zeros(0, OPEN)


class OpenSpans:
    """Rows of :data:`OPEN`, in the order of their begins. Those without an id stay in memory, unless the kind ``waits`` for its ends, for others are
    told by how many of them there are.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._held = [_NONE]
        self._older, self._is_taken, self._taken = SpilledRows(OPEN), GrownArray(np.bool_), 0

    def __len__(self) -> int:
        return sum(map(len, self._held)) + len(self._older) - self._taken

    @property
    def unknown(self) -> int:
        """How many of them are those whose end is not known."""
        return sum(int(np.count_nonzero(some["is_unknown"])) for some in self._held)

    def copy(self) -> OpenSpans:
        """One that goes on by itself."""
        made = OpenSpans(waits=self._waits)
        made._held = [*self._held]
        for _, own in self._waiting():
            made._put(own)
        return made

    def add(self, starts: Array) -> None:
        """These have begun."""
        self._held.append(starts)

    def having(self, pid: Array, activity: Array) -> Array:
        """Those with the ids of others, and some more."""
        keys = distinct(_keys(pid, activity)) if len(self._older) else np.zeros(0, np.uint64)
        found = [own[is_among(_keys(own["pid"], own["activity"]), keys)] for _, own in self._waiting()]
        return np.concatenate([*found, *self._held])

    def take(self, events: Sequence[Array], lack: Callable[[Array], Array] | None) -> Array:
        """Those that ends and failures (rows of :data:`OPEN`) may be of, and those whose ids tell nothing: of which they ``lack`` (bool); and some
        more. Those that have not ended then are to be given back (:meth:`keep`).
        """
        found, self._held = self._held, [_NONE]
        if self._taken == len(self._older) or (lack is None and not any(map(len, events))):
            return np.concatenate(found)
        told = np.concatenate(events)
        has_id = told["activity"] > 0
        ids = distinct(_keys(told["pid"][has_id], told["activity"][has_id]))
        threads = distinct(_keys(told["pid"], told["tid"]))
        without_id = distinct(_keys(told["pid"][~has_id], told["tid"][~has_id]))
        for places, own in self._waiting():
            is_named, thread = own["activity"] > 0, _keys(own["pid"], own["tid"])
            asked = np.where(is_named, is_among(thread, without_id), is_among(thread, threads))
            asked |= is_named & is_among(_keys(own["pid"], own["activity"]), ids)
            if lack is not None:
                asked |= lack(own)
            found.append(own[asked])
            self._is_taken.values[places[asked]] = True
            self._taken += int(asked.sum())
        self._is_taken.release()
        made = np.concatenate(found)
        return made[np.argsort(made["row"], kind="stable")]

    def keep(self, starts: Array) -> None:
        """Of those that were taken these are still open."""
        self._held = [starts]
        if len(starts) > _HELD:
            may_wait = starts["is_unknown"] == 0
            if not self._waits:
                may_wait &= starts["activity"] > 0
            self._held = [starts[~may_wait]]
            self._put(starts[may_wait])

    def _put(self, starts: Array) -> None:
        if 2 * self._taken > len(self._older):
            fresh = SpilledRows(OPEN)
            for _, own in self._waiting():
                fresh.append(own)
            self._older, self._is_taken, self._taken = fresh, GrownArray(np.bool_), 0
            self._is_taken.extend(len(fresh))
        self._older.append(starts)
        self._is_taken.extend(len(self._older))
        self._is_taken.release()

    def _waiting(self) -> Iterator[tuple[Array, Array]]:
        """Those that wait in the file, some at a time, and their places there."""
        for first, rows in self._older.slices():
            own = np.flatnonzero(~self._is_taken.values[first : first + len(rows)])
            yield first + own, rows[own]


def _keys(pid: Array, number: Array) -> Array:
    """A number for each pair. That two have one is as rare as harmless: more are looked at then."""
    return np.asarray(pid.astype(np.uint64) * _SPREAD ^ number.astype(np.uint64))
