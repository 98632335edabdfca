"""What one runtime says of itself."""

from __future__ import annotations

from dataclasses import asdict

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
