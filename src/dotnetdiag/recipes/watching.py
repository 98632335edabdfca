"""Watch the events of a runtime: from the options that people know to tables that arrive; ``dd.watch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.durations import seconds_of
from dotnetdiag.live import Account, LiveEvents
from dotnetdiag.live.events import QUEUE_BYTES, check_limit, require_stacks
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.live.watch import DEFAULT_PRESET, watching
from dotnetdiag.providers.composition import Composition, compose
from dotnetdiag.recipes.known_events import require_known
from dotnetdiag.recipes.slow_start import START_TIMEOUT_S, Late, say_nothing, told_when_late
from dotnetdiag.recipes.suspension import Hold, is_held, resume
from dotnetdiag.recipes.target import Client, connected
from dotnetdiag.recipes.verbs import Runtime, target_of
from dotnetdiag.trace.where import Where

__all__ = ["Account", "Composition", "LiveEvents", "WatchOptions", "start_watching", "watch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What to watch; the texts are those of ``trace collect`` and ``trace events``. None and empty: all.

    Without providers, presets and CLR events: the preset ``dotnet-common``.
    """

    providers: str | None = None
    presets: str | None = None
    clr_events: str | None = None
    clr_event_level: str | None = None
    event_filters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    where: str | None = None
    fields: tuple[str, ...] = ()
    limit: int | None = None
    duration: float | str | None = None
    buffer_mb: int = 256
    resume: bool = True

    def composed(self) -> Composition:
        """The session that the options mean. Raises GrammarError, UsageError, also for what is wrong with the other options, and UnknownName
        for events, fields and values that the providers are known not to have.
        """
        seconds_of(self.duration)
        check_limit(self.limit)
        made = self.session()
        self.require_known(made)
        if self.where is not None:
            require_stacks(Where(self.where), kept=False)
        return made

    def require_known(self, session: Composition) -> None:
        """Raises UnknownName for events, fields and values that the providers of the session are known not to have."""
        providers = [provider.name or "" for provider in session.providers]
        require_known(providers, self.names, self.fields, None if self.where is None else Where(self.where))

    def session(self) -> Composition:
        """The providers alone. Raises GrammarError, UsageError."""
        some = self.providers or self.presets or self.clr_events
        return compose(
            providers=self.providers,
            presets=self.presets if some else DEFAULT_PRESET,
            clr_events=self.clr_events,
            clr_event_level=self.clr_event_level,
            rundown=False,
            event_filters=self.event_filters,
        )


def start_watching(
    client: Client,
    options: WatchOptions,
    *,
    over: str | None = None,
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None,
    chosen: Composition | None = None,
    symbols: LiveSymbols | None = None,
    settled: bool = False,
    late: Late = say_nothing,
) -> LiveEvents:
    """The events of a session that runs when this returns. ``over`` is the address of the port that the client is of; ``suspended`` is
    called with what still holds the runtime at its start: nothing comes before it is resumed over each. With ``symbols`` the windows have
    stacks, and events of any name; ``chosen`` is another session than that of the options, ``settled`` as of ``LiveEvents``; ``late`` is told of a
    runtime that does not begin the session for long.
    """
    chosen, where = chosen or options.composed(), None if options.where is None else Where(options.where)
    seconds = seconds_of(options.duration)
    with told_when_late(late):
        session = client.trace(
            chosen.providers,
            buffer_mb=options.buffer_mb,
            rundown_keyword=chosen.rundown_keyword,
            rundown_fallback=chosen.rundown_fallback,
            duration=options.duration,
            answer_timeout_s=START_TIMEOUT_S,
        )
    live = LiveEvents(
        session,
        names=() if symbols is not None else options.names,
        where=where,
        fields=options.fields,
        limit=options.limit,
        duration_s=seconds,
        providers=[provider.name or "" for provider in chosen.providers],
        stacks=symbols is not None,
        symbols=symbols,
        settled=settled,
    )
    try:
        if options.resume and is_held(client) is not False and (held := resume(client, over=over)):
            suspended(held)
    except BaseException:
        live.close()
        raise
    return live


def watch(
    runtime: Runtime,
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
    """Start a session without rundown and give its events while they arrive: ``for event in dd.watch("MyApp", "System.Net.Http")``.

    A runtime that is held at its start by the port whose address is given is let run.

    ``providers`` is a provider text (None: the preset ``dotnet-common``), ``events`` names in any spelling, ``where`` a filter as of
    ``Trace.events`` (the page Filters has the language). With ``symbols`` windows have stacks, for ``CpuFold`` and the like, and filters by
    ``leaf``. The session runs when this returns. Raises what ``Client.trace`` raises, GrammarError, UnknownName for a filter by stacks
    without ``symbols``.
    """
    target = target_of(runtime)
    begin = watching(
        providers,
        events=events,
        where=where,
        limit=limit,
        duration=duration,
        buffer_mb=buffer_mb,
        queue_bytes=queue_bytes,
        symbols=symbols,
    )
    with ExitStack() as opened:
        client = opened.enter_context(connected(target))
        live = begin(client)
        live.close_after(opened.pop_all())
    try:
        if target.port is not None and is_held(client) is not False:
            resume(client, over=target.address)
    except BaseException:
        live.close()
        raise
    return live
