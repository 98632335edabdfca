"""What is said of a process that stood still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dotnetdiag.cli.heap_walks import AT_END, Pauses, say_pause


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], ""),
        ([(0.0, False)], ""),
        ([(0.0, True), (0.0, False)], ""),
        ([(12.5, True)], "The process stood still for 12.5 ms.\n"),
        ([(12.5, True), (1.0, False)], "The process stood still for at least 13.5 ms.\n"),
    ],
)
def test_a_pause_of_what_came_to_nothing_is_told_where_there_was_one(
    told: list[tuple[float, bool]], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = Pauses()
    for one in told:
        pauses.add(*one)
    pauses.say()
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("collects", [False, True])
def test_another_collection_is_told_with_the_pause(collects: bool, capsys: pytest.CaptureFixture[str]) -> None:
    heap = SimpleNamespace(completeness=SimpleNamespace(complete=False))
    done = SimpleNamespace(
        heap=heap, are_pauses_known=True, all_pauses_ms=8.25, walks=1, notes=("so it was",), collects_at_end=collects
    )
    say_pause(cast("Any", done))
    assert capsys.readouterr().err == f"The process stood still for 8.2 ms{AT_END * collects}.\nso it was\n"
