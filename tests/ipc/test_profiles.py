"""Options of ``trace collect`` become one configuration."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD
from dotnetdiag.ipc.keywords import CLR_PROVIDER
from dotnetdiag.ipc.profiles import PROFILES, compose


def test_nothing_asked_for_is_the_default_of_dotnet_trace() -> None:
    made = compose()
    assert [(p.name, p.keywords, p.level) for p in made.providers] == [
        (CLR_PROVIDER, 0x100003801D, 4),
        ("Microsoft-DotNETCore-SampleProfiler", 0xF00000000000, 4),
    ]
    assert made.rundown_keyword == DEFAULT_RUNDOWN_KEYWORD
    assert "'dotnet-common' + 'dotnet-sampled-thread-time'" in made.notes[0]


def test_providers_by_hand_come_before_profiles() -> None:
    made = compose(providers=f"{CLR_PROVIDER}:0x1:5", profiles="gc-verbose,dotnet-sampled-thread-time")
    assert made.providers[0].keywords == 1
    assert made.enabled_by == ("--providers", "--profile")


def test_two_profiles_of_one_provider_are_joined() -> None:
    made = compose(profiles="dotnet-common,gc-verbose")
    assert (made.providers[0].keywords, made.providers[0].level) == (0x100003801D | 0x8003, 5)


def test_gc_collect_asks_for_a_rundown_of_its_own_and_can_do_without() -> None:
    made = compose(profiles="gc-collect")
    assert (made.rundown_keyword, made.rundown_fallback) == (1, 0)
    assert compose(profiles="gc-collect", rundown=True).rundown_keyword == DEFAULT_RUNDOWN_KEYWORD | 1
    assert compose(profiles="gc-collect", rundown=False).rundown_keyword == 0
    assert compose(profiles="gc-collect,dotnet-common").rundown_fallback is None


def test_clr_events_yield_to_a_clr_provider_that_is_there() -> None:
    made = compose(profiles="gc-verbose", clr_events="exception")
    assert made.providers == PROFILES["gc-verbose"].providers
    assert "Ignoring --clrevents" in made.notes[0]
    alone = compose(clr_events="gc+Exception", clr_event_level="verbose")
    assert (alone.providers[0].keywords, alone.providers[0].level) == (0x8001, 5)


def test_an_event_filter_goes_to_its_provider() -> None:
    made = compose(providers="A:1:4,B:1:4", event_filters=("B=3,5-6",))
    assert made.providers[0].event_filter is None
    assert made.providers[1].event_filter is not None
    assert made.providers[1].event_filter.ids == (3, 5, 6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"profiles": "gc-colect"}, "did you mean gc-collect"),
        ({"profiles": "cpu-sampling"}, "samples in the kernel"),
        ({"profiles": ","}, "No providers were specified"),
        ({"providers": "A", "event_filters": ("B=1",)}, "B is not recorded"),
        ({"providers": "A", "event_filters": ("A=1", "A=2")}, "two of them"),
        ({"providers": "A", "event_filters": ("A=²",)}, "'²' is no event id"),
        ({"providers": "A", "event_filters": ("A=1-",)}, "'1-' is no event id"),
        ({"providers": "A", "event_filters": ("A=" + "9" * 5000,)}, "is no event id"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        compose(**options)  # type: ignore[arg-type]


def test_a_wrong_keyword_is_pointed_at() -> None:
    with pytest.raises(GrammarError, match="character 4"):
        compose(clr_events="gc+exeption")
