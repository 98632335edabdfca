"""What is known of a session's events before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from dotnetdiag.errors import UnknownName
from dotnetdiag.recipes.known_events import events_of, require_known
from dotnetdiag.recipes.top import TopOptions
from dotnetdiag.recipes.watching import WatchOptions
from dotnetdiag.trace.where import Where

CLR = "Microsoft-Windows-DotNETRuntime"
SAMPLER = "Microsoft-DotNETCore-SampleProfiler"


def test_providers_that_describe_their_events_themselves_are_not_known() -> None:
    assert events_of("My-Source") is None
    assert [one.name for one in events_of(SAMPLER) or ()] == ["Thread/Sample"]
    assert {"GC/Start", "GC/CommittedUsage"} <= {one.name for one in events_of(CLR) or ()}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"names": ("Exception/Strt",)}, f"no event 'Exception/Strt' in {CLR}; near: Exception/Start"),
        ({"names": ("My-Source/Said",)}, f"no event 'My-Source/Said' in {CLR}"),
        (
            {"names": ("Exception/Start",), "fields": ("ExceptionTpe",)},
            "no field 'ExceptionTpe' in Exception/Start; near: ExceptionType",
        ),
        ({"fields": ("Nope",)}, f"no field 'Nope' in {CLR}"),
        ({"names": ("GC/Start",), "where": "Reasn == 1"}, "no field 'Reasn' in GC/Start; near: Reason"),
        ({"where": "Reason == Inducd"}, f"no field or value 'Inducd' in {CLR}; near: Induced"),
        ({"where": 'leaf ~ "Spin"'}, "no field 'leaf' in a watch without call stacks"),
    ],
)
def test_what_cannot_come_is_told_before_a_session_runs(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UnknownName) as caught:
        WatchOptions(providers=f"{CLR}:1:5", **options).composed()
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    "options",
    [
        {"names": ("GCStart_V2", "ProcessInfo", f"{CLR}/GC/Stop", "Method/DCStopVerbose")},
        {"names": ("GC/Start",), "fields": ("reason", "payload.Depth", "level", "tid")},
        {"where": "Reason == induced and GC_Type != 1 or Depth > 1 and tid > 3".replace("GC_Type", "Type")},
        {"providers": f"{CLR}:1:5,My-Source", "names": ("Said",), "fields": ("word",), "where": "other == 1"},
    ],
)
def test_what_may_come_is_waited_for(options: dict[str, Any]) -> None:
    assert WatchOptions(**{"providers": f"{CLR}:1:5", **options}).composed().providers


def test_a_top_looks_for_names_in_the_session_that_it_makes() -> None:
    with pytest.raises(UnknownName, match="no field 'Typ' in the events of the session; near: "):
        TopOptions(watch=WatchOptions(where="Typ == 1")).composed()
    with pytest.raises(UnknownName, match="no event 'GC/Strt'"):
        TopOptions(watch=WatchOptions(clr_events="gc", names=("GC/Strt",))).composed()
    for watch in (WatchOptions(where='leaf ~ "Spin"'), WatchOptions(clr_events="gc", names=("GC/Start",))):
        assert TopOptions(watch=watch).composed().providers


def test_a_value_is_known_by_what_it_is_compared_with_alone() -> None:
    require_known([CLR], (), (), Where("Induced == Reason"))
    with pytest.raises(UnknownName, match="no field 'Induce' "):
        require_known([CLR], (), (), Where("Induce > 3"))
