"""EventPipe sessions: start one with the lowest command that can express it, stop it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError, RuntimeTooOld, UnsupportedCommand
from dotnetdiag.ipc import tracing
from dotnetdiag.ipc.constants import DEFAULT_BUFFER_MB, DEFAULT_RUNDOWN_KEYWORD, BufferingMode, TraceFormat
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.exchange import Operation, ask, exchange
from dotnetdiag.ipc.merging import merge_providers
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.replies import SessionReply


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfiguration:
    """What to record. ``rundown_keyword`` 0 means no rundown. Repeated providers are merged.

    ``rundown_fallback``: the keyword to use instead where the runtime takes no custom one; ``None``: raise.
    """

    providers: tuple[Provider, ...]
    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE
    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    stackwalk: bool = True
    buffering_mode: int = BufferingMode.DROP
    rundown_fallback: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSession:
    """A session that runs: its id, the connection its stream comes on, the command that started it."""

    session_id: int
    connection: Any
    command: str


def needed_features(wanted: SessionConfiguration) -> Iterator[tuple[type[tracing.CollectTracing], str]]:
    """The commands that a configuration needs, and for what, newest first (ipc-protocol.md §14); the last one is always there."""
    if wanted.buffering_mode != BufferingMode.DROP:
        yield tracing.CollectTracing6, "the Block buffering mode"
    if any(provider.event_filter is not None for provider in wanted.providers):
        yield tracing.CollectTracing5, "an event filter"
    if wanted.rundown_keyword not in (0, DEFAULT_RUNDOWN_KEYWORD):
        yield tracing.CollectTracing4, "a rundown keyword of one's own"
    if not wanted.stackwalk:
        yield tracing.CollectTracing3, "a session without stacks"
    yield tracing.CollectTracing2, "a session"


def collect_request(wanted: SessionConfiguration) -> tuple[tracing.CollectTracing, str]:
    """The lowest CollectTracing that can express a configuration, and the feature that asks for it."""
    kind, feature = next(needed_features(wanted))
    values: dict[str, Any] = {"buffer_mb": wanted.buffer_mb, "format": wanted.format}
    if issubclass(kind, tracing.CollectTracing4):
        values["rundown_keyword"] = wanted.rundown_keyword
    else:
        values["rundown"] = wanted.rundown_keyword != 0
    if issubclass(kind, tracing.CollectTracing3 | tracing.CollectTracing4):
        values["stackwalk"] = wanted.stackwalk
    if issubclass(kind, tracing.CollectTracing6):
        values["buffering_mode"] = wanted.buffering_mode
    return kind(providers=merge_providers(wanted.providers), **values), feature


def collect(wanted: SessionConfiguration, *, slow: bool = False) -> Operation[StartedSession]:
    """Start a streaming session, whose answer may be ``slow``. Raises RuntimeTooOld naming the feature that the runtime lacks."""
    request, feature = collect_request(wanted)
    # only what needs nothing newer than the rundown keyword can do without it
    replaceable = feature == "a rundown keyword of one's own" and wanted.stackwalk
    if replaceable and wanted.rundown_fallback is not None:
        try:
            return (yield from _started(request, slow=slow))
        except UnsupportedCommand:
            request = tracing.CollectTracing2(
                providers=request.providers,
                buffer_mb=wanted.buffer_mb,
                format=wanted.format,
                rundown=wanted.rundown_fallback != 0,
            )
            feature = "a session"
    try:
        return (yield from _started(request, slow=slow))
    except UnsupportedCommand:
        raise (yield from _too_old(request, feature)) from None


def stop(session_id: int) -> Operation[None]:
    """Stop a session. The answer comes when its stream has been flushed: somebody must keep reading it."""
    yield from ask(tracing.StopTracing(session_id=session_id), slow=True)


def collect_user_events(
    providers: tuple[Provider, ...], rundown_keyword: int, descriptor: int
) -> Operation[StartedSession]:
    """Start a user_events session (.NET 10 on Linux): events go to the kernel through ``descriptor``, not to us.

    ``descriptor`` is ``/sys/kernel/tracing/user_events_data``, opened for reading and writing; the runtime gets a copy.
    The connection stays open for as long as the session is wanted (ipc-protocol.md §15).
    """
    request = tracing.CollectTracing5UserEvents(providers=merge_providers(providers), rundown_keyword=rundown_keyword)
    try:
        return (yield from _started(request, descriptor))
    except UnsupportedCommand:
        raise (yield from _too_old(request, "a user_events session")) from None


def _started(
    request: Request[SessionReply], descriptor: int | None = None, *, slow: bool = False
) -> Operation[StartedSession]:
    connection, reply = yield from exchange(request, descriptor=descriptor, slow=slow)
    return StartedSession(session_id=reply.session_id, connection=connection, command=request.COMMAND.name)


def _too_old(request: Request[SessionReply], feature: str) -> Operation[RuntimeTooOld]:
    from dotnetdiag.ipc.operations.information import process_info

    try:
        information = yield from process_info()
        version = (information.runtime if information.is_python else information.runtime_version) or None
    except DiagnosticsError:  # of whatever kind: that it is too old is known
        version = None
    return RuntimeTooOld(request.COMMAND.name, feature, needs=request.COMMAND.since, has=version)
