"""A table whose rows lie elsewhere is a table as any other, of which no more is made than is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dotnetdiag.errors import UnknownName
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.recipes.report_files import write_tables
from dotnetdiag.table import Table, parts
from dotnetdiag.table import sliced as room
from dotnetdiag.table.json_rows import answer, lines
from dotnetdiag.table.largest import largest
from dotnetdiag.table.sliced import SlicedTable

ROWS = 1000
NUMBERS, WHICH = np.arange(ROWS) / 4, np.arange(ROWS) % 3
ABOUT = {"title": "rows", "units": {"ms": "ms"}, "notes": ["a note"]}


class Elsewhere:
    def __init__(self) -> None:
        self.most = self.count = 0

    def made(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        self.most, self.count = max(self.most, last - first), self.count + 1
        whole: dict[str, Column] = {
            "ms": Scalar(NUMBERS[first:last], None, Kind.F8),
            "word": Coded(["one", "two", ""], WHICH[first:last], WHICH[first:last] < 2),
        }
        return {name: whole[name] for name in names}


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    monkeypatch.setattr(room, "SLICE_ROWS", 16)
    monkeypatch.setattr(room, "PIECE_ROWS", 64)
    return Elsewhere()


def both(source: Elsewhere, rows: int = ROWS) -> tuple[SlicedTable, Table]:
    return SlicedTable(("ms", "word"), rows, source.made, **ABOUT), Table(source.made(("ms", "word"), 0, rows), **ABOUT)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 1, 64, ROWS])
def test_it_is_a_table_as_any_other(rows: int, source: Elsewhere) -> None:
    made, told = both(source, rows)
    assert (len(made), made.columns, made.title, made.units, made.notes, made.losses) == (
        len(told), told.columns, told.title, told.units, told.notes, told.losses,
    )  # fmt: skip
    assert repr(made) == repr(told).replace("<Table", "<SlicedTable")
    assert made._repr_html_() == told._repr_html_()
    assert made.to_pylist() == told.to_pylist() == list(made)
    assert made.to_json() == told.to_json()
    for name in told.columns:
        assert made.values(name) == told.values(name)
        assert made.numpy(name).tolist() == told.numpy(name).tolist()
    for some in (slice(3), slice(-3, None), slice(5, 2), slice(None, None, 7), slice(None, None, -1)):
        assert made[some].to_pylist() == told[some].to_pylist()
    assert "word" in made
    assert "other" not in made
    assert ["ms"] not in made
    assert made.get("other") is None
    with pytest.raises(UnknownName):
        made["other"]
    with pytest.raises(IndexError):
        made[rows]
    assert made.with_notes(["other"]).notes == ("other",)
    assert made.with_notes(["other"]).to_pylist() == told.to_pylist()


@pytest.mark.parametrize("rows", [0, 1, 64, ROWS])
def test_its_json_is_that_of_the_table(rows: int, source: Elsewhere) -> None:
    made, told = both(source, rows)
    texts = ["".join(answer(one, str, ascii_only=False, margin=2)) for one in (made, told)]
    assert texts[0] == texts[1]


def test_who_goes_through_it_has_a_slice_at_a_time(source: Elsewhere) -> None:
    made = SlicedTable(("ms", "word"), ROWS, source.made)
    assert source.most == 0
    assert "".join(answer(made, str, ascii_only=False)).count("ms") == ROWS
    assert sum(line.count(b"\n") for line in lines(made, b"\n")) == ROWS
    assert source.most == 16
    assert len(list(made)) == sum(map(len, made.pieces())) == ROWS
    assert made.row(-1) == {"ms": 249.75, "word": "one"}
    assert source.most == 64
    assert [len(piece) for piece in made.pieces(300)] == [300, 300, 300, 100]


@pytest.mark.parametrize("kept", [ROWS, ROWS - 1])
def test_the_last_column_stays_where_it_is_not_large(
    kept: int, source: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KEPT_ROWS", kept)
    made, told = both(source)
    source.count = 0
    assert [made["word"].item(row) for row in range(9)] == told.values("word")[:9]
    assert source.count == (1 if kept == ROWS else 9)
    assert made["ms"].item(5) == 1.25
    assert made["word"].item(1) == "two"
    assert source.count == (3 if kept == ROWS else 11)


def test_another_title_makes_no_column(source: Elsewhere) -> None:
    sliced, _ = both(source)
    source.count = 0
    named = sliced.with_title("thrown")
    assert (named.title, sliced.title, named.columns, len(named)) == ("thrown", "rows", ("ms", "word"), ROWS)
    assert source.count == 0


@pytest.mark.parametrize("form", ["sqlite", "markdown"])
def test_a_file_of_all_tables_of_a_report_is_made_piece_by_piece(source: Elsewhere, form: str, tmp_path: Path) -> None:
    rows, _ = both(source)
    source.most = 0
    write_tables([rows], rows, tmp_path / "made", form)
    assert 0 < source.most <= 64


@pytest.mark.parametrize("has_gathered", [False, True])
@pytest.mark.parametrize("few", [1, 64])
def test_rows_anywhere_are_those_of_the_table(
    few: int, has_gathered: bool, source: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FEW", few)
    monkeypatch.setattr(parts, "PART_ROWS", 30)

    def gathered(names: Sequence[str], rows: Sequence[int]) -> dict[str, Column]:
        return {name: column.take(rows) for name, column in source.made(names, 0, ROWS).items()}

    made = SlicedTable(("ms", "word"), ROWS, source.made, gathered=gathered if has_gathered else None)
    rows = list(made)
    for places in ([], [0], [ROWS - 1, 3, 3, 5]):
        assert Table(parts.rows_at(made, np.array(places, np.int64))).to_pylist() == [rows[place] for place in places]
    assert largest(made, "ms", 2) == rows[:-3:-1]
