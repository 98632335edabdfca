"""The EventPipe command set: StopTracing and CollectTracing 1 to 6, streaming and user_events (ipc-protocol.md §5.1-5.5, §15).

One table of fields for each command; what a newer one adds stands where the runtime expects it.
"""

from __future__ import annotations

from typing import ClassVar

from dotnetdiag.errors import RequestRefused
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import (
    DEFAULT_BUFFER_MB,
    DEFAULT_RUNDOWN_KEYWORD,
    MAX_PROVIDERS,
    SESSION_STREAMING,
    SESSION_USER_EVENTS,
    BufferingMode,
    TraceFormat,
)
from dotnetdiag.ipc.eventpipe import Provider, Providers
from dotnetdiag.ipc.fields import BOOL, U32, U64, Constant, Field, Fields, text_problem
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.replies import SessionReply

_BUFFER = Field("buffer_mb", "circularBufferMB", U32)
_FORMAT = Field("format", "format", U32)
_RUNDOWN = Field("rundown", "requestRundown", BOOL)
_STACKWALK = Field("stackwalk", "requestStackwalk", BOOL)
_KEYWORD = Field("rundown_keyword", "rundownKeyword", U64)
_STREAMING = Constant("session type", SESSION_STREAMING)
_USER_EVENTS = Constant("session type", SESSION_USER_EVENTS)
_MODE = Field("buffering_mode", "sessionBufferMode", U32)
_PROVIDERS = Field("providers", "provider", Providers())
_FILTERED = Field("providers", "provider", Providers(filters=True))
_TRACEPOINTS = Field("providers", "provider", Providers(filters=True, tracepoints=True))


class StopTracing(Request[SessionReply], command=Command.StopTracing):
    """``0x0201``: ``u64 sessionId``. The reply comes when the session has been flushed: keep reading its stream meanwhile."""

    FIELDS: ClassVar[Fields] = (Field("session_id", "sessionId", U64),)

    session_id: int


class _Collect(Request[SessionReply]):
    """What every form has: providers, and what they must not be."""

    providers: tuple[Provider, ...]

    def refusal(self) -> RequestRefused | None:
        if len(self.providers) > MAX_PROVIDERS:
            return self.dangerous(f"{len(self.providers)} providers kill .NET 8 and 9; give at most {MAX_PROVIDERS}")
        for provider in self.providers:
            texts = [(provider.name, "the name"), (provider.arguments or "", "the arguments")]
            seen: set[int] = set()
            if provider.tracepoints is not None:
                sets = provider.tracepoints.sets
                default = provider.tracepoints.default
                texts += [("x" if default is None else default or None, "the default tracepoint")]
                texts += [(one.name, "a tracepoint") for one in sets]
                for event_id in (number for one in sets for number in one.ids):
                    if event_id == 0:
                        return self.refuse(f"{provider.name}: event id 0 cannot go to a tracepoint set")
                    if event_id in seen:
                        return self.dangerous(f"{provider.name}: event id {event_id} twice kills .NET 10; list it once")
                    seen.add(event_id)
            for text, what in texts:
                if problem := text_problem(text, empty=what == "the arguments"):
                    return self.refuse(f"{what} of provider {provider.name} {problem}")
        return None


class CollectTracing(_Collect, command=Command.CollectTracing):
    """``0x0202``: rundown and stacks are implied. No current tool sends it."""

    FIELDS: ClassVar[Fields] = (_BUFFER, _FORMAT, _PROVIDERS)

    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE

    def refusal(self) -> RequestRefused | None:
        if self.buffer_mb == 0:
            return self.dangerous("a buffer of 0 MB kills .NET 8 and 9; give at least 1")
        if self.format not in (0, 1):
            return self.dangerous(f"format {self.format} kills .NET 8 and 9; 0 is NetPerf, 1 is nettrace")
        return _Collect.refusal(self)


class CollectTracing2(CollectTracing, command=Command.CollectTracing2):
    """``0x0203``: a yes or no to rundown."""

    FIELDS: ClassVar[Fields] = (_BUFFER, _FORMAT, _RUNDOWN, _PROVIDERS)

    rundown: bool = True


class CollectTracing3(CollectTracing2, command=Command.CollectTracing3):
    """``0x0204``: a yes or no to stacks."""

    FIELDS: ClassVar[Fields] = (_BUFFER, _FORMAT, _RUNDOWN, _STACKWALK, _PROVIDERS)

    stackwalk: bool = True


class CollectTracing4(CollectTracing, command=Command.CollectTracing4):
    """``0x0205``: the rundown keyword instead of a yes or no; 0 is no rundown."""

    FIELDS: ClassVar[Fields] = (_BUFFER, _FORMAT, _KEYWORD, _STACKWALK, _PROVIDERS)

    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    stackwalk: bool = True


class CollectTracing5(CollectTracing4, command=Command.CollectTracing5):
    """``0x0206``, session type 0: an event filter behind each provider."""

    FIELDS: ClassVar[Fields] = (_STREAMING, _BUFFER, _FORMAT, _KEYWORD, _STACKWALK, _FILTERED)


class CollectTracing6(CollectTracing5, command=Command.CollectTracing6):
    """``0x0207``, session type 0: the buffering mode behind the providers."""

    FIELDS: ClassVar[Fields] = (*CollectTracing5.FIELDS, _MODE)

    buffering_mode: int = BufferingMode.DROP

    def invalid(self) -> str:
        if self.buffering_mode not in (0, 1):
            return f"buffering mode {self.buffering_mode} is neither 0 Drop nor 1 Block"
        return _Collect.invalid(self)


class CollectTracing5UserEvents(_Collect, command=Command.CollectTracing5):
    """``0x0206``, session type 1: providers with tracepoints; a file descriptor follows the request (§15)."""

    FIELDS: ClassVar[Fields] = (_USER_EVENTS, _KEYWORD, _TRACEPOINTS)

    rundown_keyword: int = 0


class CollectTracing6UserEvents(CollectTracing5UserEvents, command=Command.CollectTracing6):
    """``0x0207``, session type 1: the same body; no buffering mode is read (§5.3)."""
