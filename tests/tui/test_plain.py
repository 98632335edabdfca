"""Text that does not drive a terminal."""

from __future__ import annotations

import pytest

from dotnetdiag.tui.plain import clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Straße 客室", "Straße 客室"),
        ("a\nb\tc\r", "a\\x0ab\\x09c\\x0d"),
        ("\x1b[2J\x9b31m\x7f", "\\x1b[2J\\x9b31m\\x7f"),
        ("\udc80", "\\udc80"),
        ("a\u202eexe\u2066 \u2028", "a\\u202eexe\\u2066 \\u2028"),
    ],
)
def test_controls_are_shown_as_what_they_are(text: str, shown: str) -> None:
    assert clean(text) == shown
