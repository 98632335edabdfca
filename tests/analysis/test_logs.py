"""Messages of a web application, each in its request."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.traces import Seen, said, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import log_exceptions, log_templates
from dotnetdiag.analysis import logs as room
from dotnetdiag.analysis.kept_events import OTHERS
from dotnetdiag.analysis.logs import NO_EVENTS, LogsFold, logs
from dotnetdiag.analysis.request_kinds import LOGGING
from dotnetdiag.analysis.requests import requests
from dotnetdiag.events.columns import Text
from dotnetdiag.trace.trace import Trace

FINISHED = 2


def trace_of(name: str) -> Trace:
    return Trace(data_of(name), name=name)


def formatted(ms: float, number: int, event: str = "", text: str = "said") -> Seen:
    """A message as a text."""
    values: dict[str, int | str] = {"Level": 2, "EventId": number, "LoggerName": "Shop", "EventName": event}
    return said(ms, 1, provider=LOGGING, number=1, name="FormattedMessage", **values, FormattedMessage=text)


def as_json(ms: float, text: str, exception: str = "{}", *, level: int = 2, **values: str | int) -> Seen:
    """A message as JSON, with the exception that it was logged with."""
    said_too = {
        "EventId": 7,
        "ExceptionJson": exception,
        "ArgumentsJson": "{}",
        "FormattedMessage": text,
        "LoggerName": "Shop",
        **values,
    }
    return said(ms, 1, provider=LOGGING, number=5, name="MessageJson", Level=level, **said_too)


def thrown(type_: str, message: str, stack: str = "") -> str:
    """The text of the field."""
    told = {"TypeName": type_, "Message": message, "HResult": "1", "VerboseMessage": f"{type_}: {message}{stack}"}
    return json.dumps(told)


@pytest.mark.parametrize("name", recordings())
def test_there_are_as_many_as_events(name: str) -> None:
    trace = trace_of(name)
    counts = trace.counts().get("Microsoft-Extensions-Logging", {})
    expected = counts.get("MessageJson", 0) or counts.get("FormattedMessage", 0)
    made = logs(trace)
    assert made.totals.count == len(made.messages) == expected
    assert sum(made.totals.by_level.values()) == sum(made.by_event.values("count")) == expected
    assert made.notes == (() if expected else (NO_EVENTS,))


def test_the_request_of_a_message_is_the_one_that_it_tells_of() -> None:
    trace = trace_of("web-10.nettrace")
    rows, told = logs(trace).messages.to_pylist(), requests(trace).requests.to_pylist()
    finished = [row for row in rows if row["logger"].endswith("Hosting.Diagnostics") and row["event_id"] == FINISHED]
    assert len(finished) == 40
    for row in finished:
        path = row["message"].split("http://")[1].split(" ")[0].partition("/")[2]
        assert row["request"] == f"GET /{path}"
        of = told[row["request_row"]]
        assert (of["kind"], of["name"]) == ("server", row["request"])
        assert of["start_ms"] <= row["ms"]
        assert row["ms"] == pytest.approx(of["start_ms"] + of["duration_ms"], abs=5)
    errors = [row for row in rows if row["level"] == "Error"]
    assert Counter((row["request"], row["message"]) for row in errors) == {("GET /fail", "failing 500"): 4}


def test_messages_without_any_request_say_so() -> None:
    trace = trace_of("web-10.nettrace")
    fold = LogsFold()
    for window in trace.windows(lambda schema: schema.provider == "Microsoft-Extensions-Logging"):
        fold.feed(window)
    made = fold.result()
    assert (made.totals.count, made.totals.in_requests, made.notes) == (394, 0, (room.NO_REQUESTS,))


def test_messages_beyond_the_limit_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_MESSAGES", 3)
    trace = trace_of("web-10.nettrace")
    fold = LogsFold()
    for window in trace.windows(fold.wants):
        fold.feed(window)
    made = fold.result()
    assert len(set(made.messages.values("message"))) == 4
    assert made.totals.count == 394
    assert made.notes == (room.NO_TEXTS,)


def test_the_texts_that_core_3_does_not_write_are_made_of_the_arguments() -> None:
    """``MessageJson`` has a field for them from .NET 5 on."""
    texts = ['{"id":"1","{OriginalFormat}":"cart {id} is lost"}', "no object", ""]
    told = [
        said(
            at,
            1,
            provider=LOGGING,
            number=5,
            name="MessageJson",
            Level=4,
            EventId=7,
            LoggerName="Shop",
            ArgumentsJson=one,
        )
        for at, one in enumerate(texts)
    ]
    made = logs(traced(*told))
    assert made.messages.values("message") == ["cart 1 is lost", None, None]
    assert made.by_event.values("example") == ["cart 1 is lost"]


def test_ids_below_nothing_are_told_and_texts_that_are_cut_end_so() -> None:
    long = "x" * room.MOST_CHARACTERS
    told = [(-1, "one"), (-5, long), (-5, long + "A"), (0, long + "B")]
    made = logs(traced(*(formatted(at, number, text=text) for at, (number, text) in enumerate(told))))
    cut = long[:-1] + "…"
    assert made.messages.values("event_id") == [-1, -5, -5, 0]
    assert made.messages.values("message") == ["one", long, cut, cut]
    assert sorted(made.by_event.values("event_id")) == [-5, -1, 0]
    assert dict(zip(made.by_event.values("event_id"), made.by_event.values("example"), strict=True))[0] == cut
    assert [note for note in made.notes if "2,000 characters" in note]


def test_events_that_differ_in_their_names_alone_are_two() -> None:
    """As ``new EventId(0, "Begin")`` and ``new EventId(0, "End")``."""
    told = [formatted(at, 0, name) for at, name in enumerate(["Begin", "End", "End", ""])]
    rows = logs(traced(*told)).by_event.to_pylist()
    assert [(row["event"], row["count"]) for row in rows] == [("End", 2), ("Begin", 1), ("", 1)]


def own(ms: float, template: str, *, level: int = 4, **arguments: str) -> Seen:
    """A message of a program's own, as ``LogError("cart {Id} is lost", id)`` writes it."""
    told = json.dumps({**arguments, "{OriginalFormat}": template}, separators=(",", ":"), ensure_ascii=False)
    return as_json(ms, template.format(**arguments), level=level, EventId=0, EventName="", ArgumentsJson=told)


def test_messages_without_an_event_are_told_apart_by_what_they_are_made_of() -> None:
    first = '{"{OriginalFormat}":"it says \\"{Id}\\" \\\\","Id":"%d"}'
    told = [
        own(0, "cart {Id} is lost", Id="1"),
        own(1, "paid", level=2),
        own(2, "cart {Id} is lost", Id="}"),
        own(3, "Käse {Id}", Id='"{OriginalFormat}":"'),
        own(4, "Käse {Id}", Id="2"),
        own(5, "cart {Id} is lost", Id="3", level=5),
        as_json(6, "by a logger of somebody else", EventId=0, ArgumentsJson="x"),
        as_json(7, "and", EventId=0, ArgumentsJson='{"{OriginalFormat}":"'),
        as_json(8, "and", EventId=0, ArgumentsJson='{"{OriginalFormat}":""}'),
        as_json(9, "one of .NET's", ArgumentsJson='{"{OriginalFormat}":"one"}'),
        as_json(10, "one of .NET's", ArgumentsJson='{"{OriginalFormat}":"two"}'),
        *(as_json(11 + at, "first", EventId=0, ArgumentsJson=first % at) for at in range(3)),
    ]
    made = logs(traced(*told))
    rows = [(row["level"], row["count"], row["example"]) for row in made.by_event.to_pylist()]
    assert rows == [
        ("Information", 3, "first"),
        ("Error", 2, "cart 1 is lost"),
        ("Error", 2, 'Käse "{OriginalFormat}":"'),
        ("Information", 2, "by a logger of somebody else"),
        ("Information", 2, "one of .NET's"),
        ("Information", 1, "paid"),
        ("Critical", 1, "cart 3 is lost"),
        ("Information", 1, "and"),
    ]


@given(st.lists(st.tuples(st.text(), st.text(), st.booleans()), max_size=12))
def test_templates_are_what_json_says_whatever_is_in_them(told: list[tuple[str, str, bool]]) -> None:
    def arguments(template: str, value: str, is_first: bool) -> str:
        both = [("{OriginalFormat}", template), ("Id", value)]
        return json.dumps(dict(both if is_first else both[::-1]), separators=(",", ":"))

    rows, found = log_templates.templates_of(Text.from_pylist([arguments(*one) for one in told]))
    assert rows.tolist() == [*range(len(told))]
    assert [json.loads(f'"{one}"') for one in found.to_pylist()] == [template for template, _, _ in told]


def test_templates_beyond_the_limit_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a program that writes each message into a template of its own."""
    monkeypatch.setattr(log_templates, "MOST_TEMPLATES", 2)
    made = logs(traced(*(own(at, f"cart {at} is lost") for at in range(6))))
    assert [(row["count"], row["example"]) for row in made.by_event.to_pylist()] == [
        (4, OTHERS),
        (1, "cart 0 is lost"),
        (1, "cart 1 is lost"),
    ]
    assert room.NO_TEMPLATES in made.notes


def test_the_exception_that_a_message_was_logged_with_is_told() -> None:
    lost = thrown("Shop.Lost", "no cart", "\n   at Shop.Find()")
    told = [
        as_json(0, "begun"),
        as_json(1, "cart 1", lost),
        as_json(2, "cart 2", thrown("Odd", "")),
        as_json(3, "", "x"),
    ]
    made = logs(traced(*told))
    assert made.messages.values("exception_type") == [None, "Shop.Lost", "Odd", None]
    assert made.messages.values("exception") == [None, "Shop.Lost: no cart\n   at Shop.Find()", "Odd: ", None]
    assert made.by_event.values("exception") == [None]
    first = logs(traced(*told[1:]))
    assert first.by_event.values("exception") == ["Shop.Lost: no cart\n   at Shop.Find()"]
    brief = LogsFold(rows=False)
    for window in traced(*told[1:]).windows(brief.wants):
        brief.feed(window)
    assert brief.result().by_event.to_json() == first.by_event.to_json()


def test_exceptions_beyond_the_limit_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_exceptions, "MOST_EXCEPTIONS", 2)
    made = logs(traced(*(as_json(at, "lost", thrown("Odd", str(at))) for at in range(4)), as_json(9, "fine")))
    assert made.messages.values("exception") == ["Odd: 0", "Odd: 1", "(others)", "(others)", None]
    assert made.messages.values("exception_type") == ["Odd", "Odd", "(others)", "(others)", None]
    assert room.NO_EXCEPTIONS in made.notes


def test_of_a_process_that_tells_messages_in_both_forms_those_with_exceptions_are_read() -> None:
    both = [formatted(0, 7, text="cart 1"), as_json(0, "cart 1", thrown("Odd", "why"))]
    made = logs(traced(*both))
    assert (made.totals.count, made.messages.values("exception_type")) == (1, ["Odd"])


def test_where_those_as_json_have_no_texts_those_as_texts_are_read() -> None:
    """As of .NET Core 3, whose arguments are not as the text has them."""
    textless = said(0, 1, provider=LOGGING, number=5, name="MessageJson", Level=2, EventId=7, LoggerName="Shop")
    made = logs(traced(formatted(0, 7, text="cart 1.00"), textless))
    assert (made.totals.count, made.messages.values("message")) == (1, ["cart 1.00"])


def test_two_braces_stand_for_one() -> None:
    told = said(
        0,
        1,
        provider=LOGGING,
        number=5,
        name="MessageJson",
        Level=2,
        EventId=7,
        LoggerName="Shop",
        ArgumentsJson='{"A":"5","{OriginalFormat}":"esc {{A}} {A} {B}"}',
    )
    made = logs(traced(told))
    assert made.messages.values("message") == ["esc {A} 5 {B}"]
    brief = LogsFold(rows=False)
    for window in traced(told).windows(brief.wants):
        brief.feed(window)
    assert brief.result().by_event.values("example") == ["esc {A} 5 {B}"]


def test_where_more_messages_are_there_as_texts_these_are_told() -> None:
    """What is too long for an event as JSON is there as a text alone."""
    made = logs(
        traced(formatted(0, 7, text="long"), formatted(1, 7, text="short"), as_json(1, "short", thrown("Odd", "")))
    )
    assert made.messages.values("message") == ["long", "short"]
    assert room.NO_EXCEPTIONS_OF_ALL in made.notes


def test_messages_and_exceptions_of_more_characters_than_there_is_room_for_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "ALL_CHARACTERS", 10)
    monkeypatch.setattr(log_exceptions, "ALL_CHARACTERS", 10)
    made = logs(traced(*(as_json(at, f"lost {at}", thrown("Odd", str(at))) for at in range(3))))
    assert made.messages.values("message") == ["lost 0", "(others)", "(others)"]
    assert made.messages.values("exception") == ["Odd: 0", "(others)", "(others)"]
    assert {room.NO_TEXTS, room.NO_EXCEPTIONS} <= {*made.notes}


def test_messages_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(*(as_json(at, f"lost {at % 3}", thrown("Odd", str(at % 2))) for at in range(20)))
    expected = logs(trace).to_json()
    monkeypatch.setattr(room, "PIECE_BYTES", 1)
    assert logs(trace).to_json() == expected
