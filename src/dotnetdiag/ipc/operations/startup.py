"""What a runtime that is suspended at startup waits for, and what may be done to it meanwhile."""

from __future__ import annotations

from dotnetdiag.ipc import process
from dotnetdiag.ipc.exchange import Operation, ask


def resume() -> Operation[None]:
    """Let a runtime that is suspended at startup run."""
    yield from ask(process.ResumeRuntime())


def apply_startup_hook(path: str) -> Operation[None]:
    """Run a startup hook. The caller has looked at the file: one that cannot be used kills .NET 9 and 10 (§21.1)."""
    yield from ask(process.ApplyStartupHook(path=path), slow=True)
