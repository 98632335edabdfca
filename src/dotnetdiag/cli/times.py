"""``--from``, ``--to`` and ``--time``: which time of a recording is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dotnetdiag.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_S = 1e9
"""Thirty years; nanoseconds of three hundred have no room in a column."""


def time_options(function: F) -> F:
    """The options, as the keywords ``start``, ``end`` and ``time`` for :func:`seconds_between`."""
    for option in (
        click.option("--time", metavar="FROM-TO", help="Both ends: 1.5-2, 500ms-, -1m."),
        click.option("--to", "end", help="Up to so long after the start."),
        click.option("--from", "start", help="From so long after the start: 1.5, 1.5s, 2m."),
    ):
        function = option(function)
    return function


def seconds_between(start: str | None, end: str | None, time: str | None) -> tuple[float | None, float | None]:
    """Both ends in seconds since the start; None: open. Raises UsageError, GrammarError."""
    if time is None:
        first, last = _seconds(start), _seconds(end)
        if first is not None and last is not None and first > last:
            raise UsageError(f"--from {start} is after --to {end}")
        return first, last
    if start is not None or end is not None:
        raise UsageError("--time says both ends: leave out --from and --to")
    from dotnetdiag.recipes.report import parse_time_range

    first, last = parse_time_range(time)
    for seconds in (first, last):
        _require_possible(time, seconds)
    return first, last


def _seconds(text: str | None) -> float | None:
    """``1.5``, ``1.5s``, ``2m``: seconds."""
    from dotnetdiag.durations import time_of

    seconds = time_of(text)
    _require_possible(text or "", seconds)
    return seconds


def _require_possible(text: str, seconds: float | None) -> None:
    if seconds is not None and seconds != seconds:
        raise UsageError(f"{text} is no time")
    if seconds is not None and abs(seconds) > LONGEST_S:
        raise UsageError(f"{text}: no trace is so long")
