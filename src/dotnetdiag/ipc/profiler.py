"""The Profiler command set: attach to a running runtime, or register one for startup (ipc-protocol.md §5.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_guid, read_text
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachProfiler(Request):
    """``0x0301``: ``u32 timeout · GUID · string path · u32 length · bytes``.

    The timeout is in milliseconds, as the runtime takes it (the C# client sends seconds, §18 no. 13).
    """

    COMMAND: ClassVar[Command] = Command.AttachProfiler
    REPLY: ClassVar[type[OkReply]] = ResultReply

    timeout_ms: int
    clsid: UUID
    path: str | None
    client_data: bytes = b""

    def check(self) -> None:
        self.check_u(32, timeout_ms=self.timeout_ms)
        self.check_text("the profiler path", self.path)
        if self.trailing:
            raise self.refuse("bytes behind the client data are refused by runtimes")

    def _write(self, packer: Packer) -> None:
        packer.u32(self.timeout_ms).raw(self.clsid.bytes_le)
        pack_text(packer, self.path)
        packer.u32(len(self.client_data)).raw(self.client_data)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {
            "timeout_ms": cursor.u32("attachTimeout"),
            "clsid": read_guid(cursor, "clsid"),
            "path": read_text(cursor, "profilerPath"),
            "client_data": cursor.take(cursor.u32("clientDataLength"), "clientData"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupProfiler(Request):
    """``0x0302``: ``GUID · string path``. Means something only while the runtime is suspended at startup."""

    COMMAND: ClassVar[Command] = Command.StartupProfiler
    REPLY: ClassVar[type[OkReply]] = ResultReply

    clsid: UUID
    path: str | None

    def check(self) -> None:
        self.check_text("the profiler path", self.path)

    def _write(self, packer: Packer) -> None:
        packer.raw(self.clsid.bytes_le)
        pack_text(packer, self.path)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"clsid": read_guid(cursor, "clsid"), "path": read_text(cursor, "profilerPath")}
