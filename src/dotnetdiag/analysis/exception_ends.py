"""What became of each exception, told while events come: which catch had it, when that was over, filters and blocks of finally that ran for it.

Rule 1: events are followed thread by thread in the order of time. Those of a thread's last tick wait for what comes next, for of one tick the kind
decides what was first.
Rule 2: of a thread the events stay for which something may still be open: those from the last throw on at which nothing was
(``kernels.follow_exceptions`` begins there anew), and nothing of an exception that was thrown so once its catch is over. They are followed again
with those that come, so what is found does not depend on how many come at once. Where that is much, of a program that throws in a block of catch
as long as it runs, what is open stays, and nothing else.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.changing_rows import Change
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.trace import kernels

Array: TypeAlias = "np.ndarray[Any, Any]"

THROWN, ALONE, CAUGHT, CATCH_OVER, FILTER, FILTER_OVER, FINALLY, FINALLY_OVER = range(8)
"""The kinds of ``kernels.follow_exceptions``, and the end of a block of finally."""
_RANKS = np.array([2, 2, 5, 1, 3, 0, 4, 6], np.int8)
"""By kind: of events of one time that with the least came first."""
ROW_FIELDS = (
    *((name, "f8") for name in ("catch_ms", "handled_ms", "finally_ms", "ran_ms")),
    *(
        (name, "i4")
        for name in ("message", "flags", "caught_by", "finallys", "finallys_over", "filters", "filters_over")
    ),
    *((name, "i4") for name in ("within", "doubts")),
)
"""Of the row of a throw; ``flags`` are 0 where a version of the event has none. ``finallys_over`` and ``filters_over``: those of which the end came.
``ran_ms``: when the last filter, or block of finally, that ran for it was told of. ``within``: the row of the throw in whose filter this one was
thrown (:data:`ANY`: nothing tells which), where no stack tells which of the two a catch, filter or block of finally is of; ``doubts``: the number of
these, of the one that was filtered. If its filter was not left, they are of the other.
"""
NOTHING = {"catch_ms": np.nan, "handled_ms": np.nan, "ran_ms": -np.inf, "caught_by": -1, "within": -1}
"""What fields that are not 0 have, as long as nothing is told."""
ANY = -2
EVENT = np.dtype(
    [
        ("ms", "f8"),
        ("row", "i8"),
        ("thread", "i4"),
        ("method", "i4"),
        ("frames", "i2"),
        ("kind", "u1"),
        ("is_told", "?"),
    ]
)
"""``thread`` is one of numbers that lie close together. Of a throw ``row`` is its number, of the first catch that had one that of the throw, else -1.
``frames``: of its stack, as ``kernels.follow_exceptions`` has them (:func:`frames_of`). ``is_told``: it was followed before.
"""
CUT_FRAMES = 100
"""Runtimes tell so many frames of a stack, those next to the leaf."""
MOST_EVENTS = 1 << 14
"""Of a thread that stay as they are: more than twice what can be open."""
MOST_FINALLYS = 1 << 16
"""Blocks of finally without an end that are waited for: those that another exception left have none, and of damaged files there may be millions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """What was found: throws by their numbers, and what is told of each. ``caught``: ``catch_ms`` from the throw, and the method;
    ``handled``: ms that the catch took; ``filters``, their ends, and ``finallys``: a number for each; ``lasted``: ms of a block of finally;
    ``ran``: when any of these was told of; ``within``: the throw that may have what is told of this one, a number for each.
    """

    caught: tuple[Array, Array, Array]
    handled: tuple[Array, Array]
    filters: Array
    filters_over: Array
    finallys: Array
    lasted: tuple[Array, Array]
    ran: tuple[Array, Array]
    within: tuple[Array, Array]

    def __len__(self) -> int:
        """How much that is."""
        return sum(map(len, (self.caught[0], self.handled[0], self.filters, self.finallys, self.lasted[0])))

    def changes(self) -> list[Change]:
        """The same as what is written to rows of throws."""
        filtered = self.within[1][self.within[1] >= 0]
        ones = np.ones(max(map(len, (self.filters, self.filters_over, self.finallys, self.lasted[0]))), np.int32)
        return [
            Change(rows=self.caught[0], values={"catch_ms": self.caught[1], "caught_by": self.caught[2]}),
            Change(rows=self.handled[0], values={"handled_ms": self.handled[1]}),
            Change(rows=self.filters, values={"filters": ones}, adds=True),
            Change(rows=self.filters_over, values={"filters_over": ones}, adds=True),
            Change(rows=self.finallys, values={"finallys": ones}, adds=True),
            Change(rows=self.lasted[0], values={"finally_ms": self.lasted[1], "finallys_over": ones}, adds=True),
            Change(rows=self.ran[0], values={"ran_ms": self.ran[1]}),
            Change(rows=self.within[0], values={"within": self.within[1]}),
            Change(rows=filtered, values={"doubts": np.ones(len(filtered), np.int32)}, adds=True),
        ]


def frames_of(count: Array) -> Array:
    """As events have them, where stacks have so many frames."""
    return np.where(count < CUT_FRAMES, count, -CUT_FRAMES).astype(np.int16)


class FollowedExceptions:
    """Takes events, some after the others."""

    def __init__(self) -> None:
        self._events = np.zeros(0, EVENT)
        self._finallys = np.zeros(0, EVENT)

    def __len__(self) -> int:
        """Events that are kept."""
        return len(self._events) + len(self._finallys)

    def follow(self, events: Array, unknown: int, *, is_last: bool) -> Ends:
        """What these bring, which none of those before is later than, of one thread. ``unknown``: the number of a method that stands for several.
        ``is_last``: a result is made of what came, and nothing waits.
        """
        events, stops, waiting = self._in_order(np.concatenate([self._events, events]), is_last)
        code = events["thread"].astype(np.int64)
        method = events["method"].astype(np.int64)
        method[method == unknown] = -1
        kind, is_new = np.ascontiguousarray(events["kind"]), ~events["is_told"]
        owner, partner, within = kernels.follow_exceptions(code, kind, method, events["frames"].astype(np.int64))
        ms, row = events["ms"], events["row"]
        throw = np.where(owner >= 0, np.append(row, -1)[owner], -1)
        is_known = is_new & (throw >= 0)

        thrown = np.flatnonzero((kind <= ALONE) & (partner >= 0))
        thrown = thrown[is_new[partner[thrown]]]
        catch = partner[thrown]
        row[catch] = row[thrown]
        caught = row[thrown], ms[catch] - ms[thrown], events["method"][catch]

        over = np.flatnonzero((kind == CAUGHT) & (row >= 0) & (partner >= 0))
        over = over[is_new[partner[over]]]
        handled = row[over], ms[partner[over]] - ms[over]

        doubtful = np.flatnonzero(is_known & (within >= 0))
        of_filter = throw[within[doubtful]]

        starts = events[(kind == FINALLY) & is_new]
        starts["row"] = throw[(kind == FINALLY) & is_new]
        lasted, over_ms = self._lasted(starts, stops)
        ran = np.flatnonzero(is_known & ((kind == FILTER) | (kind == FINALLY)))
        found = Ends(
            caught=caught,
            handled=handled,
            filters=throw[(kind == FILTER) & is_known],
            filters_over=throw[(kind == FILTER_OVER) & is_known],
            finallys=throw[(kind == FINALLY) & is_known],
            lasted=lasted,
            ran=_in_turn(np.append(throw[ran], lasted[0]), np.append(ms[ran], over_ms)),
            within=(throw[doubtful], np.where(of_filter >= 0, of_filter, ANY)),
        )
        self._keep(events, code, owner, partner, method, waiting)
        return found

    @staticmethod
    def _in_order(events: Array, is_last: bool) -> tuple[Array, Array, Array]:
        """Those to be followed, by thread and then in the order of time; ends of blocks of finally; and those that wait."""
        is_told, thread, kind = events["is_told"], events["thread"], events["kind"]
        # what was followed has its order, and comes first
        ms, rank = np.where(is_told, -np.inf, events["ms"]), np.where(is_told, 0, _RANKS[kind])
        if len(events) and thread.max() < 1 << 16:  # sorted by radix
            thread = thread.astype(np.uint16)
        order = np.lexsort((rank, ms, thread))
        waits = np.zeros(len(order), np.bool_)
        if len(order) and not is_last:
            ends, ordered = _ends(thread[order]), ms[order]
            waits = ~np.isinf(ordered) & (ordered == np.repeat(ordered[ends], np.diff(ends, prepend=-1)))
        is_over = kind[order] == FINALLY_OVER
        return events[order[~waits & ~is_over]], events[order[~waits & is_over]], events[order[waits]]

    def _lasted(self, starts: Array, stops: Array) -> tuple[tuple[Array, Array], Array]:
        """Throws, and how long a block of finally took that ran for each; when that ended."""
        starts = np.concatenate([self._finallys, starts])
        stop = pairs(starts["ms"], [starts["thread"]], stops["ms"], [stops["thread"]])
        self._finallys = starts[stop < 0][-MOST_FINALLYS:]
        told = np.flatnonzero((stop >= 0) & (starts["row"] >= 0))
        over_ms = stops["ms"][stop[told]]
        return (starts["row"][told], over_ms - starts["ms"][told]), over_ms

    def _keep(self, events: Array, code: Array, owner: Array, partner: Array, method: Array, waiting: Array) -> None:
        """What the next are followed with."""
        if not len(events):
            self._events = waiting
            return
        kind, place = events["kind"], np.arange(len(events))
        ends = _ends(code)
        lengths = np.diff(ends, prepend=-1)
        is_empty = (kind == CATCH_OVER) & (owner >= 0) & (kind[owner] == ALONE)  # behind it
        begin = np.where(kind == ALONE, place, np.where(is_empty, place + 1, 0))
        begin = np.maximum(np.maximum.accumulate(begin), np.repeat(ends - lengths + 1, lengths))
        is_idle = kind == FINALLY
        is_idle[partner[(kind == FILTER) & (partner >= 0)]] = False  # what ended a filter does so again
        stays = (place >= np.repeat(begin[ends], lengths)) & ~is_idle
        events, code, method = events[stays], code[stays], method[stays]
        events["is_told"] = True
        self._events = np.concatenate([*_shortened(events, code, method), waiting])


def _shortened(events: Array, code: Array, method: Array) -> list[Array]:
    """The events thread by thread; in the place of very many of one thread, those that lead to what is open."""
    ends = _ends(code) + 1
    begins = np.append(0, ends[:-1])
    long = np.flatnonzero(ends - begins > MOST_EVENTS)
    parts, before = list[Array](), 0
    for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
        own = events[begin:end]
        frames = own["frames"].astype(np.int64)
        throw, state, _, catch = kernels.open_exceptions(own["kind"].copy(), method[begin:end], frames).T
        made = np.zeros((len(throw), 2), EVENT)
        made[:, 0] = own[np.where(state == kernels.FILTERED, catch, throw)]
        made[:, 1] = own[np.maximum(catch, 0)]
        made["method"][:, 1], made["frames"][:, 1] = -1, 0  # it must not end a filter again
        parts += [events[before:begin], made[np.stack([state >= 0, state == kernels.HELD], axis=1)]]
        before = end
    return [*parts, events[before:]]


def _in_turn(rows: Array, ms: Array) -> tuple[Array, Array]:
    """The same, the latest last."""
    order = np.argsort(ms, kind="stable")
    return rows[order], ms[order]


def _ends(codes: Array) -> Array:
    """The last place of each code, of codes that ascend."""
    return np.flatnonzero(np.append(codes[1:] != codes[:-1], np.ones(min(len(codes), 1), np.bool_)))
