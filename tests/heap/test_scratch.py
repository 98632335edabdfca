"""Columns that lie in files: the same numbers, and memory where a disk has no place."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dotnetdiag.heap import pages as heap_pages
from dotnetdiag.heap import scratch
from dotnetdiag.heap.compiled import compiled
from dotnetdiag.heap.growing import Growing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="columns are moved where the system can")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(scratch, "SCRATCH_BYTES", 1 << 17)
    return tmp_path


def files_mapped(folder: Path) -> int:
    return sum(
        str(folder) in line
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    )


def test_a_column_that_grows_moves_into_a_file_and_back(folder: Path) -> None:
    column, told = Growing(np.uint64), np.arange(100_000, dtype=np.uint64)
    for first in range(0, len(told), 1000):
        column.extend(told[first : first + 1000])
    assert files_mapped(folder) == 1
    assert list(folder.iterdir()) == []  # it has no name
    assert np.array_equal(column.rows, told)
    assert np.array_equal(column.taken(), told)
    assert files_mapped(folder) == 0


def test_a_column_of_a_size_lies_in_a_file_and_can_be_written_to(folder: Path) -> None:
    assert scratch.empty(10, np.uint32).flags.owndata
    column = scratch.empty(1 << 16, np.uint32)
    column[:] = 7
    assert files_mapped(folder) == 1
    assert int(column.sum()) == 7 << 16
    del column
    assert files_mapped(folder) == 0


@pytest.mark.parametrize("reserved", [0, 3])
def test_where_there_is_no_place_it_is_memory(reserved: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, really = [reserved], scratch._reserved

    def full_after_some(file: FileIO, before: int, size: int) -> bool:
        left[0] -= 1
        return left[0] >= 0 and really(file, before, size)

    monkeypatch.setattr(scratch, "_reserved", full_after_some)
    column, told = Growing(np.uint64), np.arange(300_000, dtype=np.uint64)
    for first in range(0, len(told), 1000):
        column.extend(told[first : first + 1000])
    assert files_mapped(folder) == 0
    assert np.array_equal(column.rows, told)


class Refusing(mmap.mmap):
    """Of a kernel without large pages, or without pages that are had at hand."""

    def madvise(self, *_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


def test_what_the_system_does_not_know_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_pages, "compiled", lambda: None)
    monkeypatch.setattr(
        scratch, "_memory", lambda size: Refusing(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    )
    column, told = Growing(np.uint64), np.arange(1_000_000, dtype=np.uint64)
    assert not column.have_ready(0, 1_000_000)
    column.extend(told)
    assert np.array_equal(column.taken(), told)


@pytest.mark.parametrize("loops", [compiled, lambda: None], ids=["compiled", "plain"])
def test_pages_at_hand_keep_what_is_in_them_and_cut_ones_are_told(
    loops: Callable[[], ModuleType | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(heap_pages, "compiled", loops)
    size = 4 * mmap.PAGESIZE
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    with path.open("r+b") as file:
        told, memory = path.read_bytes(), mmap.mmap(file.fileno(), size)
        at_hand = heap_pages.have_ready(memory, 10, size + 1)
        assert bytes(memory) == told
        assert not heap_pages.have_ready(memory, size, 2 * size)
        file.truncate(mmap.PAGESIZE)
        assert not heap_pages.have_ready(memory, 0, size)
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14):
        assert at_hand


def test_rows_are_reserved_and_had_at_hand_and_hold_what_comes() -> None:
    column, told = Growing(np.uint32), np.arange(100_000, dtype=np.uint32)
    column.extend(told[:10])
    column.reserve(5)
    column.have_ready(0, 60_000)
    column.have_ready(60_000, 200_000)
    column.extend(told[10:])
    assert np.array_equal(column.taken(), told)
