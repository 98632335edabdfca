"""Provider text, presets and CLR events, made one session: what to record, and what asked for it.

The rule of dotnet-trace (dotnet-tools.md §1.2): of a provider that several of them name, the text's entry counts, then the presets', then that
of the CLR events; two presets that name one provider are joined.
"""

from __future__ import annotations

from enum import Enum

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD
from dotnetdiag.ipc.eventpipe import Provider, Tracepoints
from dotnetdiag.ipc.merging import merge_providers
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.providers.presets import DEFAULT_PRESETS, find_preset
from dotnetdiag.providers.text import parse_clr_events, parse_event_filter, parse_level, parse_providers


class ProviderSource(Enum):
    """What asked for a provider."""

    PROVIDERS = "providers"
    PRESET = "preset"
    CLR_EVENTS = "clr_events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What a session is to record. ``sources`` says for each provider what asked for it.

    ``is_default``: nothing was asked for, and the presets are ``DEFAULT_PRESETS``. ``clr_events_ignored``: CLR events were asked for,
    but another entry of the CLR provider counts.
    """

    providers: tuple[Provider, ...]
    sources: tuple[ProviderSource, ...]
    rundown_keyword: int
    rundown_fallback: int | None
    is_default: bool = False
    clr_events_ignored: bool = False


def compose(
    *,
    providers: str | None = None,
    presets: str | None = None,
    clr_events: str | None = None,
    clr_event_level: str | None = None,
    rundown: bool | None = None,
    event_filters: tuple[str, ...] = (),
) -> Composition:
    """One session of all that is asked for; ``presets`` are names joined by commas. Raises GrammarError, UnknownName, UsageError."""
    chosen: dict[str, tuple[Provider, ProviderSource]] = {}
    keyword = 0
    fallbacks: list[int | None] = []
    is_default = not (providers or presets or clr_events)
    if is_default:
        presets = ",".join(DEFAULT_PRESETS)
    if providers:
        for provider in parse_providers(providers):
            chosen[provider.name or ""] = (provider, ProviderSource.PROVIDERS)
        keyword |= DEFAULT_RUNDOWN_KEYWORD
    if presets:
        named = [find_preset(name) for name in presets.split(",") if name.strip()]
        for provider in merge_providers(provider for preset in named for provider in preset.providers):
            chosen.setdefault(provider.name or "", (provider, ProviderSource.PRESET))
        for preset in named:
            keyword |= preset.rundown_keyword
            fallbacks.append(preset.rundown_fallback)
    clr_events_ignored = bool(clr_events) and CLR_PROVIDER in chosen
    if clr_events and not clr_events_ignored:
        level = parse_level(clr_event_level or "")
        chosen[CLR_PROVIDER] = (parse_clr_events(clr_events, level), ProviderSource.CLR_EVENTS)
        keyword |= DEFAULT_RUNDOWN_KEYWORD
    if not chosen:
        raise UsageError("No providers were specified to start a trace.")
    for text in event_filters:
        _add_filter(chosen, text)
    fallback = (
        0 if fallbacks and all(entry == 0 for entry in fallbacks) and keyword != DEFAULT_RUNDOWN_KEYWORD else None
    )
    if rundown is not None:
        keyword, fallback = (keyword | DEFAULT_RUNDOWN_KEYWORD, None) if rundown else (0, None)
    return Composition(
        providers=tuple(provider for provider, _ in chosen.values()),
        sources=tuple(source for _, source in chosen.values()),
        rundown_keyword=keyword,
        rundown_fallback=fallback,
        is_default=is_default,
        clr_events_ignored=clr_events_ignored,
    )


def _add_filter(chosen: dict[str, tuple[Provider, ProviderSource]], text: str) -> None:
    name, event_filter = parse_event_filter(text)
    if name not in chosen:
        raise UnknownName("provider", name, tuple(chosen), where="in the session")
    provider, source = chosen[name]
    if provider.event_filter is not None:
        raise UsageError(f"{name} has two event filters; write one with all ids")
    chosen[name] = (replace(provider, event_filter=event_filter), source)


def with_needed(made: Composition, providers: str) -> Composition:
    """A session that records what it does, and the providers of a text too. Raises GrammarError, and UsageError where both have filter arguments."""
    all_of_them = merge_providers((*made.providers, *parse_providers(providers)))
    more = (ProviderSource.PROVIDERS,) * (len(all_of_them) - len(made.providers))
    return replace(made, providers=all_of_them, sources=(*made.sources, *more), is_default=False)


def with_tracepoint(providers: str, tracepoint: str) -> tuple[Provider, ...]:
    """The providers of a text, all of whose events go to one tracepoint of the kernel."""
    return tuple(replace(one, tracepoints=Tracepoints(default=tracepoint)) for one in parse_providers(providers))
