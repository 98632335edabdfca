"""Small OK replies that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dotnetdiag.ipc.messages import OkReply
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReply(OkReply):
    """``int32 hr``, 24 bytes on the wire: dumps, profilers, resume, set-environment, perf map, startup hook."""

    hresult: int = 0

    def _write(self, packer: Packer) -> None:
        packer.u32(self.hresult & 0xFFFFFFFF)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        # A bare OK is allowed as a generic success (§18 no. 17c); no runtime sends one.
        return {"hresult": cursor.u32("hresult") if cursor.left else 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReply(OkReply):
    """``u64 sessionId``, 28 bytes on the wire: CollectTracing*, StopTracing."""

    session_id: int

    def _write(self, packer: Packer) -> None:
        packer.u64(self.session_id)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"session_id": cursor.u64("sessionId")}
