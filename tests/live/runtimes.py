"""The real runtimes that tests talk to: unpacked once into a cache folder outside of the checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "dotnet"
CACHE = Path(os.environ.get("DOTNETDIAG_RUNTIMES") or Path.home() / ".cache" / "dotnetdiag" / "dotnet")
NAMES = ("3.1", "8", "9", "10", "NativeAOT")
_VERSIONS = {"8": "8.0.33", "9": "9.0.22", "10": "10.0.14"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A workload process that says it is ready."""

    runtime: str
    pid: int
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


def unpack() -> Path:
    """The cache folder, filled. Idempotent."""
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["bash", str(SHARED / "unpack"), str(CACHE)], check=True, timeout=300)
    return CACHE


def available() -> bool:
    return (SHARED / "unpack").exists()


@contextmanager
def workload(runtime: str, *arguments: str, **environment: str) -> Iterator[Target]:
    """Start the workload on a runtime; it is killed at the end. Waits for its line ``ready PID`` unless suspended."""
    folder = unpack()
    dotnet = str(folder / "dotnet" / "dotnet")
    commands = {
        "3.1": [dotnet, str(folder / "workload" / "netcoreapp3.1" / "workload.dll")],
        "NativeAOT": [str(folder / "workload" / "nativeaot" / "workload-aot")],
    }
    fallback = [dotnet, "--fx-version", _VERSIONS.get(runtime, ""), str(folder / "workload" / "net8" / "workload.dll")]
    command = commands.get(runtime, fallback)
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        env={
            **os.environ,
            "DOTNET_ROOT": str(folder / "dotnet"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            **environment,
        },
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        yield Target(runtime=runtime, pid=process.pid, process=process)
    finally:
        process.kill()
        process.communicate()
