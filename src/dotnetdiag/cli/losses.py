"""What a recording lacks, said on stderr by every verb that reads one: its result is what was left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


def say_losses(name: str, lost: int | None, damage: str | None) -> None:
    """``lost`` is None where the format does not tell; ``damage`` where nothing was wrong."""
    if lost is None:
        echo(f"warning: {name}: the format does not tell whether events were lost", err=True)
    elif lost:
        echo(f"warning: {name}: {lost:,} events were lost when it was recorded", err=True)
    if damage:
        echo(f"warning: {name}: {damage}; what was whole was read", err=True)


def say_losses_of(trace: Trace) -> None:
    """Those of a trace. Reads all of it."""
    say_losses(trace.name, trace.lost.total if trace.lost.known else None, trace.damage)


def require_within(trace: Trace, start_s: float | None, end_s: float | None) -> None:
    """Raises UsageError for a range after the end, before anything is written."""
    trace.raw.require_within(trace.raw.ticks_between(start_s, end_s))
