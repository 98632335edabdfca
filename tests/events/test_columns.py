"""Columns: their values, rows of them, and several as one."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.events.columns import (
    Bytes,
    Coded,
    Column,
    Enumerated,
    EnumValue,
    ListOf,
    Maps,
    Scalar,
    Struct,
    Text,
    concat,
    datetime_text,
    json_value,
    nulls,
)
from dotnetdiag.events.layout import Kind

OFFSETS = np.array([0, 2, 2, 5], np.int64)
NUMBERS = Scalar(np.array([1, 2, 3, 4, 5], np.int32), None, Kind.I4)
SAMPLES: dict[str, tuple[Column, list[object]]] = {
    "few texts": (
        Coded(Text.from_pylist(["a", "", "\ud800é"]), np.array([2, 0, 2]), np.array([True, False, True])),
        ["\ud800é", None, "\ud800é"],
    ),
    "numbers": (Scalar(np.array([1, 2, 3], np.uint8), np.array([True, False, True]), Kind.U1), [1, None, 3]),
    "singles": (Scalar(np.array([0.1, 2, -3], np.float32), None, Kind.F4), [0.1, 2.0, -3.0]),
    "bools": (Scalar(np.array([True, False, True]), None, Kind.BOOL), [True, False, True]),
    "characters": (Scalar(np.array([0x3A9, 65, 0], np.uint16), None, Kind.CHAR), ["Ω", "A", "\0"]),
    "guids": (
        Scalar(np.frombuffer(bytes(range(48)), "V16"), None, Kind.GUID),
        [UUID(bytes_le=bytes(range(start, start + 16))) for start in (0, 16, 32)],
    ),
    "decimals": (
        Scalar(
            np.frombuffer(
                struct.pack("<IIQIIQIIQ", 28 << 16, 0xFFFFFFFF, 2**64 - 1, 0x80000000, 1, 5, 0x80020000, 0, 1234), "V16"
            ),
            None,
            Kind.DECIMAL,
        ),
        [Decimal("7.9228162514264337593543950335"), Decimal(-(2**64) - 5), Decimal("-12.34")],
    ),
    "texts": (Text.from_pylist(["zażółć", None, "x\ud800y"]), ["zażółć", None, "x\ud800y"]),
    "ascii": (Text.from_pylist(["a", "", "bcd"]), ["a", "", "bcd"]),
    "bytes": (Bytes(OFFSETS, np.arange(5, dtype=np.uint8)), [b"\0\1", b"", b"\2\3\4"]),
    "lists": (ListOf(OFFSETS, NUMBERS, np.array([True, True, False])), [[1, 2], [], None]),
    "lists with one missing": (
        ListOf(OFFSETS, NUMBERS, np.array([True, False, True])),
        [[1, 2], None, [3, 4, 5]],
    ),
    "structures with one missing": (
        Struct({"a": Scalar(np.arange(3))}, 3, np.array([True, False, True])),
        [{"a": 0}, None, {"a": 2}],
    ),
    "structures": (
        Struct({"a": Scalar(np.arange(3)), "b": Text.from_pylist(["x", "y", "z"])}, 3),
        [{"a": 0, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "z"}],
    ),
    "empty structures": (Struct({}, 3), [{}, {}, {}]),
}
MAPS = (
    Maps([{"a": "1"}, {}, {"b": "", "c": "2"}], np.array([2, 0, 1]), np.array([True, True, False])),
    [{"b": "", "c": "2"}, {"a": "1"}, None],
)


@pytest.mark.parametrize("name", SAMPLES)
def test_all_rows_and_single_rows_agree(name: str) -> None:
    column, values = SAMPLES[name]
    assert len(column) == 3
    assert column.to_pylist() == values
    assert [column.item(row) for row in range(3)] == values
    assert column.item(-1) == values[-1]
    assert [column.item(row) for row in range(-3, 0)] == values


@pytest.mark.parametrize(("column", "values"), [*SAMPLES.values(), MAPS], ids=[*SAMPLES, "maps"])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_column_can_be_copied_and_pickled(
    column: Column, values: list[object], again: Callable[[Column], Column]
) -> None:
    assert again(column).to_pylist() == values  # what these bytes are we know


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("rows", [[], [2, 0, 2], [False, True, True]])
def test_some_rows_are_those_rows(name: str, rows: list[int] | list[bool]) -> None:
    column, values = SAMPLES[name]
    picked = np.array(rows, np.bool_) if rows and isinstance(rows[0], bool) else np.array(rows, np.int64)
    numbers = np.flatnonzero(picked) if picked.dtype == np.bool_ else picked
    assert column.take(picked).to_pylist() == [values[row] for row in numbers]


@pytest.mark.parametrize("name", SAMPLES)
def test_columns_join_in_order(name: str) -> None:
    column, values = SAMPLES[name]
    assert concat([column]) is column
    joined = concat([column, column.take([1]), column])
    assert joined.to_pylist() == [*values, values[1], *values]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_column_of_nothing_has_the_same_kind(name: str) -> None:
    column, _ = SAMPLES[name]
    nothing = nulls(column, 2)
    assert nothing.to_pylist() == [None, None]
    assert len(concat([column, nothing])) == 5


def test_columns_of_different_kinds_do_not_join() -> None:
    with pytest.raises(UsageError):
        concat([SAMPLES["texts"][0], SAMPLES["bytes"][0]])


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("row", [3, -4])
def test_a_row_outside_is_an_index_error(name: str, row: int) -> None:
    with pytest.raises(IndexError):
        SAMPLES[name][0].item(row)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("numbers", 3),
        ("singles", 12),
        ("guids", 48),
        ("texts", 4 * 8 + len("zażółćx\ud800y".encode("utf-8", "surrogatepass"))),
        ("ascii", 4 * 8 + 4),
        ("few texts", 4 * 8 + 2 * 5 + 1),
        ("bytes", 4 * 8 + 5),
        ("lists", 4 * 8 + 5 * 4),
        ("structures", 3 * 8 + 4 * 8 + 3),
        ("empty structures", 0),
    ],
)
def test_a_column_takes_the_bytes_of_its_arrays(name: str, size: int) -> None:
    assert SAMPLES[name][0].nbytes == size


def test_dates_have_seven_decimals_and_what_is_no_date_stays_a_number() -> None:
    assert datetime_text(0) == "1601-01-01T00:00:00.0000000Z"
    assert datetime_text(133000000000000001) == "2022-06-18T04:26:40.0000001Z"
    assert datetime_text(1 << 62) == 1 << 62
    year_1000 = -(10**7) * int((datetime(1601, 1, 1) - datetime(1000, 1, 1)).total_seconds())
    assert datetime_text(year_1000) == "1000-01-01T00:00:00.0000000Z"
    assert datetime_text(year_1000 - 1) == year_1000 - 1


def test_values_in_the_forms_of_json() -> None:
    nested = {
        "b": b"\1\xff",
        "f": [float("nan"), float("inf"), float("-inf"), 0.5],
        "g": UUID(int=1),
        "d": Decimal("1.20"),
    }
    assert json_value(nested) == {
        "b": "hex:01ff",
        "f": ["NaN", "Infinity", "-Infinity", 0.5],
        "g": "00000000-0000-0000-0000-000000000001",
        "d": "1.20",
    }


def test_numbers_are_named_row_by_row() -> None:
    numbers = Scalar(np.array([7, 2, 7, 5], np.uint32), np.array([True, True, True, False]), Kind.U4)
    made = Coded.naming(numbers, lambda value: f"n{value}")
    assert made.to_pylist() == ["n7", "n2", "n7", None]
    assert made.texts.to_pylist() == ["n2", "n5", "n7"]


def test_columns_whose_values_begin_within_their_bytes_join() -> None:
    data = np.frombuffer(b"abcdefgh", np.uint8)
    offsets, more = np.array([3, 5, 6], np.int64), np.array([1, 1, 8], np.int64)
    assert concat([Text(offsets, data), Text(more, data)]).to_pylist() == ["de", "f", "", "bcdefgh"]
    assert concat([Bytes(more, data), Bytes(offsets, data)]).to_pylist() == [b"", b"bcdefgh", b"de", b"f"]


def test_of_few_rows_those_texts_alone_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Text.from_pylist([f"é{number}" for number in range(100)] + [""])
    decoded, really = [], Text.to_pylist

    def listed(self: Text) -> list[str | None]:
        decoded.append(len(self))
        return really(self)

    monkeypatch.setattr(Text, "to_pylist", listed)
    made = Coded(texts, np.array([7, -1, 7, 99]), np.array([True, False, True, True]))
    assert made.to_pylist() == ["é7", None, "é7", "é99"]
    first, _, again, _ = made.to_pylist()
    assert first is again
    assert made.take([]).to_pylist() == []
    assert decoded == [3, 3, 0]


def test_few_texts_are_written_out_as_others_are_stored() -> None:
    made = Coded(Text.from_pylist(["GC", "Jit", "x"]), np.array([1, 1, 0, 2]))
    assert (made.offsets.tolist(), made.data.tobytes()) == ([0, 3, 6, 8, 9], b"JitJitGCx")
    assert made.to_pylist() == ["Jit", "Jit", "GC", "x"]
    assert concat([made, Text.from_pylist(["y", None])]).to_pylist() == ["Jit", "Jit", "GC", "x", "y", None]
    assert concat([Text.from_pylist(["y"]), made.take([3, 0])]).to_pylist() == ["y", "x", "Jit"]


class Letters:
    """1 is a."""

    def text(self, value: int) -> str:
        return "a" if value == 1 else str(value)


COLUMNS: dict[str, Column] = {
    "numbers": Scalar(np.arange(20, dtype=np.uint32), None, Kind.U4),
    "floats": Scalar(np.array([0.5, 1.5]), np.array([True, False]), Kind.F8),
    "guids": Scalar(np.frombuffer(bytes(range(32)), "V16"), None, Kind.GUID),
    "times": Scalar(np.array([0, 1_000]), np.array([False, True]), Kind.TIMESTAMP),
    "texts": Text.from_pylist(["a", None, "\x1b[2J\udc80", "long" * 50]),
    "coded": Coded(Text.from_pylist(["x", "y"]), np.array([1, 0, 1])),
    "bytes": Bytes(np.array([0, 1, 3]), np.arange(3, dtype=np.uint8)),
    "lists": ListOf(np.array([0, 1, 1]), Text.from_pylist(["a"]), np.array([True, False])),
    "structures": Struct({"a": Scalar(np.array([1, 2]), None, Kind.I8)}, 2),
    "enumerated": Enumerated(Scalar(np.array([1, 2, 1]), np.array([True, True, False]), Kind.I4), [Letters()]),
    "of two kinds": Enumerated(Scalar(np.array([1, 2, 1]), None, Kind.I4), [Letters(), None], np.array([0, 1, 1])),
    "nothing": Text.from_pylist([]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_asked_for_rows_and_parts_as_a_list_is(name: str) -> None:
    column: Any = COLUMNS[name]
    values = column.to_pylist()
    assert list(column) == values
    assert [column[row] for row in range(len(column))] == values
    assert [column[np.int64(row) - len(column)] for row in range(len(column))] == values
    for part in (slice(3), slice(-2, None), slice(None, None, -1), slice(1, 9, 3), slice(5, 2)):
        assert type(column[part]) is type(column)
        assert column[part].to_pylist() == values[part]
    for row in (len(values), -len(values) - 1):
        with pytest.raises(IndexError):
            column[row]
    for odd in ("a", 1.5, None, [0]):
        with pytest.raises(TypeError, match=r"some as column\[:3\]"):
            column[odd]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_shows_its_first_values_on_a_line_that_drives_no_terminal(name: str) -> None:
    column = COLUMNS[name]
    shown = repr(column)
    assert f"{len(column)} rows" in shown
    assert len(shown) < 500
    assert shown.isprintable()
    assert shown.encode()


def test_a_column_s_repr_has_values() -> None:
    assert repr(COLUMNS["numbers"]) == "<Scalar U4, 20 rows: 0, 1, 2, 3, 4, 5, 6, 7, ...>"
    assert repr(COLUMNS["floats"]) == "<Scalar F8, 2 rows: 0.5, None>"
    assert repr(COLUMNS["times"]) == "<Scalar TIMESTAMP, 2 rows: None, 1970-01-01T00:00:00.000001>"
    assert repr(COLUMNS["enumerated"]) == "<Enumerated I4, 3 rows: 'a', '2', None>"
    assert repr(COLUMNS["nothing"]) == "<Text, 0 rows: >"


def test_numpy_takes_a_column_as_an_array() -> None:
    arrays = {name: np.asarray(column) for name, column in COLUMNS.items()}
    assert {name: len(array) for name, array in arrays.items()} == {name: len(one) for name, one in COLUMNS.items()}
    numbers = COLUMNS["numbers"]
    assert isinstance(numbers, Scalar)
    assert arrays["numbers"].ctypes.data == numbers.values.ctypes.data
    assert np.mean(np.asarray(numbers, np.float64)) == 9.5
    assert np.array(numbers, copy=True).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        arrays["numbers"][0] = 1
    assert math.isnan(arrays["floats"][1])
    assert np.isnat(arrays["times"][0])
    assert arrays["times"][1] == np.datetime64(1_000, "ns")
    assert arrays["texts"].tolist() == COLUMNS["texts"].to_pylist()
    assert arrays["guids"].tolist() == COLUMNS["guids"].to_pylist()
    assert arrays["enumerated"].tolist() == [1, 2, None]
    assert arrays["of two kinds"].tolist() == [1, 2, 1]
    assert COLUMNS["enumerated"].numpy().tolist() == [1, 2, 1]


@pytest.mark.parametrize("word", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_column_that_is_compared_says_what_to_write(word: str) -> None:
    for column in COLUMNS.values():
        for other in (1, "a", None, np.int64(1), column):
            with pytest.raises(TypeError, match=r"column\.numpy\(\) == 1, or .* trace\.events\(where=") as caught:
                getattr(operator, word)(column, other)
            assert isinstance(caught.value, UsageError)
    assert len({*COLUMNS.values()}) == len(COLUMNS)


def test_names_of_several_kinds_stay_with_their_rows() -> None:
    column = COLUMNS["of two kinds"]
    assert isinstance(column, Enumerated)
    assert column.to_pylist() == ["a", "2", "1"]
    assert column.take([2, 0]).to_pylist() == ["1", "a"]
    assert column.numbers.to_pylist() == [1, 2, 1]
    assert [type(value) for value in COLUMNS["enumerated"].enum_values()] == [EnumValue, EnumValue, type(None)]  # type: ignore[union-attr]
