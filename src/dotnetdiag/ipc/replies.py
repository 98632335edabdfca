"""Small OK replies that several commands share."""

from __future__ import annotations

from dotnetdiag.ipc.fields import HRESULT, U64, Field
from dotnetdiag.ipc.messages import FAILURE_BIT, OkReply


class ResultReply(OkReply):
    """``int32 hr``, 24 bytes on the wire: dumps, profilers, resume, set-environment, perf map, startup hook."""

    FIELDS = (Field("hresult", "hr", HRESULT),)

    hresult: int = 0

    def failure(self) -> int:
        """The HRESULT when it is one of a failure, otherwise 0."""
        return self.hresult if self.hresult & FAILURE_BIT else 0


class SessionReply(OkReply):
    """``u64 sessionId``, 28 bytes on the wire: CollectTracing*, StopTracing."""

    FIELDS = (Field("session_id", "sessionId", U64),)

    session_id: int
