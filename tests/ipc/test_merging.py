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
