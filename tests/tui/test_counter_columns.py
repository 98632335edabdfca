"""How lines share the width of a screen."""

from __future__ import annotations

from math import inf, nan

import pytest
from tests.tui.updates import joined, process, row, series, update

from dotnetdiag.tui.counter_columns import CounterColumns, amount_in, heading, label_parts
from dotnetdiag.tui.counter_model import CounterModel, CounterRow
from dotnetdiag.tui.widths import cells


def one_row(name: str = "dotnet.process.cpu.time", **tags: str) -> CounterRow:
    made = CounterModel()
    made.take(update((), joined(process(0))))
    made.take(update([row(series(0, name, unit="s", tags=tags), 1.0)]))
    (found,) = made.rows()
    return found


def label(one: CounterRow, width: int, *, with_process: bool = False) -> str:
    return "".join(text for _, text in label_parts(one, width, with_process=with_process))


@pytest.mark.parametrize("with_process", [False, True])
def test_columns_and_their_heading_fill_any_width(with_process: bool) -> None:
    for width in range(1, 300):
        columns = CounterColumns.of_width(width, with_process=with_process)
        shown = [one for one in (columns.value, columns.change, columns.sparkline) if one]
        assert columns.label + sum(shown) + len(shown) == max(width, 2)
        assert cells(heading(columns, sort="name", is_reversed=False, every_s=1)) == max(width, 2)


def test_narrow_screens_go_without() -> None:
    assert CounterColumns.of_width(80).sparkline > 0
    assert CounterColumns.of_width(60).sparkline == 0 < CounterColumns.of_width(60).change
    assert CounterColumns.of_width(40).change == 0
    assert CounterColumns.of_width(80, with_process=True).sparkline == 0


@pytest.mark.parametrize("with_process", [False, True])
@pytest.mark.parametrize(
    "one",
    [one_row(), one_row(mode="user"), one_row("名" * 20, タグ="値" * 30), one_row("x", t="y" * 500)],
    ids=["name", "short", "wide", "long"],
)
def test_a_label_takes_just_its_width(one: CounterRow, with_process: bool) -> None:
    for width in range(120):
        assert cells(label(one, width, with_process=with_process)) == width


def test_where_there_is_no_room_tags_are_their_values() -> None:
    one = one_row(**{"cpu.mode": "user"})
    assert label(one, 50).rstrip() == "dotnet.process.cpu.time (s)  cpu.mode=user"
    assert label(one, 40).rstrip() == "dotnet.process.cpu.time (s)  user"
    assert label(one, 20).endswith("  user")
    assert label(one, 60, with_process=True).rstrip() == "dotnet.process.cpu.time (s)  orders (1000)  cpu.mode=user"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (21.5, "21.5"),
        (12_345_678.123, "12,345,678"),
        (-1_234_567.891, "-1,234,568"),
        (123_456_789.0, "1.23457e+08"),
        (-123_456_789.0, "-1.235e+08"),
        (nan, "nan"),
        (-inf, "-inf"),
    ],
)
def test_a_figure_fits_its_column(value: float | None, text: str) -> None:
    assert amount_in(value, 11) == text.rjust(11)


def test_changes_have_a_sign() -> None:
    assert [amount_in(value, 10, sign=True).strip() for value in (1.5, -1.5, 0.0, 1e9)] == [
        "+1.5",
        "-1.5",
        "0",
        "+1e+09",
    ]
    assert len(amount_in(-1.234e-200, 3)) == 3


@pytest.mark.parametrize(
    ("every_s", "text"), [(1, "last 10 s"), (0.2, "last 2 s"), (60, "last 10 m…"), (3600, "last 10 h")]
)
def test_the_heading_says_how_long_a_sparkline_is(every_s: float, text: str) -> None:
    columns = CounterColumns.of_width(80)
    assert heading(columns, sort="value", is_reversed=True, every_s=every_s).split("value▲")[1].strip().endswith(text)
