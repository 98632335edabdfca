"""The compiled loops over heaps, without numpy, which the totals of a file do not need."""

from __future__ import annotations

import sys
from types import ModuleType


def compiled() -> ModuleType | None:
    """They; None where there are none, or numbers do not lie in memory as they do in files."""
    try:
        from dotnetdiag.heap import _kernels
    except ImportError:
        return None
    module: ModuleType = _kernels
    return module if sys.byteorder == "little" else None
