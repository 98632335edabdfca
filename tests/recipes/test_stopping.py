"""The options that name the event at which a recording stops."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.stopping import StoppingEvent, parse_stopping_event


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
