"""Exceptions that were thrown: by type and message, who threw them, who caught them, how long that took, and how many in each second.

Exception/Start comes with each throw, also where one that was kept is thrown again, as each await of a task that failed does, which its stack alone
tells (``ExceptionDispatchInfo.Throw``); up to .NET 8 also of ``throw;``, which a flag tells. Then the runtime looks for who catches it (filters run
meanwhile), and unwinds the stack (blocks of finally run); ExceptionCatch/Start is the end of that. Which throw a catch is of is told by the thread
alone: it is the one that came last and is still open (``trace.kernels.follow_exceptions``). One that another took the place of, in a block of
finally, is never caught, nor is one that leaves a filter, nor one that ends the program, nor any of NativeAOT, which does not tell.

What cannot be known is null. Up to .NET 8 an exception that leaves a filter is told from one that is caught in it by how deep the stacks are: where
these are not told, or are cut, and the filter has no end, it is known of neither who caught it, nor of the one that was filtered. Whether one was
thrown again is not known without stacks, or names of methods, unless a flag says that it was.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis import exception_ends as ends
from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, told_number, whole
from dotnetdiag.analysis.crossed_throws import Rests, Throws, ThrowsBefore
from dotnetdiag.analysis.exception_ends import FollowedExceptions
from dotnetdiag.analysis.filters import NO_NAME, are_rethrown
from dotnetdiag.analysis.fold import LossesToTell, Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.kept_events import OTHERS, Kept, KeptEvents, Texts, cut_told, having
from dotnetdiag.analysis.kind_rows import KindRows, KindStacks, Values, columns_of
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.method_words import without_line
from dotnetdiag.analysis.pool_threads import is_worker
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.running_groups import Numbering, RunningGroups
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import NO_STACKS
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.distinct import is_among, ranked
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

THROWN, CAUGHT, CATCH_OVER, FINALLY, FINALLY_OVER, FILTER, FILTER_OVER = 80, 250, 251, 252, 253, 254, 255
"""Exception/Start, ExceptionCatch/Start and /Stop, ExceptionFinally/Start and /Stop, ExceptionFilter/Start and /Stop."""
_KINDS = {
    CAUGHT: ends.CAUGHT,
    CATCH_OVER: ends.CATCH_OVER,
    FINALLY: ends.FINALLY,
    FINALLY_OVER: ends.FINALLY_OVER,
    FILTER: ends.FILTER,
    FILTER_OVER: ends.FILTER_OVER,
}
"""What follows a throw, by its id."""
_WITH_METHOD = (ends.CAUGHT, ends.FILTER)
FOLLOWED_EVENTS = 1 << 14
"""So many are waited for before they are followed, which costs something each time: a window of a file has more. All were followed at the end once:
of 400,000 exceptions and their 1.2 million other events the columns, and what was made of them, were 120 of the 185 MB that a report needed, and of
four million 1.3 GB. It was the temporaries, not what was kept: what is made of a slice and let go of costs nothing.
"""
WINDOW_EVENTS = 1 << 15
"""As ``fold.FOLDED_ROWS``, for who asks for exceptions alone: with twice as many the report on four million took 8 MB more, and no less time."""
_NESTED, _AGAIN = 2, 4
"""Of ExceptionFlags: thrown while another was handled, thrown again."""
MOST_MESSAGES = 1 << 16
"""Messages that are told apart; those beyond count for their types alone."""
MOST_CHARACTERS = 300
"""Of a message."""
NO_MESSAGE = "NULL"
"""What runtimes tell (8 to 10) as the message of one that was given none."""
NO_EVENTS = "no exceptions: none was thrown, or the recording lacks their events (record with --profile exceptions)"
BREAKS_OFF = "the recording breaks off: what was thrown last, such as what a program died of, is often not in it"
_COLUMNS = (
    "start_ms", "pid", "tid", "type", "message", "method", "caught_by",
    "catch_ms", "handled_ms", "finallys", "finally_ms", "filters", "again", "nested",
)  # fmt: skip
"""Of the table of all."""
NO_CATCHES = (
    "who caught them is not told: NativeAOT does not, nobody did, or the events of catches are not in the recording"
)
_METHOD = re.compile(r"^.*?\[(?P<module>[^\]]*)\] (?P<type>.*)::(?P<method>.*)$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ExceptionTotals:
    """Of all. ``again``: so many of ``count`` were thrown again, as far as that is told, None where it is told of none; ``nested``: while another
    was handled. ``catch_ms``: from throws to catches; None, as ``caught``, where no catch is told. ``per_second``: of the time in which processes
    that threw were recorded.
    """

    count: int
    caught: int | None
    again: int | None
    nested: int
    catch_ms: float | None
    max_catch_ms: float | None
    per_second: float | None


@dataclass(frozen=True, kw_only=True)
class ExceptionReport(Report):
    """``thrown``: a row for each, in the order in which they came, made when somebody asks for it. ``by_type``, ``by_message``, ``by_method`` (who
    threw), ``by_catch`` (who caught): the most frequent first; ``by_second``: how many in each second of the recording that had some.
    ``profile``: the stacks of throws, which ``stacks`` makes when somebody asks. ``thread_names``: by process (0: not told) and id. ``notes``: what
    the recording lacks.
    """

    KIND = "exceptions"
    MAIN = "by_type"

    thrown: Table
    by_type: Table
    by_message: Table
    by_method: Table
    by_catch: Table
    by_second: Table
    stacks: Callable[[], StackProfile] = field(repr=False, compare=False)
    thread_names: Mapping[tuple[int, int], str] = field(repr=False)
    totals: ExceptionTotals

    @cached_property
    def profile(self) -> StackProfile:
        """The stacks of throws, which end in the type."""
        return self.stacks()

    @property
    def count(self) -> int:
        """How many were thrown."""
        return self.totals.count


def exceptions(trace: Trace) -> ExceptionReport:
    """All that were thrown in a recording."""
    (made,) = fold(trace, ExceptionsFold(seconds=seconds_of(trace)), rows=WINDOW_EVENTS)
    return made


class ExceptionsFold:
    """What :func:`exceptions` asks, window by window. ``seconds``: how long was recorded, for the rate. Of a recording of any size some megabytes
    are in memory: what became of exceptions is told while windows come, and a row of each is spilled. So many different ``messages`` are told
    apart (None: :data:`MOST_MESSAGES`, which are 10 MB and more); 0 for who asks when exceptions were thrown.
    """

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None, messages: int | None = None) -> None:
        self._seconds, self._most = seconds, MOST_MESSAGES if messages is None else messages
        self._types, self._methods = Texts(), Texts()
        self._messages = Texts(self._most, longest=MOST_CHARACTERS)
        names = {"ExceptionType": self._types} | ({"ExceptionMessage": self._messages} if self._most else {})
        self._thrown = KeptEvents(having(THROWN), ("ExceptionFlags",), names=names)
        self._others = {
            kind: KeptEvents(having(number), names=("MethodName",) if kind in _WITH_METHOD else (), texts=self._methods)
            for number, kind in _KINDS.items()
        }
        self._rows, self._followed = KindRows([*ends.ROW_FIELDS, ("behind", "i4")]), FollowedExceptions()
        self._before = ThrowsBefore()
        self._events: list[Array] = []
        self._waiting = 0
        self._is_concluded = False
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Throws, catches, blocks of finally and filters; and what names the threads of the pool."""
        return (
            is_worker(schema) or self._thrown.wants(schema) or any(one.wants(schema) for one in self._others.values())
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._rows.columns.look_at(window)
        thrown = self._feed_thrown(window)
        caught = np.zeros(0, np.int64), np.zeros(0)
        for kind, one in self._others.items():
            found = one.events_of(window)
            if len(found):
                kept = one.of(found)
                thread = self._rows.thread_ids.of(found, kept)
                method, frames = kept.fields.get("MethodName", -1), self._frames_of(found)
                self._wait(kept, kind=kind, thread=thread, method=method, frames=frames)
                if kind == ends.CAUGHT:
                    caught = thread, kept.ms
        if thrown is not None:
            throws, rows = thrown
            rows["behind"] = self._before.of(throws, caught)
        self._before.saw(caught)
        if self._waiting >= FOLLOWED_EVENTS:
            self._follow()

    def _feed_thrown(self, window: EventTable) -> tuple[Throws, Array] | None:
        """The throws, and their rows, whose fields may still be filled in."""
        found = self._thrown.events_of(window)
        if not len(found):
            return None
        kept = self._thrown.of(found)
        flags = kept["ExceptionFlags"]
        is_alone = (flags >= 0) & (flags & (_NESTED | _AGAIN) == 0)
        of_thread = self._rows.threads.of(found, kept)
        kind = np.where(is_alone, ends.ALONE, ends.THROWN)
        row, rows = self._rows.add(found, kept, of_thread, kept["ExceptionType"])
        for name, nothing in ends.NOTHING.items():
            rows[name] = nothing
        rows["message"] = kept["ExceptionMessage"] if self._most else -1
        rows["flags"] = np.maximum(flags, 0)
        thread = self._rows.threads.ids[of_thread]
        self._wait(kept, kind=kind, thread=thread, row=row, frames=self._frames_of(found))
        stack = self._rows.columns.stacks.of(found.headers.stack)
        return Throws(
            thread=thread, ms=kept.ms, type=kept["ExceptionType"], message=rows["message"], flags=flags, stack=stack
        ), rows

    def _frames_of(self, events: EventTable) -> Array:
        return ends.frames_of(self._rows.columns.stacks.lengths(events.headers.stack))

    def _wait(self, kept: Kept, **columns: Any) -> None:
        events = np.zeros(len(kept), ends.EVENT)
        for name, values in {
            "method": -1,
            "row": -1,
            "ms": kept.ms,
            **columns,
        }.items():
            events[name] = values
        self._events.append(events)
        self._waiting += len(events)

    def _follow(self) -> None:
        events = np.concatenate([np.zeros(0, ends.EVENT), *self._events])
        self._events, self._waiting = [], 0
        self._rows.settle(self._followed.follow(events, self._unknown(), is_last=False).changes())
        self._is_concluded = False

    def _conclude(self) -> None:
        """What the last ticks of threads bring if nothing more comes; they wait nevertheless, for then it is told anew."""
        if self._waiting:
            self._follow()
        if not self._is_concluded:
            followed = copy.copy(self._followed)
            self._rows.conclude(followed.follow(np.zeros(0, ends.EVENT), self._unknown(), is_last=True).changes())
            self._is_concluded = True

    def _unknown(self) -> int:
        names = self._methods.names
        return names.index(OTHERS) if OTHERS in names else -1

    def result(self) -> ExceptionReport:
        """The answer, of what came until now; more may come, and another be asked for. Raises UsageError before the first window."""
        self._conclude()
        stacks = KindStacks(self._rows, self._types.names)
        answer = _Answer(
            thrown=self._rows,
            stacks=stacks,
            types=self._types.names,
            messages=self._messages.names,
            most=self._most,
            methods=self._methods.names,
            losses=self._losses.told,
            seconds=in_seconds(self._seconds, self._rows.threads.told()[0]),
            lost=LostBetween(self._rows.columns.context),
            cut=cut_told("messages", self._messages),
        )
        return answer.report()


class _Catchers:
    """Who catches, as the frames of that method are called: of several processes in the stacks of each, which may have other runtimes."""

    def __init__(self, methods: Sequence[str], stacks: KindStacks, pid_of_kind: Array) -> None:
        pids, self._process = ranked(pid_of_kind)
        each = (
            _as_frames(methods, stacks.frame_names(pid if len(pids) > 1 else None)) for pid in pids.tolist() or [None]
        )
        numbers: dict[str, int] = {}
        self._numbers = np.array([[numbers.setdefault(name, len(numbers)) for name in one] for one in each], np.int64)
        self.names = list(numbers)

    def of(self, kind: Array, method: Array) -> Array:
        """The number among :attr:`names` of each row's method, which was told by number; -1 for none."""
        if not self.names:
            return np.full(len(method), -1, np.int64)
        return np.where(method >= 0, self._numbers[self._process[kind], method], -1)


def _as_frames(names: Sequence[str], frames: Sequence[str]) -> list[str]:
    """``void [module] Type::Method(parameters)`` as the frame of that method is called, ``module!Type.Method(parameters)``: who catches is on the
    stack. There ``string`` is ``class System.String``; where several methods have such a name, or none, the parameters stay as they are. By lines
    it is that method too: which of its lines catches is not told.
    """
    if not names:
        return []
    of = defaultdict[str, set[str]](set)
    for name in frames:
        of[_without_parameters(name)].add(without_line(name))
    made = []
    for name in names:
        found = _METHOD.match(name)
        written = name if found is None else f"{found['module']}!{found['type']}.{found['method']}"
        alike = of.get(_without_parameters(written), set())
        made.append(next(iter(alike)) if len(alike) == 1 else written)
    return made


def _without_parameters(name: str) -> str:
    return name.partition("(")[0]


class _Answer:
    """A row for each throw, and the texts that they number; looked at slice by slice."""

    def __init__(
        self,
        *,
        thrown: KindRows,
        stacks: KindStacks,
        types: Sequence[str],
        messages: Sequence[str],
        most: int,
        methods: Sequence[str],
        losses: Losses | None,
        seconds: float | None,
        lost: LostBetween,
        cut: tuple[str, ...],
    ) -> None:
        self._rows, self._stacks, self._cut = thrown.given(), stacks, cut
        self._count, is_rethrown = len(self._rows), stacks.told(are_rethrown)
        self._is_rethrown = np.where((is_rethrown == NO_NAME) & stacks.has_names, 0, is_rethrown)
        self._thread, self._stack, self._type = thrown.kinds.told()
        pairs = ((some["behind"], self._stack[some["kind"]]) for _, some in self._rows.slices())
        self._rests = Rests(pairs, thrown.columns.stacks)
        self._thread_id = thrown.threads.ids
        self._pid, self._tid = thrown.threads.told()
        self._others = messages.index(OTHERS) if OTHERS in messages[most:] else -1
        self._most = most
        self._texts = {
            "type": Text.from_pylist([*types, ""]),
            "message": Text.from_pylist([*messages, ""]),
        }
        self._catchers = _Catchers(methods, stacks, self._pid[self._thread])
        self._texts["caught_by"] = Text.from_pylist([*self._catchers.names, ""])
        self._losses, self._seconds, self._lost = losses, seconds, lost
        self._left = np.zeros(0, np.int64)
        """The rows that :func:`_may_be_left` tells of, as far as rows were looked at."""

    def report(self) -> ExceptionReport:
        """The tables."""
        found = _Sums(self._type, self._thread_id[self._thread], self._pid[self._thread])
        for first, some in self._rows.slices():
            self._left = np.append(self._left, first + np.flatnonzero(_may_be_left(some.__getitem__)))
            rows = self._without_doubtful(some)
            which = self._stacks.of(rows["kind"], rows["time"])
            caught_by = self._catchers.of(rows["kind"], rows["caught_by"])
            found.add(first, rows, self._stacks.method[which], self._again(rows.__getitem__, which), caught_by)
        notes = self._notes(found)
        self._tells_catches = not found.catchless.are_all
        self._catchless = np.array(sorted(found.catchless.pids), self._pid.dtype)
        return ExceptionReport(
            thrown=answer_sliced("exceptions", _COLUMNS, self._count, self._columns, notes, self._losses),
            by_type=self._by_type(found, notes),
            by_message=self._grouped("exceptions by message", ("type", "message"), found.by_message, notes),
            by_method=self._grouped("exceptions by method", ("method", "type"), found.by_method, notes),
            by_catch=self._grouped("exceptions by who caught them", ("caught_by", "type"), found.by_catch, notes),
            by_second=self._by_second(found, notes),
            stacks=partial(self._stacks.profile, "Exceptions", "exceptions"),
            totals=ExceptionTotals(
                count=self._count,
                caught=len(found.ended) if self._tells_catches else None,
                again=found.again if self._count else 0,
                nested=found.nested,
                catch_ms=found.ended.total if self._tells_catches else None,
                max_catch_ms=found.ended.most if self._tells_catches else None,
                per_second=self._count / self._seconds if self._seconds and self._count else None,
            ),
            thread_names=self._stacks.thread_names(),
            notes=notes,
        )

    def _notes(self, found: _Sums) -> tuple[str, ...]:
        broken = [BREAKS_OFF] if self._losses is not None and self._losses.damage else []
        if not self._count:
            return (NO_EVENTS, *broken)
        notes = [
            *broken,
            *found.catchless.notes(NO_CATCHES),
            *self._stacks.unnamed,
            *self._stacks.stackless.notes(NO_STACKS),
        ]
        if self._others >= 0:
            beyond = int(found.by_message.count[found.by_message.keys() % _SPAN - 1 == self._others].sum())
            notes.append(f"{beyond:,} have messages beyond the limit of {self._most:,}: they count by type alone")
        return (*notes, *self._cut)

    def _again(self, values: Values, stack: Array) -> Array:
        """Of rows whether they were thrown again, 1 or 0, and -1 where that is not told."""
        crossed = self._rests.are(values("behind"), self._stack[values("kind")])
        is_again = (values("flags") & _AGAIN > 0) | (self._is_rethrown[stack] > 0) | crossed
        return np.where(is_again, 1, np.minimum(self._is_rethrown[stack], 0))

    def _columns(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        """Of the table of all: columns of some rows."""
        return columns_of(self._rows, self._column, names, first, last)

    def _column(self, name: str, values: Values) -> Column:
        if name == "start_ms":
            return Scalar(values("ms"), None, Kind.F8)
        if name == "finally_ms":  # what leaves one by another exception, or is cut off in it, has no end
            return number(values(name), self._tells_blocks(values) & (values("finallys_over") == values("finallys")))
        if name in ("finallys", "filters"):
            return whole(values(name), self._tells_blocks(values))
        if name in ("pid", "tid"):
            return whole((self._pid if name == "pid" else self._tid)[self._thread[values("kind")]])
        if name == "again":
            return told_number(self._again(values, self._stacks.of(values("kind"), values("time"))))
        if name == "nested":
            return whole(values("flags") & _NESTED > 0)
        if name in ("catch_ms", "handled_ms"):
            is_doubtful = self._is_lost(values, handled=name == "handled_ms") | self._is_of_either(values)
            return number(np.where(is_doubtful, np.nan, values(name)))
        if name == "method":
            return self._stacks.methods(self._stacks.of(values("kind"), values("time")))
        if name == "caught_by":
            is_doubtful = self._is_lost(values) | self._is_of_either(values)
            caught_by = self._catchers.of(values("kind"), np.where(is_doubtful, -1, values(name)))
            return Coded(self._texts[name], caught_by, mask(caught_by >= 0))
        if name in self._texts:
            which = self._type[values("kind")] if name == "type" else values(name)
            return Coded(self._texts[name], which, mask(which >= 0))
        return whole(values(name))

    def _tells_blocks(self, values: Values) -> Array:
        """Whether it is told of rows what ran for them: not where nothing is of their processes."""
        pid = self._pid[self._thread[values("kind")]]
        told: Array = ~is_among(pid, self._catchless) | (values("finallys") > 0) | (values("filters") > 0)
        return told & ~self._is_lost(values, ran=True, least=1) & ~self._is_of_either(values)

    def _is_of_either(self, values: Values) -> Array:
        """Of rows whether what became of them may be of another: of one that left a filter, or of the one that was filtered."""
        within = values("within")
        return np.asarray(_may_be_left(values) | (within == ends.ANY) | is_among(within, self._left))

    def _is_lost(self, values: Values, *, handled: bool = False, ran: bool = False, least: int = 2) -> Array:
        """Of rows whether their threads lost so many events before they were caught, or ``handled``, or the last of what ``ran`` for them: what came
        behind may be of another that was thrown.
        """
        thread, begin = self._thread[values("kind")], values("ms")
        if not self._lost:
            return np.zeros(len(begin), np.bool_)
        lasted = values("catch_ms") + values("handled_ms") if handled else values("catch_ms")
        end = np.where(np.isnan(lasted), np.inf, begin + lasted)
        if ran:
            end = np.maximum(end, values("ran_ms"))
        return self._lost.of(self._pid[thread], self._tid[thread], begin, end, least=least)

    def _without_doubtful(self, rows: Array) -> Array:
        """Rows of which none has what may be of another."""
        values = rows.__getitem__
        is_either = self._is_of_either(values)
        if not self._lost and not is_either.any():
            return rows
        made = rows.copy()
        is_lost, is_over = self._is_lost(values) | is_either, self._is_lost(values, handled=True) | is_either
        made["catch_ms"][is_lost], made["caught_by"][is_lost] = np.nan, -1
        made["handled_ms"][is_over] = np.nan
        return made

    def _by_type(self, found: _Sums, notes: Sequence[str]) -> Table:
        groups, order = found.by_type, found.by_type.order()
        type_ = groups.keys()[order]
        told = {
            "messages": np.bincount(found.by_message.keys() // _SPAN, minlength=len(found.longest_of))[type_],
            "threads": np.bincount(found.threads.keys() // _SPAN, minlength=len(found.longest_of))[type_],
        }
        return self._table(
            "exceptions by type",
            {
                "type": self._named("type", type_ - 1),
                "count": whole(groups.count[order]),
                **{name: whole(values) for name, values in told.items()},
                "first_ms": Scalar(found.first_ms[type_], None, Kind.F8),
                "last_ms": Scalar(found.last_ms[type_], None, Kind.F8),
                "caught": whole(found.caught_of[type_], self._known(type_)),
                "catch_ms": number(groups.total[order], self._known(order)),
                "max_catch_ms": number(found.longest_of[type_], self._known(type_)),
            },
            notes,
        )

    def _grouped(self, title: str, names: Sequence[str], groups: RunningGroups, notes: Sequence[str]) -> Table:
        order = groups.order()
        both = dict(zip(names, np.divmod(groups.keys()[order], _SPAN), strict=True))
        return self._table(
            title,
            {
                **{name: self._named(name, which - (name not in _FROM_0)) for name, which in both.items()},
                "count": whole(groups.count[order]),
                "catch_ms": number(groups.total[order], self._known(order)),
            },
            notes,
        )

    def _known(self, rows: Array) -> Array:
        """Whether it is told of rows what became of them."""
        return np.full(len(rows), self._tells_catches)

    def _by_second(self, found: _Sums, notes: Sequence[str]) -> Table:
        second, count = found.by_second.keys(), found.by_second.count
        order = np.argsort(second)
        columns = {"second": whole(second[order]), "count": whole(count[order])}
        return self._table("exceptions by second", columns, notes)

    def _named(self, name: str, which: Array) -> Column:
        if name == "method":
            return self._stacks.named(which)
        return Coded(self._texts[name], which, mask(which >= 0))

    def _table(self, title: str, columns: Mapping[str, Column], notes: Sequence[str]) -> Table:
        return answer_table(title, columns, notes, self._losses)


def _may_be_left(values: Values) -> Array:
    """Of rows whether something is told of what was thrown in a filter of theirs, which may be theirs: the filter has no end."""
    return np.asarray((values("doubts") > 0) & (values("filters") != values("filters_over")))


_SPAN = 1 << 32
"""A key of two numbers is the first times this and the second."""
_FROM_0 = ("method", "caught_by")
"""In keys; others may be none, -1, and are one more there."""


class _Sums:
    """What all rows come to, where slices of them are added in their order."""

    def __init__(self, type_of_kind: Array, thread_of_kind: Array, pid_of_kind: Array) -> None:
        self._type, self._thread, self._pid = type_of_kind + 1, thread_of_kind, pid_of_kind
        self._tells_catches = np.zeros(len(pid_of_kind), np.bool_)
        self.by_type, self.by_message, self.by_method, self.by_catch = (RunningGroups() for _ in range(4))
        self.by_second, self.threads = RunningGroups(), Numbering()
        self.ended = Spread()
        self.again: int | None = None
        self.nested = 0
        types = int(self._type.max(initial=0)) + 1
        self.first_ms, self.last_ms = np.full(types, np.inf), np.full(types, -np.inf)
        self.longest_of, self.caught_of = np.zeros(types), np.zeros(types, np.int64)

    def add(self, first: int, rows: Array, method: Array, again: Array, caught_by: Array) -> None:
        """The next rows, the first of which has that number; which ``method`` each is of, whether it was thrown ``again`` (-1 or less: not told),
        and who caught it.
        """
        ms, catch_ms = rows["ms"], rows["catch_ms"]
        kind_, number_ = rows["kind"], first + np.arange(len(rows))
        type_ = self._type[kind_]
        catch, is_caught = np.nan_to_num(catch_ms), ~np.isnan(catch_ms)
        self.by_type.add(type_, number_, catch)
        self.by_message.add(type_ * _SPAN + rows["message"] + 1, number_, catch)
        self.by_method.add(method * _SPAN + type_, number_, catch)
        told = np.flatnonzero(caught_by >= 0)
        self._tells_catches[kind_[told]] = True
        self.by_catch.add(caught_by[told] * _SPAN + type_[told], number_[told], catch[told])
        self.by_second.add((ms // 1000).astype(np.int64), number_)
        self.threads.of(type_ * _SPAN + self._thread[kind_])
        np.minimum.at(self.first_ms, type_, ms)
        np.maximum.at(self.last_ms, type_, ms)
        np.maximum.at(self.longest_of, type_, catch)
        self.caught_of += np.bincount(type_[is_caught], minlength=len(self.caught_of))
        self.ended.add(catch_ms[is_caught])
        if (again >= 0).any():
            self.again = (self.again or 0) + int((again > 0).sum())
        self.nested += int((rows["flags"] & _NESTED > 0).sum())

    @property
    def catchless(self) -> Lacking:
        """The processes of which it is not told who catches."""
        return Lacking.of(self._pid, self._tells_catches)
