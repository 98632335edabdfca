"""All events of a file counted first: by type, or to have memory for all columns in one piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.arena import Arena, Lent
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.group import EventRun, Form, Group
from dotnetdiag.nettrace.kernel_types import BLOCK
from dotnetdiag.nettrace.parallel import Executor, in_order
from dotnetdiag.nettrace.translation import Tables

Release: TypeAlias = Callable[[int, int], None]

SHARE_BYTES = 8 << 20
"""Bytes of blocks that one call of an executor counts."""
GROUP_BYTES, SHARED_GROUP_BYTES = 32 << 20, 16 << 20
"""Of a whole file blocks are decoded together up to about this size: the columns do not stay in the cache anyway. An executor has to get some."""
_SPARE = np.array([1, 1, 2])
"""Of rows, runs and GUIDs: a kernel stops where an event might not fit, before it looks at it."""


class Whole:
    """Memory for all events of a file, given out group by group in file order."""

    def __init__(self, data: memoryview, runs: Sequence[EventRun], form: Form, executor: Executor | None) -> None:
        blocks, _ = _count(data, runs, form, executor, 0)
        counts = np.stack([blocks["rows"], blocks["runs"], blocks["guids"]], axis=1)
        self._ends = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(counts, axis=0)])
        self._arena = Arena(*(self._ends[-1] + _SPARE).tolist())
        self._block = 0
        self.group_bytes = SHARED_GROUP_BYTES if executor else GROUP_BYTES

    def window(self, blocks: int) -> Lent:
        """That of the next blocks."""
        before, self._block = self._block, self._block + blocks
        ends = self._ends[self._block] + _SPARE
        return self._arena.lend(*zip(self._ends[before].tolist(), ends.tolist(), strict=True))

    @property
    def headers(self) -> HeaderColumns:
        """All of them."""
        return self._arena.lend().first(int(self._ends[-1][0]))


def count_by_type(
    data: memoryview, runs: Sequence[EventRun], form: Form, executor: Executor | None, release: Release | None = None
) -> npt.NDArray[np.int64] | None:
    """(events, payload bytes) for each metadata id in the order of their definitions, from 1 on, of compressed blocks that
    share one map of them; None when some events have an undefined one. ``release`` is told (start, end) of bytes that were looked at.
    """
    snapshot = runs[-1].translation.metadata
    blocks, tally = _count(data, runs, form, executor, 1 + (snapshot.defined if snapshot else 0), release)
    return None if blocks["unknown_metadata"].any() else tally


def _count(
    data: memoryview,
    runs: Sequence[EventRun],
    form: Form,
    executor: Executor | None,
    columns: int,
    release: Release | None = None,
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64]]:
    assert kernels.KERNELS is not None
    compiled, (starts, ends) = kernels.KERNELS, Group(list(runs)).bounds(0)
    blocks = np.zeros(len(starts), BLOCK)
    tables = Tables.of([(len(run), run.translation) for run in runs])

    def share(bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        tally = np.zeros((2, columns), np.int64)
        v6 = form is Form.COMPRESSED_V6
        fits = compiled.count(data, starts, ends, *bounds, v6, blocks, tables.meanings, tables.metadata, tally)
        assert fits, "arrays that do not fit each other"
        return tally

    total = np.zeros((2, columns), np.int64)
    for (first, last), tally in in_order(_shares(ends - starts), share, executor):
        total += tally
        if release is not None:
            release(int(starts[first]), int(ends[last - 1]))
    return blocks, total


def _shares(sizes: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Contiguous ranges of about equal weight."""
    total = np.cumsum(sizes + 1)
    if not len(total):
        return []
    marks = np.searchsorted(total, np.arange(SHARE_BYTES, int(total[-1]), SHARE_BYTES)) + 1
    edges = sorted({0, *marks.tolist(), len(total)})
    return list(pairwise(edges))
