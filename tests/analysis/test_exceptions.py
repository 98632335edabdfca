"""Exceptions of recordings, whose workload says how many it threw."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis import exceptions as room
from dotnetdiag.analysis.advice import of_exceptions
from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.exceptions import (
    BREAKS_OFF,
    NO_CATCHES,
    NO_EVENTS,
    ExceptionReport,
    ExceptionsFold,
    exceptions,
)
from dotnetdiag.analysis.fold import fold, seconds_of
from dotnetdiag.analysis.kept_events import CUT, OTHERS
from dotnetdiag.analysis.stacked import NO_STACKS
from dotnetdiag.cli.shown_exceptions import show
from dotnetdiag.errors import UsageError
from dotnetdiag.trace import spilled
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

TYPES = ["Workload.WidgetException", "System.ArgumentException", "System.FormatException"]


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    thrown = trace.counts().get("Microsoft-Windows-DotNETRuntime", {}).get("Exception/Start", 0)
    made = exceptions(trace)
    assert made.count == thrown
    for table in (made.by_type, made.by_message, made.by_second):
        assert sum(table.values("count")) == thrown
    assert made.notes == (*(() if thrown else (NO_EVENTS,)), *((BREAKS_OFF,) if trace.damage else ()))
    if thrown and "Workload.WidgetException" in made.by_type.values("type"):
        # per round two of the first type, and one of each other
        counts = dict(zip(made.by_type.values("type"), made.by_type.values("count"), strict=True))
        assert {one: counts[one] / thrown for one in TYPES} == dict(zip(TYPES, (0.5, 0.25, 0.25), strict=True))


def test_messages_beyond_the_limit_count_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(one for one in recordings() if one.startswith("events-10"))
    monkeypatch.setattr(room, "MOST_MESSAGES", 3)
    made = exceptions(Trace(data_of(name), name=name))
    assert made.count == sum(made.by_type.values("count"))
    assert len({*made.by_message.values("message")} - {OTHERS}) == 3
    assert sum(made.by_message.values("count")) == made.count
    assert "beyond the limit" in made.notes[0]


def test_messages_that_are_cut_are_as_different_as_they_were() -> None:
    long = "x" * room.MOST_CHARACTERS
    made = exceptions(traced(*(throw(text) for text in ("why", long + "A", long + "B", long + "B"))))
    cut = long[:-1] + CUT
    rows = sorted((row["message"], row["count"]) for row in made.by_message)
    assert rows == [("why", 1), (cut, 1), (cut, 2)]
    assert made.by_type.values("messages") == [3]
    assert [note for note in made.notes if "300 characters" in note] == [made.notes[-1]]
    assert not any("characters" in note for note in exceptions(traced(throw("why"))).notes)


def test_without_messages_all_else_is_the_same() -> None:
    trace = Trace(data_of("events-10.nettrace"))
    whole = exceptions(trace).to_json()
    (made,) = fold(trace, ExceptionsFold(seconds=seconds_of(trace), messages=0))
    told = made.to_json()
    assert {row["message"] for row in told["thrown"]} == {None}
    assert {row["message"] for row in whole["thrown"]} != {None}
    for one in (*told["thrown"], *whole["thrown"]):
        del one["message"]
    for name in ("thrown", "by_method", "by_catch", "by_second", "totals", "notes"):
        assert told[name] == whole[name], name


def test_questions_that_are_asked_together_keep_messages_once() -> None:
    payload = z16("Lost") + z16("why") + bytes(16)
    one = Seen(ms=1, thread=1, stack=("Throw", "Main"), provider=RUNTIME, number=80, payload=payload, version=1)
    kept = []

    class Counted(ExceptionsFold):
        def feed(self, window: EventTable) -> None:
            super().feed(window)
            kept.append(self._messages.names)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("everything", "threads", "startup"):
            patch.setattr(f"dotnetdiag.analysis.{name}.ExceptionsFold", Counted)
        everything(traced(one))
    assert kept.count(["why"]) == 1
    assert len(kept) > 1


def test_where_no_throw_has_a_stack_it_is_said() -> None:
    payload = z16("Lost") + z16("") + bytes(8) + bytes(4) + bytes(2) + bytes(2)
    one = Seen(ms=1, thread=1, stack=("Throw", "Main"), provider=RUNTIME, number=80, payload=payload, version=1)
    assert NO_STACKS not in exceptions(traced(one)).notes
    made = exceptions(traced(replace(one, stack=())))
    assert (made.count, made.by_method.values("method")) == (1, [None])
    assert NO_STACKS in made.notes


def test_what_became_of_exceptions_is_not_known_where_no_catch_is_told() -> None:
    payload = z16("Lost") + z16("") + bytes(8) + bytes(4) + bytes(2) + bytes(2)
    one = Seen(ms=1, thread=1, stack=("Throw", "Main"), provider=RUNTIME, number=80, payload=payload, version=1)
    made = exceptions(traced(one))
    assert NO_CATCHES in made.notes
    assert (made.totals.caught, made.totals.catch_ms, made.totals.max_catch_ms) == (None, None, None)
    (thrown,) = made.thrown.to_pylist()
    assert (thrown["finallys"], thrown["finally_ms"], thrown["filters"]) == (None, None, None)
    (row,) = made.by_type.to_pylist()
    assert (row["count"], row["caught"], row["catch_ms"], row["max_catch_ms"]) == (1, None, None, None)
    tables = (made.by_message, made.by_method)
    assert [table.values("catch_ms") for table in tables] == [[None], [None]]


def of(number: int, method: str = "") -> Seen:
    """A catch, a filter, a block of finally; their ends."""
    payload = bytes(16) + z16(f"void [Ex] Prog::{method}()") + bytes(2) if method else b""
    return Seen(ms=0, thread=1, stack=(), provider=RUNTIME, number=number, payload=payload, version=0)


def throw(message: str, flags: int = 16) -> Seen:
    payload = z16("AEx") + z16(message) + bytes(12) + flags.to_bytes(2, "little") + bytes(2)
    return Seen(ms=0, thread=1, stack=(), provider=RUNTIME, number=80, payload=payload, version=1)


NESTED, AGAIN = 18, 20
CATCH, CATCH_OVER, FINALLY, FINALLY_OVER, FILTER, FILTER_OVER = range(250, 256)
IN_FINALLY = [throw("outer"), of(FINALLY, "Inner"), throw("inner", NESTED), of(CATCH, "Inner"), of(CATCH_OVER)]
IN_FINALLY += [of(FINALLY_OVER), of(CATCH, "Main"), of(CATCH_OVER)]
REPLACED = [throw("outer"), of(FINALLY, "Inner"), throw("inner", NESTED), of(CATCH, "Main"), of(CATCH_OVER)]
IN_FILTER_8 = [throw("outer"), of(FILTER, "Main"), throw("inner", NESTED), of(FILTER, "Main"), of(FILTER_OVER)]
IN_FILTER_8 += [of(CATCH, "Main"), of(CATCH_OVER)]
IN_FILTER_9 = [*IN_FILTER_8[:3], of(FILTER_OVER), *IN_FILTER_8[3:]]
CAUGHT_IN_FILTER = [throw("outer"), of(FILTER, "Main"), throw("inner", NESTED), of(CATCH, "Asked"), of(CATCH_OVER)]
CAUGHT_IN_FILTER += [of(FILTER_OVER), of(CATCH, "Main"), of(CATCH_OVER)]
AGAIN_8 = [throw("outer"), of(CATCH, "Inner"), throw("outer", AGAIN), of(CATCH, "Main"), of(CATCH_OVER)]
AGAIN_9 = [throw("outer"), of(CATCH, "Inner"), of(CATCH, "Main"), of(CATCH_OVER)]


@pytest.mark.parametrize(
    ("events", "caught"),
    [
        (IN_FINALLY, {"outer": "Main", "inner": "Inner"}),
        (REPLACED, {"outer": None, "inner": "Main"}),
        (IN_FILTER_8, {"outer": "Main", "inner": None}),
        (IN_FILTER_9, {"outer": "Main", "inner": None}),
        (CAUGHT_IN_FILTER, {"outer": "Main", "inner": "Asked"}),
        (AGAIN_9, {"outer": "Inner"}),
        ([*REPLACED, *AGAIN_9], {"outer": "Inner", "inner": "Main"}),
    ],
    ids=[
        "in finally",
        "replaced",
        "in filter, 8",
        "in filter, 9",
        "caught in filter",
        "again, 9",
        "again behind another",
    ],
)
def test_who_caught_what(events: list[Seen], caught: dict[str, str | None]) -> None:
    made = exceptions(traced(*(replace(one, ms=1.0 + place) for place, one in enumerate(events))))
    rows = made.thrown.to_pylist()
    assert {row["message"]: row["caught_by"] for row in rows} == {
        message: None if method is None else f"Ex!Prog.{method}()" for message, method in caught.items()
    }
    assert sum(row["filters"] for row in rows) == sum(one.number == FILTER for one in events)
    assert sum(row["finallys"] for row in rows) == sum(one.number == FINALLY for one in events)
    assert all(row["message"] == "outer" for row in rows if row["filters"] or row["finallys"])


OUTER = ("P.Throw", "P.Main", "P.Top")
"""The stack of who throws, and of a filter of Main's."""
INNER = ("P.Throw", "P.Ask", "P.Main", *OUTER)
"""Of who throws in it."""
ASKED, IN_MAIN, IN_TOP = INNER[1:], OUTER[1:], OUTER[2:]
DEEP_CUT = ("P.Deep",) * 100


def on(stack: tuple[str, ...], one: Seen) -> Seen:
    return replace(one, stack=stack)


def left(outer: tuple[str, ...] = OUTER, inner: tuple[str, ...] = INNER) -> list[Seen]:
    """Two that are thrown, the second in a filter."""
    return [on(outer, throw("outer")), on(outer, of(FILTER, "Main")), on(inner, throw("inner", NESTED))]


CAUGHT_IN_TOP = [on(IN_TOP, of(CATCH, "Top")), on(IN_TOP, of(CATCH_OVER))]
IN_ASK = [on(ASKED, of(CATCH, "Ask")), on(ASKED, of(CATCH_OVER))]
FINALLY_OF = {
    stack: [on(stack, of(FINALLY, stack[0][2:])), on(stack, of(FINALLY_OVER))] for stack in (ASKED, IN_MAIN, DEEP_CUT)
}
IS_OVER = [on(OUTER, of(FILTER_OVER))]
ANOTHER = [on(OUTER, of(FILTER, "Top")), on(OUTER, of(FILTER_OVER))]
CAUGHT_CUT = [on(DEEP_CUT, of(CATCH, "Top")), on(DEEP_CUT, of(CATCH_OVER))]
NOT_KNOWN = (None, None, None)


@pytest.mark.parametrize(
    ("events", "outer", "inner"),
    [
        ([*left(), *CAUGHT_IN_TOP], ("Top", 0, 1), (None, 0, 0)),
        ([*left(), *IS_OVER, *CAUGHT_IN_TOP], ("Top", 0, 1), (None, 0, 0)),  # .NET 9
        ([*left(), *FINALLY_OF[IN_MAIN], *CAUGHT_IN_TOP], ("Top", 1, 1), (None, 0, 0)),
        ([*left(), *FINALLY_OF[ASKED], *FINALLY_OF[IN_MAIN], *CAUGHT_IN_TOP], ("Top", 1, 1), (None, 1, 0)),
        ([*left(), *FINALLY_OF[IN_MAIN], *(on((), one) for one in CAUGHT_IN_TOP)], ("Top", 1, 1), (None, 0, 0)),
        ([*left(), *ANOTHER, *CAUGHT_IN_TOP], ("Top", 0, 2), (None, 0, 0)),
        ([*left(), *IN_ASK, *IS_OVER, *CAUGHT_IN_TOP], ("Top", 0, 1), ("Ask", 0, 0)),
        ([*left(), on(ASKED, of(CATCH, "Main")), *CAUGHT_IN_TOP], ("Top", 0, 1), ("Main", 0, 0)),  # it calls itself
        ([*left(DEEP_CUT, DEEP_CUT), *CAUGHT_IN_TOP], ("Top", 0, 1), (None, 0, 0)),
        ([*left(inner=DEEP_CUT), *CAUGHT_CUT, *IS_OVER], (None, 0, 1), ("Top", 0, 0)),
        (
            [*left(DEEP_CUT, DEEP_CUT), *CAUGHT_CUT, on(DEEP_CUT, of(FILTER_OVER)), *CAUGHT_IN_TOP],
            ("Top", 0, 1),
            ("Top", 0, 0),
        ),
        ([*left(DEEP_CUT, DEEP_CUT), *CAUGHT_CUT], NOT_KNOWN, NOT_KNOWN),
        ([*left(DEEP_CUT, DEEP_CUT), *FINALLY_OF[DEEP_CUT], *CAUGHT_IN_TOP], NOT_KNOWN, NOT_KNOWN),
        ([on((), one) for one in (*left(), *CAUGHT_IN_TOP)], NOT_KNOWN, NOT_KNOWN),
        ([on((), one) for one in (*left(), *IS_OVER, *CAUGHT_IN_TOP)], ("Top", 0, 1), (None, 0, 0)),
    ],
    ids=[
        *(
            "8",
            "9",
            "finally",
            "finally of both",
            "finally tells",
            "another filter",
            "caught in it",
            "caught in it by its method",
        ),
        *("cut", "caught in it, cut", "caught in it, all cut", "caught, all cut", "finally, all cut"),
        *("no stacks, 8", "no stacks, 9"),
    ],
)
@pytest.mark.parametrize("rows", [1, 1000])
def test_what_leaves_a_filter_is_caught_by_nobody(
    events: list[Seen], outer: tuple[object, ...], inner: tuple[object, ...], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "FOLLOWED_EVENTS", rows)
    ends = [on(OUTER, throw("last")), on(IN_TOP, of(CATCH, "Last"))]
    (made,) = fold(traced(*in_order(*events, *ends)), ExceptionsFold(), rows=rows)
    told = {
        row["message"]: (row["caught_by"] and row["caught_by"][8:-2], row["finallys"], row["filters"])
        for row in made.thrown
    }
    assert told == {"outer": outer, "inner": inner, "last": ("Last", 0, 0)}
    caught = [one for one in told.values() if one[0]]
    assert (made.totals.caught, sum(made.by_catch.values("count"))) == (len(caught), len(caught))
    assert all((row["catch_ms"] is None) == (row["caught_by"] is None) for row in made.thrown)


def test_what_is_caught_in_a_filter_of_one_that_is_not_told_of_is_not_known_without_stacks() -> None:
    _, *events = [on((), one) for one in (*left(), *IN_ASK)]
    (row,) = exceptions(traced(*in_order(*events))).thrown.to_pylist()
    assert (row["caught_by"], row["finallys"]) == (None, None)
    _, *events = [*left(), *IN_ASK]
    (row,) = exceptions(traced(*in_order(*events))).thrown.to_pylist()
    assert row["caught_by"] == "Ex!Prog.Ask()"


EDI = "System.Runtime.ExceptionServices.ExceptionDispatchInfo"


@pytest.mark.parametrize("leaves", [(), ("System.Runtime.EH.DispatchEx",)], ids=["8", "9 and later"])
def test_one_that_an_await_throws_again_is_told_by_its_stack(leaves: tuple[str, ...]) -> None:
    modules = dict.fromkeys((EDI, "System.Runtime.EH"), "/x/System.Private.CoreLib.dll")
    first, kept = (*leaves, "App.Read", "App.Main"), (*leaves, f"{EDI}.Throw", "App.Ask", "App.Main")
    own = (*leaves, "App.Throw", f"{EDI}.Throw", "App.Main")
    events = [
        replace(throw("lost"), ms=1.0 + place, stack=stack) for place, stack in enumerate((first, kept, kept, own, ()))
    ]
    made = exceptions(traced(*events, modules=modules))
    assert (made.count, made.by_type.values("count"), made.totals.again) == (5, [5], 2)
    assert made.thrown.values("again") == [0, 1, 1, 0, None]
    assert sorted(made.by_method.values("count")) == [1, 1, 1, 2]
    assert exceptions(traced(*events)).totals.again == 0  # a type of the program by that name


@pytest.mark.parametrize(("flags", "again"), [((16, NESTED), (None, None)), ((16, AGAIN), (None, 1))])
def test_without_stacks_only_a_flag_tells_that_one_was_thrown_again(
    flags: tuple[int, int], again: tuple[int | None, int | None], capsys: pytest.CaptureFixture[str]
) -> None:
    """.NET 9 and later have no such flag, and awaits have none on any."""
    made = exceptions(traced(*in_order(*(throw("lost", one) for one in flags))))
    assert tuple(made.thrown.values("again")) == again
    assert made.totals.again == again[1]
    many = exceptions(traced(*in_order(*[throw("lost", one) for one in flags] * 20)))
    (finding,) = of_exceptions(many, 1.0)
    show(many, 3)
    shown = capsys.readouterr().out
    assert ["again" in text for text in (finding.text, shown)] == [again[1] is not None] * 2


def test_without_names_nothing_tells_that_one_was_thrown_again() -> None:
    made = exceptions(traced(*in_order(*(replace(throw("lost"), stack=(0x10, 0x20 + place)) for place in range(3)))))
    assert (made.thrown.values("again"), made.totals.again) == ([None] * 3, None)
    named = [replace(throw("lost"), stack=("App.Throw", f"App.Main{place}")) for place in range(8)]
    stub = exceptions(traced(*in_order(replace(throw("lost"), stack=(0x10, "App.Main")), *named)))
    assert (stub.thrown.values("again"), stub.totals.again) == ([0] * 9, 0), "it has a name where others have"


def test_where_nothing_was_thrown_nothing_was_again() -> None:
    assert exceptions(traced(of(CATCH, "Main"))).totals.again == 0


def test_one_that_is_thrown_again_up_to_8_is_caught_twice() -> None:
    made = exceptions(traced(*(replace(one, ms=1.0 + place) for place, one in enumerate(AGAIN_8))))
    assert made.thrown.values("caught_by") == ["Ex!Prog.Inner()", "Ex!Prog.Main()"]
    assert made.thrown.values("handled_ms") == [None, 1.0]
    assert made.totals.again == 1


def in_order(*events: Seen, first_ms: float = 1.0) -> list[Seen]:
    """A tick apart."""
    return [replace(one, ms=first_ms + place) for place, one in enumerate(events)]


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
@pytest.mark.parametrize("followed", [1, 4, 1 << 14])
def test_what_became_of_exceptions_does_not_depend_on_the_size_of_windows(
    rows: int, followed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [*IN_FINALLY, *REPLACED, *IN_FILTER_8, *IN_FILTER_9, *CAUGHT_IN_FILTER, *AGAIN_8, *AGAIN_9]
    events = [replace(one, ms=1.0 + place // 2) for place, one in enumerate(events)]  # two at a time
    whole = exceptions(traced(*events)).to_json()
    monkeypatch.setattr(room, "FOLLOWED_EVENTS", followed)
    monkeypatch.setattr(spilled, "HELD_BYTES", 100)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 3)
    (made,) = fold(traced(*events), ExceptionsFold(seconds=seconds_of(traced(*events))), rows=rows)
    assert made.to_json() == whole


def test_a_catch_may_come_long_after_the_throw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FOLLOWED_EVENTS", 10)
    monkeypatch.setattr(spilled, "HELD_BYTES", 1000)
    others = [throw("other"), of(CATCH, "Other"), of(CATCH_OVER)] * 500
    last = [of(FINALLY_OVER), of(CATCH, "Main"), of(CATCH_OVER)]
    events = in_order(throw("outer"), of(FINALLY, "Inner"), *(replace(one, thread=2) for one in others), *last)
    (made,) = fold(traced(*events), ExceptionsFold(), rows=20)
    first, *rest = made.thrown.to_pylist()
    assert (first["message"], first["caught_by"]) == ("outer", "Ex!Prog.Main()")
    assert (first["catch_ms"], first["handled_ms"], first["finally_ms"]) == (1503.0, 1.0, 1501.0)
    assert {row["caught_by"] for row in rest} == {"Ex!Prog.Other()"}
    assert made.totals.caught == 501


def test_a_result_may_be_asked_for_again_when_more_has_come_and_the_first_stays() -> None:
    events = in_order(throw("one"), throw("two", NESTED), of(CATCH, "Inner"), of(CATCH_OVER), of(CATCH, "Main"))
    (window,) = traced(*events).windows(ExceptionsFold().wants)
    asked, answers = ExceptionsFold(), []
    for first, last in ((0, 2), (2, 4), (4, 5)):
        asked.feed(window.slice(first, last))
        answers.append(asked.result())
    expected = [[None, None], [None, "Ex!Prog.Inner()"], ["Ex!Prog.Main()", "Ex!Prog.Inner()"]]
    assert [made.thrown.values("caught_by") for made in answers] == expected
    assert [made.totals.caught for made in answers] == [None, 1, 2]
    assert [len(made.profile) for made in answers] == [2, 2, 2]
    assert asked.result().to_json() == answers[-1].to_json()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("held_bytes", [100, 1 << 20])
def test_results_that_are_asked_for_in_between_change_nothing(
    size: int, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", held_bytes)
    events = [*IN_FINALLY, *REPLACED, *IN_FILTER_8, *IN_FILTER_9, *CAUGHT_IN_FILTER, *AGAIN_8, *AGAIN_9]
    # three at a time, whose order a tick does not tell
    events = [replace(one, ms=1.0 + place // 3, thread=1 + place % 2) for place, one in enumerate(events)]
    trace, asked, answers = traced(*events), ExceptionsFold(), list[tuple[ExceptionReport, object]]()
    for window in trace.windows(asked.wants, size=size):
        asked.feed(window)
        answers.append((asked.result(), asked.result().to_json()))
    (once,) = fold(trace, ExceptionsFold(), rows=size)
    assert answers[-1][0].to_json() == once.to_json()
    assert all(made.to_json() == told for made, told in answers)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
@pytest.mark.parametrize("held_bytes", [100, 1 << 20])
def test_reports_are_pickled_and_copied(
    held_bytes: int, copied: Callable[[ExceptionReport], ExceptionReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", held_bytes)
    stacked = [replace(one, stack=("Throw", "Main")) for one in (*IN_FINALLY, *IN_FILTER_8)]
    made = exceptions(traced(*in_order(*stacked)))
    other = copied(made)
    assert other.to_json() == made.to_json()
    assert other.totals == made.totals
    assert other.thrown[1:3].to_pylist() == made.thrown[1:3].to_pylist()
    assert other.profile.node.tolist() == made.profile.node.tolist()


def test_a_result_of_no_window_is_an_error() -> None:
    with pytest.raises(UsageError, match="a result of no window"):
        ExceptionsFold().result()


def test_of_what_came_little_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FOLLOWED_EVENTS", 64)
    monkeypatch.setattr(spilled, "HELD_BYTES", 4096)
    events = in_order(*[one for _ in range(1000) for one in (*IN_FINALLY, *CAUGHT_IN_FILTER)])
    trace, asked = traced(*events), ExceptionsFold()
    for window in trace.windows(asked.wants):
        for first in range(0, len(window), 50):
            asked.feed(window.slice(first, first + 50))
            assert len(asked._followed) < 20
            assert sum(map(len, asked._events)) < 64
            assert sum(rows.nbytes for rows in asked._rows._fresh) + asked._rows._rows.held_bytes < 16_384
    assert asked.result().count == 4000


def test_of_several_lines_of_a_method_who_catches_is_the_method() -> None:
    """``--by line`` gives frames by lines; who catches has none."""
    told = "void [probe] Probe::Main(string[])"
    named = "probe!Probe.Main(class System.String[])"

    lined = [f"{named} probe.cs:14", f"{named} probe.cs:~20", named, "probe!Probe.Run(int32) probe.cs:3"]
    assert room._as_frames([told], lined) == [named]


@pytest.mark.parametrize(("events", "took_ms"), [(IN_FINALLY, 4.0), (REPLACED, None), (AGAIN_9, 0.0)])
def test_a_block_of_finally_that_another_exception_left_has_no_time(events: list[Seen], took_ms: float | None) -> None:
    made = exceptions(traced(*in_order(*events)))
    (outer,) = [row for row in made.thrown.to_pylist() if row["message"] == "outer"]
    assert outer["finally_ms"] == took_ms


NATIVE = 0x7F0000000000
"""A frame that nothing names."""
DEEP = ("DispatchEx", "P.Throw", NATIVE, "P.Invoke", "P.Main")


def thrown(ms: float, *stack: str | int, message: str = "first") -> Seen:
    return replace(throw(message), ms=ms, stack=stack)


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize(
    ("second", "is_again"),
    [
        (("DispatchEx", NATIVE, "P.Invoke", "P.Main"), True),
        (("DispatchEx", "P.Invoke", "P.Main"), True),
        (("DispatchEx", "P.Main"), True),
        (DEEP, False),  # thrown anew, from the same place
        (("DispatchEx", "P.Other", "P.Main"), False),  # by somebody that called it
        (("P.Main",), False),
        (("DispatchEx",), False),
    ],
)
def test_one_that_comes_back_from_native_code_is_thrown_again(
    second: tuple[str | int, ...], is_again: bool, rows: int
) -> None:
    """.NET 9 and 10 tell of it once more, with no flag that says so."""
    (made,) = fold(
        traced(thrown(1, *DEEP), thrown(2, *second), replace(of(CATCH, "Main"), ms=3)), ExceptionsFold(), rows=rows
    )
    assert made.thrown.values("again") == [0, int(is_again)]
    assert made.totals.again == int(is_again)


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize("between", ["catch", "message", "thread"])
def test_what_is_thrown_behind_a_catch_or_is_another_is_not_thrown_again(between: str, rows: int) -> None:
    second = thrown(
        3, "DispatchEx", NATIVE, "P.Invoke", "P.Main", message="another" if between == "message" else "first"
    )
    second = replace(second, thread=2) if between == "thread" else second
    catch = [replace(of(CATCH, "Main"), ms=2)] if between == "catch" else []
    (made,) = fold(traced(thrown(1, *DEEP), *catch, second), ExceptionsFold(), rows=rows)
    assert made.thrown.values("again") == [0, 0]
