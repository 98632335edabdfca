"""Values over time in a line."""

from __future__ import annotations

from math import inf, nan

import pytest

from dotnetdiag.tui.sparkline import BARS, sparkline


def test_bars_go_from_the_least_to_the_greatest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BARS
    assert sparkline([7, 0, 7], 3) == "█▁█"
    assert sparkline([-1e6, 1e6], 2) == "▁█"


def test_the_newest_are_shown_at_the_right() -> None:
    assert sparkline([100, 0, 7], 2) == "▁█"
    assert sparkline([0, 7], 5) == "   ▁█"


def test_what_does_not_change_is_flat() -> None:
    assert sparkline([3.0] * 4, 4) == "▁▁▁▁"


@pytest.mark.parametrize("hole", [nan, inf, -inf])
def test_what_is_no_number_is_a_hole(hole: float) -> None:
    assert sparkline([0, hole, 7], 3) == "▁ █"
    assert sparkline([hole], 3) == "   "


@pytest.mark.parametrize("values", [[], [1.0, 2.0]])
def test_nothing_needs_no_cells(values: list[float]) -> None:
    assert sparkline(values, 0) == ""
    assert sparkline(values, -1) == ""


@pytest.mark.parametrize("values", [[-1.7e308, 1.7e308, 0.0], [0.0, 5e-324], [1e300, 1e300 * (1 + 2**-52)]])
def test_the_greatest_and_smallest_numbers_have_bars(values: list[float]) -> None:
    line = sparkline(values, len(values))
    assert set(line) <= set(BARS)
    assert line[values.index(min(values))] == BARS[0]
