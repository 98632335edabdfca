"""``dd.watch``: the events of a runtime as they happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import UsageError
from dotnetdiag.live.events import QUEUE_BYTES, LiveEvents, check_limit, require_stacks
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.providers.composition import compose
from dotnetdiag.trace.where import Where

if TYPE_CHECKING:
    from dotnetdiag.client import Client

DEFAULT_PRESET = "dotnet-common"


def watch(
    client: Client | int,
    providers: str | None = None,
    *,
    events: str | Sequence[str] = (),
    where: str | Where | None = None,
    limit: int | None = None,
    duration: float | str | None = None,
    buffer_mb: int = 256,
    queue_bytes: int = QUEUE_BYTES,
    symbols: LiveSymbols | None = None,
) -> LiveEvents:
    """Start a session without rundown and give its events while they arrive; ``for event in watch(client, "System.Net.Http")``.

    ``client``: of a runtime, or the pid of one.

    ``providers`` is a provider text (None: the preset ``dotnet-common``), ``events`` names in any
    spelling, ``where`` a filter as of ``trace events``. With ``symbols`` windows have stacks, for ``analysis.cpu.CpuFold`` and the like, and
    filters by ``leaf``. The session runs when this returns. Raises what ``client.trace`` raises, GrammarError, UnknownName for a filter by
    stacks without ``symbols``.
    """
    from dotnetdiag.client import Client

    if type(client) is int:
        client = Client(client)
    if not isinstance(client, Client):
        raise UsageError(f"give a client or a pid, not {client!r}: Client.connect takes the address of a port")
    check_limit(limit)
    wanted = Where(where) if isinstance(where, str) else where
    require_stacks(wanted, kept=symbols is not None)
    chosen = compose(providers=providers, presets=None if providers else DEFAULT_PRESET, rundown=False)
    seconds = seconds_of(duration)
    return LiveEvents(
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
