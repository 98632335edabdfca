"""Provider text, presets and CLR events become one session."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError, UnknownName, UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD
from dotnetdiag.ipc.eventpipe import Tracepoints
from dotnetdiag.providers.composition import ProviderSource, compose, with_needed, with_tracepoint
from dotnetdiag.providers.keywords import CLR_PROVIDER, SAMPLE_PROFILER, TPL_PROVIDER
from dotnetdiag.providers.presets import DEFAULT_PRESETS, LINUX_ONLY_PRESETS, PRESETS, find_preset
from dotnetdiag.providers.questions import ADVISED, LOGGING, QUESTIONS, SOCKETS
from dotnetdiag.providers.text import parse_providers


def test_nothing_asked_for_is_the_default_of_dotnet_trace() -> None:
    made = compose()
    assert [(p.name, p.keywords, p.level) for p in made.providers] == [
        (CLR_PROVIDER, 0x100003801D, 4),
        ("Microsoft-DotNETCore-SampleProfiler", 0xF00000000000, 4),
    ]
    assert made.rundown_keyword == DEFAULT_RUNDOWN_KEYWORD
    assert made.sources == (ProviderSource.PRESET, ProviderSource.PRESET)
    assert made.is_default
    assert DEFAULT_PRESETS == ("dotnet-common", "dotnet-sampled-thread-time")


@pytest.mark.parametrize("asked", [{"providers": "A"}, {"presets": "gc-verbose"}, {"clr_events": "gc"}])
def test_what_is_asked_for_replaces_the_default(asked: dict[str, str]) -> None:
    made = compose(**asked)  # type: ignore[arg-type]
    assert not made.is_default
    assert len(made.providers) == 1
    assert made.rundown_keyword == DEFAULT_RUNDOWN_KEYWORD
    assert made.rundown_fallback is None


def test_providers_by_hand_come_before_presets() -> None:
    made = compose(providers=f"{CLR_PROVIDER}:0x1:5", presets="gc-verbose,dotnet-sampled-thread-time")
    assert made.providers[0].keywords == 1
    assert made.sources == (ProviderSource.PROVIDERS, ProviderSource.PRESET)


def test_two_presets_of_one_provider_are_joined() -> None:
    made = compose(presets="dotnet-common,gc-verbose")
    assert (made.providers[0].keywords, made.providers[0].level) == (0x100003801D | 0x8003, 5)


def test_gc_collect_asks_for_a_rundown_of_its_own_and_can_do_without() -> None:
    made = compose(presets="gc-collect")
    assert (made.rundown_keyword, made.rundown_fallback) == (1, 0)
    assert compose(presets="gc-collect", rundown=True).rundown_keyword == DEFAULT_RUNDOWN_KEYWORD | 1
    assert compose(presets="gc-collect", rundown=False).rundown_keyword == 0
    assert compose(presets="gc-collect,dotnet-common").rundown_fallback is None


def test_clr_events_yield_to_a_clr_provider_that_is_there() -> None:
    made = compose(presets="gc-verbose", clr_events="exception")
    assert made.providers == PRESETS["gc-verbose"].providers
    assert made.clr_events_ignored
    alone = compose(clr_events="gc+Exception", clr_event_level="verbose")
    assert (alone.providers[0].keywords, alone.providers[0].level) == (0x8001, 5)
    assert alone.sources == (ProviderSource.CLR_EVENTS,)
    assert not alone.clr_events_ignored
    assert compose(clr_events="gc").providers[0].level == 4


def test_clr_events_alone_have_the_default_rundown() -> None:
    assert compose(clr_events="gc").rundown_keyword == DEFAULT_RUNDOWN_KEYWORD
    assert compose(clr_events="gc", rundown=False).rundown_keyword == 0
    # ignored, they add nothing to the rundown that the preset asks for
    assert compose(clr_events="gc", presets="gc-collect").rundown_keyword == 1
    assert compose(clr_events="gc", presets="dotnet-sampled-thread-time").rundown_keyword == DEFAULT_RUNDOWN_KEYWORD


def test_what_is_needed_comes_beside_what_is_asked_for() -> None:
    asked = compose(clr_events="exception", providers="Mine:0x2:4", event_filters=("Mine=3",))
    made = with_needed(asked, f"{CLR_PROVIDER}:0x1:5,Other:0x4:4")
    assert [(one.name, one.keywords, one.level) for one in made.providers] == [
        ("Mine", 0x2, 4),
        (CLR_PROVIDER, 0x8001, 5),
        ("Other", 0x4, 4),
    ]
    assert made.providers[0].event_filter == asked.providers[0].event_filter is not None
    assert made.sources == (ProviderSource.PROVIDERS, ProviderSource.CLR_EVENTS, ProviderSource.PROVIDERS)
    assert (made.rundown_keyword, made.rundown_fallback) == (asked.rundown_keyword, asked.rundown_fallback)


def test_an_event_filter_goes_to_its_provider() -> None:
    made = compose(providers="A:1:4,B:1:4", event_filters=("B=3,5-6",))
    assert made.providers[0].event_filter is None
    assert made.providers[1].event_filter is not None
    assert made.providers[1].event_filter.ids == (3, 5, 6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"presets": "gc-colect"}, "no preset 'gc-colect' among dotnet-common, .*; near: gc-collect"),
        ({"presets": "cpu-sampling"}, "samples in the kernel"),
        ({"presets": ","}, "No providers were specified"),
        ({"providers": "A", "event_filters": ("B=1",)}, "no provider 'B' in the session; near: A"),
        ({"providers": "A", "event_filters": ("A=1", "A=2")}, "A has two event filters"),
        ({"providers": "A", "event_filters": ("A=²",)}, "'²' is no event id"),
        ({"providers": "A", "event_filters": ("A=1-",)}, "'1-' is no event id"),
        ({"providers": "A", "event_filters": ("A=" + "9" * 5000,)}, "event ids are 0 to 65535"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        compose(**options)  # type: ignore[arg-type]


def test_a_wrong_keyword_is_pointed_at() -> None:
    with pytest.raises(GrammarError, match="character 4"):
        compose(clr_events="gc+exeption")


@pytest.mark.parametrize("name", [*PRESETS, "GC-Verbose", " gc-collect "])
def test_presets_are_found_in_any_case(name: str) -> None:
    assert find_preset(name) is PRESETS[name.strip().lower()]


def test_there_is_a_preset_for_each_question() -> None:
    made = compose(presets="requests")
    names = [provider.name for provider in made.providers]
    assert {"System.Net.Http", LOGGING, SAMPLE_PROFILER, CLR_PROVIDER} <= {*names}
    assert SOCKETS not in names, ".NET 10 gives many requests one id then"
    assert SOCKETS in QUESTIONS["requests"]
    for name, text in QUESTIONS.items():
        assert {one.name for one in compose(presets=name).providers} == {
            one.name for one in parse_providers(text) if one.name != SOCKETS
        }
    advice = {one.name: one for one in compose(presets="advice").providers}
    for name in ADVISED:
        for one in compose(presets=name).providers:
            if one.name != LOGGING or name == "logs":
                assert not one.keywords & ~advice[one.name].keywords
    assert advice[LOGGING].keywords == 8, "messages as JSON have all that those as texts have"
    both = compose(presets="requests", providers=f"{TPL_PROVIDER}:0x8B:5")
    (tpl,) = [one for one in both.providers if one.name == TPL_PROVIDER]
    assert tpl.keywords == 0x8B, "the text's entry counts"


def test_a_preset_that_is_not_there_is_told_with_its_facts() -> None:
    with pytest.raises(UnknownName) as caught:
        find_preset("gc-colect")
    assert (caught.value.what, caught.value.name, caught.value.near) == ("preset", "gc-colect", ("gc-collect",))
    assert not set(LINUX_ONLY_PRESETS) & set(PRESETS)


def test_all_events_go_to_one_tracepoint() -> None:
    first, second = with_tracepoint("A:1,B", "t")
    assert first.tracepoints == second.tracepoints == Tracepoints(default="t")
    assert (first.name, first.keywords) == ("A", 1)
