"""Which form of the walk over frames is in use: compiled (``_kernels.pyx``), or Python (``CodeAddresses.addresses``).

``COMPILED`` says it.
"""

from __future__ import annotations

import sys
from types import ModuleType


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.server import _kernels
    except ImportError:
        return None
    return _kernels if sys.byteorder == "little" else None


KERNELS: ModuleType | None = _compiled()
"""The compiled module, or None."""
COMPILED = KERNELS is not None
