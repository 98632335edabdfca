"""Memory for large arrays, used again when nobody holds the last one made of it.

The first touch of a fresh page costs more than the work on it here, and the allocator gives large blocks back to the
system at once. So a few of them are kept, 64 MB at most for the process; a block counts as free again when no array
made of it is referred to any more. Small arrays come from numpy as ever.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "np.ndarray[Any, Any]"

LEAST_BYTES = 1 << 17
MOST_BYTES = 64 << 20

_BLOCKS: dict[int, list[Array]] = {}
"""By size; in each list those that were handed out last stand last."""


def _round(size: int) -> int:
    """Up to the next quarter of a power of two: few sizes, at most a quarter of them unused."""
    step = 1 << max(size.bit_length() - 3, 12)
    return -(-size // step) * step


def empty(count: int, kind: npt.DTypeLike) -> Array:
    """An array of ``count`` items that hold anything, as ``numpy.empty`` gives it."""
    dtype = np.dtype(kind)
    size = count * dtype.itemsize
    if size < LEAST_BYTES:
        return np.empty(count, dtype)
    wanted = _round(size)
    blocks = _BLOCKS.setdefault(wanted, [])
    busy: list[Array] = []
    found: Array | None = None
    while found is None:
        try:
            block = blocks.pop()
        except IndexError:  # all looked at; or another thread looks at them now, and this one gets a new block
            break
        if sys.getrefcount(block) == 2:  # the local name, and the argument of this call
            found = block
        else:
            busy.append(block)
    made = np.empty(wanted, np.uint8) if found is None else found
    view = made[:size].view(dtype)
    busy.reverse()
    blocks += busy
    blocks.append(made)
    if found is None and sum(size * len(kept) for size, kept in list(_BLOCKS.items())) > MOST_BYTES:
        _BLOCKS.clear()
    return view
