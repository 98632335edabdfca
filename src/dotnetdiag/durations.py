"""Durations as people type them, and as the dotnet-* tools take them."""

from __future__ import annotations

import re

from dotnetdiag._patterns import pattern
from dotnetdiag.errors import GrammarError, UsageError

DURATION = "duration"
"""What is called so in errors."""
WAYS = "30s, 5m, 1h30m, 2d, 800ms or dd:hh:mm:ss"
"""In which one is written."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = pattern(r"\s*(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)", re.IGNORECASE)
_CLOCK = pattern(r"(?:(\d+)[:.])?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)$")


def parse_duration(text: str, what: str = DURATION, ways: str = WAYS) -> float:
    """Seconds of ``30s``, ``1m30s``, ``500ms`` or ``dd:hh:mm:ss``. A bare number is refused: dotnet-trace takes it for days.

    ``what`` it is stands in errors, and in which ``ways`` it is written.
    """
    clock = _CLOCK.match(text.strip())
    if clock:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    total, position = 0.0, 0
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None:
            raise GrammarError(what, text, position, f"write {ways}")
        total += float(part[1]) * _UNITS[part[2].lower()]
        position = part.end()
    if not position:
        raise GrammarError(what, text, 0, f"write {ways}")
    return total


def seconds_of(duration: float | str | None, what: str = DURATION) -> float | None:
    """Seconds of a number of them or of a text; None stays None. Raises GrammarError, UsageError for a negative number."""
    if duration is None:
        return None
    try:
        seconds = parse_duration(duration, what) if isinstance(duration, str) else float(duration)
    except OverflowError:  # an int beyond all floats
        seconds = float("inf")
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"a {what} of {duration} s: must be 0 or more")
    return seconds


def time_of(value: float | str | None) -> float | None:
    """Seconds since a beginning: a number of them, also as a text, or a duration (``"1.5s"``); None stays None. Raises GrammarError,
    UsageError for what is no time.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if not isinstance(value, str):
        raise UsageError(f"a time is a number of seconds, or a text such as '1.5s', not a {type(value).__name__}")
    try:
        return float(value)
    except ValueError:
        return parse_duration(value, "time", f"{WAYS}, or seconds as 1.5")
