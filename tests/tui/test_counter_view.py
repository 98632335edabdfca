"""Which rows are looked at, and in what order."""

from __future__ import annotations

from math import inf, nan

import pytest
from tests.tui.updates import joined, process, row, series, update

from dotnetdiag.tui.counter_model import CounterModel, CounterRow
from dotnetdiag.tui.counter_view import CounterGroup, CounterView, Line, SortBy, arranged

VALUES = {"b": (1.0, 5.0), "a": (9.0, 2.0), "c": (3.0, nan), "e": (None, 4.0), "d": (0.0, inf)}


@pytest.fixture
def rows() -> list[CounterRow]:
    """Two values of each; of another provider one."""
    made = CounterModel()
    made.take(update((), joined(process(0))))
    all_of_them = {name: series(number, name, tags={"Tag": name * 2}) for number, name in enumerate(VALUES)}
    other = series(90, "z", provider="alpha")
    for turn in range(2):
        made.take(update([row(other, 1.0), *(row(one, VALUES[name][turn]) for name, one in all_of_them.items())]))
    return list(made.rows())


def names(lines: list[Line]) -> list[str]:
    return [line.provider if isinstance(line, CounterGroup) else line.name for line in lines]


def of_runtime(lines: list[Line]) -> str:
    return "".join(names(lines)[names(lines).index("System.Runtime") + 1 :])


def test_providers_are_groups_in_alphabetical_order(rows: list[CounterRow]) -> None:
    assert names(arranged(rows, CounterView())) == ["alpha", "z", "System.Runtime", *"abcde"]


def test_a_folded_provider_has_its_head_alone(rows: list[CounterRow]) -> None:
    lines = arranged(rows, CounterView(), {"System.Runtime"})
    assert lines[2:] == [CounterGroup(provider="System.Runtime", rows=5, crossed=0, is_folded=True)]


@pytest.mark.parametrize(
    ("view", "order"),
    [
        (CounterView(is_reversed=True), "edcba"),
        (CounterView(sort=SortBy.VALUE), "dbeac"),
        (CounterView(sort=SortBy.VALUE, is_reversed=True), "aebdc"),
        (CounterView(sort=SortBy.CHANGE), "dabce"),
        (CounterView(sort=SortBy.CHANGE, is_reversed=True), "badce"),
    ],
)
def test_rows_are_sorted_and_those_without_a_figure_come_last(
    rows: list[CounterRow], view: CounterView, order: str
) -> None:
    assert of_runtime(arranged(rows, view)) == order


@pytest.mark.parametrize(
    ("words", "left"),
    [("", "abcde"), ("TAG=aa", "a"), ("system bb", "b"), ("bb zz", ""), ("orders", "abcde"), ("(1000) cc", "c")],
)
def test_a_filter_wants_all_words_somewhere(rows: list[CounterRow], words: str, left: str) -> None:
    lines = arranged([one for one in rows if one.provider != "alpha"], CounterView(words=words))
    assert "".join(names(lines)[1:]) == left


def test_nothing_that_fits_is_no_group(rows: list[CounterRow]) -> None:
    assert arranged(rows, CounterView(words="nothing has it")) == []


def test_sorting_goes_round() -> None:
    assert [one.next for one in SortBy] == [SortBy.VALUE, SortBy.CHANGE, SortBy.NAME]


def test_quantiles_ascend_behind_how_often() -> None:
    made = CounterModel()
    made.take(update((), joined(process(0))))
    one = series(0, "h", "histogram")
    made.take(update([row(one, count=1, quantiles={"0.99": 3.0, "0.5": 1.0, "0.95": 2.0})]))
    assert [line.key[1] for line in arranged(made.rows(), CounterView())[1:] if isinstance(line, CounterRow)] == [
        "count/s", "0.5", "0.95", "0.99",
    ]  # fmt: skip
