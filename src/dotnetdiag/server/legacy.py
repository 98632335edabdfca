"""The protocol from before V1, answered by the same commands (ipc-protocol.md §17).

Rule 1: a request does not say how long it is: its fields are walked as they come.
Rule 2: a reply is a u64: a session's id, 0 for none, or an HRESULT. A request that cannot be read is hung up on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.constants import MAX_PROVIDERS, TraceFormat
from dotnetdiag.ipc.dump import GenerateCoreDump
from dotnetdiag.ipc.eventpipe import SMALLEST_PROVIDER, Providers
from dotnetdiag.ipc.fields import Bytes, Field, Guid, Kind, Text, Unsigned
from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE
from dotnetdiag.ipc.legacy import (
    REQUESTS,
    CollectEventPipeTracing,
    LegacyAttachProfiler,
    LegacyGenerateCoreDump,
    LegacyReply,
    LegacyRequest,
    RequestType,
    StopEventPipeTracing,
    parse_legacy_request,
)
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.profiler import AttachProfiler
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import CollectTracing, StopTracing
from dotnetdiag.server.commands import Caller, Refused
from dotnetdiag.server.dispatch import Answer, Dispatcher, require_valid

HEAD_SIZE = 8
"""Type and pid."""


class LegacyReader:
    """How long the request is that ``data`` begins with, which its owner appends to. It has at least the type, a known one."""

    def __init__(self, data: bytearray) -> None:
        self._data, self._end, self.is_broken = data, 0, False
        self._walk: Generator[None, None, None] | None = self._walking(REQUESTS[self._type()])
        self.is_complete()

    @property
    def wanted(self) -> int:
        """Bytes missing to the end of the field that is walked."""
        return 0 if self.is_broken else max(self._end - len(self._data), 0)

    def is_complete(self) -> bool:
        """Whether the whole request is there; to be called when bytes have come."""
        if self._walk is not None and not self.is_broken:
            self._walk = self._walk if next(self._walk, True) is None else None
        return self._walk is None

    def request(self) -> LegacyRequest | None:
        """The request, once it is complete; None when it makes no sense."""
        try:
            return parse_legacy_request(bytes(self._data[: self._end]))
        except ProtocolError:
            return None

    def _type(self) -> RequestType:
        return RequestType(int.from_bytes(self._data[:4], "little"))

    def _walking(self, kind: type[LegacyRequest]) -> Generator[None, None, None]:
        yield from self._over(HEAD_SIZE)
        for field in kind.FIELDS:
            assert isinstance(field, Field)
            yield from self._over_field(field.kind)

    def _over(self, size: int) -> Generator[None, None, None]:
        self._end += size
        self._require_room(0)
        while self.is_broken or len(self._data) < self._end:
            yield

    def _require_room(self, size: int) -> None:
        """Break off where the request would be longer than any."""
        self.is_broken = self.is_broken or self._end + size > MAX_MESSAGE_SIZE

    def _over_field(self, kind: Kind) -> Generator[None, None, None]:
        if isinstance(kind, Unsigned):
            yield from self._over(kind.size)
        elif isinstance(kind, Guid):
            yield from self._over(16)
        elif isinstance(kind, Providers):
            count = yield from self._count()
            self._require_room(count * SMALLEST_PROVIDER)
            for _ in range(count):
                yield from self._over(12)
                yield from self._over(2 * (yield from self._count()))
                yield from self._over(2 * (yield from self._count()))
        else:
            assert isinstance(kind, Text | Bytes)
            width = 2 if isinstance(kind, Text) else 1
            yield from self._over(width * (yield from self._count()))

    def _count(self) -> Generator[None, None, int]:
        start = self._end
        yield from self._over(4)
        return int.from_bytes(self._data[start : start + 4], "little")


def answer_legacy(request: LegacyRequest, dispatcher: Dispatcher, caller: Caller) -> Answer:
    """Perform it, as the command of today that does the same. Raises nothing."""
    today = _today(request)
    if today is None:
        return _packed(0)
    try:
        require_valid(today)
    except Refused as refused:
        return _packed(_value(ErrorReply(hresult=refused.hresult), today))
    answer = dispatcher.answer(today, caller)
    return _packed(_value(answer.reply, today), answer)


def _today(request: LegacyRequest) -> Request[Any] | None:
    """None: there is no such thing any more (a session that the target writes to a file)."""
    if isinstance(request, CollectEventPipeTracing):
        if len(request.providers) > MAX_PROVIDERS:
            return None
        return CollectTracing(providers=request.providers, buffer_mb=request.buffer_mb, format=TraceFormat.NETPERF)
    if isinstance(request, StopEventPipeTracing):
        return StopTracing(session_id=request.session_id)
    if isinstance(request, LegacyGenerateCoreDump):
        return GenerateCoreDump(path=request.path, dump_type=request.dump_type, flags=request.diagnostics)
    if isinstance(request, LegacyAttachProfiler):
        return AttachProfiler(
            timeout_ms=request.timeout_ms, clsid=request.clsid, path=request.path, client_data=request.client_data
        )
    return None


def _value(reply: OkReply | ErrorReply | None, today: Request[Any]) -> int:
    if isinstance(reply, SessionReply):
        return reply.session_id
    if isinstance(reply, ResultReply):
        return reply.hresult
    is_about_session = today.REPLY is SessionReply
    return reply.hresult if isinstance(reply, ErrorReply) and not is_about_session else 0


def _packed(value: int, answer: Answer | None = None) -> Answer:
    answer = answer or Answer()
    data = LegacyReply(value=value).pack()
    return Answer(reply=answer.reply, data=data, session=answer.session, after=answer.after)
