"""Texts of JSON, compiled and by plain Python: what ``json`` makes, byte by byte."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel_forms import FORMS, KERNELS, in_form

from dotnetdiag.events import Text, json_texts
from dotnetdiag.events.json_texts import ASCII, CLEAN, READABLE, Cells, Quoting

compiled = pytest.mark.skipif(KERNELS is None, reason="the kernels are not compiled")
DOUBLES = st.floats() | st.integers(0, (1 << 64) - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
SHORT = st.builds(lambda number, places: number / 10**places, st.integers(-(10**16), 10**16), st.integers(0, 20))
LIMITS = [0.0, -0.0, 1e15, 1e16, 999999999999999.9, 1e-4, 9.9999999e-5, 1e9, 999999999.999999, 5e-324, 0.1 + 0.2, 1e22]
HOSTILE = st.characters(exclude_categories=()) | st.sampled_from(
    '"\\\x00\b\t\n\f\r\x1f\x7f\x80\x9f\xa0\ud800\udfff\u2028'
)


@pytest.fixture(params=FORMS, autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    with in_form(request.param):
        yield request.param


def texts_of(cells: Cells) -> list[bytes]:
    starts, ends, pool = cells
    return [pool[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def encoded(texts: list[str]) -> list[bytes]:
    return [text.encode("utf-8", "backslashreplace") for text in texts]


@given(st.lists(DOUBLES | SHORT | st.sampled_from(LIMITS) | st.sampled_from(LIMITS).map(lambda one: -one), max_size=20))
def test_floats_are_written_as_repr_has_them(values: list[float]) -> None:
    expected = ["null" if value * 0 != 0 else repr(value) for value in values]
    assert texts_of(json_texts.floats(np.array(values, np.float64))) == encoded(expected)


def test_every_number_of_few_digits_is_written_as_repr_has_it() -> None:
    """Those that the loop itself makes digits of, and their neighbours."""
    draw = np.random.default_rng(1)
    numbers = draw.integers(0, 10 ** draw.integers(1, 17, 100_000)) / 10.0 ** draw.integers(0, 12, 100_000)
    for values in (numbers, np.nextafter(numbers, np.inf), np.nextafter(-numbers, 0)):
        assert texts_of(json_texts.floats(values)) == encoded(list(map(repr, values.tolist())))


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i8", "<u8", ">i4", "u2"])
@given(st.data())
def test_whole_numbers_of_any_type(dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    near = st.sampled_from([int(limits.min), int(limits.max), 0, 9, 10, 99, 100])
    numbers = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)) | near, max_size=9))
    values = np.array(numbers, dtype)[::-1]
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers))), np.bool_)
    expected = [str(value) if good else "null" for value, good in zip(values.tolist(), valid, strict=True)]
    assert texts_of(json_texts.whole_numbers(values, valid)) == encoded(expected)


@given(
    st.lists(st.integers(1 - (1 << 63), (1 << 63) - 1) | st.integers(-(10**10), 10**10), max_size=9), st.integers(1, 9)
)
def test_times_are_written_as_numpy_has_them(values: list[int], decimals: int) -> None:
    column = np.array(values, np.int64)
    texts = np.datetime_as_string(column.view("datetime64[ns]"), unit="ns").tolist()
    valid = np.arange(len(values)) % 2 == 0
    expected = [f'"{text[: 20 + decimals]}Z"' for text in texts]
    assert texts_of(json_texts.times(column, decimals=decimals)) == encoded(expected)
    nulls = [text if good else "null" for text, good in zip(expected, valid, strict=True)]
    assert texts_of(json_texts.times(column, valid, decimals=decimals)) == encoded(nulls)


def test_every_day_is_written_as_numpy_has_it() -> None:
    days = np.arange(-106_751, 106_751, dtype=np.int64) * 86_400 * 10**9
    for values in (days, days - 1):
        texts = np.datetime_as_string(values.view("datetime64[ns]"), unit="ns").tolist()
        assert texts_of(json_texts.times(values)) == [f'"{text}Z"'.encode() for text in texts]
    with pytest.raises(ValueError, match="no time"):
        json_texts.times(np.array([-(1 << 63)]))


@pytest.mark.parametrize("quoting", [READABLE, CLEAN, ASCII])
@given(st.lists(st.none() | st.text(HOSTILE), max_size=9))
def test_texts_are_quoted_as_json_has_them(quoting: Quoting, values: list[str | None]) -> None:
    column = Text.from_pylist(values)
    made = texts_of(json_texts.texts(column.offsets, column.data, column.valid, quoting))
    assert made == [b"null" if value is None else quoting.text(value).encode() for value in values]
    for text, value in zip(made, values, strict=True):
        assert json.loads(text) == (value if value is None else json.loads(json.dumps(value)))
        if quoting is not READABLE:
            assert not any(0x7F <= ord(letter) < 0xA0 for letter in text.decode())
        if quoting is ASCII:
            assert text.isascii()


@given(st.binary(max_size=12))
def test_bytes_that_are_no_texts_are_refused(raw: bytes) -> None:
    offsets, data = np.array([0, len(raw)], np.int64), np.frombuffer(raw, np.uint8)
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            json_texts.texts(offsets, data, None, CLEAN)
    else:
        json_texts.texts(offsets, data, None, CLEAN)


@given(st.lists(st.tuples(st.binary(max_size=70), st.binary(max_size=5)), max_size=5), st.binary(max_size=40))
def test_rows_are_woven(rows: list[tuple[bytes, bytes]], word: bytes) -> None:
    columns = [json_texts.cells_of([row[0] for row in rows]), json_texts.cells_of([row[1] for row in rows])]
    sizes, made = json_texts.woven(columns, [b"%{", word, b"}"], len(rows))
    expected = [b"%{" + first + word + second + b"}" for first, second in rows]
    assert made.tobytes() == b"".join(expected)
    assert sizes.tolist() == list(map(len, expected))


@compiled
def test_loops_write_nothing_outside_of_their_arrays() -> None:
    for decimals, shape in [(0, (1, 23)), (10, (1, 33)), (9, (1, 31)), (9, (2, 32))]:
        with pytest.raises(ValueError, match="differ in length"):
            KERNELS.time_texts(np.zeros(1, np.int64), decimals, np.empty(shape, np.uint8))
    empty = np.zeros(0, np.uint8)
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    room = np.empty(json_texts.LONGEST_NUMBER, np.uint8)
    for values, offsets, out in [(one, one, room), (one, two, room[1:]), (two, two, room)]:
        with pytest.raises(ValueError, match="differ in length"):
            KERNELS.whole_texts(values, True, None, offsets, out)
        with pytest.raises(ValueError, match="differ in length"):
            KERNELS.double_texts(values.astype(np.float64), False, None, offsets, out)
    with pytest.raises(ValueError, match="differ in length"):
        KERNELS.quoted_texts(empty, two, None, empty, 0, two, room)
    text = np.frombuffer('a"\n\x00é\ud800\U0001f600'.encode("utf-8", "surrogatepass"), np.uint8)
    for quoting in (READABLE, CLEAN, ASCII):
        for size in range(70):
            out = np.full(size + 8, 0xAA, np.uint8)
            bounds = np.array([0, len(text)], np.int64)
            sound = KERNELS.quoted_texts(text, bounds, None, quoting.widths, quoting.limit, two.copy(), out[:size])
            assert (out[size:] == 0xAA).all()
            assert sound is (size >= 60) or 20 < size < 60
    bounds = np.array([0, len(text) + 1], np.int64)
    assert not KERNELS.quoted_texts(text, bounds, None, CLEAN.widths, 0xA0, two.copy(), np.empty(200, np.uint8))


@compiled
@pytest.mark.parametrize(("start", "end"), [(0, 9), (-1, 3), (5, 3), (0, 8)])
@pytest.mark.parametrize("size", [0, 1, 7, 12, 80])
def test_woven_rows_stay_in_their_arrays(start: int, end: int, size: int) -> None:
    cell = (np.array([start], np.int64), np.array([end], np.int64), np.full(8, 66, np.uint8))
    words, bounds = np.frombuffer(b"<>", np.uint8), np.array([0, 1, 2], np.int64)
    out = np.full(size + 40, 0xAA, np.uint8)
    written, sound = KERNELS.weave([cell], 1, words, bounds, np.empty(32, np.uint8), out[:size])
    assert sound == ((start, end) == (0, 8) and size >= 10)
    assert written <= size
    assert (out[size:] == 0xAA).all()
    with pytest.raises(ValueError, match="differ in length"):
        KERNELS.weave([cell], 2, words, bounds, np.empty(32, np.uint8), out)
    with pytest.raises(ValueError, match="differ in length"):
        KERNELS.row_sizes([cell], 2, np.empty(31, np.uint8), np.empty(1, np.int64))
    with pytest.raises(ValueError, match="differ in length"):
        KERNELS.row_sizes([cell], 2, np.empty(32, np.uint8), np.empty(2, np.int64))
    with pytest.raises(ValueError, match="leave"):
        KERNELS.weave([cell], 1, words, bounds + 1, np.empty(32, np.uint8), out)
