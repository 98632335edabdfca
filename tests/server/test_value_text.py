from __future__ import annotations

import pytest

from dotnetdiag.server.value_text import text_of


class _Mute:
    def __str__(self) -> str:
        raise LookupError("not loaded")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1.5, "1.5"), (None, "None"), (_Mute(), "<unprintable _Mute object>")],
)
def test_text_is_what_the_value_says_or_its_type(value: object, text: str) -> None:
    assert text_of(value) == text


def test_a_number_of_more_digits_than_python_writes_is_its_type() -> None:
    assert text_of(10**5000) == "<unprintable int object>"
