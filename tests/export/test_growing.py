from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import IO

import pytest

from dotnetdiag.export.growing import FORMS, GrowingJson, growing
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
