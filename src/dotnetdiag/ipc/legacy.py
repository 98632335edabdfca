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

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Self
from uuid import UUID

from dotnetdiag.errors import ProtocolError, RequestRefused
from dotnetdiag.ipc.choices import MAX_PROVIDERS
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE
from dotnetdiag.ipc.messages import pack_text, read_guid, read_text
from dotnetdiag.wire import Cursor, Packer

SOCKET_PREFIX = "dotnetcore-diagnostic-"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRequest:
    """Base of the requests. ``client_pid`` is of who asks."""

    TYPE: ClassVar[RequestType]

    client_pid: int
    trailing: bytes = b""

    def check(self) -> None:
        """Raise RequestRefused for a request that must not be sent."""

    def _write(self, packer: Packer) -> None:
        """Append the body."""

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        """Fields from the body."""
        return {}

    def pack(self) -> bytes:
        """The bytes of the request, checked."""
        if not 0 <= self.client_pid < 1 << 32:
            raise RequestRefused(self.TYPE.name, f"pid {self.client_pid} does not fit 32 bits")
        self.check()
        packer = Packer().u32(self.TYPE).u32(self.client_pid)
        self._write(packer)
        data = bytes(packer) + self.trailing
        if len(data) > MAX_MESSAGE_SIZE:
            raise RequestRefused(self.TYPE.name, f"{len(data)} bytes are more than {MAX_MESSAGE_SIZE}")
        return data

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The request in these bytes. Raises ProtocolError."""
        cursor = Cursor(data, where=cls.TYPE.name, error=ProtocolError)
        found = cursor.u32("request type")
        if found != cls.TYPE:
            raise cursor.fail(f"request type is {found}, not {int(cls.TYPE)}")
        pid = cursor.u32("pid")
        values = cls._read(cursor)
        return cls(client_pid=pid, **values, trailing=cursor.rest())


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyGenerateCoreDump(LegacyRequest):
    """``string dumpName · i32 type · i32 diagnostics`` (from 2019-05-06). The low half of the reply is an HRESULT."""

    TYPE: ClassVar[RequestType] = RequestType.GenerateCoreDump

    path: str | None
    dump_type: int
    diagnostics: int = 0

    def check(self) -> None:
        if not self.path:
            raise RequestRefused(self.TYPE.name, "give a path")
        if self.dump_type not in (1, 2, 3, 4):
            raise RequestRefused(
                self.TYPE.name, f"dump type {self.dump_type} is none of 1 Mini, 2 Heap, 3 Triage, 4 Full"
            )
        if self.diagnostics not in (0, 1):
            raise RequestRefused(self.TYPE.name, "diagnostics is 0 or 1")

    def _write(self, packer: Packer) -> None:
        pack_text(packer, self.path)
        packer.u32(self.dump_type).u32(self.diagnostics)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "path": read_text(cursor, "dumpName"),
            "dump_type": cursor.u32("type"),
            "diagnostics": cursor.u32("diagnostics"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracing(LegacyRequest):
    """``u32 circularBufferMB · string outputPath · array<provider>``; a provider is keywords, level, name, arguments."""

    buffer_mb: int
    output_path: str | None
    providers: tuple[Provider, ...]

    def check(self) -> None:
        if not 0 < self.buffer_mb < 1 << 32:
            raise RequestRefused(self.TYPE.name, "give a buffer of at least 1 MB")
        if not 0 < len(self.providers) <= MAX_PROVIDERS:
            raise RequestRefused(self.TYPE.name, f"a session has 1 to {MAX_PROVIDERS} providers")
        for one in self.providers:
            if not one.name or "\0" in one.name or not 0 <= one.keywords < 1 << 64 or not 0 <= one.level <= 5:
                raise RequestRefused(
                    self.TYPE.name, f"provider {one.name!r} has no name, or keywords or level out of range"
                )
            if one.event_filter is not None or one.tracepoints is not None:
                raise RequestRefused(self.TYPE.name, f"{one.name}: event filters and tracepoints came years later")

    def _write(self, packer: Packer) -> None:
        packer.u32(self.buffer_mb)
        pack_text(packer, self.output_path)
        packer.u32(len(self.providers))
        for one in self.providers:
            packer.u64(one.keywords).u32(one.level)
            pack_text(packer, one.name)
            pack_text(packer, one.arguments)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        buffer_mb, path = cursor.u32("circularBufferMB"), read_text(cursor, "outputPath")
        count = cursor.u32("provider count")
        if count * 20 > cursor.left:
            raise cursor.fail(f"{count} providers need more than the {cursor.left} bytes left")
        providers = []
        for _ in range(count):
            keywords, level = cursor.u64("keywords"), cursor.u32("level")
            name, arguments = read_text(cursor, "provider name"), read_text(cursor, "arguments")
            providers.append(Provider(name=name or "", keywords=keywords, level=level, arguments=arguments))
        return {"buffer_mb": buffer_mb, "output_path": path, "providers": tuple(providers)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEventPipeTracing(_Tracing):
    """To a file of the target. The reply is the session id."""

    TYPE: ClassVar[RequestType] = RequestType.StartEventPipeTracing


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectEventPipeTracing(_Tracing):
    """As a stream: after the session id come NetPerf bytes to the end of the connection."""

    TYPE: ClassVar[RequestType] = RequestType.CollectEventPipeTracing


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEventPipeTracing(LegacyRequest):
    """``u64 sessionId``, which is also the reply."""

    TYPE: ClassVar[RequestType] = RequestType.StopEventPipeTracing

    session_id: int

    def check(self) -> None:
        if not 0 <= self.session_id < 1 << 64:
            raise RequestRefused(self.TYPE.name, f"session {self.session_id} does not fit 64 bits")

    def _write(self, packer: Packer) -> None:
        packer.u64(self.session_id)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"session_id": cursor.u64("sessionId")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyAttachProfiler(LegacyRequest):
    """``u32 timeoutMs · GUID · string path · u32 length · bytes``. The low half of the reply is an HRESULT."""

    TYPE: ClassVar[RequestType] = RequestType.AttachProfiler

    timeout_ms: int
    clsid: UUID
    path: str | None
    client_data: bytes = b""

    def check(self) -> None:
        if not self.path:
            raise RequestRefused(self.TYPE.name, "give the profiler's path")
        if not 0 <= self.timeout_ms < 1 << 32:
            raise RequestRefused(self.TYPE.name, f"timeout {self.timeout_ms} ms does not fit 32 bits")

    def _write(self, packer: Packer) -> None:
        packer.u32(self.timeout_ms).raw(self.clsid.bytes_le)
        pack_text(packer, self.path)
        packer.u32(len(self.client_data)).raw(self.client_data)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "timeout_ms": cursor.u32("timeoutMs"),
            "clsid": read_guid(cursor, "clsid"),
            "path": read_text(cursor, "path"),
            "client_data": cursor.take(cursor.u32("length"), "client data"),
        }


REQUESTS: dict[RequestType, type[LegacyRequest]] = {
    kind.TYPE: kind
    for kind in (
        LegacyGenerateCoreDump,
        StartEventPipeTracing,
        StopEventPipeTracing,
        CollectEventPipeTracing,
        LegacyAttachProfiler,
    )
}


def parse_legacy_request(data: bytes | memoryview) -> LegacyRequest:
    """The request in these bytes, of whatever type. Raises ProtocolError."""
    cursor = Cursor(data, where="legacy request", error=ProtocolError)
    found = cursor.u32("request type")
    if found not in set(RequestType):
        raise cursor.fail(f"request type {found} is not known")
    return REQUESTS[RequestType(found)].parse(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyReply:
    """Eight bytes: a session id, or an HRESULT in the low half."""

    value: int
    trailing: bytes = b""

    @property
    def hresult(self) -> int:
        """Of GenerateCoreDump and AttachProfiler."""
        return self.value & 0xFFFFFFFF

    def pack(self) -> bytes:
        """The bytes of the reply."""
        return bytes(Packer().u64(self.value)) + self.trailing

    @classmethod
    def parse(cls, data: bytes | memoryview) -> LegacyReply:
        """Raises ProtocolError for fewer than 8 bytes."""
        cursor = Cursor(data, where="legacy reply", error=ProtocolError)
        return cls(value=cursor.u64("reply"), trailing=cursor.rest())
