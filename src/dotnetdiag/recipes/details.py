"""What one runtime says of itself."""

from __future__ import annotations

import os
from dataclasses import asdict
from uuid import UUID

from dotnetdiag.client import Client
from dotnetdiag.transport.diagnosis import Finding, diagnose


def process_details(pid: int) -> dict[str, str]:
    """The fields of ProcessInfo, by name."""
    return {name: str(value) for name, value in asdict(Client(pid).process_info()).items()}


def process_environment(pid: int) -> dict[str, str]:
    """The environment as the runtime sees it."""
    return Client(pid).environment()


def set_variables(pid: int, assignments: tuple[str, ...]) -> None:
    """``NAME=VALUE`` sets, ``NAME`` alone removes."""
    client = Client(pid)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        client.set_environment_variable(name, value if equals else None)


def resume_process(pid: int) -> None:
    """Let it run."""
    Client(pid).resume()


def apply_hook(pid: int, path: str) -> None:
    """Run a startup hook."""
    Client(pid).apply_startup_hook(path)


def examine(pid: int) -> tuple[Finding, ...]:
    """What the operating system tells about attaching to a process."""
    return diagnose(pid)


def enable_perf_map(pid: int, kind: str) -> None:
    """``kind`` is All, JitDump or PerfMap."""
    Client(pid).enable_perf_map({"all": 1, "jitdump": 2, "perfmap": 3}[kind.lower()])


def disable_perf_map(pid: int) -> None:
    """Stop writing the perf map."""
    Client(pid).disable_perf_map()


def attach_profiler(pid: int, clsid: UUID, path: str, data: str) -> None:
    """``data`` is sent as UTF-8."""
    Client(pid).attach_profiler(clsid, path, data.encode())


def startup_profiler(pid: int, clsid: UUID, path: str) -> None:
    """Register a profiler with a suspended runtime."""
    Client(pid).startup_profiler(clsid, path)


def write_dump(pid: int, path: str, kind: str) -> str:
    """``kind`` is Full, Heap, Mini or Triage. Returns the absolute path that was named to the target."""
    Client(pid).write_dump(path, {"mini": 1, "heap": 2, "triage": 3, "full": 4}[kind.lower()])
    return os.path.abspath(path)
