from __future__ import annotations

import csv
import errno
import io
import json
from pathlib import Path
from typing import IO, Any

import pytest

from dotnetdiag.export.growing import FORMS, PAGE_BYTES, GrowingJson, growing
from dotnetdiag.table import Table


def rows(*numbers: int) -> Table:
    return Table({"n": list(numbers), "text": [f'a "{n}", ' for n in numbers]})


def numbers_in(form: str, data: bytes) -> list[int]:
    """What a reader finds."""
    if form == "csv":
        return [int(row["n"]) for row in csv.DictReader(io.StringIO(data.decode()))]
    if form == "json":
        return [row["n"] for row in json.loads(data)]
    if form == "jsonl":
        return [json.loads(line)["n"] for line in data.splitlines()]
    from pyarrow import BufferReader, parquet

    found: list[int] = parquet.read_table(BufferReader(data)).column("n").to_pylist()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_piece_by_piece(form: str) -> None:
    file = io.BytesIO()
    one = growing(form, file, rows())
    for piece in (rows(1, 2), rows(), rows(3)):
        one.add(piece)
    one.close()
    assert numbers_in(form, file.getvalue()) == [1, 2, 3]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])
def test_a_file_is_whole_after_each_piece(form: str, tmp_path: Path) -> None:
    """Its writer may be killed at any time."""
    path = tmp_path / "x"
    with open(path, "wb") as file:
        one = growing(form, file, rows())
        assert numbers_in(form, path.read_bytes()) == []
        for n in (1, 2, 3):
            one.add(rows(n))
            assert numbers_in(form, path.read_bytes()) == list(range(1, n + 1))


@pytest.mark.parametrize("form", FORMS)
def test_without_rows_it_is_a_file_without_rows(form: str) -> None:
    file = io.BytesIO()
    growing(form, file, rows()).close()
    assert numbers_in(form, file.getvalue()) == []


class Pipe(io.BytesIO):
    """Where nobody can go back."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError("not seekable")


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])
def test_where_nobody_can_go_back_it_is_whole_at_its_end(form: str) -> None:
    file: IO[bytes] = Pipe()
    one = growing(form, file, rows())
    one.add(rows(1))
    one.add(rows(2))
    one.close()
    assert isinstance(file, Pipe)
    assert numbers_in(form, file.getvalue()) == [1, 2]


def test_a_list_may_stand_in_a_document() -> None:
    file = io.BytesIO()
    one = GrowingJson(file, b'{"Events": [', b"]}\n")
    assert json.loads(file.getvalue()) == {"Events": []}
    one.add(rows(5))
    one.close()
    assert [row["n"] for row in json.loads(file.getvalue())["Events"]] == [5]


class Disk(io.BytesIO):
    """Has room for ``limit`` bytes, and takes what fits; remembers what was asked of it."""

    def __init__(self, limit: int = 1 << 30) -> None:
        super().__init__()
        self.limit = limit
        self.writes: list[tuple[int, bytes]] = []

    def write(self, data: Any, /) -> int:
        self.writes.append((self.tell(), bytes(data)))
        room = self.limit - self.tell()
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[:room])


PIECEWISE = [form for form in FORMS if form != "parquet"]


@pytest.mark.parametrize("limit", [60, 1000, 4096, 4097, 4099, 4100, 5000, 20_000])
@pytest.mark.parametrize("form", PIECEWISE)
def test_on_a_full_disk_the_rows_that_are_whole_stay(form: str, limit: int) -> None:
    file = Disk(limit)
    one = growing(form, file, rows())
    one.add(rows(0))
    pieces = iter(range(1, limit, 50))
    failed = None
    while failed is None:
        n = next(pieces)
        try:
            one.add(rows(*range(n, n + 50)))
        except OSError as error:
            failed = error.errno
    assert failed == errno.ENOSPC
    one.close()
    found = numbers_in(form, file.getvalue())
    assert found == list(range(len(found)))
    assert found
    assert len(file.getvalue()) > limit - PAGE_BYTES


@pytest.mark.parametrize("form", PIECEWISE)
def test_no_heading_is_left_in_part(form: str) -> None:
    file = Disk(1)
    with pytest.raises(OSError, match="No space"):
        growing(form, file, rows()).add(rows(1))
    assert file.getvalue() == b""


def killed(file: Disk, turn: int, taken: int) -> bytes:
    """What stands there when the writer was killed within a write of which the system has taken so much."""
    data = bytearray()
    for place, written in file.writes[:turn]:
        data[place : place + len(written)] = written
    place, written = file.writes[turn]
    data[place : place + taken] = written[:taken]
    return bytes(data)


@pytest.mark.parametrize("form", PIECEWISE)
def test_a_writer_that_is_killed_leaves_whole_rows_but_for_the_narrow_border_of_two_pages(form: str) -> None:
    file = Disk()
    one = growing(form, file, rows())
    for n in range(0, 1200, 400):
        one.add(rows(*range(n, n + 400)))
    crossing = 0
    for turn, (place, written) in enumerate(file.writes):
        if turn:
            before = numbers_in(form, killed(file, turn, 0))
            assert before == list(range(len(before)))
        left = PAGE_BYTES - place % PAGE_BYTES
        if left < len(written):
            crossing += 1
            # a row alone, spaces, or the end of a list that goes to the next page
            assert len(written) < 100 or not written.strip(b" \n]")
    assert crossing <= 2 * (len(file.getvalue()) // PAGE_BYTES)
    assert numbers_in(form, file.getvalue()) == list(range(1200))


def test_rows_longer_than_a_page_are_written() -> None:
    file = Disk()
    one = growing("json", file, rows())
    long = "x" * (2 * PAGE_BYTES)
    for n in range(3):
        one.add(Table({"n": [n, n], "text": ["short", long]}))
    one.close()
    assert [(row["n"], len(row["text"])) for row in json.loads(file.getvalue())] == [
        (n, size) for n in range(3) for size in (5, len(long))
    ]


def test_line_feeds_within_a_cell_end_no_row() -> None:
    file = Disk(200)
    one = growing("csv", file, rows())
    with pytest.raises(OSError, match="No space"):
        one.add(Table({"n": list(range(50)), "text": ['a\n"b"\nc'] * 50}))
    found = list(csv.DictReader(io.StringIO(file.getvalue().decode(), newline="")))
    assert {row["text"] for row in found} <= {'a\n"b"\nc'}
    assert file.getvalue().endswith(b"\n")
