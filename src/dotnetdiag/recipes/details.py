"""What one runtime says of itself."""

from __future__ import annotations

from dataclasses import asdict

from dotnetdiag.client import Client


def process_details(pid: int) -> dict[str, str]:
    """The fields of ProcessInfo, by name."""
    return {name: str(value) for name, value in asdict(Client(pid).process_info()).items()}


def process_environment(pid: int) -> dict[str, str]:
    """The environment as the runtime sees it."""
    return Client(pid).environment()
