"""Recordings taken apart into what was there when."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.errors import InputError
from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.nettrace import read
from dotnetdiag.nettrace.constants import SERIALIZATION
from dotnetdiag.testing.recording import Recording, empty_trace

GCDUMP = SERIALIZATION + struct.pack("<3Biii", 5, 5, 1, 3, 3, 10) + b"GCHeapDump\x06" + bytes(40)


@pytest.mark.parametrize("name", recordings())
def test_marks_go_through_the_file_and_end_when_its_last_event_happens(name: str) -> None:
    recording = Recording(data_of(name))
    marks = recording.marks
    ends, dues = [mark.end for mark in marks], [mark.due_ns for mark in marks]
    assert ends == sorted(set(ends)) == list(recording.ends)
    assert dues == sorted(dues)
    assert 0 < ends[-1] <= len(recording.data)
    contents = read(recording.data)
    assert contents.info is not None
    first, last = int(contents.headers.time.min()), int(contents.headers.time.max())
    if contents.complete:
        assert dues[-1] == (last - first) * 1_000_000_000 // contents.info.frequency


@pytest.mark.parametrize("name", [name for name in recordings() if "netperf" not in name])
def test_a_file_cut_at_any_mark_with_the_end_marker_is_complete(name: str) -> None:
    recording = Recording(data_of(name))
    assert recording.end_marker
    for end in {recording.ends[len(recording.ends) * part // 4] for part in range(4)}:
        assert read(recording.data[:end] + recording.end_marker).complete


def test_what_is_no_trace_is_one_block() -> None:
    recording = Recording(b"no trace at all, and long enough to be sure of it")
    assert recording.ends == (len(recording.data),)
    assert [mark.due_ns for mark in recording.marks] == [0]
    assert recording.end_marker == b""
    assert [mark.end for mark in Recording(b"").marks] == [0]


@pytest.mark.parametrize("data", [b"print('no recording')\n", b"Nettrase", b"\x1f\x8b\x08\0", GCDUMP])
def test_a_file_that_is_no_recording_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cpu.py"
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=r"cpu.py: is no recording: neither NetPerf nor nettrace; packed ones are unpacked"
    ):
        Recording.read(path)


@pytest.mark.parametrize("name", recordings())
def test_a_file_that_is_cut_anywhere_is_a_recording(name: str, tmp_path: Path) -> None:
    data = data_of(name)
    for end in (*range(100), len(data) // 2):
        (tmp_path / "x").write_bytes(data[:end])
        assert Recording.read(tmp_path / "x").data == data[:end]


def test_the_end_of_a_block_is_that_of_the_byte_before() -> None:
    recording = Recording(data_of("cpu-only-10.nettrace"))
    first, second = recording.ends[:2]
    assert [recording.block_end(at) for at in (0, 1, first, first + 1, second)] == [first, first, first, second, second]
    assert recording.block_end(len(recording.data)) == len(recording.data)


@pytest.mark.parametrize(
    ("version", "trace_format", "found"),
    [
        (4, TraceFormat.NETTRACE, "nettrace 4"),
        (5, TraceFormat.NETTRACE, "nettrace 4"),
        (4, TraceFormat.NETPERF, "NetPerf 3"),
        (5, TraceFormat.NETPERF, "NetPerf 3"),
    ],
)
def test_an_empty_trace_is_whole(version: int, trace_format: TraceFormat, found: str) -> None:
    data = empty_trace(version, trace_format, 77, 1_000_000_000_000_000_000).data
    contents = read(data)
    assert (contents.format, contents.complete, contents.damage) == (found, True, None)
    assert contents.info is not None
    assert (contents.info.process_id, contents.info.start_ns) == (77, 1_000_000_000_000_000_000)
    assert len(contents) == 0
