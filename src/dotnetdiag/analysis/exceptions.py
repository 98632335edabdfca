"""Exceptions that were thrown: by type and message, who threw them, who caught them, how long that took, and how many in each second.

Exception/Start comes with each throw, up to .NET 8 also of one that is thrown again. Then the runtime looks for who catches it (filters run
meanwhile), and unwinds the stack (blocks of finally run); ExceptionCatch/Start is the end of that. Which throw a catch is of is told by the thread
alone: it is the one that came last and is still open (``trace.kernels.follow_exceptions``). One that another took the place of, in a block of
finally, is never caught, nor is one that leaves a filter, nor one that ends the program, nor any of NativeAOT, which does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, number, texts, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import LossesToTell, Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.groups import groups, sums
from dotnetdiag.analysis.kept_events import OTHERS, Kept, KeptEvents, Texts, having, narrow
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.pairs import combined_codes, pairs, picked
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import NO_STACKS, StackedEvents, has_methods
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace import kernels
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

THROWN, CAUGHT, CATCH_OVER, FINALLY, FINALLY_OVER, FILTER, FILTER_OVER = 80, 250, 251, 252, 253, 254, 255
"""Exception/Start, ExceptionCatch/Start and /Stop, ExceptionFinally/Start and /Stop, ExceptionFilter/Start and /Stop."""
_FOLLOWED = {FILTER_OVER: 5, CATCH_OVER: 3, THROWN: 0, FILTER: 4, FINALLY: 6, CAUGHT: 2}
"""The kinds of ``kernels.follow_exceptions``; of events of one time the first of these came first."""
_ALONE = 1
_NESTED, _AGAIN = 2, 4
"""Of ExceptionFlags: thrown while another was handled, thrown again."""
MOST_MESSAGES = 1 << 16
"""Messages that are told apart; those beyond count for their types alone."""
MOST_CHARACTERS = 300
"""Of a message."""
NO_EVENTS = "no exceptions: none was thrown, or the recording lacks their events (record with --clrevents exception)"
NO_CATCHES = "who caught them is not told: NativeAOT does not, or nobody did"
_METHOD = re.compile(r"^.*?\[(?P<module>[^\]]*)\] (?P<type>.*)::(?P<method>.*)$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ExceptionTotals:
    """Of all. ``again``: thrown again, ``nested``: thrown while another was handled. ``catch_ms``: from throws to catches. ``per_second``: of the
    recording.
    """

    count: int
    caught: int
    again: int
    nested: int
    catch_ms: float
    max_catch_ms: float
    per_second: float | None


@dataclass(frozen=True, kw_only=True)
class ExceptionReport(Report):
    """``thrown``: a row for each, in the order in which they came. ``by_type``, ``by_message``, ``by_method`` (who threw), ``by_catch`` (who caught):
    the most frequent first; ``by_second``: how many in each second of the recording that had some. ``profile``: the stacks of throws, which end
    in the type. ``notes``: what the recording lacks.
    """

    MAIN = "by_type"

    thrown: Table
    by_type: Table
    by_message: Table
    by_method: Table
    by_catch: Table
    by_second: Table
    profile: StackProfile
    totals: ExceptionTotals

    @property
    def count(self) -> int:
        """How many were thrown."""
        return self.totals.count


def exceptions(trace: Trace) -> ExceptionReport:
    """All that were thrown in a recording."""
    (made,) = fold(trace, ExceptionsFold(seconds=seconds_of(trace)))
    return made


class ExceptionsFold:
    """What :func:`exceptions` asks, window by window. ``seconds``: how long was recorded, for the rate."""

    def __init__(self, *, seconds: Seconds = None) -> None:
        self._seconds = seconds
        self._types, self._methods = Texts(), Texts()
        self._messages = Texts(MOST_MESSAGES, longest=MOST_CHARACTERS)
        names = {"ExceptionType": self._types, "ExceptionMessage": self._messages}
        self._thrown = StackedEvents(KeptEvents(having(THROWN), ("ExceptionFlags",), names=names))
        self._caught = KeptEvents(having(CAUGHT), names=("MethodName",), texts=self._methods)
        self._others = {
            number: KeptEvents(having(number)) for number in (CATCH_OVER, FINALLY, FINALLY_OVER, FILTER_OVER)
        }
        self._others[FILTER] = KeptEvents(having(FILTER), names=("MethodName",), texts=self._methods)
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Throws, catches, blocks of finally and filters; and what names the threads of the pool."""
        return (
            self._thrown.wants(schema)
            or self._caught.wants(schema)
            or any(one.wants(schema) for one in self._others.values())
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._thrown.feed(window)
        self._caught.feed(window)
        for one in self._others.values():
            one.feed(window)

    def result(self) -> ExceptionReport:
        """The answer."""
        return self._answer().report()

    def _answer(self) -> _Answer:
        thrown = self._thrown.kept
        ends = self._ends(thrown)  # of a million a third of the memory, before there are stacks
        made = self._thrown.result("Exceptions", "exceptions", np.ones(len(thrown)))
        return _Answer(
            thrown=thrown,
            method=made.method,
            **ends,
            types=self._types.names,
            messages=self._messages.names,
            methods=[_as_elsewhere(one) for one in self._methods.names],
            profile=with_leaves(made.profile, thrown["ExceptionType"][made.row], self._types.names),
            losses=self._losses.told,
            seconds=in_seconds(self._seconds),
        )

    def _ends(self, thrown: Kept) -> dict[str, Array]:
        """Of each throw what became of it."""
        caught, others = self._caught.all(), {number: one.all() for number, one in self._others.items()}
        followed = _Followed({THROWN: thrown, CAUGHT: caught, **others}, self._methods.names)
        catch, over = followed.ended(THROWN, CAUGHT), followed.ended(CAUGHT, CATCH_OVER)
        handled = picked(others[CATCH_OVER].ms, over, np.nan) - caught.ms
        in_finally, filtered = followed.throw_of(FINALLY), followed.throw_of(FILTER)
        told = in_finally >= 0
        return {
            "catch_ms": picked(caught.ms, catch, np.nan) - thrown.ms,
            "handled_ms": picked(handled, catch, np.nan),
            "caught_by": narrow(picked(caught["MethodName"], catch, -1)),
            "finallys": narrow(np.bincount(in_finally[told], minlength=len(thrown))),
            "finally_ms": sums(in_finally[told], _lasted(others[FINALLY], others[FINALLY_OVER])[told], len(thrown)),
            "filters": narrow(np.bincount(filtered[filtered >= 0], minlength=len(thrown))),
        }


def _keys(kept: Kept) -> tuple[Array, Array]:
    return kept.pid, kept.tid


class _Followed:
    """Which throw each event is of, and what ends each."""

    def __init__(self, kept: Mapping[int, Kept], methods: Sequence[str]) -> None:
        parts = [kept[number] for number in _FOLLOWED]
        ends = np.cumsum([0, *map(len, parts)])
        self._rows = {number: (first, last) for number, first, last in zip(_FOLLOWED, ends, ends[1:], strict=False)}
        kind = np.repeat(np.array(list(_FOLLOWED.values()), np.uint8), np.diff(ends))
        flags = kept[THROWN]["ExceptionFlags"]
        kind[slice(*self._rows[THROWN])] = np.where(
            (flags >= 0) & (flags & (_NESTED | _AGAIN) == 0), _ALONE, _FOLLOWED[THROWN]
        )
        unknown = methods.index(OTHERS) if OTHERS in methods else -1
        method = np.concatenate([one.fields.get("MethodName", np.full(len(one), -1)) for one in parts]).astype(np.int64)
        method[method == unknown] = -1
        threads = combined_codes(*(np.concatenate(columns) for columns in zip(*map(_keys, parts), strict=True)))
        self._order = narrow(np.lexsort((np.concatenate([one.ms for one in parts]), threads)))
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(len(self._order))
        threads = threads[self._order]
        self._owner, self._partner = map(
            narrow, kernels.follow_exceptions(threads, kind[self._order], method[self._order])
        )

    def throw_of(self, number: int) -> Array:
        """Of each event with an id the row of its throw, -1 for none."""
        return self._of(number, self._owner, THROWN)

    def ended(self, number: int, end: int) -> Array:
        """Of each event with an id the row of what ends it, events with another; -1 for none."""
        return self._of(number, self._partner, end)

    def _of(self, number: int, told: Array, other: int) -> Array:
        own = told[self._place[slice(*self._rows[number])]]
        return np.where(own >= 0, np.append(self._order, 0)[own] - self._rows[other][0], -1)


def _lasted(starts: Kept, stops: Kept) -> Array:
    """How long each took, 0 where it has no end."""
    stop = pairs(starts.ms, _keys(starts), stops.ms, _keys(stops))
    return np.where(stop >= 0, np.append(stops.ms, 0.0)[stop] - starts.ms, 0.0)


def _as_elsewhere(name: str) -> str:
    """``void [module] Type::Method(parameters)`` as frames are called: ``module!Type.Method(parameters)``."""
    found = _METHOD.match(name)
    return name if found is None else f"{found['module']}!{found['type']}.{found['method']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """Columns of a row for each throw, and the texts that they number."""

    thrown: Kept
    method: Coded
    catch_ms: Array
    handled_ms: Array
    caught_by: Array
    finallys: Array
    finally_ms: Array
    filters: Array
    types: Sequence[str]
    messages: Sequence[str]
    methods: Sequence[str]
    profile: StackProfile
    losses: Losses | None
    seconds: float | None

    def report(self) -> ExceptionReport:
        """The tables."""
        thrown, flags = self.thrown, np.maximum(self.thrown["ExceptionFlags"], 0)
        ended, kinds = self.catch_ms[~np.isnan(self.catch_ms)], thrown["ExceptionType"]
        notes = self._notes()
        seconds, of_second = np.unique((thrown.ms // 1000).astype(np.int64), return_counts=True)
        return ExceptionReport(
            by_type=self._by_type(notes),
            by_message=self._grouped("exceptions by message", ("type", "message"), [kinds, thrown["ExceptionMessage"]], notes),
            by_method=self._grouped("exceptions by method", ("method", "type"), [self.method.which, kinds], notes),
            by_catch=self._grouped(
                "exceptions by who caught them", ("caught_by", "type"), [self.caught_by, kinds], notes, self.caught_by >= 0
            ),
            by_second=self._table(
                "exceptions by second",
                {"second": whole(seconds), "count": whole(of_second)},
                notes,
            ),
            profile=self.profile,
            totals=ExceptionTotals(
                count=len(thrown),
                caught=len(ended),
                again=int((flags & _AGAIN > 0).sum()),
                nested=int((flags & _NESTED > 0).sum()),
                catch_ms=float(ended.sum()),
                max_catch_ms=float(ended.max(initial=0.0)),
                per_second=len(thrown) / self.seconds if self.seconds and len(thrown) else None,
            ),
            notes=notes,
            thrown=self._table("exceptions", self._columns(flags), notes),  # last: it is as large as all that the others take meanwhile
        )  # fmt: skip

    def _notes(self) -> tuple[str, ...]:
        if not len(self.thrown):
            return (NO_EVENTS,)
        notes = [] if (self.caught_by >= 0).any() else [NO_CATCHES]
        if not has_methods(self.method):
            notes.append(NO_STACKS)
        if OTHERS in self.messages[MOST_MESSAGES:]:
            beyond = int((self.thrown["ExceptionMessage"] == self.messages.index(OTHERS)).sum())
            notes.append(f"{beyond:,} have messages beyond the limit of {MOST_MESSAGES:,}: they count by type alone")
        return tuple(notes)

    def _columns(self, flags: Array) -> dict[str, Column]:
        thrown = self.thrown
        return {
            "start_ms": Scalar(thrown.ms, None, Kind.F8),
            "pid": whole(thrown.pid),
            "tid": whole(thrown.tid),
            **{name: self._text(name) for name in ("type", "message", "method", "caught_by")},
            "catch_ms": number(self.catch_ms),
            "handled_ms": number(self.handled_ms),
            "finallys": whole(self.finallys),
            "finally_ms": Scalar(self.finally_ms, None, Kind.F8),
            "filters": whole(self.filters),
            "again": whole(flags & _AGAIN > 0),
            "nested": whole(flags & _NESTED > 0),
        }

    def _text(self, name: str) -> Column:
        if name == "type":
            return texts(self.types, self.thrown["ExceptionType"])
        if name == "message":
            return texts(self.messages, self.thrown["ExceptionMessage"])
        return self.method if name == "method" else texts(self.methods, self.caught_by)

    def _by_type(self, notes: Sequence[str]) -> Table:
        thrown = self.thrown
        found = groups([thrown["ExceptionType"]], np.ones(len(thrown)))
        told = found.which
        first, last = np.full(len(found), np.inf), np.full(len(found), -np.inf)
        np.minimum.at(first, told, thrown.ms)
        np.maximum.at(last, told, thrown.ms)

        def distinct(*columns: Array) -> Array:
            of = told[combined([told, *columns], len(told))[0]]
            return np.bincount(of, minlength=len(found))

        most = np.zeros(len(found))
        np.maximum.at(most, told, np.nan_to_num(self.catch_ms))
        return self._table(
            "exceptions by type",
            {
                "type": texts(self.types, thrown["ExceptionType"][found.first]),
                "count": whole(found.count),
                "messages": whole(distinct(thrown["ExceptionMessage"])),
                "threads": whole(distinct(thrown.pid, thrown.tid)),
                "first_ms": Scalar(first, None, Kind.F8),
                "last_ms": Scalar(last, None, Kind.F8),
                "caught": whole(found.sums(~np.isnan(self.catch_ms))),
                "catch_ms": Scalar(found.sums(np.nan_to_num(self.catch_ms)), None, Kind.F8),
                "max_catch_ms": Scalar(most, None, Kind.F8),
            },
            notes,
        )

    def _grouped(
        self, title: str, names: Sequence[str], keys: Sequence[Array], notes: Sequence[str], rows: Array | None = None
    ) -> Table:
        found = groups(keys, np.ones(len(self.thrown)), rows)
        shown: dict[str, Column] = {name: self._text(name).take(found.first) for name in names}
        figures = {
            "count": whole(found.count),
            "catch_ms": Scalar(found.sums(np.nan_to_num(self.catch_ms)), None, Kind.F8),
        }
        return self._table(title, {**shown, **figures}, notes)

    def _table(self, title: str, columns: Mapping[str, Column], notes: Sequence[str]) -> Table:
        return answer_table(title, columns, notes, self.losses)
