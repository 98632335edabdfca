"""Text of values that the program made: what they say is made by code of the program, which may fail."""

from __future__ import annotations

from dotnetdiag.server.signal_errors import is_of_signal


def text_of(value: object) -> str:
    """What ``str`` says, or, where that raises, of which type the value is."""
    try:
        return str(value)
    except Exception as error:  # of the value's own code; or a whole number of more than 4,300 digits
        if is_of_signal(error):
            raise
        return f"<unprintable {type(value).__name__} object>"
