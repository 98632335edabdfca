"""The provider grammar."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.providers import parse_clr_events, parse_providers

CLR = "Microsoft-Windows-DotNETRuntime"


def test_missing_parts_are_those_of_the_reference_tool() -> None:
    (only,) = parse_providers("Foo")
    assert (only.name, only.keywords, only.level, only.arguments) == ("Foo", 0, 4, None)


def test_keywords_may_be_names_joined_with_plus() -> None:
    (only,) = parse_providers(f"{CLR}:GC+Exception+0x10000:Verbose")
    assert (only.keywords, only.level) == (0x18001, 5)


def test_comma_in_quoted_arguments_does_not_separate() -> None:
    first, second = parse_providers('A:1:4:k="x,y:z";l=2,B:ff')
    assert first.arguments == 'k="x,y:z";l=2'
    assert (second.name, second.keywords) == ("B", 0xFF)


def test_repeated_provider_is_merged() -> None:
    (only,) = parse_providers("A:1:2,A:4:5")
    assert (only.keywords, only.level) == (5, 5)
    with pytest.raises(UsageError, match="multiple times"):
        parse_providers("A:1:2:a=1,A:1:2:a=2")


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("A,,B", 2), (f"{CLR}:GX", 32), ("A:1:loud", 4), ('A:1:4:k="x', 8), ("A:10000000000000000", 2)],
)
def test_error_points_at_the_character(text: str, position: int) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_providers(text)
    assert caught.value.position == position


def test_clr_events_are_keyword_names() -> None:
    assert parse_clr_events("gc+exception").keywords == 0x8001
    with pytest.raises(GrammarError, match="not a valid CLR event keyword"):
        parse_clr_events("gc+nonsense")
