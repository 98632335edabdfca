"""Which form of the loops over events is in use: compiled (``_kernels.pyx``), or numpy and Python (``fallback.py``).

``COMPILED`` says it.
"""

from __future__ import annotations

import sys
from types import ModuleType

NO_PROBLEM, BROKEN_HEADER, CUT_PAYLOAD, BAD_SIZE = range(4)
"""What can be wrong with an event."""


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.nettrace import _kernels
    except ImportError:
        return None
    return _kernels if sys.byteorder == "little" else None


KERNELS: ModuleType | None = _compiled()
"""The compiled module, or None."""
COMPILED = KERNELS is not None
