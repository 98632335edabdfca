"""One question to a runtime, or one change of it: what the small verbs do."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from dotnetdiag.client import Client


def process_details(client: Client) -> dict[str, str | int]:
    """The fields of ProcessInfo, by name; ``pid`` is the runtime's own."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in asdict(client.process_info()).items()
    }


def set_variables(client: Client, assignments: tuple[str, ...]) -> None:
    """``NAME=VALUE`` sets, ``NAME`` alone removes. All are looked at before the first is sent."""
    pairs = [assignment.partition("=") for assignment in assignments]
    for name, equals, value in pairs:
        client.set_environment_variable(name, value if equals else None)


def enable_perf_map(client: Client, kind: str) -> None:
    """``kind`` is All, JitDump or PerfMap."""
    client.enable_perf_map({"all": 1, "jitdump": 2, "perfmap": 3}[kind.lower()])


def attach_profiler(client: Client, clsid: UUID, path: str, data: str) -> None:
    """``data`` is sent as UTF-8."""
    client.attach_profiler(clsid, path, data.encode())
