"""Memory that is used again is never memory that somebody holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dotnetdiag.events import memory

LARGE = memory.LEAST_BYTES


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    memory._BLOCKS.clear()
    yield
    memory._BLOCKS.clear()


def address(array: memory.Array) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_nobody_holds_it() -> None:
    first = memory.empty(LARGE + 100, np.uint8)
    where = address(first)
    del first
    assert address(memory.empty(LARGE + 5, np.uint8)) == where


def test_memory_of_which_a_part_is_held_is_left_alone() -> None:
    first = memory.empty(LARGE, np.int64)
    first[:] = 7
    part = first[10:20].view(np.uint8)
    del first
    for _ in range(5):
        memory.empty(LARGE, np.int64)[:] = 9
    assert part.view(np.int64).tolist() == [7] * 10


def test_small_arrays_are_ordinary_and_what_is_kept_is_bounded() -> None:
    assert memory.empty(10, np.uint16).base is None
    held = [memory.empty(memory.MOST_BYTES // 4, np.uint8) for _ in range(9)]
    assert len({address(array) for array in held}) == 9
    assert sum(len(block) for blocks in memory._BLOCKS.values() for block in blocks) <= memory.MOST_BYTES
    assert [len(memory.empty(count, np.uint32)) for count in (0, 1, 40_000, 1 << 20)] == [0, 1, 40_000, 1 << 20]
