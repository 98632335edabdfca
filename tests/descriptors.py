"""How many descriptors this process has open."""

from __future__ import annotations

import gc
import os


def descriptors() -> int:
    """Without those that only garbage holds: what earlier tests left is not this one's leak."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
