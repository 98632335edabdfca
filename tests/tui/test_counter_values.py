"""Figures as people look at them."""

from __future__ import annotations

import pytest
from tests.tui.updates import series

from dotnetdiag.tui.counter_values import amount, instrument_text, tag_texts


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, ""),
        (0.0, "0"),
        (21.5, "21.5"),
        (-3, "-3"),
        (1e8, "1e+08"),
        (12345678, "12,345,678"),
        (float("nan"), "nan"),
    ],
)
def test_amounts_are_short(number: float | None, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("kind", "unit", "text"),
    [
        ("counter", "By", "x (By/s)"),
        ("rate", "", "x (count/s)"),
        ("gauge", "", "x"),
        ("updowncounter", "{item}", "x ({item})"),
    ],
)
def test_what_is_added_up_is_shown_for_a_second(kind: str, unit: str, text: str) -> None:
    assert instrument_text(series(0, "x", kind, unit=unit)) == text


def test_tags_are_texts() -> None:
    assert tag_texts(series(0, "x", tags={"a": "b", "c": ""})) == ["a=b", "c="]
