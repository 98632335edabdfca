"""Record a trace of one process into a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dotnetdiag.client import Client
from dotnetdiag.errors import UnsupportedCommand

DEFAULT_PROVIDERS = (
    "Microsoft-Windows-DotNETRuntime:0x100003801D:4,Microsoft-DotNETCore-SampleProfiler:0xF00000000000:4"
)
"""dotnet-common and dotnet-sampled-thread-time, the default of dotnet-trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What to record and where to put it."""

    pid: int
    output: Path
    providers: str = DEFAULT_PROVIDERS
    buffer_mb: int = 256
    duration_s: float | None = None
    resume: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A finished recording."""

    path: Path
    size_bytes: int
    command: str


def collect(options: CollectOptions, progress: Callable[[int], None] | None = None) -> Collected:
    """Start a session, save it for the duration or until Ctrl-C, stop it, drain it. Ctrl-C ends it nicely."""
    client = Client(options.pid)
    with client.trace(options.providers, buffer_mb=options.buffer_mb) as session:
        if options.resume:
            try:
                client.resume()
            except UnsupportedCommand:
                pass  # .NET Core 3.x has nothing to resume
        size = session.save(options.output, duration=options.duration_s, progress=progress)
    return Collected(path=options.output, size_bytes=size, command=session.command)
