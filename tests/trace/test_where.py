"""The language of --where: what it means, and where it points when it is wrong."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import GrammarError
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.where import Where

VALID = np.array([True, True, False, True])
COLUMNS: dict[str, Column] = {
    "small": Scalar(np.array([0, 5, 6, 255], np.uint8), VALID, Kind.U1),
    "signed": Scalar(np.array([-3, 0, 3, 7], np.int64), None, Kind.I8),
    "big": Scalar(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), None, Kind.U8),
    "ratio": Scalar(np.array([0.5, 1.0, float("nan"), 1e300]), None, Kind.F8),
    "flag": Scalar(np.array([True, False, True, False]), None, Kind.BOOL),
    "path": Text.from_pylist(["/api/x", "/other", None, 'say "hi"']),
    "other": Text.from_pylist(["/api/x", "/b", "/c", "/d"]),
    "raw": Bytes(np.array([0, 1, 1, 3, 3]), np.array([255, 1, 2], np.uint8)),
    "many": ListOf(np.array([0, 2, 2, 3, 3]), Scalar(np.array([1, 2, 3]), None, Kind.I8)),
    "when": Scalar(np.array([116444736000000000] * 4), None, Kind.DATETIME),
    "guid": Scalar(np.frombuffer(UUID(int=1).bytes_le * 4, "V16"), None, Kind.GUID),
    "a b": Scalar(np.array([1, 2, 3, 4]), None, Kind.I8),
    "whole.part": Scalar(np.array([1, 2, 3, 4]), None, Kind.I8),
}


def rows(text: str) -> list[int]:
    mask = Where(text).mask(COLUMNS.get, 4)
    assert mask.dtype == np.bool_
    return [int(row) for row in np.flatnonzero(mask)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("small > 4", [1, 3]),
        ("4 < small", [1, 3]),
        ("small == 255", [3]),
        ("small = 255", [3]),
        ("small == 0xFF", [3]),
        ("small < 1000", [0, 1, 3]),
        ("small < " + "9" * 5000, [0, 1, 3]),
        ("small > -1", [0, 1, 3]),
        ("small != 1000", [0, 1, 3]),
        ("small == 1e30", []),
        ("path == 5", []),
        ("path > 5", [3]),
        ("path < 5", [0, 1]),
        ("small == null", [2]),
        ("small != null", [0, 1, 3]),
        ("null == small", [2]),
        ("small", [1, 3]),
        ("not small", [0, 2]),
        ("signed < 0", [0]),
        ("signed >= -3 and signed <= 0", [0, 1]),
        ("big == 18446744073709551615", [3]),
        ("big >= 9223372036854775808", [2, 3]),
        ("big > -1", [0, 1, 2, 3]),
        ("ratio < 1", [0]),
        ("ratio == 1", [1]),
        ("ratio != 1", [0, 2, 3]),
        ("flag", [0, 2]),
        ("flag == true", [0, 2]),
        ("!flag && path ~ '^/o'", [1]),
        ('path ~ "^/api"', [0]),
        ('path !~ "^/api"', [1, 3]),
        ('path == "/other"', [1]),
        (r'path == "say \"hi\""', [3]),
        ("path < '/b'", [0]),
        ("path == other", [0]),
        ("small == signed", []),
        ("signed < big", [0, 1, 2, 3]),
        ("raw == 'hex:ff'", [0]),
        ("raw ~ '^hex:01'", [2]),
        ("many ~ '2'", [0]),
        ("many", [0, 2]),
        ("when == '1970-01-01T00:00:00.0000000Z'", [0, 1, 2, 3]),
        ("when < '2000'", [0, 1, 2, 3]),
        ("guid ~ '0001$'", [0, 1, 2, 3]),
        ("guid", [0, 1, 2, 3]),
        ("signed == '7'", [3]),
        ("nothing > 5", []),
        ("not nothing > 5", [0, 1, 2, 3]),
        ("nothing == null", [0, 1, 2, 3]),
        ("nothing ~ 'x' or signed == 3", [2]),
        ("`a b` > 3", [3]),
        ("whole.part >= 4", [3]),
        ("flag or signed == 7 and small == 1", [0, 2]),
        ("(flag or signed == 7) and small == 255", [3]),
        ("not (flag or signed == 7)", [1]),
        ("not not flag", [0, 2]),
        ("NOT flag AND signed == 7", [3]),
        ("ratio > .4 and ratio < 1.5e0", [0, 1]),
        ("signed > +2", [2, 3]),
    ],
)
def test_filter_passes_the_rows_it_says(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "missing"),
        ("   ", 0, "missing"),
        ("a ==", 4, "missing"),
        ("a == 1 b", 7, "not expected"),
        ("a and", 5, "missing"),
        ("and a", 0, "belongs here"),
        ("(a == 1", 7, "parenthesis"),
        ("a == 1)", 6, "not expected"),
        ("a ~ 5", 4, "regular expression"),
        ("a ~ b", 4, "regular expression"),
        ('a ~ "(x"', 5, "not a regular expression"),
        ('a ~ "x{99999999999}"', 4, "beyond what can be searched"),
        ('a == "x', 5, "without an end"),
        ("a == `x", 5, "without an end"),
        ("1 == 2", 0, "both sides"),
        ("5", 0, "operator"),
        ("a # b", 2, "not expected"),
        ("a == 12abc", 5, "not expected"),
        ("a = = b", 4, "belongs here"),
        ("(" * 5000 + "a", 101, "too deep"),
        ("not " * 5000 + "a", 404, "too deep"),
    ],
)
def test_error_points_at_the_character(text: str, position: int, problem: str) -> None:
    with pytest.raises(GrammarError, match=problem) as caught:
        Where(text)
    assert caught.value.position == position
    assert "\n" not in str(caught.value)


def test_long_chains_are_no_nesting() -> None:
    text = " or ".join(["signed == 7"] * 3000)
    assert rows(text) == [3]


def test_names_are_known_with_their_places() -> None:
    assert Where("a > 1 and b.c ~ 'x' or a == `d e`").names == {"a": 0, "b.c": 10, "d e": 28}


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        Where(text).mask(COLUMNS.get, 4)
    except GrammarError as error:
        position = error.position
    else:
        position = 0
    assert 0 <= position <= len(text)


OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@given(st.sampled_from(list(COLUMNS)), st.sampled_from(list(OPERATORS)), st.integers())
def test_whole_numbers_compare_as_python_compares_them(name: str, word: str, value: int) -> None:
    column = COLUMNS[name]
    if not isinstance(column, Scalar) or column.kind not in (Kind.U1, Kind.I8, Kind.U8):
        return
    values: list[Any] = column.to_pylist()
    test = OPERATORS[word]
    expected = [row for row, one in enumerate(values) if one is not None and test(one, value)]
    assert rows(f"`{name}` {word} {value}") == expected


def test_a_mistake_in_a_pattern_is_pointed_at() -> None:
    for text in ("path ~ 'ab(c'", "path ~ 'a[b'", "path ~ '('"):
        with pytest.raises(GrammarError, match="not a regular expression") as caught:
            Where(text)
        assert text[caught.value.position] in "(["
