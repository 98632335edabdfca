"""Which form of the loops over events is in use: compiled, or numpy and plain Python.

``COMPILED`` says it. Callers use :func:`dotnetdiag.nettrace.decode` and the writer, never the kernels themselves.
"""

from __future__ import annotations

from types import ModuleType

# columns of the table that `count` and `fill` fill
ROWS, RUNS, GUIDS, STOP, PROBLEM, UNDEFINED, DETAIL, UNRESOLVED = range(8)
TABLE_WIDTH = 10
PLACES_WIDTH = 15
STATE_WIDTH = 18
FRAME_WIDTH = 4

NO_PROBLEM, BROKEN_HEADER, CUT_PAYLOAD, BAD_SIZE = range(4)


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.nettrace import _kernels
    except ImportError:  # neither compiled nor Cython at hand
        return None
    return _kernels if _kernels.compiled else None


KERNELS: ModuleType | None = _compiled()
"""The compiled module, or None."""
COMPILED = KERNELS is not None
