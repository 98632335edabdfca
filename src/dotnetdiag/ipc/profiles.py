"""Named sets of providers, and how ``--profile``, ``--providers`` and ``--clrevents`` make one configuration.

Names and contents are those of dotnet-trace (peers.md §1.2). Rule: providers given by hand come before profiles, profiles before
``--clrevents``; two profiles that name one provider are joined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, EventLevel
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.ipc.keywords import CLR_PROVIDER, PRIVATE_PROVIDER, TPL_PROVIDER
from dotnetdiag.ipc.providers import merge_providers, parse_clr_events, parse_event_filter, parse_level, parse_providers

SAMPLE_PROFILER = "Microsoft-DotNETCore-SampleProfiler"
_COMMAND_FIELDS = (
    "CommandText=Command.CommandText;CommandType=Command.CommandType;CommandTimeout=Command.CommandTimeout;"
    "Database=Command.Connection.Database;DataSource=Command.Connection.DataSource;ConnectionId"
)
# One line a DiagnosticSource event; the ids pair start and stop (System.Diagnostics.DiagnosticSourceEventSource).
_DATABASE_SPECS = "\r\n".join(
    (
        f"SqlClientDiagnosticListener/System.Data.SqlClient.WriteCommandBefore@Activity1Start:-{_COMMAND_FIELDS}",
        "SqlClientDiagnosticListener/System.Data.SqlClient.WriteCommandAfter@Activity1Stop:",
        f"SqlClientDiagnosticListener/Microsoft.Data.SqlClient.WriteCommandBefore@Activity1Start:-{_COMMAND_FIELDS}",
        "SqlClientDiagnosticListener/Microsoft.Data.SqlClient.WriteCommandAfter@Activity1Stop:",
        "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.CommandExecuting@Activity2Start:"
        f"-{_COMMAND_FIELDS};IsAsync",
        "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.CommandExecuted@Activity2Stop:",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set. ``rundown_keyword`` is what its trace needs at the end; ``rundown_fallback`` what to ask a runtime for that
    takes no keyword of one's own (0: no rundown, None: nothing to fall back to).
    """

    name: str
    description: str
    providers: tuple[Provider, ...]
    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    rundown_fallback: int | None = None


def _clr(keywords: int, level: int) -> Provider:
    return Provider(name=CLR_PROVIDER, keywords=keywords, level=level)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="dotnet-common",
            description="Lightweight runtime events: GC, loader, JIT, exceptions, threads, compilation.",
            providers=(_clr(0x100003801D, 4),),
        ),
        Profile(
            name="dotnet-sampled-thread-time",
            description="Stacks of all managed threads, about 100 times a second: where wall-clock time goes.",
            providers=(Provider(name=SAMPLE_PROFILER, keywords=0xF00000000000, level=4),),
        ),
        Profile(
            name="gc-verbose",
            description="Collections and sampled object allocations.",
            providers=(_clr(0x8003, 5),),
        ),
        Profile(
            name="gc-collect",
            description="Collections only, at very low overhead.",
            providers=(_clr(0x1, 4), Provider(name=PRIVATE_PROVIDER, keywords=0x1, level=4)),
            rundown_keyword=0x1,
            rundown_fallback=0,
        ),
        Profile(
            name="database",
            description="Commands of ADO.NET and Entity Framework.",
            providers=(
                Provider(name=TPL_PROVIDER, keywords=0x80, level=4),
                Provider(
                    name="Microsoft-Diagnostics-DiagnosticSource",
                    keywords=0x3,
                    level=EventLevel.VERBOSE,
                    arguments=f'FilterAndPayloadSpecs="{_DATABASE_SPECS}"',
                ),
            ),
        ),
    )
}
DEFAULT_PROFILES = ("dotnet-common", "dotnet-sampled-thread-time")
LINUX_ONLY_PROFILES = ("cpu-sampling", "thread-time")
"""Of ``dotnet-trace collect-linux``, which samples in the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What a session is to record. ``enabled_by`` says for each provider which option named it; ``notes`` are for people."""

    providers: tuple[Provider, ...]
    enabled_by: tuple[str, ...]
    rundown_keyword: int
    rundown_fallback: int | None
    notes: tuple[str, ...] = ()


def find_profile(name: str) -> Profile:
    """The profile of a name. Raises UsageError."""
    found = PROFILES.get(name.strip().lower())
    if found is not None:
        return found
    if name.strip().lower() in LINUX_ONLY_PROFILES:
        raise UsageError(
            f"The specified profile '{name}' samples in the kernel, which a trace of the runtime cannot; "
            "dotnet-sampled-thread-time is the nearest"
        )
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), PROFILES, n=1)
    raise UsageError(
        f"Invalid profile name: {name}"
        + (f"; did you mean {close[0]}?" if close else f"; there are {', '.join(PROFILES)}")
    )


def compose(
    *,
    providers: str | None = None,
    profiles: str | None = None,
    clr_events: str | None = None,
    clr_event_level: str | None = None,
    rundown: bool | None = None,
    event_filters: tuple[str, ...] = (),
) -> Composition:
    """The configuration that the options of ``trace collect`` make. Raises GrammarError, UsageError."""
    chosen: dict[str, tuple[Provider, str]] = {}
    notes: list[str] = []
    keyword = 0
    fallbacks: list[int | None] = []
    if not (providers or profiles or clr_events):
        profiles = ",".join(DEFAULT_PROFILES)
        notes.append(
            "No profile or providers specified, defaulting to trace profiles "
            + " + ".join(f"'{name}'" for name in DEFAULT_PROFILES)
            + "."
        )
    if providers:
        for provider in parse_providers(providers):
            chosen[provider.name] = (provider, "--providers")
        keyword |= DEFAULT_RUNDOWN_KEYWORD
    if profiles:
        named = [find_profile(name) for name in profiles.split(",") if name.strip()]
        for provider in merge_providers(provider for profile in named for provider in profile.providers):
            chosen.setdefault(provider.name, (provider, "--profile"))
        for profile in named:
            keyword |= profile.rundown_keyword
            fallbacks.append(profile.rundown_fallback)
    if clr_events:
        if CLR_PROVIDER in chosen:
            notes.append(
                "The CLR provider was already specified through --providers or --profile. Ignoring --clrevents."
            )
        else:
            level = parse_level(clr_event_level or "")
            chosen[CLR_PROVIDER] = (parse_clr_events(clr_events, level), "--clrevents")
            keyword |= DEFAULT_RUNDOWN_KEYWORD
    if not chosen:
        raise UsageError("No providers were specified to start a trace.")
    for text in event_filters:
        name, chosen_filter = parse_event_filter(text)
        if name not in chosen:
            raise UsageError(f"--event-filter: the provider {name} is not recorded; add it to --providers")
        provider, source = chosen[name]
        if provider.event_filter is not None:
            raise UsageError(f"--event-filter: {name} has two of them; write one with all ids")
        chosen[name] = (_filtered(provider, chosen_filter), source)
    fallback = (
        0 if fallbacks and all(entry == 0 for entry in fallbacks) and keyword != DEFAULT_RUNDOWN_KEYWORD else None
    )
    if rundown is not None:
        keyword, fallback = (keyword | DEFAULT_RUNDOWN_KEYWORD, None) if rundown else (0, None)
    return Composition(
        providers=tuple(provider for provider, _ in chosen.values()),
        enabled_by=tuple(source for _, source in chosen.values()),
        rundown_keyword=keyword,
        rundown_fallback=fallback,
        notes=tuple(notes),
    )


def _filtered(provider: Provider, chosen: EventFilter) -> Provider:
    return replace(provider, event_filter=chosen)
