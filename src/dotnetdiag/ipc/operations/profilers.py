"""Native profilers: attached while a runtime runs, or registered before it starts."""

from __future__ import annotations

from uuid import UUID

from dotnetdiag.ipc import profiler
from dotnetdiag.ipc.exchange import Operation, ask


def attach_profiler(clsid: UUID, path: str, client_data: bytes, timeout_ms: int) -> Operation[None]:
    """Attach a profiler to a running runtime; its callbacks have run when this returns."""
    request = profiler.AttachProfiler(timeout_ms=timeout_ms, clsid=clsid, path=path, client_data=client_data)
    yield from ask(request, slow=True)


def startup_profiler(clsid: UUID, path: str) -> Operation[None]:
    """Register a profiler with a runtime that is suspended at startup."""
    yield from ask(profiler.StartupProfiler(clsid=clsid, path=path))
