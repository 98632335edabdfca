"""Providers that are listed twice, made one: a runtime takes only the *first* entry of a provider (ipc-protocol.md §21.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.eventpipe import Provider

_T = TypeVar("_T")


def merge_providers(providers: Iterable[Provider]) -> tuple[Provider, ...]:
    """Each name once, in order of first mention: keywords joined, the more verbose level (LogAlways wins), as the reference tool does.

    Raises UsageError when two entries of one name both have arguments, filters or tracepoints and differ in them.
    """
    merged: dict[str | None, Provider] = {}
    for provider in providers:
        earlier = merged.get(provider.name)
        if earlier is None:
            merged[provider.name] = provider
            continue
        levels = (earlier.level, provider.level)
        merged[provider.name] = replace(
            earlier,
            keywords=earlier.keywords | provider.keywords,
            level=0 if 0 in levels else max(levels),
            arguments=_either(provider.name, "filter arguments", earlier.arguments, provider.arguments),
            event_filter=_either(provider.name, "event filters", earlier.event_filter, provider.event_filter),
            tracepoints=_either(provider.name, "tracepoints", earlier.tracepoints, provider.tracepoints),
        )
    return tuple(merged.values())


def _either(name: str | None, what: str, one: _T | None, other: _T | None) -> _T | None:
    if one is not None and other is not None and one != other:
        raise UsageError(f'Provider "{name}" is declared multiple times with {what}.')
    return one if one is not None else other
