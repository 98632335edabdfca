"""Text of values that the program made: what they say is made by code of the program, which may fail."""

from __future__ import annotations


def text_of(value: object) -> str:
    """What ``str`` says, or, where that raises, of which type the value is."""
    try:
        return str(value)
    except Exception:  # of the value's own code; or a whole number of more than 4,300 digits
        return f"<unprintable {type(value).__name__} object>"
