"""Files that take a part of what is written, or nothing: all of it is written, or an error says how much."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from tests.nettrace.traces import PLAIN

from dotnetdiag.errors import OutputError, UsageError
from dotnetdiag.nettrace import Writer, read


class Raw(io.RawIOBase):
    """Takes at most so many bytes at once; ``None`` when it is full, as a pipe that does not block."""

    def __init__(self, at_once: int, room: int = 1 << 30) -> None:
        self.at_once, self.room, self.taken = at_once, room, bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int | None:
        part = bytes(data)[: min(self.at_once, self.room - len(self.taken))]  # type: ignore[call-overload]
        self.taken += part
        return len(part) or None


class Short:
    """The same, of no class of ``io``; 0 when it is full."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room, self.taken = room, bytearray()

    def write(self, data: bytes, /) -> int:
        part = data[: min(7, self.room - len(self.taken))]
        self.taken += part
        return len(part)


class Silent:
    """Takes all and says nothing of it."""

    def __init__(self, said: object = None) -> None:
        self.said, self.taken = said, bytearray()

    def write(self, data: bytes, /) -> object:
        self.taken += data
        return self.said


class Blocking(Raw):
    """As buffered files over one that does not block: they raise when they are full."""

    def write(self, data: object, /) -> int | None:
        count = super().write(data)
        if count is None or count < len(bytes(data)):  # type: ignore[call-overload]
            raise BlockingIOError(11, "full", count or 0)
        return count


def write_events(writer: Writer, events: int = 50) -> None:
    writer.add_metadata(PLAIN)
    for number in range(events):
        writer.write_event(1, number, b"a payload", thread=1)
    writer.close()


def whole() -> bytes:
    out = io.BytesIO()
    write_events(Writer(out, block_bytes=300))
    return out.getvalue()


@pytest.mark.parametrize(
    "make",
    [lambda: Raw(1), lambda: Raw(64), Short, Silent, lambda: Silent(True), lambda: Silent("done")],
    ids=["a byte", "64 bytes", "short", "silent", "true", "a text"],
)
def test_all_is_written_however_little_is_taken_at_once(make: Callable[[], Raw | Short | Silent]) -> None:
    file = make()
    writer = Writer(file, block_bytes=300)
    write_events(writer)
    assert bytes(file.taken) == whole()
    assert writer.position == len(file.taken)


@pytest.mark.parametrize("room", [150, 155, 400, 1000])
@pytest.mark.parametrize("kind", [Raw, Short, Blocking])
def test_error_says_how_much_a_full_file_took_and_nothing_more_is_written(
    kind: type[Raw | Short | Blocking], room: int
) -> None:
    file = Short(room) if kind is Short else kind(1 << 20, room)  # type: ignore[call-arg]
    writer = Writer(file, block_bytes=300)
    with pytest.raises(OutputError, match=rf"{kind.__name__}: {room} bytes were written; the next \d+ were not taken"):
        write_events(writer)
    assert writer.position == room
    assert bytes(file.taken) == whole()[:room]
    file.room = 1 << 30
    for late in (writer.close, writer.flush, lambda: writer.write_event(1, 60, thread=1)):
        with pytest.raises(UsageError, match="writing to the file failed"):
            late()
    assert len(file.taken) == room
    assert not read(bytes(file.taken)).complete


def test_a_pipe_that_nobody_reads_is_an_error_with_its_name() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as there, open(writing, "wb", buffering=0) as file:
        with pytest.raises(OutputError, match=r"^FileIO: \d+ bytes were written; the next \d+ were not taken$"):
            write_events(Writer(file), 20_000)
        os.set_blocking(reading, False)
        assert there.read(8) == b"Nettrace"


def closed() -> io.BytesIO:
    file = io.BytesIO()
    file.close()
    return file


@pytest.mark.parametrize("version", [5, 6])
def test_what_takes_no_bytes_is_refused_when_the_writer_is_made(version: int, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"")
    for file in (None, 5, "x.nettrace"):
        with pytest.raises(UsageError, match="a file opened for binary writing is needed, not"):
            Writer(file, version=version)  # type: ignore[arg-type]
    with (
        NamedTemporaryFile("w", dir=tmp_path) as text,
        there.open("rb") as reading,
        there.open("w") as other,
    ):
        for odd in (io.StringIO(), io.BytesIO, text, reading, other, closed()):
            with pytest.raises(UsageError, match="does not take bytes: "):
                Writer(odd, version=version)  # type: ignore[arg-type]
