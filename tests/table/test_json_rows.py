"""Rows of any table in JSON are those of ``json``, compiled and by plain Python, in pieces of any size."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel_forms import FORMS, in_form

from dotnetdiag.events import Bytes, ListOf, Scalar, Struct, Text
from dotnetdiag.events.columns import Coded, Enumerated, EnumValue, Maps
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table, json_rows
from dotnetdiag.table.texts import escaped, value_texts

HOSTILE = st.text(st.characters(exclude_categories=()) | st.sampled_from('"\\\n\x7f\x9b\ud800%{'), max_size=6)
NUMBERS: dict[Kind, Any] = {
    Kind.BOOL: np.bool_, Kind.CHAR: np.uint16, Kind.CHAR8: np.uint8, Kind.I1: np.int8, Kind.U2: np.uint16, Kind.I8: np.int64,
    Kind.U8: np.uint64, Kind.F4: np.float32, Kind.F8: np.float64, Kind.DATETIME: np.int64, Kind.TIMESTAMP: np.int64,
    Kind.GUID: np.dtype("V16"), Kind.DECIMAL: np.dtype("V16"),
}  # fmt: skip


class Names:
    def text(self, value: int) -> str:
        return f"<{value}>\x9b"


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), HOSTILE, st.binary(max_size=3)),
    *(st.lists(st.floats() | HOSTILE, max_size=2), st.dictionaries(HOSTILE, st.none() | st.floats(), max_size=2)),
    st.sampled_from([UUID(int=1), Decimal("1.50"), datetime(2020, 1, 1, tzinfo=UTC), np.int64(7), np.float64("nan")]),
    st.just(EnumValue.of(3, Names())),
)
ALIKE = st.sampled_from([st.booleans(), st.integers(), st.integers(-9, 9), st.floats(), HOSTILE, st.none(), VALUES])


@st.composite
def columns(draw: st.DrawFn, rows: int, depth: int = 0) -> Any:
    valid = draw(
        st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows).map(lambda one: np.array(one, np.bool_))
    )
    which = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows).map(lambda one: np.array(one, np.int64)))
    form = draw(st.integers(0, 7 if depth else 8))
    if form == 0:
        return Text.from_pylist(draw(st.lists(st.none() | HOSTILE, min_size=rows, max_size=rows)))
    if form == 1:
        return Coded(Text.from_pylist(draw(st.lists(HOSTILE, min_size=3, max_size=9))), which, valid)
    if form == 2:
        return Enumerated(Scalar(which, valid, Kind.I8), [Names(), None], which % 2)
    bounds = np.concatenate([[0], np.cumsum(which)])
    if form == 3:
        return Bytes(bounds, np.arange(bounds[-1], dtype=np.uint8), valid)
    if form == 4:
        return Maps([{"a%": "b\x9b"}, {}, {"\ud800": "", "c": "d"}], which, valid)
    if form == 5 and depth < 2:
        return ListOf(bounds, draw(columns(int(bounds[-1]), depth + 1)), valid)
    if form == 6 and depth < 2:
        return Struct({name: draw(columns(rows, depth + 1)) for name in ("a", "%\x9b")}, rows, valid)
    if form == 8:
        values = draw(ALIKE)
        return draw(st.lists(values | st.none() if draw(st.booleans()) else values, min_size=rows, max_size=rows))
    kind = draw(st.sampled_from(list(NUMBERS)))
    dtype = np.dtype(NUMBERS[kind])
    raw = draw(st.binary(min_size=dtype.itemsize * rows * 2, max_size=dtype.itemsize * rows * 2))
    if dtype == np.bool_:
        raw = bytes(one & 1 for one in raw)
    with np.errstate(invalid="ignore"):
        return Scalar(np.frombuffer(raw, dtype)[::2], valid, kind)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.integers(0, 7))
    names = draw(st.lists(HOSTILE, max_size=4, unique=True))
    return Table({name: draw(columns(rows)) for name in names})


def finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def dumped(value: Any, *, ascii_only: bool) -> str:
    text = json.dumps(finite(value), indent=2, default=str, ensure_ascii=ascii_only)
    return re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)


@pytest.fixture(params=FORMS, autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    with in_form(request.param):
        yield


@given(tables(), st.booleans(), st.sampled_from([0, 2]), st.integers(1, 5))
def test_an_answer_is_what_json_makes_of_all_rows(table: Table, ascii_only: bool, margin: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "PIECE_ROWS", piece)
        made = json_rows.answer(
            table, lambda one: dumped(one, ascii_only=ascii_only), ascii_only=ascii_only, margin=margin
        )
        text = "".join(made)
    expected = dumped(table.to_pylist(), ascii_only=ascii_only).replace("\n", "\n" + " " * margin)
    assert text.encode("utf-8", "backslashreplace") == expected.encode("utf-8", "backslashreplace")
    json.loads(text)


@given(tables())
def test_the_forms_of_json_are_those_of_to_json(table: Table) -> None:
    made = json_rows.in_json_forms(table).to_pylist()
    assert dumped(made, ascii_only=True) == dumped(table.to_json(), ascii_only=True)


@given(tables(), st.integers(1, 5))
def test_lines_are_those_of_single_values(table: Table, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "PIECE_ROWS", piece)
        made = b"".join(json_rows.lines(table, b",\n"))
    template = "{" + ", ".join(f"{escaped(name)}: %s" for name in table.columns) + "},\n"
    rows = zip(*(value_texts(table[name]) for name in table.columns), strict=True)
    assert made == "".join(map(template.__mod__, rows)).encode("utf-8", "backslashreplace")


def test_pieces_are_bounded_by_cells_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Scalar(np.arange(100, dtype=np.int64), None, Kind.I8)
    narrow = Table({"a": numbers, "b": numbers})
    long = Table({"a": Text.from_pylist(["x" * 100] * 100), "b": Coded(["y" * 100], np.zeros(100, np.int64))})
    assert len(list(json_rows.lines(narrow, b"\n"))) == 1
    monkeypatch.setattr(json_rows, "PIECE_CELLS", 20)
    assert len(list(json_rows.lines(narrow, b"\n"))) == 10
    monkeypatch.setattr(json_rows, "PIECE_BYTES", 1100)
    assert len(list(json_rows.lines(long, b"\n"))) > 15


def test_a_long_text_of_many_rows_is_woven_some_rows_at_a_time() -> None:
    texts = ["x" * 100_000, *(str(number) for number in range(5000))]
    which = np.append(np.arange(1, 5001), np.zeros(500, np.int64))
    table = Table({"text": Coded(Text.from_pylist(texts), which)})
    pieces = list(json_rows.answer(table, json.dumps, ascii_only=False))
    assert max(map(len, pieces)) < 2 * json_rows.PIECE_BYTES
    assert json.loads("".join(pieces)) == table.to_pylist()
