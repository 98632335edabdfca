"""How much is drawn of many rows: what can be seen, and of that what has changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.tui.scene import Scene, on_screen
from tests.tui.screens import screen_lines
from tests.tui.updates import joined, process, row, series, update

from dotnetdiag.recipes.counter_watch import CounterUpdate
from dotnetdiag.tui import counter_tree
from dotnetdiag.tui.counter_tree import CounterTree
from dotnetdiag.tui.sparkline import sparkline

PROCESSES = [process(number, f"service-{number}") for number in range(50)]
SERIES = [series(40 * one.number + number, f"x{number:02}", of=one.number) for one in PROCESSES for number in range(40)]


def fleet(turn: int) -> CounterUpdate:
    """50 processes of 40 series, of which one in each process changes."""
    rows = [row(one, float(turn) if one.name == "x03" else 1.0) for one in SERIES]
    return update(rows, *(map(joined, PROCESSES) if not turn else ()), processes=PROCESSES)


@pytest.mark.parametrize("keys", [(), ("s",), ("tab",), ("tab", "s", "s")], ids="+".join)
def test_of_many_rows_only_those_are_made_that_can_be_seen(
    keys: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counted(values: Sequence[float], width: int) -> str:
        nonlocal made
        made += 1
        return sparkline(values, width)

    async def test(scene: Scene) -> None:
        nonlocal made
        await scene.give(*map(fleet, range(3)))
        await scene.press(*keys)
        made = 0
        await scene.give(fleet(3))
        assert 0 < made <= 4 * scene.app.size.height

    monkeypatch.setattr(counter_tree, "sparkline", counted)
    on_screen(test, size=(120, 40), intervals=0)


def test_lines_that_have_not_changed_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    refresh_line = CounterTree.refresh_line

    def noted(tree: CounterTree, y: int) -> None:
        drawn.append(y)
        refresh_line(tree, y)

    async def test(scene: Scene) -> None:
        await scene.give(*map(fleet, range(60)))
        await scene.press("tab")
        drawn.clear()
        await scene.give(fleet(60))
        assert set(drawn) == {4}, "the line of x03: a head, and three rows are above it"
        assert "60" in screen_lines(scene.app)[6].split()

    monkeypatch.setattr(CounterTree, "refresh_line", noted)
    on_screen(test, intervals=0)
