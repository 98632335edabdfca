"""Exceptions of recordings, whose workload says how many it threw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis import exceptions as room
from dotnetdiag.analysis.exceptions import NO_EVENTS, exceptions
from dotnetdiag.analysis.kept_events import OTHERS
from dotnetdiag.analysis.stacked import NO_STACKS
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
    assert made.notes == (() if thrown else (NO_EVENTS,))
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


def test_where_no_throw_has_a_stack_it_is_said() -> None:
    payload = z16("Lost") + z16("") + bytes(8) + bytes(4) + bytes(2) + bytes(2)
    one = Seen(ms=1, thread=1, stack=("Throw", "Main"), provider=RUNTIME, number=80, payload=payload, version=1)
    assert NO_STACKS not in exceptions(traced(one)).notes
    made = exceptions(traced(replace(one, stack=())))
    assert (made.count, made.by_method.values("method")) == (1, [None])
    assert NO_STACKS in made.notes


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


def test_one_that_is_thrown_again_up_to_8_is_caught_twice() -> None:
    made = exceptions(traced(*(replace(one, ms=1.0 + place) for place, one in enumerate(AGAIN_8))))
    assert made.thrown.values("caught_by") == ["Ex!Prog.Inner()", "Ex!Prog.Main()"]
    assert made.thrown.values("handled_ms") == [None, 1.0]
    assert made.totals.again == 1
