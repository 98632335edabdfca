"""Messages of programs, from the fields of their events."""

from __future__ import annotations

from typing import Any

import pytest

from dotnetdiag.analysis.log_entries import NO_LEVEL, LogEntry, LoggedException, _entry


def entry(**fields: Any) -> LogEntry:
    return _entry({"Level": 2, "LoggerName": "Shop", "EventId": 0, "EventName": "", **fields}, 7, 1_000)


def test_arguments_are_exact_texts() -> None:
    made = entry(
        ArgumentsJson='{"a,b":"c=\\"d\\"","n":1.50,"none":null,"ż":"🐍","{OriginalFormat}":"x"}',
        FormattedMessage="said",
    )
    assert made.arguments == {"a,b": 'c="d"', "n": "1.5", "ż": "🐍", "{OriginalFormat}": "x"}
    assert (made.text, made.level, made.logger, made.pid, made.time_ns) == ("said", 2, "Shop", 7, 1_000)
    assert made.exception is None


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_what_is_no_object_is_kept_as_it_is(text: str) -> None:
    assert entry(ArgumentsJson=text, FormattedMessage="").arguments == {"arguments": text}


def test_without_a_formatted_message_the_holes_are_filled() -> None:
    made = entry(ArgumentsJson='{"Id":"7","{OriginalFormat}":"item {Id,5:N0} of {Who}"}')
    assert made.text == "item 7 of {Who}"


def test_an_exception_and_the_activity_come_with_it() -> None:
    made = entry(
        ExceptionJson='{"TypeName":"T","Message":"M","HResult":"1","VerboseMessage":"T: M at x"}',
        ActivityTraceId="1ac56d1782cadcad3d55f8542322eda4",
        ActivitySpanId="35805bc6258e3d1c",
        ActivityTraceFlags="1",
        EventId=3,
        EventName="Started",
    )
    assert made.exception == LoggedException(type="T", message="M", text="T: M at x")
    assert (made.trace_id[:4], made.span_id[:4], made.trace_flags) == ("1ac5", "3580", 1)
    assert (made.event_id, made.event_name) == (3, "Started")


@pytest.mark.parametrize(
    ("level", "number"), [("Warning", 3), ("loud", NO_LEVEL), ([1], 0), ("4", 4), (None, 0), ("9" * 5000, NO_LEVEL)]
)
def test_a_level_is_a_number_or_a_name_whatever_anybody_writes(level: Any, number: int) -> None:
    assert entry(Level=level).level == number


@pytest.mark.parametrize("value", ["²", "x", "9" * 5000, [], {}, None, 1.5, "9999999999"])
def test_what_is_no_number_is_nought(value: Any) -> None:
    made = entry(EventId=value, ActivityTraceFlags=value)
    assert (made.event_id, made.trace_flags) == (0, 0)
