"""What a runtime that is suspended at startup waits for, and what may be done to it meanwhile."""

from __future__ import annotations

from dotnetdiag.ipc import process
from dotnetdiag.ipc.operations.steps import Operation, send


def resume() -> Operation[None]:
    """Let a runtime that is suspended at startup run."""
    return (yield from send(process.ResumeRuntime()))


def disable_perf_map() -> Operation[None]:
    """Stop writing the perf map."""
    return (yield from send(process.DisablePerfMap()))


def apply_startup_hook(path: str) -> Operation[None]:
    """Run a startup hook. The caller has looked at the file: one that cannot be used kills .NET 9 and 10 (§21.1)."""
    return (yield from send(process.ApplyStartupHook(path=path), slow=True))
