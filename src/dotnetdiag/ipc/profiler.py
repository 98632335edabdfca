"""The Profiler command set: attach to a running runtime, or register one for startup (ipc-protocol.md §5.7)."""

from __future__ import annotations

from uuid import UUID

from dotnetdiag.errors import RequestRefused
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.fields import BYTES, GUID, TEXT, U32, Field, text_problem
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.replies import ResultReply


class AttachProfiler(Request[ResultReply], command=Command.AttachProfiler):
    """``0x0301``: ``u32 timeout · GUID · string path · u32 length · bytes``.

    The timeout is in milliseconds, as the runtime takes it (the C# client sends seconds, §18 no. 13).
    """

    FIELDS = (
        Field("timeout_ms", "attachTimeout", U32),
        Field("clsid", "clsid", GUID),
        Field("path", "profilerPath", TEXT),
        Field("client_data", "clientData", BYTES),
    )

    timeout_ms: int
    clsid: UUID
    path: str | None
    client_data: bytes = b""

    def invalid(self) -> str:
        if self.trailing:
            return "bytes behind the client data are refused by runtimes"
        return Request.invalid(self)

    def refusal(self) -> RequestRefused | None:
        return _path_refusal(self, self.path)


class StartupProfiler(Request[ResultReply], command=Command.StartupProfiler):
    """``0x0302``: ``GUID · string path``. Means something only while the runtime is suspended at startup."""

    FIELDS = (Field("clsid", "clsid", GUID), Field("path", "profilerPath", TEXT))

    clsid: UUID
    path: str | None

    def refusal(self) -> RequestRefused | None:
        return _path_refusal(self, self.path)


def _path_refusal(request: Request[ResultReply], path: str | None) -> RequestRefused | None:
    problem = text_problem(path)
    return request.refuse(f"the profiler's path {problem}") if problem else None
