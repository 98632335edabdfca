"""The protocol from before V1: .NET Core 3.0 previews 4 and 5, as the proposal of April 2019 and the code of that time have it.

No magic and no header on replies; no released runtime speaks it (ipc-protocol.md §17). The transport is called
``dotnetcore-diagnostic-PID-KEY-socket``. Rule 1: a stream whose first bytes are not ``DOTN`` and whose first u32 is a known type is this
protocol. Rule 2: every reply is one u64; 0 for a session means that there is none.

======  =======  ==============================================
offset  type     field
0       u32 LE   request type
4       u32 LE   pid of the *client*
8       …        body
======  =======  ==============================================
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Self
from uuid import UUID

from dotnetdiag.errors import ProtocolError, RequestRefused, UsageError
from dotnetdiag.ipc.constants import MAX_PROVIDERS
from dotnetdiag.ipc.eventpipe import Provider, Providers
from dotnetdiag.ipc.fields import TEXT, U32, U64, Field, Fields, text_problem
from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE
from dotnetdiag.ipc.messages import payload_of, values_of
from dotnetdiag.ipc.profiler import AttachProfiler
from dotnetdiag.ipc.values import Value
from dotnetdiag.wire import Cursor


class RequestType(IntEnum):
    """The first u32. 1027 and 1028 (attach, detach) were named once and never had a body."""

    GenerateCoreDump = 1
    StartEventPipeTracing = 1024
    StopEventPipeTracing = 1025
    CollectEventPipeTracing = 1026
    AttachProfiler = 2048


def is_legacy(start: bytes) -> bool:
    """Whether a request that begins so is of this protocol; needs 4 bytes."""
    return len(start) >= 4 and int.from_bytes(start[:4], "little") in set(RequestType)


class LegacyRequest(Value):
    """Base of the requests. ``client_pid`` is of who asks."""

    TYPE: ClassVar[RequestType]
    FIELDS: ClassVar[Fields] = ()

    def __init_subclass__(cls, type: RequestType) -> None:
        super().__init_subclass__()
        cls.TYPE = type

    client_pid: int
    trailing: bytes = b""

    def refusal(self) -> str:
        """Why it must not be sent, or ``""``."""
        return ""

    def pack(self) -> bytes:
        """The bytes of the request, checked. Raises RequestRefused."""
        payload, problem = payload_of(self, (Field("client_pid", "pid", U32), *self.FIELDS))
        data = self.TYPE.to_bytes(4, "little") + payload + self.trailing
        if len(data) > MAX_MESSAGE_SIZE:
            problem = f"{len(data)} bytes are more than {MAX_MESSAGE_SIZE}"
        if problem := self.refusal() or problem:
            raise RequestRefused(self.TYPE.name, problem)
        return data

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The request in these bytes. Raises ProtocolError."""
        cursor = Cursor(data, where=cls.TYPE.name, error=ProtocolError)
        found = cursor.u32("request type")
        if found != cls.TYPE:
            raise cursor.fail(f"request type is {found}, not {int(cls.TYPE)}")
        return cls(client_pid=cursor.u32("pid"), **values_of(cursor, cls.FIELDS), trailing=cursor.rest())


class LegacyGenerateCoreDump(LegacyRequest, type=RequestType.GenerateCoreDump):
    """``string dumpName · i32 type · i32 diagnostics`` (from 2019-05-06). The low half of the reply is an HRESULT."""

    FIELDS = (
        Field("path", "dumpName", TEXT),
        Field("dump_type", "type", U32),
        Field("diagnostics", "diagnostics", U32),
    )

    path: str | None
    dump_type: int
    diagnostics: int = 0

    def refusal(self) -> str:
        if problem := text_problem(self.path):
            return f"the path {problem}"
        if self.dump_type not in (1, 2, 3, 4):
            return f"dump type {self.dump_type} is none of 1 Mini, 2 Heap, 3 Triage, 4 Full"
        return "" if self.diagnostics in (0, 1) else "diagnostics is 0 or 1"


class StartEventPipeTracing(LegacyRequest, type=RequestType.StartEventPipeTracing):
    """``u32 circularBufferMB · string outputPath · array<provider>``: to a file of the target. The reply is the session id."""

    FIELDS = (
        Field("buffer_mb", "circularBufferMB", U32),
        Field("output_path", "outputPath", TEXT),
        Field("providers", "provider", Providers()),
    )

    buffer_mb: int
    output_path: str | None
    providers: tuple[Provider, ...]

    def refusal(self) -> str:
        if self.buffer_mb == 0:
            return "give a buffer of at least 1 MB"
        if len(self.providers) > MAX_PROVIDERS:
            return f"a session has 1 to {MAX_PROVIDERS} providers"
        return "" if all("\0" not in (one.name or "") for one in self.providers) else "a provider's name holds a NUL"


class CollectEventPipeTracing(StartEventPipeTracing, type=RequestType.CollectEventPipeTracing):
    """As a stream: after the session id come NetPerf bytes to the end of the connection."""


class StopEventPipeTracing(LegacyRequest, type=RequestType.StopEventPipeTracing):
    """``u64 sessionId``, which is also the reply."""

    FIELDS = (Field("session_id", "sessionId", U64),)

    session_id: int


class LegacyAttachProfiler(LegacyRequest, type=RequestType.AttachProfiler):
    """``u32 timeoutMs · GUID · string path · u32 length · bytes``. The low half of the reply is an HRESULT."""

    FIELDS = AttachProfiler.FIELDS

    timeout_ms: int
    clsid: UUID
    path: str | None
    client_data: bytes = b""

    def refusal(self) -> str:
        problem = text_problem(self.path)
        return f"the profiler's path {problem}" if problem else ""


_TRACING = StartEventPipeTracing, StopEventPipeTracing, CollectEventPipeTracing
REQUESTS: dict[RequestType, type[LegacyRequest]] = {
    kind.TYPE: kind for kind in (LegacyGenerateCoreDump, *_TRACING, LegacyAttachProfiler)
}


def parse_legacy_request(data: bytes | memoryview) -> LegacyRequest:
    """The request in these bytes, of whatever type. Raises ProtocolError."""
    cursor = Cursor(data, where="legacy request", error=ProtocolError)
    found = cursor.u32("request type")
    if found not in set(RequestType):
        raise cursor.fail(f"request type {found} is not known")
    return REQUESTS[RequestType(found)].parse(data)


class LegacyReply(Value):
    """Eight bytes: a session id, or an HRESULT in the low half."""

    value: int
    trailing: bytes = b""

    @property
    def hresult(self) -> int:
        """Of GenerateCoreDump and AttachProfiler."""
        return self.value & 0xFFFFFFFF

    def pack(self) -> bytes:
        """The bytes of the reply. Raises UsageError for a number that does not fit."""
        if problem := U64.problem(self.value):
            raise UsageError(f"LegacyReply: value {problem}")
        return self.value.to_bytes(8, "little") + self.trailing

    @classmethod
    def parse(cls, data: bytes | memoryview) -> LegacyReply:
        """Raises ProtocolError for fewer than 8 bytes."""
        cursor = Cursor(data, where="legacy reply", error=ProtocolError)
        return cls(value=cursor.u64("reply"), trailing=cursor.rest())
