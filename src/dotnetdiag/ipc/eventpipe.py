"""The EventPipe command set: StopTracing and CollectTracing 1 to 6, streaming and user_events (ipc-protocol.md §5.1-5.5, §15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dotnetdiag.ipc.choices import (
    ALL_KEYWORDS,
    DEFAULT_BUFFER_MB,
    DEFAULT_RUNDOWN_KEYWORD,
    MAX_PROVIDERS,
    SESSION_STREAMING,
    SESSION_USER_EVENTS,
    BufferingMode,
    EventLevel,
    TraceFormat,
)
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_bool, read_text
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which event ids pass, after keyword and level. ``enable``: only ``ids`` pass; otherwise all but ``ids``."""

    enable: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracepointSet:
    """Events that go to one tracepoint of their own."""

    name: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracepoints:
    """Where a provider's events go in a user_events session: ``default`` for all that stand in no set."""

    default: str | None = None
    sets: tuple[TracepointSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of a session. ``arguments`` is ``key=value;key2=value2``.

    ``event_filter`` needs CollectTracing5. ``tracepoints`` is for user_events sessions only.
    Names are case-sensitive.
    """

    name: str
    keywords: int = ALL_KEYWORDS
    level: int = EventLevel.VERBOSE
    arguments: str | None = None
    event_filter: EventFilter | None = None
    tracepoints: Tracepoints | None = None


# ---------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTracing(Request):
    """``0x0201``: ``u64 sessionId``. The reply comes when the session has been flushed: keep reading its stream meanwhile."""

    COMMAND: ClassVar[Command] = Command.StopTracing
    REPLY: ClassVar[type[OkReply]] = SessionReply

    session_id: int

    def check(self) -> None:
        self.check_u(64, session_id=self.session_id)

    def _write(self, packer: Packer) -> None:
        packer.u64(self.session_id)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"session_id": cursor.u64("sessionId")}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collect(Request):
    providers: tuple[Provider, ...]

    REPLY: ClassVar[type[OkReply]] = SessionReply
    # what this form of the command can say about a provider
    FILTERS: ClassVar[bool] = False
    TRACEPOINTS: ClassVar[bool] = False

    def _check_providers(self) -> None:
        if not self.providers:
            raise self.refuse("a session needs at least one provider")
        if len(self.providers) > MAX_PROVIDERS:
            raise self.dangerous(
                f"{len(self.providers)} providers kill .NET 8 and 9; at most {MAX_PROVIDERS} are allowed"
            )
        for provider in self.providers:
            self.check_text("a provider's name", provider.name)
            self.check_u(64, keywords=provider.keywords)
            if not 0 <= provider.level <= 5:
                raise self.refuse(f"level {provider.level} of {provider.name} is not in 0 to 5")
            if provider.arguments is not None:
                self.check_text(f"arguments of {provider.name}", provider.arguments, empty=True)
            if provider.event_filter is not None:
                if not self.FILTERS:
                    raise self.refuse(f"{provider.name}: an event filter needs CollectTracing5 (.NET 10)")
                for event_id in provider.event_filter.ids:
                    self.check_u(32, event_id=event_id)
            if (provider.tracepoints is not None) != self.TRACEPOINTS:
                need = "needs tracepoints in" if self.TRACEPOINTS else "has tracepoints, which are only for"
                raise self.refuse(f"{provider.name} {need} a user_events session")
            if provider.tracepoints is not None:
                self._check_tracepoints(provider.name, provider.tracepoints)

    def _check_tracepoints(self, name: str, tracepoints: Tracepoints) -> None:
        if tracepoints.default is None and not tracepoints.sets:
            raise self.refuse(f"{name}: give a default tracepoint or at least one set")
        if tracepoints.default is not None:
            self.check_text(f"the default tracepoint of {name}", tracepoints.default)
        seen: set[int] = set()
        for group in tracepoints.sets:
            self.check_text(f"a tracepoint's name of {name}", group.name)
            if not group.ids:
                raise self.refuse(f"{name}: tracepoint {group.name} has no event ids")
            for event_id in group.ids:
                self.check_u(32, event_id=event_id)
                if event_id == 0:
                    raise self.refuse(f"{name}: event id 0 cannot go to a tracepoint set")
                if event_id in seen:
                    raise self.dangerous(f"{name}: event id {event_id} listed twice kills .NET 10; list it once")
                seen.add(event_id)

    def _check_stream(self, buffer_mb: int, trace_format: int) -> None:
        self.check_u(32, buffer_mb=buffer_mb)
        if buffer_mb == 0:
            raise self.dangerous("a buffer of 0 MB kills .NET 8 and 9; give at least 1")
        if trace_format not in (0, 1):
            raise self.dangerous(f"format {trace_format} kills .NET 8 and 9; 0 is NetPerf, 1 is nettrace")

    def _write_providers(self, packer: Packer) -> None:
        packer.u32(len(self.providers))
        for provider in self.providers:
            packer.u64(provider.keywords).u32(provider.level)
            pack_text(packer, provider.name)
            pack_text(packer, provider.arguments)
            if self.FILTERS:
                chosen = provider.event_filter
                _write_filter(packer, chosen if chosen is not None else EventFilter(enable=False, ids=()))
            if self.TRACEPOINTS and provider.tracepoints is not None:
                _write_tracepoints(packer, provider.tracepoints)

    @classmethod
    def _read_providers(cls, cursor: Cursor) -> tuple[Provider, ...]:
        count = cursor.u32("provider count")
        if count * 20 > cursor.left:  # keywords, level and two string lengths each
            raise cursor.fail(f"{count} providers need more than the {cursor.left} bytes left")
        providers = []
        for _ in range(count):
            keywords, level = cursor.u64("keywords"), cursor.u32("level")
            name, arguments = read_text(cursor, "provider name"), read_text(cursor, "arguments")
            providers.append(
                Provider(
                    name=name or "",
                    keywords=keywords,
                    level=level,
                    arguments=arguments,
                    event_filter=_read_filter(cursor) if cls.FILTERS else None,
                    tracepoints=_read_tracepoints(cursor) if cls.TRACEPOINTS else None,
                )
            )
        return tuple(providers)


def _write_ids(packer: Packer, ids: Sequence[int]) -> None:
    packer.u32(len(ids))
    for event_id in ids:
        packer.u32(event_id)


def _read_ids(cursor: Cursor) -> tuple[int, ...]:
    count = cursor.u32("id count")
    if count * 4 > cursor.left:
        raise cursor.fail(f"{count} event ids need {count * 4} bytes, {cursor.left} left")
    return tuple(cursor.u32("event id") for _ in range(count))


def _write_filter(packer: Packer, chosen: EventFilter) -> None:
    packer.u8(int(chosen.enable))
    _write_ids(packer, chosen.ids)


def _read_filter(cursor: Cursor) -> EventFilter | None:
    """``None`` for ``enable 0, no ids``: that is what "no filter" looks like on the wire."""
    enable = read_bool(cursor, "filter enable")
    ids = _read_ids(cursor)
    return EventFilter(enable=enable, ids=ids) if enable or ids else None


def _write_tracepoints(packer: Packer, tracepoints: Tracepoints) -> None:
    pack_text(packer, tracepoints.default)
    packer.u32(len(tracepoints.sets))
    for group in tracepoints.sets:
        pack_text(packer, group.name)
        _write_ids(packer, group.ids)


def _read_tracepoints(cursor: Cursor) -> Tracepoints:
    default = read_text(cursor, "default tracepoint")
    count = cursor.u32("tracepoint set count")
    if count * 8 > cursor.left:
        raise cursor.fail(f"{count} tracepoint sets need more than the {cursor.left} bytes left")
    sets = tuple(
        TracepointSet(name=read_text(cursor, "tracepoint name") or "", ids=_read_ids(cursor)) for _ in range(count)
    )
    return Tracepoints(default=default, sets=sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing(_Collect):
    """``0x0202``: ``u32 MB · u32 format · providers``. Rundown and stacks are implied. No current tool sends it."""

    COMMAND: ClassVar[Command] = Command.CollectTracing

    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE

    def check(self) -> None:
        self._check_stream(self.buffer_mb, self.format)
        self._check_providers()

    def _write(self, packer: Packer) -> None:
        packer.u32(self.buffer_mb).u32(self.format)
        self._write_providers(packer)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "buffer_mb": cursor.u32("circularBufferMB"),
            "format": cursor.u32("format"),
            "providers": cls._read_providers(cursor),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing2(_Collect):
    """``0x0203``: ``u32 MB · u32 format · bool rundown · providers``."""

    COMMAND: ClassVar[Command] = Command.CollectTracing2

    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE
    rundown: bool = True

    def check(self) -> None:
        self._check_stream(self.buffer_mb, self.format)
        self._check_providers()

    def _write(self, packer: Packer) -> None:
        packer.u32(self.buffer_mb).u32(self.format).u8(int(self.rundown))
        self._write_providers(packer)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "buffer_mb": cursor.u32("circularBufferMB"),
            "format": cursor.u32("format"),
            "rundown": read_bool(cursor, "requestRundown"),
            "providers": cls._read_providers(cursor),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing3(_Collect):
    """``0x0204``: adds ``bool stackwalk``."""

    COMMAND: ClassVar[Command] = Command.CollectTracing3

    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE
    rundown: bool = True
    stackwalk: bool = True

    def check(self) -> None:
        self._check_stream(self.buffer_mb, self.format)
        self._check_providers()

    def _write(self, packer: Packer) -> None:
        packer.u32(self.buffer_mb).u32(self.format).u8(int(self.rundown)).u8(int(self.stackwalk))
        self._write_providers(packer)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "buffer_mb": cursor.u32("circularBufferMB"),
            "format": cursor.u32("format"),
            "rundown": read_bool(cursor, "requestRundown"),
            "stackwalk": read_bool(cursor, "requestStackwalk"),
            "providers": cls._read_providers(cursor),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _CollectWithKeyword(_Collect):
    """The body that 4, 5 and 6 share: ``u32 MB · u32 format · u64 rundownKeyword · bool stackwalk · providers``."""

    buffer_mb: int = DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE
    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    stackwalk: bool = True

    def check(self) -> None:
        self._check_stream(self.buffer_mb, self.format)
        self.check_u(64, rundown_keyword=self.rundown_keyword)
        self._check_providers()

    def _write(self, packer: Packer) -> None:
        if self.COMMAND is not Command.CollectTracing4:
            packer.u32(SESSION_STREAMING)
        packer.u32(self.buffer_mb).u32(self.format).u64(self.rundown_keyword).u8(int(self.stackwalk))
        self._write_providers(packer)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return cls._read_session(cursor)

    @classmethod
    def _read_session(cls, cursor: Cursor) -> dict[str, Any]:
        if cls.COMMAND is not Command.CollectTracing4:
            _read_session_type(cursor, SESSION_STREAMING)
        return {
            "buffer_mb": cursor.u32("circularBufferMB"),
            "format": cursor.u32("format"),
            "rundown_keyword": cursor.u64("rundownKeyword"),
            "stackwalk": read_bool(cursor, "requestStackwalk"),
            "providers": cls._read_providers(cursor),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing4(_CollectWithKeyword):
    """``0x0205``: the rundown keyword instead of a yes or no; 0 is no rundown."""

    COMMAND: ClassVar[Command] = Command.CollectTracing4


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing5(_CollectWithKeyword):
    """``0x0206``, session type 0: ``u32 0`` in front, an event filter behind each provider."""

    COMMAND: ClassVar[Command] = Command.CollectTracing5
    FILTERS: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing6(_CollectWithKeyword):
    """``0x0207``, session type 0: CollectTracing5 and ``u32 bufferingMode`` at the end."""

    COMMAND: ClassVar[Command] = Command.CollectTracing6
    FILTERS: ClassVar[bool] = True

    buffering_mode: int = BufferingMode.DROP

    def check(self) -> None:
        _CollectWithKeyword.check(self)
        if self.buffering_mode not in (0, 1):
            raise self.refuse(f"buffering mode {self.buffering_mode} is neither 0 Drop nor 1 Block")

    def _write(self, packer: Packer) -> None:
        _CollectWithKeyword._write(self, packer)
        packer.u32(self.buffering_mode)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {**cls._read_session(cursor), "buffering_mode": cursor.u32("sessionBufferMode")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing5UserEvents(_Collect):
    """``0x0206``, session type 1: ``u32 1 · u64 rundownKeyword · providers with tracepoints``; a descriptor follows (§15)."""

    COMMAND: ClassVar[Command] = Command.CollectTracing5
    FILTERS: ClassVar[bool] = True
    TRACEPOINTS: ClassVar[bool] = True

    rundown_keyword: int = 0

    def check(self) -> None:
        self.check_u(64, rundown_keyword=self.rundown_keyword)
        self._check_providers()

    def _write(self, packer: Packer) -> None:
        packer.u32(SESSION_USER_EVENTS).u64(self.rundown_keyword)
        self._write_providers(packer)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        _read_session_type(cursor, SESSION_USER_EVENTS)
        return {"rundown_keyword": cursor.u64("rundownKeyword"), "providers": cls._read_providers(cursor)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTracing6UserEvents(CollectTracing5UserEvents):
    """``0x0207``, session type 1: the same body; no buffering mode is read (§5.3)."""

    COMMAND: ClassVar[Command] = Command.CollectTracing6


def _read_session_type(cursor: Cursor, wanted: int) -> None:
    found = cursor.u32("session type")
    if found != wanted:
        raise cursor.fail(f"session type is {found}, not {wanted}")
