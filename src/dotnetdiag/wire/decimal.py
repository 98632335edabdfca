"""Numbers that people and peers write in decimal."""

from __future__ import annotations

MOST_DIGITS = 19
"""All of a signed 64-bit number; ``int`` itself refuses more than 4,300."""


def decimal(text: str | None, *, digits: int = MOST_DIGITS) -> int | None:
    """The number, when the text is nothing but so many ASCII digits at most; None else.

    ``str.isdigit`` alone takes a superscript two, which ``int`` refuses.
    """
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= digits else None
