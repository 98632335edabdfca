"""What Linux says of memory."""

from __future__ import annotations

import os
import sys

import pytest

from dotnetdiag.recipes import memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


@linux
def test_a_process_has_some_of_what_there_is() -> None:
    there, room = memory.resident_bytes(os.getpid()), memory.available_bytes()
    assert there is not None
    assert room is not None
    assert 1 << 20 < there < 1 << 40
    assert 0 < room < 1 << 50


def test_nobody_has_nothing() -> None:
    assert memory.resident_bytes(1 << 30) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4 kB\n"}, 4096),
        ({"/proc/meminfo": "MemAvailable: 4 kB\n", "max": "3000\n", "current": "1000\n"}, 2000),
        ({"/proc/meminfo": "MemAvailable: 4 kB\n", "max": "max\n", "current": "1000\n"}, 4096),
        ({"/proc/meminfo": "MemAvailable: 4 kB\n", "max": "1000\n", "current": "3000\n"}, 0),
        ({"/proc/meminfo": "\n"}, None),
        ({"/proc/meminfo": "MemAvailable:\n"}, None),
        ({"/proc/meminfo": "MemAvailable: lots kB\n"}, None),
        ({}, None),
    ],
)
def test_a_container_has_no_more_than_it_may(
    files: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, used = memory._LIMITS[0]
    given = {limit: files.get("max", ""), used: files.get("current", "")}
    monkeypatch.setattr(memory, "_text", lambda path: given.get(path, files.get(path, "")))
    assert memory.available_bytes() == expected
