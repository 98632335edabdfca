"""Which form of receiving many bytes is in use: compiled (``_kernels.pyx``), or a call for each of the system's pieces (``sockets.fill_into``).

``COMPILED`` says it.
"""

from __future__ import annotations

from types import ModuleType


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.transport import _kernels
    except ImportError:
        return None
    module: ModuleType = _kernels
    return module


KERNELS: ModuleType | None = _compiled()
"""The compiled module, or None."""
COMPILED = KERNELS is not None
