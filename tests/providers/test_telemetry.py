"""What is asked for logs and distributed traces."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.providers.telemetry import activities_provider, logging_provider


@pytest.mark.parametrize(
    ("level", "arguments"),
    [("", "FilterSpecs=UseAppFilters"), ("warning", 'FilterSpecs="*:Warning"'), ("Trace", 'FilterSpecs="*:Trace"')],
)
def test_a_level_is_a_filter(level: str, arguments: str) -> None:
    made = logging_provider(level)
    assert (made.name, made.keywords, made.level, made.arguments) == ("Microsoft-Extensions-Logging", 8, 5, arguments)


@pytest.mark.parametrize(("level", "number"), [("Trace", 5), ("information", 4), ("Error", 2)])
def test_at_the_start_of_a_runtime_a_level_is_that_of_the_session(level: str, number: int) -> None:
    made = logging_provider(level, at_start=True)
    assert (made.name, made.level, made.arguments) == ("Microsoft-Extensions-Logging", number, "FilterSpecs=*")
    assert logging_provider("", at_start=True) == logging_provider("")


def test_a_level_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="'loud' is no level of logs: Trace, "):
        logging_provider("loud")


def test_activities_are_asked_for_when_they_stop() -> None:
    made = activities_provider()
    assert (made.arguments or "").startswith('FilterAndPayloadSpecs="[AS]*/Stop:-TraceId;SpanId;')
    assert made.keywords == 2
