"""The file of a recording has every byte, in order, however fast they come and whatever the disk is like."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dotnetdiag.client import sink as module
from dotnetdiag.client.sink import ALIGNMENT, BUFFER_BYTES, FileSink
from dotnetdiag.errors import OutputError


def pour(path: Path, sizes: list[int], quiet: frozenset[int] = frozenset()) -> bytes:
    """Random bytes in pieces; after the pieces of ``quiet`` the stream rests. Returns what should be in the file."""
    numbers = random.Random(1)
    expected = bytearray()
    told = bytearray()
    sink = FileSink(path, tee=told.extend)
    for index, size in enumerate(sizes):
        left = numbers.randbytes(size)
        while left:
            view = sink.view
            count = min(len(view), len(left))
            assert count
            view[:count] = left[:count]
            expected += left[:count]
            left = left[count:]
            sink.take(count)
        if index in quiet:
            sink.flush()
            assert path.stat().st_size == len(expected) == sink.written == len(told)
    sink.close()
    assert told == expected
    assert sink.written == len(expected)
    return bytes(expected)


def write(sink: FileSink, data: bytes) -> None:
    sink.view[: len(data)] = data
    sink.take(len(data))


SIZES = [1, 4095, 4096, 4097, 100_000, 262_144, BUFFER_BYTES, 3 * BUFFER_BYTES + 7] * 3


def test_a_quiet_stream_is_in_the_file_at_once(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "x")
    for number in range(1, 100):
        sink.view[:10] = b"0123456789"
        sink.take(10)
        assert (tmp_path / "x").stat().st_size == number * 10
    sink.close()


@pytest.mark.parametrize("quiet", [frozenset(), frozenset({3, 9}), frozenset(range(24))])
def test_a_fast_stream_goes_past_the_page_cache_and_is_whole(
    tmp_path: Path, quiet: frozenset[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    switched: list[bool] = []
    real = module._set_direct

    def switch(fd: int, on: bool) -> bool:
        switched.append(on)
        return real(fd, on)

    monkeypatch.setattr(module, "_set_direct", switch)
    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    assert pour(tmp_path / "x", SIZES, quiet) == (tmp_path / "x").read_bytes()
    assert any(switched), "it was never switched on"


def test_a_file_system_without_direct_writes_gets_all_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    monkeypatch.setattr(module, "_set_direct", lambda fd, on: False)
    assert pour(tmp_path / "x", SIZES) == (tmp_path / "x").read_bytes()


def test_a_slow_disk_is_left_to_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    monkeypatch.setattr(module, "SLOW_WRITE_S", -1.0)
    assert pour(tmp_path / "x", SIZES) == (tmp_path / "x").read_bytes()


def test_a_disk_that_takes_part_of_a_write_or_refuses_it_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.write, [0]

    def write(fd: int, data: memoryview) -> int:
        calls[0] += 1
        if len(data) == BUFFER_BYTES and calls[0] % 2:
            raise OSError(22, "Invalid argument")
        return real(fd, data[: max(ALIGNMENT, len(data) // 2 // ALIGNMENT * ALIGNMENT)])

    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    monkeypatch.setattr(os, "write", write)
    assert pour(tmp_path / "x", SIZES) == (tmp_path / "x").read_bytes()


def test_a_file_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        FileSink(tmp_path / "missing" / "x")


@pytest.mark.parametrize("path", ["/tmp/a\0b", "/tmp/a\ud800b"])
def test_a_path_that_none_can_be_is_an_output_error(path: str) -> None:
    with pytest.raises(OutputError, match="no file can have this name") as caught:
        FileSink(path)
    str(caught.value).encode()


def test_a_tee_of_a_fast_stream_is_told_in_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    with FileSink(tmp_path / "x", tee=lambda view: sizes.append(len(view))) as sink:
        for _ in range(1 + 2 * BUFFER_BYTES // ALIGNMENT):
            sink.view[:ALIGNMENT] = bytes(ALIGNMENT)
            sink.take(ALIGNMENT)
    assert sum(sizes) == ALIGNMENT * (1 + 2 * BUFFER_BYTES // ALIGNMENT)
    if sink._may_be_direct:  # the file system has such a thing
        assert len(sizes) < 10


def test_what_a_tee_raises_comes_out_and_the_bytes_are_in_the_file(tmp_path: Path) -> None:
    def fail(_: memoryview) -> None:
        raise ValueError("a mistake")

    def record() -> None:
        with FileSink(tmp_path / "x", tee=fail) as sink:
            sink.view[:4] = b"1234"
            sink.take(4)

    with pytest.raises(ValueError, match="a mistake"):
        record()
    assert (tmp_path / "x").read_bytes() == b"1234"


def test_who_has_the_file_open_keeps_what_was_there(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    path.write_bytes(b"old")
    link.symlink_to(path)
    with path.open("rb") as reader, FileSink(link) as sink:
        write(sink, b"new")
        assert (reader.read(), path.read_bytes()) == (b"old", b"new")
    assert link.is_symlink()


def test_a_file_that_was_begun_anew_is_not_taken_from_who_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    opened = FileSink._open

    def open_late(sink: FileSink, path: str) -> int:
        descriptor = opened(sink, path)
        monkeypatch.setattr(FileSink, "_open", opened)
        with FileSink(path) as other:  # has come, and gone, between two steps of the first
            write(other, b"new")
        return descriptor

    monkeypatch.setattr(FileSink, "_open", open_late)
    with pytest.raises(OutputError, match="another recording writes into this file"):
        FileSink(path)
    assert path.read_bytes() == b"new"


def test_a_file_that_may_not_be_removed_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"what was there")

    def refuse(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "unlink", refuse)
    with FileSink(path) as sink:
        write(sink, b"new")
    assert path.read_bytes() == b"new"
