"""Begins and their ends, found while windows come: what waits for its end is in memory, and what has one in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.pairs import combined_codes, nested
from dotnetdiag.analysis.span_keys import Keys
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import is_among, ranked
from dotnetdiag.trace.fields import FieldSource, join_fields
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.raw import RawTrace
from dotnetdiag.trace.scratch import GrownArray, Scratch
from dotnetdiag.trace.stored_headers import STORED, Headers, headers_of, joined_headers, no_headers, stored
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_HELD = 1 << 14
"""When more begins wait, they wait in a file, and only those are looked at that may be of the ends of a window."""
_FEW_KINDS = 1 << 10
"""Of so many it is told when enough of each were found."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The events that begin, or that end."""

    raw: RawTrace
    schemas: Mapping[int, EventSchema]
    fields: tuple[FieldSource, ...]

    @classmethod
    def of(cls, raw: RawTrace, name: str) -> Side:
        """Those that a name means. Raises UnknownName."""
        schemas = {number: raw.schema(number) for number in raw.types.find(name)}
        return cls(raw, schemas, join_fields(schemas))

    def table(self, headers: Headers) -> EventTable:
        """Some of them."""
        return EventTable(self.raw, self.schemas, headers, fields=self.fields)

    def among(self, window: EventTable) -> EventTable:
        """Those of a window."""
        return window.of_types(self.schemas, self.fields)

    def rows(self, kept: Array) -> EventTable:
        """Those that were stored."""
        return self.table(headers_of(kept))

    def nothing(self) -> EventTable:
        """None of them."""
        return self.table(no_headers())


class _Events:
    """Begins that wait, or ends: ``row`` of a begin is its place among those that are told, -1 for none. ``keys``: what belongs together has the
    same.
    """

    __slots__ = ("columns", "keys", "ms", "pid", "place", "row", "thread", "tid", "time")

    def __init__(self, columns: Sequence[Array], keys: Sequence[Array]) -> None:
        self.columns, self.keys = columns, keys
        self.row, self.time, self.thread, self.place, self.ms, self.pid, self.tid = columns

    @classmethod
    def of(cls, table: EventTable, row: Array, keys: Keys) -> _Events:
        """Those of a table."""
        headers = table.headers
        ms, pid, tid = (table.numpy(name) for name in ("ms", "pid", "tid"))
        columns = [row, headers.time, headers.thread, headers.payload_offset, ms, pid, tid]
        return cls(columns, [*keys.of(table), pid.astype(np.int64)])

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: Array) -> _Events:
        """Some of them."""
        return _Events([one[rows] for one in self.columns], [one[rows] for one in self.keys])

    @classmethod
    def joined(cls, parts: Sequence[_Events]) -> _Events:
        """One behind the other."""
        if len(parts) == 1:
            return parts[0]
        columns, keys = zip(*((one.columns, one.keys) for one in parts), strict=True)
        return cls(*([np.concatenate(own) for own in zip(*of, strict=True)] for of in (columns, keys)))

    @property
    def hashes(self) -> Array:
        """A number for the keys of each. That those of two are equal is as rare as harmless."""
        made = np.zeros(len(self), np.uint64)
        for one in self.keys:
            made = (made ^ one.astype(np.uint64)) * _SPREAD
        return made


class _Open:
    """Begins that wait for their ends."""

    def __init__(self) -> None:
        self._held: _Events | None = None
        self._older: list[_Part] = []
        self._scratch = Scratch()

    def take(self, ends: _Events) -> list[_Events]:
        """Those that ends may be of, and some more; those that have no end then are to be given back (:meth:`keep`)."""
        found = [] if self._held is None else [self._held]
        self._held = None
        if self._older:
            asked = _Asked(ends.hashes)
            for part in sorted(self._older, key=lambda one: -one.latest):
                taken = part.take(asked)
                if taken is not None:
                    found.append(taken)
            self._older = [part for part in self._older if not part.is_over]
        return found

    def keep(self, begins: _Events) -> None:
        """Of those that were taken, and of others, these wait."""
        if len(begins) > _HELD:
            self._older.append(_Part(begins.take(np.lexsort((begins.place, begins.time))), self._scratch))
        else:
            self._held = begins


class _Asked:
    """How many begins of each kind the ends of a window may be of: the latest ones."""

    def __init__(self, hashes: Array) -> None:
        self.hashes, which = ranked(hashes)
        self.counts: Array = np.bincount(which, minlength=len(self.hashes))
        self._times: list[list[int]] = [[] for _ in self.hashes] if len(self.hashes) < _FEW_KINDS else []

    def since(self) -> Array:
        """Of each kind a time that no begin has to be looked for before, for there are enough behind it."""
        least = np.iinfo(np.int64).min
        if not self._times:
            return np.full(len(self.hashes), least)
        return np.array(
            [
                sorted(times)[-count] if len(times) >= count else least
                for times, count in zip(self._times, self.counts.tolist(), strict=True)
            ],
            np.int64,
        )

    def note(self, which: Array, times: Array) -> None:
        """These were taken."""
        if self._times:
            for kind, time in zip(which.tolist(), times.tolist(), strict=True):
                self._times[kind].append(time)


class _Part:
    """Some of them, in the file, by their times, and of one tick by their places."""

    def __init__(self, begins: _Events, scratch: Scratch) -> None:
        self._hashes, self._waits = begins.hashes, np.ones(len(begins), np.bool_)
        self.latest = int(begins.time[-1])
        self._columns, self._keys = ([scratch.put(one) for one in own] for own in (begins.columns, begins.keys))

    def take(self, asked: _Asked) -> _Events | None:
        """Those that may be asked for; all when few are left."""
        later = asked.since() <= self.latest  # of one tick the later ones may be in any part
        if not later.any():
            return None
        rows = np.flatnonzero(self._waits & is_among(self._hashes, asked.hashes[later]))
        if not len(rows):
            return None
        which = np.searchsorted(asked.hashes, self._hashes[rows])
        rows = rows[_are_last(which, asked.counts)]
        if 4 * (np.count_nonzero(self._waits) - len(rows)) < len(self._waits):
            rows = np.flatnonzero(self._waits)
        self._waits[rows] = False
        taken = _Events(*([one.read()[rows] for one in own] for own in (self._columns, self._keys)))
        own = is_among(self._hashes[rows], asked.hashes)
        asked.note(np.searchsorted(asked.hashes, self._hashes[rows[own]]), taken.time[own])
        return taken

    @property
    def is_over(self) -> bool:
        """Whether none waits any more."""
        return not self._waits.any()


def _are_last(which: Array, counts: Array) -> Array:
    """Which rows are among the last of their kind, of each so many."""
    order = np.argsort(which, kind="stable")
    kinds = which[order]
    ends = np.searchsorted(kinds, kinds, "right")
    made = np.zeros(len(which), np.bool_)
    made[order] = ends - np.arange(len(kinds)) <= counts[kinds]
    return made


def _of_several_threads(codes: Array, time: Array, thread: Array) -> Array:
    """Of which events others of the same code and tick are of another thread."""
    made = np.zeros(len(codes), np.bool_)
    if len(codes):
        order = np.lexsort((time, codes))
        code, tick, own = codes[order], time[order], thread[order]
        firsts = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (tick[1:] != tick[:-1])))
        are_several = np.minimum.reduceat(own, firsts) != np.maximum.reduceat(own, firsts)
        made[order] = np.repeat(are_several, np.diff(np.append(firsts, len(codes))))
    return made


class Pairs:
    """Takes windows in the order of time. A begin that came last and is still open is the one that ends; what happened in one tick is in the order of
    the thread, and of several threads the begins are before the ends.

    ``lost``: an end of a thread that has lost events since the begin is none. ``is_meant``: which of the begins are told, None: all.
    """

    def __init__(
        self,
        first: Side,
        last: Side,
        keys: Keys,
        *,
        lost: LostBetween | None = None,
        is_meant: Callable[[EventTable], Array] | None = None,
    ) -> None:
        self._first, self._last, self._keys, self._lost, self._is_meant = first, last, keys, lost, is_meant
        self.started, self.stopped = GrownArray(STORED), GrownArray(STORED)
        """Of those that are told, in the order in which they came: the begin, and the end where ``is_there``."""
        self.loose = 0
        """Ends without a begin."""
        self.ended = 0
        """How many have an end."""
        self.is_in_order = True
        """Whether begins came in the order of their times."""
        self._latest = np.iinfo(np.int64).min
        self._waiting: Headers | None = None
        self._open = _Open()

    def feed(self, window: EventTable) -> None:
        """Take the next window. What happened in its last tick waits for the rest of that."""
        headers = window.headers
        if self._waiting is not None:
            headers = joined_headers([self._waiting, headers])
        if len(headers):
            is_last = headers.time == headers.time[-1]
            self._waiting = headers[is_last]
            self._pair(EventTable(window.trace, window.schemas, headers[~is_last], fields=()))

    def end(self) -> None:
        """No window follows."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._pair(EventTable(self._first.raw, {**self._first.schemas, **self._last.schemas}, waiting, fields=()))

    def _pair(self, window: EventTable) -> None:
        starts, stops = self._first.among(window), self._last.among(window)
        ends = _Events.of(stops, np.arange(len(stops)), self._keys)
        asked = _Events.joined([*self._open.take(ends), self._begun(starts)])
        stop_of = self._stops(asked, ends)
        has_end = stop_of >= 0
        rows, stop = asked.row[has_end], stop_of[has_end]
        if self._lost is not None and len(rows):
            since = asked.take(has_end)
            is_own = since.tid == ends.tid[stop]
            own = ~(is_own & self._lost.of(since.pid, since.tid, since.ms, ends.ms[stop]))
            rows, stop = rows[own], stop[own]
        self.loose += len(ends) - len(stop)
        self.stopped.extend(len(self.started))
        told = rows >= 0
        self.ended += int(np.count_nonzero(told))
        self.stopped.values[rows[told]] = stored(stops.headers)[stop[told]]
        self._open.keep(asked.take(~has_end))
        self.started.release()
        self.stopped.release()

    def _begun(self, starts: EventTable) -> _Events:
        """Begins of a window, of which those that are told have a row from now on."""
        row = np.full(len(starts), -1)
        told = np.ones(len(starts), np.bool_) if self._is_meant is None else self._is_meant(starts)
        row[told] = len(self.started) + np.arange(np.count_nonzero(told))
        some = stored(starts.headers)[told]
        if len(some):
            times = np.append(self._latest, some["time"])
            self.is_in_order &= bool((times[1:] >= times[:-1]).all())
            self._latest = int(times[-1])
        self.started.append(some)
        return _Events.of(starts, row, self._keys)

    @staticmethod
    def _stops(asked: _Events, ends: _Events) -> Array:
        """Of each begin the end, -1 for none."""
        codes = np.zeros(len(asked) + len(ends), np.int64)
        for both in zip(asked.keys, ends.keys, strict=True):
            codes = combined_codes(codes, np.concatenate(both))
        time, thread, place = (
            np.concatenate(both)
            for both in ((asked.time, ends.time), (asked.thread, ends.thread), (asked.place, ends.place))
        )
        is_stop = np.arange(len(codes)) >= len(asked)
        crossing = _of_several_threads(codes, time, thread)
        return nested(codes, np.lexsort((place, is_stop & crossing, time, codes)), len(asked))


def windows_of(raw: RawTrace, sides: Iterable[Side], size: int, *, activities: bool) -> Iterable[EventTable]:
    """The events of both sides in the order of time. Without ``activities`` their ids may be 0."""
    from dotnetdiag.trace.source import wanted_of

    schemas = {number: schema for side in sides for number, schema in side.schemas.items()}
    for headers in raw.source.windows_once(wanted_of(schemas), size=size, activities=activities, keeps=False):
        yield EventTable(raw, schemas, headers, fields=())
