"""The real runtimes that tests talk to: those of ../shared/dotnet, unpacked once into a cache folder outside of the checkout,
and every other that this machine has (``DOTNET_ROOT``, ``dotnet`` on PATH, the one from PyPI).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from tests.shared import shared_part, skip_without

from dotnetdiag.errors import ConnectFailed
from dotnetdiag.recipes.runtimes import find_hosts
from dotnetdiag.transport import Deadline, candidates, connect

CACHE = Path(os.environ.get("DOTNETDIAG_RUNTIMES") or Path.home() / ".cache" / "dotnetdiag" / "dotnet")
REQUIRED = ("3.1", "8", "9", "10", "NativeAOT")
"""With CI=true and ../shared at hand, fewer than these are a failure."""
DEMO = "demo"
"""The argument that stands for the program of `dotnetdiag demo`, which is there without ../shared too."""
SILENCE_S = 60.0
"""How long a workload may take to say a line that a test waits for."""
_VERSIONS = {"8": "8.0.33", "9": "9.0.22", "10": "10.0.14"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A workload process. ``runtime`` is a name of :func:`names`."""

    runtime: str
    pid: int
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def kind(self) -> str:
        """``3.1``, ``NativeAOT``, or the major version of a CoreCLR."""
        return self.runtime if self.runtime == "NativeAOT" else major(self.runtime)

    def say(self, line: str = "") -> None:
        """A line for its stdin (``wait=stdin``, ``linger=stdin``)."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def expect(self, start: str) -> str:
        """The next line of its output that begins so. A workload that says nothing for a minute is killed."""
        assert self.process.stdout is not None
        limit = threading.Timer(SILENCE_S, self.process.kill)
        limit.start()
        try:
            for line in self.process.stdout:
                text: str = line.decode().rstrip()
                if text.startswith(start):
                    return text
        finally:
            limit.cancel()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        raise AssertionError(f"the workload ended without a line {start!r}")


def major(runtime: str) -> str:
    """``3.1`` or ``8`` of ``3.1.23 (dotnetcore2)``."""
    parts = runtime.partition(" ")[0].split(".")
    return ".".join(parts[:2]) if parts[0] in ("2", "3") else parts[0]


def unpack() -> Path:
    """The cache folder, filled; a test that asks without ../shared is skipped. Idempotent, one process at a time."""
    packed = shared_part("dotnet")
    if packed is None:
        skip_without("the workload on real runtimes")
    return _unpacked(packed)


@cache
def _unpacked(packed: Path) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["bash", str(packed / "unpack"), str(CACHE)], check=True, timeout=300)
    return CACHE


def available() -> bool:
    """Whether the runtimes of ../shared are here, and with them the workload."""
    return shared_part("dotnet") is not None


@cache
def _found() -> dict[str, tuple[str, str]]:
    """Runtimes beside the required ones: name → (host, version)."""
    ours = CACHE / "dotnet"
    return {
        f"{host.version} ({host.source})": (str(host.path), host.version)
        for host in find_hosts()
        if ours not in host.path.parents
    }


def demo_runtimes() -> tuple[str, ...]:
    """Where the program of `dotnetdiag demo` is started in tests: what this machine has, and a new runtime."""
    return (*(("10",) if available() else ()), *_found())


def names() -> tuple[str, ...]:
    """All runtimes that tests run on here."""
    return (*(REQUIRED if available() else ()), *_found())


def command(runtime: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """How the workload (or ``DEMO``) is started on a runtime, and the environment that it takes."""
    if runtime in REQUIRED:
        folder = unpack()
        host, root = str(folder / "dotnet" / "dotnet"), str(folder / "dotnet")
    else:
        host = _found()[runtime][0]
        root = str(Path(host).parent)
    environment = {"DOTNET_ROOT": root, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    if runtime == "NativeAOT":
        return [str(folder / "workload" / "nativeaot" / "workload-aot"), *arguments], environment
    chosen = [host]
    if runtime in _VERSIONS:
        chosen += ["--fx-version", _VERSIONS[runtime]]
    if not available() or arguments == (DEMO,):  # this program does one thing, whatever it is told
        return [*chosen, str(files("dotnetdiag.recipes") / "demo" / "demo.dll"), *arguments], environment
    program = "netcoreapp3.1" if major(runtime) in ("2.1", "3.1") else "net8"
    return [*chosen, str(unpack() / "workload" / program / "workload.dll"), *arguments], environment


def _answers(pid: int) -> bool:
    """Not only a socket with its number, which an earlier process may have left."""
    for endpoint in candidates(pid):
        try:
            connect(endpoint.address, Deadline(5)).close()
        except ConnectFailed:
            continue
        return True
    return False


@contextmanager
def workload(runtime: str, *arguments: str, suspended: bool = False, **environment: str) -> Iterator[Target]:
    """Start the workload on a runtime; it is killed at the end. Waits for its line ``ready``; suspended: for its socket."""
    words, own = command(runtime, *arguments)
    if suspended:
        own["DOTNET_DefaultDiagnosticPortSuspend"] = "1"
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env={**os.environ, **own, **environment}
    )
    try:
        assert process.stdout is not None
        if suspended:
            ends = time.monotonic() + 30
            while not _answers(process.pid):
                assert process.poll() is None
                assert time.monotonic() < ends, "no socket within 30 s"
                time.sleep(0.01)
        else:
            assert process.stdout.readline().startswith(b"ready")
        yield Target(runtime=runtime, pid=process.pid, process=process)
    finally:
        process.kill()
        process.communicate()
