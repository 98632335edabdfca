"""Rows that lie in a file: the same as in memory, whatever of them is read or changed."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dotnetdiag.trace import spilled
from dotnetdiag.trace.spilled import SpilledRows

ROW = np.dtype([("number", "i8"), ("half", "f4"), ("mark", "u1")])
COUNT = 3000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(spilled, "HELD_BYTES", 1000)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 256)
    monkeypatch.setattr(spilled, "_BLOCK_ROWS", 64)
    return tmp_path


def rows(first: int, last: int) -> np.ndarray:
    made = np.zeros(last - first, ROW)
    made["number"] = np.arange(first, last)
    made["half"] = made["number"] / 2
    return made


def filled(step: int) -> SpilledRows:
    made = SpilledRows(ROW)
    for first in range(0, COUNT, step):
        made.append(rows(first, min(first + step, COUNT)))
    return made


@pytest.mark.parametrize("step", [1, 37, 700, COUNT])
def test_what_is_read_is_what_was_appended(step: int, folder: Path) -> None:
    made = filled(step)
    assert len(made) == COUNT
    assert made.held_bytes <= 1000
    assert list(folder.iterdir()) == []  # it has no name
    for first, last in ((0, COUNT), (0, 0), (5, 6), (COUNT - 1, COUNT), (COUNT, COUNT), (130, 2987)):
        assert np.array_equal(made.read(first, last), rows(first, last))
        assert np.array_equal(made.column("half", first, last), rows(first, last)["half"])
    parts = list(made.slices())
    assert [first for first, _ in parts] == list(range(0, COUNT, 256))
    assert np.array_equal(np.concatenate([part for _, part in parts]), rows(0, COUNT))
    assert sum(len(part) for _, part in made.slices(300)) == 300


def test_rows_are_changed_where_they_lie(folder: Path) -> None:
    made, told = filled(37), rows(0, COUNT)
    places = np.array([0, 1, 63, 64, 1000, 1000, COUNT - 2, COUNT - 1])
    for some, where, which in made.changing(places):
        np.add.at(some["half"], where, which + 1)
    np.add.at(told["half"], places, np.arange(len(places)) + 1)
    assert np.array_equal(made.read(0, COUNT), told)
    assert list(made.changing(places[:0])) == []


def test_a_copy_stays_as_it_was(folder: Path) -> None:
    made = filled(700)
    kept = made.copy()
    for some, where, _ in made.changing(np.arange(COUNT)):
        some["mark"][where] = 1
    made.append(rows(0, 5))
    assert np.array_equal(kept.read(0, COUNT), rows(0, COUNT))
    assert made.column("mark", 0, COUNT).all()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_rows_are_pickled_and_copied(copied: Callable[[SpilledRows], SpilledRows], folder: Path) -> None:
    made = filled(37)
    other = copied(made)
    assert np.array_equal(other.read(0, len(other)), rows(0, COUNT))
    assert other.held_bytes <= 1000
    for some, where, _ in made.changing(np.arange(COUNT)):
        some["mark"][where] = 1
    assert not other.column("mark", 0, COUNT).any()


def test_where_there_is_no_place_it_is_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: SpilledRows, first: int, some: np.ndarray) -> None:
        if first > 500:
            raise OSError(28, "No space left on device")
        really(self, first, some)

    really = SpilledRows._write_at
    monkeypatch.setattr(SpilledRows, "_write_at", full)
    made = filled(37)
    assert made.held_bytes > 1000
    assert np.array_equal(made.read(0, COUNT), rows(0, COUNT))


@pytest.mark.parametrize("writes", [0, 1, 5])
def test_where_what_was_written_cannot_be_changed_it_is_memory(
    writes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, told, left = filled(37), rows(0, COUNT), [writes]
    assert made.held_bytes <= 1000

    def full(self: SpilledRows, first: int, some: np.ndarray) -> None:
        if not left[0]:
            really(self, first, some[: len(some) // 2])  # some of it found a place
            raise OSError(28, "No space left on device")
        left[0] -= 1
        really(self, first, some)

    really = SpilledRows._write_at
    monkeypatch.setattr(SpilledRows, "_write_at", full)
    places = np.sort(np.append(np.arange(0, COUNT, 5), [1000, 1001, COUNT - 1]))
    for again in (1, 2):
        for some, where, which in made.changing(places):
            np.add.at(some["half"], where, which + again)
        np.add.at(told["half"], places, np.arange(len(places)) + again)
        made.append(rows(COUNT, COUNT + 9))
        told = np.append(told, rows(COUNT, COUNT + 9))
        assert np.array_equal(made.read(0, len(made)), told)
    assert made.held_bytes == told.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="what is open is told by /proc")
def test_the_file_is_gone_with_the_rows(folder: Path) -> None:
    def files() -> int:
        found = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        return sum(str(folder) in os.readlink(one) for one in found if one.is_symlink())

    made = filled(700)
    assert files() == 1
    del made
    gc.collect()
    assert files() == 0


def test_rows_are_read_also_where_the_system_reads_from_the_place_of_the_file_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = filled(700)
    monkeypatch.delattr(os, "preadv", raising=False)  # as on other systems
    assert np.array_equal(made.read(0, COUNT), rows(0, COUNT))
