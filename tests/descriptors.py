"""The descriptors that this process has open."""

from __future__ import annotations

import gc
import os
from contextlib import suppress


def descriptors() -> int:
    """Without those that only garbage holds: what earlier tests left is not this one's leak."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def open_files() -> set[tuple[str, str]]:
    """Number and file of each; a socket's name is its own. Without those that only garbage holds."""
    gc.collect()
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found
