"""Of a mapped file the blocks are found by reads of few places: the same blocks, and the descriptor goes with the mapping."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL

from dotnetdiag.nettrace import Scan, scan
from dotnetdiag.nettrace.buffers import MappedFile, descriptor_of
from dotnetdiag.recipes.trace_files import open_trace


@contextmanager
def mapped(data: bytes, folder: Path) -> Iterator[memoryview]:
    path = folder / "recording"
    path.write_bytes(data)
    with path.open("rb") as file:
        made = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
    made.opening = partial(os.open, path, os.O_RDONLY)
    yield memoryview(made)


def found(scanned: Scan) -> tuple[object, ...]:
    return scanned.blocks, scanned.complete, scanned.damage, scanned.format


@pytest.mark.parametrize("name", recordings())
def test_a_recording_has_the_same_blocks(name: str, tmp_path: Path) -> None:
    data = data_of(name)
    with mapped(data, tmp_path) as view:
        assert descriptor_of(view) >= 0
        assert found(scan(view)) == found(scan(data))


@pytest.mark.parametrize("name", SMALL)
def test_a_recording_that_is_cut_or_damaged_has_the_same_blocks(name: str, tmp_path: Path) -> None:
    data = SMALL[name]
    chance = np.random.default_rng(7)
    for at in {*range(1, len(data), 97), len(data) - 1}:
        broken = bytearray(data)
        broken[int(chance.integers(0, len(data)))] ^= int(chance.integers(1, 256))
        for some in (data[:at], bytes(broken)):
            with mapped(some, tmp_path) as view:
                assert found(scan(view)) == found(scan(some)), at


def test_parts_of_a_mapping_have_no_descriptor(tmp_path: Path) -> None:
    with mapped(b"12345678", tmp_path) as view:
        assert descriptor_of(view) >= 0
        assert [descriptor_of(some) for some in (view[1:], view[:-1], memoryview(bytes(view)))] == [-1] * 3


def test_the_descriptor_is_closed_when_the_file_was_looked_through_or_goes(tmp_path: Path) -> None:
    data = next(iter(SMALL.values()))
    with mapped(data, tmp_path) as view:
        before = len(os.listdir("/proc/self/fd"))
        scanned = scan(view)
        assert len(os.listdir("/proc/self/fd")) == before
        assert descriptor_of(view) == -1
    del view, scanned
    with mapped(data, tmp_path) as view:
        descriptor = descriptor_of(view)
        assert os.fstat(descriptor).st_size == len(data)
    del view
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("becomes", ["gone", "other", "empty"])
def test_a_file_that_is_another_by_then_is_done_without(becomes: str, tmp_path: Path) -> None:
    data = next(iter(SMALL.values()))
    path = tmp_path / "recording"
    path.write_bytes(data)
    trace = open_trace(path)
    path.unlink()
    if becomes != "gone":
        path.write_bytes(b"" if becomes == "empty" else data[:50] + bytes(len(data) - 50))
    assert trace.raw.source.scan.blocks == scan(data).blocks
