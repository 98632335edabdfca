"""Providers that are listed twice."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints
from dotnetdiag.ipc.merging import merge_providers


@pytest.mark.parametrize("levels", [(0, 5), (5, 0), (2, 0, 4)])
def test_log_always_wins_over_every_other_level(levels: tuple[int, ...]) -> None:
    (only,) = merge_providers(Provider(name="A", level=level) for level in levels)
    assert only.level == 0


def test_what_one_entry_leaves_open_the_other_says() -> None:
    chosen, places = EventFilter(enable=True, ids=(1,)), Tracepoints(default="t")
    first = Provider(name="A", arguments="a=1")
    second = Provider(name="A", event_filter=chosen, tracepoints=places)
    for entries in ((first, second), (second, first), (first, second, first)):
        (only,) = merge_providers(entries)
        assert (only.arguments, only.event_filter, only.tracepoints) == ("a=1", chosen, places)
    assert [one.name for one in merge_providers((Provider(name="B"), first, Provider(name="B")))] == ["B", "A"]


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"arguments": "a"}, {"arguments": "b"}, "filter arguments"),
        (
            {"event_filter": EventFilter(enable=True, ids=())},
            {"event_filter": EventFilter(enable=False, ids=())},
            "event filters",
        ),
        ({"tracepoints": Tracepoints(default="t")}, {"tracepoints": Tracepoints(default="u")}, "tracepoints"),
    ],
)
def test_entries_that_contradict_each_other_are_refused(
    one: dict[str, object], other: dict[str, object], what: str
) -> None:
    with pytest.raises(UsageError, match=f'"A" is declared multiple times with {what}'):
        merge_providers((Provider(name="A", **one), Provider(name="A", **other)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("levels", "merged"), [((1, 2), 2), ((4, 3), 4), ((5, 5), 5), ((1, 3, 2), 3), ((1,), 1)])
def test_the_more_verbose_level_wins(levels: tuple[int, ...], merged: int) -> None:
    (only,) = merge_providers(Provider(name="A", level=level) for level in levels)
    assert only.level == merged


def test_keywords_are_joined() -> None:
    (only,) = merge_providers(Provider(name="A", keywords=keywords) for keywords in (0x3, 0x5, 0x10))
    assert only.keywords == 0x17


def test_what_is_listed_once_is_left_as_it_is() -> None:
    listed = (Provider(name="B"), Provider(name="A", arguments=""), Provider(name="a"))
    assert merge_providers(listed) == listed
    assert merge_providers(()) == ()


def test_entries_that_agree_are_one_and_an_empty_text_is_an_argument() -> None:
    (only,) = merge_providers((Provider(name="A", arguments="x=1"), Provider(name="A", arguments="x=1")))
    assert only.arguments == "x=1"
    (only,) = merge_providers((Provider(name="A"), Provider(name="A", arguments="")))
    assert only.arguments == ""
    (only,) = merge_providers((Provider(name="A", arguments=""), Provider(name="A")))
    assert only.arguments == ""
    with pytest.raises(UsageError):
        merge_providers((Provider(name="A", arguments=""), Provider(name="A", arguments="x")))
