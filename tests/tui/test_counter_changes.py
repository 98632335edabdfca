"""Who has come and who has gone, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.tui.updates import gone, joined, process

from dotnetdiag.recipes.counter_watch import CounterChange, CounterProcess, CounterSilence
from dotnetdiag.tui.counter_changes import change_text, process_text, silence_text

PORT = CounterProcess(number=1, pid=None, name="", runtime="", target="/run/port,connect")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (joined(process(1)), "orders (process 1001): watched, .NET 10.0"),
        (gone(process(1)), "orders (process 1001): no longer watched"),
        (gone(process(1), "it was killed"), "orders (process 1001): it was killed"),
        (gone(process(1), "process 1001 does not answer"), "process 1001 does not answer"),
        (gone(PORT, "refused"), "/run/port,connect: refused"),
    ],
)
def test_a_change_is_a_line(change: CounterChange, text: str) -> None:
    assert change_text(change) == text


def test_a_process_is_called_by_its_name_or_how_it_was_named() -> None:
    assert process_text(process(1)) == "orders (1001)"
    assert process_text(PORT) == "/run/port,connect"


SILENCE = CounterSilence(process=process(1), seconds=3.21)


@pytest.mark.parametrize(
    ("silence", "text"),
    [
        (SILENCE, "no values for 3.2 s"),
        (replace(SILENCE, is_stopped=True), "no values for 3.2 s: it is stopped; it goes on with kill -CONT 1001"),
        (replace(SILENCE, is_over=True), "gives values again, after 3.2 s"),
        (replace(SILENCE, is_over=True, has_spoken=False), "gives values"),
        (replace(SILENCE, has_spoken=False), "no values of these counters yet; what it has: dotnetdiag counters list"),
    ],
)
def test_a_silence_is_a_line(silence: CounterSilence, text: str) -> None:
    assert silence_text(silence, named=False) == text
    assert silence_text(silence) == f"orders (process 1001): {text}"
