"""What waits in a file is the same when it is read; in memory a part of it waits at most."""

from __future__ import annotations

import io
import mmap
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import kept_events
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.trace import scratch
from dotnetdiag.trace.scratch import MAPPED_ROWS, GrownArray, MappedArrays, Scratch
from dotnetdiag.trace.trace import Trace

ARRAYS = [
    np.arange(5, dtype=np.int32),
    np.arange(12.0).reshape(3, 2, 2),
    np.arange(10)[::2],
    np.zeros(0, np.uint8),
    np.array([True, False]),
]


def test_arrays_are_read_as_they_were() -> None:
    place = Scratch()
    stored = [place.put(one) for one in ARRAYS]
    for _ in range(2):
        for given, one in zip(ARRAYS, stored, strict=True):
            read = one.read()
            assert read.dtype == given.dtype
            assert np.array_equal(read, given)


class Full(io.FileIO):
    """Takes one array."""

    def write(self, data: Any) -> int:
        if self.tell():
            raise OSError(28, "No space left on device")
        return super().write(data)


def no_folder() -> Any:
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize("made", [Full, no_folder])
def test_where_there_is_no_room_they_stay_in_memory(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_unnamed", made if made is no_folder else lambda: made(tmp_path / "x", "w+"))
    place = Scratch()
    stored = [place.put(one) for one in ARRAYS]
    assert all(np.array_equal(one.read(), given) for one, given in zip(stored, ARRAYS, strict=True))


def test_a_file_that_somebody_cut_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.FileIO(tmp_path / "x", "w+")
    monkeypatch.setattr(scratch, "_unnamed", lambda: file)
    stored = Scratch().put(np.arange(100))
    file.truncate(10)
    with pytest.raises(OSError, match="790 bytes of a temporary file are gone"):
        stored.read()


@pytest.mark.parametrize("name", recordings())
def test_no_more_than_a_part_waits_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_events, "PART_BYTES", 2000)
    trace = Trace(data_of(name), name=name)
    plain = KeptEvents(lambda _: True, ("Level", "Count"), names=("LoggerName",), activities=True)
    spilled = KeptEvents(lambda _: True, ("Level", "Count"), names=("LoggerName",), activities=True, scratch=Scratch())
    rows = 0
    for window in trace.windows(size=100):
        for keeper in (plain, spilled):
            rows += len(keeper.feed(window))
        assert sum(part.nbytes for part in spilled._parts) < 2000
    assert len(plain) == len(spilled) == rows // 2
    parts = [*spilled.parts()]
    assert sum(map(len, parts)) == len(spilled)
    assert max(part.nbytes for part in parts) < 20_000
    same(plain.all(), spilled.all())
    same(plain.all(), spilled.all())
    same(next(plain.parts()), spilled.all())


def same(one: Kept, other: Kept) -> None:
    assert one.fields.keys() == other.fields.keys()
    pairs = [(one.ms, other.ms), (one.pid, other.pid), (one.tid, other.tid)]
    for first, second in [*pairs, *((one[name], other[name]) for name in one.fields)]:
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)


def test_of_nothing_there_is_one_empty_part() -> None:
    keeper = KeptEvents(lambda _: True, ("Level",), activities=True, scratch=Scratch())
    (part,) = keeper.parts()
    assert (len(part), len(keeper), [*part.fields]) == (0, 0, ["Level", "activity", "related"])


def mapped_bytes() -> int:
    """Of this program's memory what is of files."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[2]) * mmap.PAGESIZE


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_of_mapped_arrays_what_is_looked_at_is_in_memory() -> None:
    rows = 8 << 20
    place = MappedArrays(rows)
    number, before, most = place.zeros("i8"), mapped_bytes(), 0
    for some in place.slices():
        number[some] = np.arange(some.start, some.stop)
        most = max(most, mapped_bytes())
    assert most - before < number.nbytes / 8
    assert all(number[some][-1] == some.stop - 1 for some in place.slices())
    assert mapped_bytes() - before < number.nbytes / 8
    number[:] = 1
    assert mapped_bytes() - before > number.nbytes / 2
    place.release()
    assert mapped_bytes() - before < number.nbytes / 8


def full(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture(params=["full", "no folder", "no way to reserve"])
def little_room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files: they take nothing, can't be made, or what they take has to be written."""
    if request.param == "full":
        monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    elif request.param == "no folder":
        monkeypatch.setattr("tempfile.TemporaryFile", full)
    else:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)


@pytest.mark.usefixtures("little_room")
def test_mapped_arrays_without_room_are_memory() -> None:
    place = MappedArrays(MAPPED_ROWS)
    number = place.zeros("i4")
    number[3] = 5
    place.release()
    assert (len(number), int(number.sum())) == (MAPPED_ROWS, 5)
    assert not place.zeros("?").any()


@pytest.mark.usefixtures("little_room")
def test_an_array_grows_without_room_too() -> None:
    made, parts = GrownArray("i4", fill=-1), [np.arange(MAPPED_ROWS - 5), np.arange(9), np.arange(MAPPED_ROWS)]
    for part in parts:
        made.append(part)
        made.release()
    made.extend(3 * MAPPED_ROWS)
    given = np.concatenate(parts)
    assert np.array_equal(made.values[: len(given)], given)
    assert len(made) == 3 * MAPPED_ROWS
    assert (made.values[len(given) :] == -1).all()


def test_a_file_that_is_full_when_an_array_grows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = GrownArray("i4"), np.arange(MAPPED_ROWS)
    made.append(given)
    before = made.values
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    made.append(given)
    monkeypatch.undo()
    made.append(given)
    assert np.array_equal(made.values, np.concatenate([given] * 3))
    assert np.array_equal(before, given)


@pytest.mark.parametrize("rows", [10, MAPPED_ROWS + 5])
def test_a_grown_array_that_is_copied_or_sent(rows: int) -> None:
    made = GrownArray("i4", fill=-1)
    made.append(np.arange(rows))
    other, there = made.copy(), pickle.loads(pickle.dumps(made))
    assert np.shares_memory(other.values, made.values)
    there.extend(rows + 3)
    assert there.values[-4:].tolist() == [rows - 1, -1, -1, -1]
    other.append(np.arange(5))
    assert (len(made), len(other), int(other.values[-1])) == (rows, rows + 5, 4)
    assert np.array_equal(made.values, np.arange(rows))


def test_mapped_arrays_go_elsewhere_as_others_do() -> None:
    place = MappedArrays(MAPPED_ROWS)
    number = place.zeros("i4")
    number[:] = 7
    there, values = pickle.loads(pickle.dumps((place, number)))
    assert np.array_equal(values, number)
    there.release()
    assert [some.stop for some in there.slices()][-1] == MAPPED_ROWS


def test_all_of_an_odd_number_of_rows_lie_in_the_file() -> None:
    place = MappedArrays(MAPPED_ROWS + 1, each=5)
    made = [place.zeros("i4"), place.zeros("?")]
    assert not any(one.flags.owndata for one in made)
    made[0][:], made[1][:] = 7, True
    place.release()
    assert (int(made[0].sum()), int(made[1].sum())) == (7 * (MAPPED_ROWS + 1), MAPPED_ROWS + 1)
