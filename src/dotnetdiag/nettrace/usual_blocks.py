"""Event blocks as they nearly always are, found by a kernel many at a time."""

from __future__ import annotations

import numpy as np

from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.block import BlockRun
from dotnetdiag.nettrace.buffers import descriptor_of
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.container import Container, ContainerKind

_ROOM = 1024
_LARGEST = (1 << 31) - 1
"""A size with the sign bit is damage, and told by the container."""


def find_usual(container: Container, data: memoryview, base: int, opening: bytes) -> BlockRun | None:
    """Those that follow each other from ``container.position`` on, which they move; None where there are none, or no kernels."""
    if kernels.KERNELS is None:
        return None
    rows = np.empty((_ROOM, 4), np.int64)
    numbered = container.kind is ContainerKind.NUMBERED
    limit = _LARGEST if container.limit is None else min(container.limit, _LARGEST)
    found = kernels.KERNELS.frame(
        data, container.position - base, base, numbered, limit, opening, int(BlockKind.EVENT), rows, descriptor_of(data)
    )
    if not found:
        return None
    container.position = int(rows[found - 1, 1] + rows[found - 1, 2]) + (not numbered)
    return BlockRun(rows[:found].copy(), is_numbered=numbered)
