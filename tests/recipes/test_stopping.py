"""The options that name the event at which a recording stops."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.recipes.stopping import EventWatcher, StoppingEvent, parse_stopping_event


def test_a_filter_is_fields_and_values_and_quotes_protect_what_separates_them() -> None:
    assert parse_stopping_event("P", "E", 'a:1, b : x:y ,"c,d":"e:f,g",h:') == StoppingEvent(
        provider="P", event="E", payload=(("a", "1"), ("b", "x:y"), ("c,d", "e:f,g"), ("h", ""))
    )
    assert parse_stopping_event("P", "E", "") == StoppingEvent(provider="P", event="E")
    assert parse_stopping_event(None, None, None) is None


@pytest.mark.parametrize("text", [",", "a:1,", ",a:1", "a:1,,b:2", " ", "a", ":1", '"":1', '" ', 'a:"1,b:2'])
def test_a_mistake_in_the_filter_is_one_line_that_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match=r"write field:value|a quote is not closed") as caught:
        parse_stopping_event("P", "E", text)
    assert str(caught.value).startswith("--stopping-event-payload-filter: ")
    assert "\n" not in str(caught.value)


CLR = "Microsoft-Windows-DotNETRuntime"


@pytest.mark.parametrize(
    ("event", "payload"), [("GC/Start", "Reason:Induced"), ("GCStart_V2", "Reason:1"), ("GCStart", None)]
)
def test_what_the_runtime_has_is_taken(event: str, payload: str | None) -> None:
    assert parse_stopping_event(CLR, event, payload) is not None


@pytest.mark.parametrize(
    ("event", "payload", "line"),
    [
        ("GC/Strt", None, f"no event 'GC/Strt' in {CLR}; near: GC/Start"),
        ("GC/Start", "Raeson:1", "no field 'Raeson' in GC/Start; near: Reason"),
        ("GC/Start", "Reason:Inducd", "no value 'Inducd' of GC/Start.Reason; near: Induced"),
    ],
)
def test_what_the_runtime_has_not_is_told_before_anything_is_recorded(
    event: str, payload: str | None, line: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        parse_stopping_event(CLR, event, payload)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    "payload", ["Reason:Induced", "Reason:induced", "Reason:1", "Type:NonConcurrentGC,Reason:Induced"]
)
def test_a_value_may_be_said_by_the_name_that_the_runtime_gives_to_it(payload: str) -> None:
    wanted = parse_stopping_event(CLR, "GC/Start", payload)
    assert wanted is not None
    seen: list[bool] = []
    watcher = EventWatcher(wanted, lambda: seen.append(True))
    watcher.feed(data_of("gcverbose-10.nettrace"))
    assert seen == [True]
