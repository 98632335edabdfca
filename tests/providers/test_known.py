"""Keywords and presets are those of the reference tool (dotnet-tools.md §1.2), number by number."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.providers.composition import Composition, compose
from dotnetdiag.providers.keywords import CLR_KEYWORDS, CLR_PROVIDER, KEYWORDS, find_keyword
from dotnetdiag.providers.presets import PRESETS, find_preset
from dotnetdiag.providers.text import LEVELS, format_providers

CLR_TABLE = """
gc 1 · gchandle 2 · fusion, assemblyloader 4 · loader 8 · jit 10 · ngen 20 · startenumeration 40 · endenumeration 80 ·
security 400 · appdomainresourcemanagement 800 · jittracing 1000 · interop 2000 · contention 4000 · exception 8000 ·
threading 1_0000 · jittedmethodiltonativemap 2_0000 · overrideandsuppressngenevents 4_0000 · type 8_0000 ·
gcheapdump 10_0000 · gcsampledobjectallocationhigh 20_0000 · gcheapsurvivalandmovement 40_0000 ·
gcheapcollect, managedheadcollect, managedheapcollect 80_0000 · gcheapandtypenames 100_0000 ·
gcsampledobjectallocationlow 200_0000 · perftrack 2000_0000 · stack 4000_0000 · threadtransfer 8000_0000 ·
debugger 1_0000_0000 · monitoring 2_0000_0000 · codesymbols 4_0000_0000 · eventsource 8_0000_0000 ·
compilation 10_0000_0000 · compilationdiagnostic 20_0000_0000 · methoddiagnostic 40_0000_0000 ·
typediagnostic 80_0000_0000 · jitinstrumentationdata 100_0000_0000 · profiler 200_0000_0000 ·
waithandle 400_0000_0000 · allocationsampling 800_0000_0000
"""
OTHERS = {
    "Microsoft-Windows-DotNETRuntimePrivate": "gc 1 · gchandleprivate 2 · loaderheap 4 · codesymbols 8 · stack 4000_0000",
    "System.Threading.Tasks.TplEventSource": (
        "tasktransfer 1 · tasks 2 · parallel 4 · asynccausalityoperation 8 · asynccausalityrelation 10 · "
        "asynccausalitysynchronouswork 20 · taskstops 40 · tasksflowactivityids 80 · tasksetactivityids 1_0000 · "
        "debug 2_0000 · debugactivityid 4_0000"
    ),
    "System.Diagnostics.Metrics": "messages 1 · timeseriesvalues 2 · instrumentpublishing 4",
    "Microsoft-Extensions-Logging": "meta 1 · message 2 · formattedmessage 4 · jsonmessage 8",
    "Microsoft-Diagnostics-DiagnosticSource": (
        "messages 1 · events 2 · ignoreshortcutkeywords 800 · aspnetcorehosting 1000 · entityframeworkcorecommands 2000"
    ),
}


def read(table: str) -> dict[str, int]:
    found = {}
    for entry in table.split("·"):
        *names, value = entry.replace(",", " ").split()
        found.update(dict.fromkeys(names, int(value, 16)))
    return found


def test_keywords_of_the_runtime_have_these_values() -> None:
    assert read(CLR_TABLE) == CLR_KEYWORDS
    assert KEYWORDS[CLR_PROVIDER] == KEYWORDS["Microsoft-Windows-DotNETRuntimeRundown"] == CLR_KEYWORDS


@pytest.mark.parametrize("provider", OTHERS)
def test_keywords_of_other_providers_have_these_values(provider: str) -> None:
    assert read(OTHERS[provider]) == KEYWORDS[provider]


def test_there_are_no_others() -> None:
    assert set(KEYWORDS) == {CLR_PROVIDER, "Microsoft-Windows-DotNETRuntimeRundown", *OTHERS}
    assert find_keyword("Somebody", "gc") is None
    assert find_keyword(CLR_PROVIDER, "keyword") is None


def test_levels_have_these_values() -> None:
    assert LEVELS == {
        "logalways": 0,
        "critical": 1,
        "error": 2,
        "warning": 3,
        "informational": 4,
        "info": 4,
        "verbose": 5,
    }


@pytest.mark.parametrize(
    ("name", "providers", "keyword", "fallback"),
    [
        ("dotnet-common", "Microsoft-Windows-DotNETRuntime:0x100003801D:4", 0x80020139, None),
        ("dotnet-sampled-thread-time", "Microsoft-DotNETCore-SampleProfiler:0xF00000000000:4", 0x80020139, None),
        ("gc-verbose", "Microsoft-Windows-DotNETRuntime:0x8003:5", 0x80020139, None),
        (
            "gc-collect",
            "Microsoft-Windows-DotNETRuntime:0x1:4,Microsoft-Windows-DotNETRuntimePrivate:0x1:4",
            0x1,
            0,
        ),
        (
            "database",
            "System.Threading.Tasks.TplEventSource:0x80:4,Microsoft-Diagnostics-DiagnosticSource:0x3:5",
            0x80020139,
            None,
        ),
    ],
)
def test_a_preset_is_that_of_the_reference_tool(name: str, providers: str, keyword: int, fallback: int | None) -> None:
    preset = PRESETS[name]
    bare = [Provider(name=one.name, keywords=one.keywords, level=one.level) for one in preset.providers]
    assert format_providers(bare) == providers
    assert (preset.name, preset.rundown_keyword, preset.rundown_fallback) == (name, keyword, fallback)
    assert compose(presets=name).rundown_keyword == keyword


def test_the_database_preset_asks_for_starts_and_stops() -> None:
    arguments = PRESETS["database"].providers[1].arguments or ""
    assert arguments.startswith('FilterAndPayloadSpecs="')
    assert arguments.endswith('"')
    lines = arguments.removeprefix('FilterAndPayloadSpecs="').removesuffix('"').split("\r\n")
    heads = [line.partition(":")[0] for line in lines]
    commands = "SqlClientDiagnosticListener/{}.Data.SqlClient.WriteCommand{}"
    framework = "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.Command"
    assert heads == [
        commands.format("System", "Before@Activity1Start"),
        commands.format("System", "After@Activity1Stop"),
        commands.format("System", "Error@Activity1Stop"),
        commands.format("Microsoft", "Before@Activity1Start"),
        commands.format("Microsoft", "After@Activity1Stop"),
        commands.format("Microsoft", "Error@Activity1Stop"),
        framework + "Executing@Activity2Start",
        framework + "Executed@Activity2Stop",
        framework + "Error@Activity2Stop",
        framework + "Canceled@Activity2Stop",
    ]


@pytest.mark.parametrize("name", ["cpu-sampling", "THREAD-TIME"])
def test_a_preset_of_the_kernel_names_the_nearest(name: str) -> None:
    with pytest.raises(UsageError, match=f"preset '{name.lower()}' samples in the kernel.*dotnet-sampled-thread-time"):
        find_preset(name)


def test_the_nearest_preset_alone_is_named() -> None:
    with pytest.raises(UnknownName) as caught:
        find_preset("gc-collese")  # gc-verbose is not far either
    assert caught.value.near == ("gc-collect",)


def test_a_name_that_is_like_none_has_none_near() -> None:
    with pytest.raises(UnknownName) as caught:
        find_preset("x" * 10_000)
    assert caught.value.near == ()


# what comes of several ----------------------------------------------------------------------------------------------------


def test_a_fall_back_is_left_when_anything_else_wants_the_default_rundown() -> None:
    assert compose(presets="gc-collect").rundown_fallback == 0
    for made in (
        compose(providers="A", presets="gc-collect"),
        compose(presets="gc-collect,gc-verbose"),
        compose(presets="gc-collect", rundown=True),
        compose(presets="gc-collect", rundown=False),
        compose(providers="A"),
        compose(clr_events="gc"),
        compose(),
    ):
        assert made.rundown_fallback is None


def test_a_rundown_that_is_asked_for_is_the_default_one() -> None:
    for asked in ({"providers": "A"}, {"presets": "gc-verbose"}, {"clr_events": "gc"}, {}):
        assert compose(**asked, rundown=True).rundown_keyword == 0x80020139  # type: ignore[arg-type]
        assert compose(**asked).rundown_keyword == 0x80020139  # type: ignore[arg-type]
        assert compose(**asked, rundown=False).rundown_keyword == 0  # type: ignore[arg-type]


def test_a_composition_is_not_the_default_one_unless_it_says_so() -> None:
    plain = Composition(providers=(), sources=(), rundown_keyword=0, rundown_fallback=None)
    assert not plain.is_default
    assert not plain.clr_events_ignored
