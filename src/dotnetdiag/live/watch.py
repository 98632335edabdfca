"""The events of a runtime as they happen: what ``dd.watch`` begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dotnetdiag.durations import seconds_of
from dotnetdiag.live.events import QUEUE_BYTES, LiveEvents, check_limit, require_stacks
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.providers.composition import compose
from dotnetdiag.trace.where import Where

if TYPE_CHECKING:
    from dotnetdiag.client import Client

DEFAULT_PRESET = "dotnet-common"


def watching(
    providers: str | None = None,
    *,
    events: str | Sequence[str] = (),
    where: str | Where | None = None,
    limit: int | None = None,
    duration: float | str | None = None,
    buffer_mb: int = 256,
    queue_bytes: int = QUEUE_BYTES,
    symbols: LiveSymbols | None = None,
) -> Callable[[Client], LiveEvents]:
    """What begins such a watch of a runtime: mistakes are told before one is waited for. The arguments are those of ``dd.watch``."""
    check_limit(limit)
    wanted = Where(where) if isinstance(where, str) else where
    require_stacks(wanted, kept=symbols is not None)
    chosen = compose(providers=providers, presets=None if providers else DEFAULT_PRESET, rundown=False)
    seconds = seconds_of(duration)
    return lambda client: LiveEvents(
        client.trace(chosen.providers, buffer_mb=buffer_mb, rundown_keyword=0),
        names=(events,) if isinstance(events, str) else tuple(events),
        where=wanted,
        limit=limit,
        duration_s=seconds,
        providers=[provider.name or "" for provider in chosen.providers],
        stacks=symbols is not None,
        symbols=symbols,
        queue_bytes=queue_bytes,
    )
