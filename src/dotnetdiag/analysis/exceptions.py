"""Exceptions that were thrown: by type and message, who threw them, who caught them, how long that took, and how many in each second.

Exception/Start comes with each throw, up to .NET 8 also of one that is thrown again. Then the runtime looks for who catches it (filters run
meanwhile), and unwinds the stack (blocks of finally run); ExceptionCatch/Start is the end of that. Which throw a catch is of is told by the thread
alone: it is the one that came last and is still open. One that another took the place of, in a block of finally, is never caught, nor is one that
ends the program, nor any of NativeAOT, which does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import answer_table, number, texts
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import OTHERS, Kept, KeptEvents, Texts, having
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.pairs import latest_rows, pairs
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import NO_STACKS, StackedEvents, has_methods
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

THROWN, CAUGHT, CATCH_OVER, FINALLY, FINALLY_OVER, FILTER = 80, 250, 251, 252, 253, 254
"""Exception/Start, ExceptionCatch/Start and /Stop, ExceptionFinally/Start and /Stop, ExceptionFilter/Start."""
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
        self._others = {number: KeptEvents(having(number)) for number in (CATCH_OVER, FINALLY, FINALLY_OVER, FILTER)}
        self._losses: Losses | None = None

    def wants(self, schema: EventSchema) -> bool:
        """Throws, catches, blocks of finally and filters; and what names the threads of the pool."""
        return (
            self._thrown.wants(schema)
            or self._caught.wants(schema)
            or any(one.wants(schema) for one in self._others.values())
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses = window.trace.losses
        self._thrown.feed(window)
        self._caught.feed(window)
        for one in self._others.values():
            one.feed(window)

    def result(self) -> ExceptionReport:
        """The answer."""
        return self._answer().report()

    def _answer(self) -> _Answer:
        thrown, caught = self._thrown.kept, self._caught.all()
        others = {number: one.all() for number, one in self._others.items()}
        made = self._thrown.result("Exceptions", "exceptions", np.ones(len(thrown)))
        catch = pairs(thrown.ms, _keys(thrown), caught.ms, _keys(caught))
        over = pairs(caught.ms, _keys(caught), others[CATCH_OVER].ms, _keys(others[CATCH_OVER]))
        known = catch >= 0
        handled = np.where(over >= 0, np.append(others[CATCH_OVER].ms, 0.0)[over] - caught.ms, np.nan)
        return _Answer(
            thrown=thrown,
            method=made.method,
            catch_ms=np.where(known, np.append(caught.ms, 0.0)[catch] - thrown.ms, np.nan),
            handled_ms=np.where(known, np.append(handled, np.nan)[catch], np.nan),
            caught_by=np.where(known, np.append(caught["MethodName"], -1)[catch], -1),
            finallys=_within(thrown, others[FINALLY]),
            finally_ms=_within_ms(thrown, others[FINALLY], others[FINALLY_OVER]),
            filters=_within(thrown, others[FILTER]),
            types=self._types.names,
            messages=self._messages.names,
            methods=[_as_elsewhere(one) for one in self._methods.names],
            profile=with_leaves(made.profile, thrown["ExceptionType"][made.row], self._types.names),
            losses=made.losses,
            seconds=in_seconds(self._seconds),
        )


def _keys(kept: Kept) -> tuple[Array, Array]:
    return kept.pid, kept.tid


def _owner(thrown: Kept, events: Kept) -> Array:
    """The last throw of the thread before each of these."""
    return latest_rows(_keys(thrown), thrown.ms, _keys(events), events.ms)


def _within(thrown: Kept, events: Kept) -> Array:
    """How many of these each throw had."""
    of = _owner(thrown, events)
    return np.bincount(of[of >= 0], minlength=len(thrown))


def _within_ms(thrown: Kept, starts: Kept, stops: Kept) -> Array:
    """How long those took."""
    stop = pairs(starts.ms, _keys(starts), stops.ms, _keys(stops))
    of = _owner(thrown, starts)
    own = (of >= 0) & (stop >= 0)
    return np.bincount(of[own], stops.ms[stop[own]] - starts.ms[own], minlength=len(thrown))


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
            thrown=self._table("exceptions", self._columns(flags), notes),
            by_type=self._by_type(notes),
            by_message=self._grouped("exceptions by message", ("type", "message"), [kinds, thrown["ExceptionMessage"]], notes),
            by_method=self._grouped("exceptions by method", ("method", "type"), [self.method.which, kinds], notes),
            by_catch=self._grouped(
                "exceptions by who caught them", ("caught_by", "type"), [self.caught_by, kinds], notes, self.caught_by >= 0
            ),
            by_second=self._table(
                "exceptions by second",
                {"second": Scalar(seconds, None, Kind.I8), "count": Scalar(of_second, None, Kind.I8)},
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
            "pid": Scalar(thrown.pid, None, Kind.I8),
            "tid": Scalar(thrown.tid, None, Kind.I8),
            "type": texts(self.types, thrown["ExceptionType"]),
            "message": texts(self.messages, thrown["ExceptionMessage"]),
            "method": self.method,
            "caught_by": texts(self.methods, self.caught_by),
            "catch_ms": number(self.catch_ms),
            "handled_ms": number(self.handled_ms),
            "finallys": Scalar(self.finallys, None, Kind.I8),
            "finally_ms": Scalar(self.finally_ms, None, Kind.F8),
            "filters": Scalar(self.filters, None, Kind.I8),
            "again": Scalar((flags & _AGAIN > 0).astype(np.int64), None, Kind.I8),
            "nested": Scalar((flags & _NESTED > 0).astype(np.int64), None, Kind.I8),
        }

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
                "count": Scalar(found.count, None, Kind.I8),
                "messages": Scalar(distinct(thrown["ExceptionMessage"]), None, Kind.I8),
                "threads": Scalar(distinct(thrown.pid, thrown.tid), None, Kind.I8),
                "first_ms": Scalar(first, None, Kind.F8),
                "last_ms": Scalar(last, None, Kind.F8),
                "caught": Scalar(found.sums(~np.isnan(self.catch_ms)).astype(np.int64), None, Kind.I8),
                "catch_ms": Scalar(found.sums(np.nan_to_num(self.catch_ms)), None, Kind.F8),
                "max_catch_ms": Scalar(most, None, Kind.F8),
            },
            notes,
        )

    def _grouped(
        self, title: str, names: Sequence[str], keys: Sequence[Array], notes: Sequence[str], rows: Array | None = None
    ) -> Table:
        found = groups(keys, np.ones(len(self.thrown)), rows)
        columns = self._columns(np.zeros(len(self.thrown), np.int64))
        shown: dict[str, Column] = {name: columns[name].take(found.first) for name in names}
        figures = {
            "count": Scalar(found.count, None, Kind.I8),
            "catch_ms": Scalar(found.sums(np.nan_to_num(self.catch_ms)), None, Kind.F8),
        }
        return self._table(title, {**shown, **figures}, notes)

    def _table(self, title: str, columns: Mapping[str, Column], notes: Sequence[str]) -> Table:
        return answer_table(title, columns, notes, self.losses)
