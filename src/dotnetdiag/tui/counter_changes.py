"""Who is watched, who has come, has gone and is silent, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_update import MissingCounter
    from dotnetdiag.recipes.counter_watch import CounterChange, CounterProcess, CounterSilence


def process_text(process: CounterProcess) -> str:
    """``orders (1234)``."""
    pid = "" if process.pid is None else f" ({process.pid})"
    return f"{process.name or process.target}{pid}"


def change_text(change: CounterChange) -> str:
    """A line."""
    process, who = change.process, _who(change.process)
    if change.joined:
        return f"{who}: watched, {process.runtime}{_held(change)}"
    if change.why:
        return change.why if change.why.startswith(process.target.partition(",")[0]) else f"{who}: {change.why}"
    return f"{who}: no longer watched"


def missing_text(missing: tuple[MissingCounter, ...]) -> str:
    """A line for counters that nobody gives."""
    old = next((one for one in missing if one.is_event_counter), None)
    hint = "" if old is None else f"; where there is a meter of that name, too: 'EventCounters\\{old}'"
    return f"no values of {', '.join(map(str, missing))} yet{hint}; what there is: dotnetdiag counters list"


def _held(change: CounterChange) -> str:
    if not change.holds:
        return ""
    from dotnetdiag.tui.resuming import how_to_resume

    whose = "its own socket" if change.holds[0].port is None else "a port"
    return f"; it still waits at its start, for a resume over {whose}: {'; '.join(map(how_to_resume, change.holds))}"


def silence_text(silence: CounterSilence, *, named: bool = True) -> str:
    """A line; ``named``: which begins with whose silence it is."""
    return f"{_who(silence.process)}: {_silence(silence)}" if named else _silence(silence)


def _silence(silence: CounterSilence) -> str:
    if silence.is_over:
        return f"gives values again, after {silence.seconds:.1f} s" if silence.has_spoken else "gives values"
    if silence.is_stopped:
        pid = silence.process.pid
        return f"no values for {silence.seconds:.1f} s: it is stopped; it goes on with kill -CONT {pid}"
    if silence.has_spoken:
        return f"no values for {silence.seconds:.1f} s"
    return "no values of these counters yet; what it has: dotnetdiag counters list"


def _who(process: CounterProcess) -> str:
    return f"{process.name} ({process.target})" if process.name not in ("", process.target) else process.target
