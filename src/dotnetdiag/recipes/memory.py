"""How much memory there is, and what a process has of it: what Linux says; None elsewhere."""

from __future__ import annotations

import os

_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Of a container, as it sees them itself: what it may have and what it has, of the second and of the first version of control groups."""


def resident_bytes(pid: int) -> int | None:
    """What a process has in memory."""
    words = _text(f"/proc/{pid}/statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 and words[1].isdecimal() else None


def available_bytes() -> int | None:
    """What this process could still have, without another that loses it."""
    lines = (line.split() for line in _text("/proc/meminfo").splitlines())
    found = [
        int(words[1]) << 10 for words in lines if words[:1] == ["MemAvailable:"] and words[1:2] and words[1].isdecimal()
    ]
    for limit, used in _LIMITS:
        both = _text(limit).strip(), _text(used).strip()
        if all(one.isdecimal() for one in both):
            found.append(int(both[0]) - int(both[1]))
    return max(min(found), 0) if found else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
