"""EventPipe sessions: start one with the lowest command that can express it, stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dotnetdiag.errors import ProtocolError, RuntimeTooOld, ServerError, UnsupportedCommand
from dotnetdiag.ipc import eventpipe
from dotnetdiag.ipc.choices import DEFAULT_BUFFER_MB, DEFAULT_RUNDOWN_KEYWORD, BufferingMode, TraceFormat
from dotnetdiag.ipc.commands import SINCE
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.merging import merge_providers
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.operations.steps import Answer, Ask, Operation
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


def collect_request(wanted: SessionConfiguration) -> tuple[Request, str]:
    """The lowest CollectTracing that can express a configuration, and the feature that asks for it (ipc-protocol.md §14)."""
    providers = merge_providers(wanted.providers)
    plain_rundown = wanted.rundown_keyword in (0, DEFAULT_RUNDOWN_KEYWORD)
    filtered = any(provider.event_filter is not None for provider in providers)
    if wanted.buffering_mode != BufferingMode.DROP:
        return eventpipe.CollectTracing6(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown_keyword=wanted.rundown_keyword,
            stackwalk=wanted.stackwalk,
            buffering_mode=wanted.buffering_mode,
        ), "the Block buffering mode"
    if filtered or not plain_rundown:
        kind = eventpipe.CollectTracing5 if filtered else eventpipe.CollectTracing4
        return kind(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown_keyword=wanted.rundown_keyword,
            stackwalk=wanted.stackwalk,
        ), "an event filter" if filtered else "a rundown keyword of one's own"
    rundown = wanted.rundown_keyword != 0
    if not wanted.stackwalk:
        return eventpipe.CollectTracing3(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown=rundown,
            stackwalk=False,
        ), "a session without stacks"
    return eventpipe.CollectTracing2(
        providers=providers, buffer_mb=wanted.buffer_mb, format=wanted.format, rundown=rundown
    ), "a session"


def collect(wanted: SessionConfiguration) -> Operation[StartedSession]:
    """Start a streaming session. Raises RuntimeTooOld naming the feature that the runtime lacks."""
    request, feature = collect_request(wanted)
    try:
        answer = yield Ask(request=request, keep=True)
    except UnsupportedCommand:
        if isinstance(request, eventpipe.CollectTracing4) and wanted.rundown_fallback is not None:
            request = eventpipe.CollectTracing2(
                providers=request.providers,
                buffer_mb=wanted.buffer_mb,
                format=wanted.format,
                rundown=wanted.rundown_fallback != 0,
            )
            answer = yield Ask(request=request, keep=True)
        else:
            raise (yield from _too_old(request, feature)) from None
    return _started(request, answer)


def stop(session_id: int) -> Operation[None]:
    """Stop a session. The answer comes when its stream has been flushed: somebody must keep reading it."""
    yield Ask(request=eventpipe.StopTracing(session_id=session_id), slow=True)


def collect_user_events(
    providers: tuple[Provider, ...], rundown_keyword: int, descriptor: int
) -> Operation[StartedSession]:
    """Start a user_events session (.NET 10 on Linux): events go to the kernel through ``descriptor``, not to us.

    ``descriptor`` is ``/sys/kernel/tracing/user_events_data``, opened for reading and writing; the runtime gets a copy.
    The connection stays open for as long as the session is wanted (ipc-protocol.md §15).
    """
    request = eventpipe.CollectTracing5UserEvents(providers=merge_providers(providers), rundown_keyword=rundown_keyword)
    try:
        answer = yield Ask(request=request, keep=True, descriptor=descriptor)
    except UnsupportedCommand:
        raise (yield from _too_old(request, "a user_events session")) from None
    return _started(request, answer)


def _too_old(request: Request, feature: str) -> Operation[RuntimeTooOld]:
    from dotnetdiag.ipc.operations.identity import process_info

    try:
        version = (yield from process_info()).runtime_version or None
    except ServerError:
        version = None
    return RuntimeTooOld(request.COMMAND.name, feature, needs=SINCE[request.COMMAND], has=version)


def _started(request: Request, answer: Answer) -> StartedSession:
    if not isinstance(answer.reply, SessionReply):
        raise ProtocolError("the reply is no session id", where=request.COMMAND.name)
    return StartedSession(
        session_id=answer.reply.session_id, connection=answer.connection, command=request.COMMAND.name
    )
