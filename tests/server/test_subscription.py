from __future__ import annotations

import pytest

from dotnetdiag.server.subscription import parse_arguments


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1;b=2", {"a": "1", "b": "2"}),
        (" a = 1 ; b = 2 ;", {"a": "1", "b": "2"}),
        ('a="x;y=z";b=2', {"a": "x;y=z", "b": "2"}),
        ('"a;b"=1', {"a;b": "1"}),
        ("a=", {"a": ""}),
        ("nonsense;a=1", {"a": "1"}),
        ("=1;a=2", {"a": "2"}),
        ('a="open', {"a": '"open'}),
        ('a="x"y;b=1', {"a": '"x"y', "b": "1"}),
        ("a=1;a=2", {"a": "1"}),
        ("a=b=c", {"a": "b=c"}),
        (";;;", {}),
    ],
)
def test_arguments(text: str, found: dict[str, str]) -> None:
    assert parse_arguments(text) == found


def test_arguments_of_any_length_take_no_more_than_their_length() -> None:
    assert parse_arguments('"' * 100_000) == {}
    assert parse_arguments("a" * 100_000) == {}
    assert parse_arguments("=" * 100_000 + ";a=1")["a"] == "1"


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (" ", {}),
        (" a", {}),
        ("\t\n", {}),
        ('"', {}),
        ('";', {}),
        ('a="', {"a": '"' + 'a="' * 99_999}),
        ('a="x;', {"a": '"x'}),
    ],
)
def test_arguments_of_blanks_and_quotes_take_no_more_than_their_length(part: str, found: dict[str, str]) -> None:
    assert parse_arguments(part * 100_000) == found
    blanks = " " * 100_000
    assert parse_arguments(f'{blanks}a{blanks}={blanks}1{blanks};{blanks}"b"{blanks}=') == {"a": "1", "b": ""}
