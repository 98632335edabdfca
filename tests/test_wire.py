"""The cursor and the packer, and numbers in decimal."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import FormatError, ProtocolError
from dotnetdiag.wire import Cursor, Packer, decimal

# numbers of a fixed size ------------------------------------------------------------------------------------------------

# method, size, a value and its bytes as they stand on the wire
FIXED: list[tuple[str, float, str]] = [
    ("u8", 0, "00"),
    ("u8", 0xFE, "fe"),
    ("u16", 0x1234, "3412"),
    ("u16", 0xFFFF, "ffff"),
    ("i16", -2, "feff"),
    ("i16", 0x1234, "3412"),
    ("u32", 0x12345678, "78563412"),
    ("u32", 0xFFFFFFFF, "ffffffff"),
    ("i32", -2, "feffffff"),
    ("i32", 0x12345678, "78563412"),
    ("u64", 0x1122334455667788, "8877665544332211"),
    ("u64", (1 << 64) - 1, "ffffffffffffffff"),
    ("i64", -2, "feffffffffffffff"),
    ("i64", 0x1122334455667788, "8877665544332211"),
    ("f64", -1.5, "000000000000f8bf"),
]


@pytest.mark.parametrize(("method", "value", "wire"), FIXED)
def test_a_number_has_these_bytes_and_comes_back(method: str, value: float, wire: str) -> None:
    packer = Packer().raw(b"\xaa")
    assert getattr(packer, method)(value) is packer
    packer.raw(b"\xbb")
    assert bytes(packer).hex() == f"aa{wire}bb"
    assert len(packer) == len(wire) // 2 + 2
    cursor = Cursor(bytes(packer), position=1)
    assert getattr(cursor, method)() == value
    assert cursor.position == len(packer) - 1
    assert cursor.u8() == 0xBB
    assert cursor.left == 0


@pytest.mark.parametrize(("method", "value", "wire"), FIXED)
def test_a_number_that_is_cut_says_what_was_wanted_and_moves_nothing(method: str, value: float, wire: str) -> None:
    size = len(wire) // 2
    for there in range(size):
        cursor = Cursor(b"\xff\xff" + bytes.fromhex(wire)[:there] + b"\xff" * 9, position=2, end=2 + there)
        with pytest.raises(FormatError) as caught:
            getattr(cursor, method)()
        assert str(caught.value) == f" at 0x2: {method} needs {size} bytes, {there} left"
        with pytest.raises(FormatError, match="the size needs"):
            getattr(cursor, method)("the size")
        assert (cursor.position, cursor.left) == (2, there)


def test_not_a_number_comes_back() -> None:
    assert math.isnan(Cursor(bytes(Packer().f64(math.nan))).f64())


# numbers of a size of their own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (1, "01"),
        (0x7F, "7f"),
        (0x80, "8001"),
        (300, "ac02"),
        (0x3FFF, "ff7f"),
        (0x4000, "808001"),
        (0xFFFFFFFF, "ffffffff0f"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
    ],
)
def test_a_varuint_has_these_bytes_and_comes_back(value: int, wire: str) -> None:
    packer = Packer()
    assert packer.varuint(value) is packer
    assert bytes(packer).hex() == wire
    cursor = Cursor(bytes(packer) + b"\x05")
    assert cursor.varuint() == value
    assert cursor.left == 1


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101")],
)
def test_a_varint_is_a_zigzag(value: int, wire: str) -> None:
    packer = Packer()
    assert packer.varint(value) is packer
    assert bytes(packer).hex() == wire
    assert Cursor(bytes(packer)).varint() == value


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_varuint_comes_back(value: int) -> None:
    assert Cursor(bytes(Packer().varuint(value))).varuint() == value


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_varint_comes_back(value: int) -> None:
    assert Cursor(bytes(Packer().varint(value))).varint() == value


def test_a_negative_varuint_is_refused() -> None:
    packer = Packer()
    with pytest.raises(ValueError, match="not negative"):
        packer.varuint(-1)
    assert len(packer) == 0


def read_varuint(bits: int) -> Callable[[Cursor], int]:
    return lambda cursor: cursor.varuint(bits, "the count")


@pytest.mark.parametrize(
    ("bits", "wire", "value"),
    [
        (32, "ffffffff0f", 0xFFFFFFFF),
        (64, "ffffffffffffffffff01", (1 << 64) - 1),
        (32, "8080808000", 0),  # longer than it need be, and not longer than it may be
        (64, "80808080808080808000", 0),
        (64, "808080808000", 0),
    ],
)
def test_the_longest_varuint_is_read(bits: int, wire: str, value: int) -> None:
    cursor = Cursor(bytes.fromhex(wire))
    assert cursor.varuint(bits) == value
    assert cursor.left == 0


@pytest.mark.parametrize(
    ("bits", "wire", "problem"),
    [
        (32, "ffffffff10", "the count does not fit 32 bits"),
        (32, "ffffffff1f", "the count does not fit 32 bits"),
        (64, "ffffffffffffffffff02", "the count does not fit 64 bits"),
        (32, "808080808000", "the count does not end"),
        (64, "8080808080808080808000", "the count does not end"),
        (64, "", "the count does not end"),
        (64, "80", "the count does not end"),
    ],
)
def test_a_varuint_that_is_too_long_or_too_large_or_cut_is_refused(bits: int, wire: str, problem: str) -> None:
    cursor = Cursor(b"\0" + bytes.fromhex(wire), position=1, base=7)
    with pytest.raises(FormatError) as caught:
        read_varuint(bits)(cursor)
    assert (caught.value.problem, caught.value.offset, cursor.position) == (problem, 8, 1)


def test_varints_are_64_bits_wide_unless_told() -> None:
    wide = bytes.fromhex("ffffffffffffffffff01")
    assert Cursor(wide).varint() == -(1 << 63)
    for read in (Cursor(wide).varuint, Cursor(wide).varint):
        with pytest.raises(FormatError):
            read(32)
    for read in (
        Cursor(bytes.fromhex("ffffffffffffffffff02")).varuint,
        Cursor(bytes.fromhex("80808080808080808002")).varint,
    ):
        with pytest.raises(FormatError, match="does not fit 64 bits"):
            read()
    with pytest.raises(FormatError, match="varint does not end"):
        Cursor(b"").varint()
    with pytest.raises(FormatError, match="varuint does not end"):
        Cursor(b"").varuint()


def test_a_varuint_behind_the_end_is_not_seen() -> None:
    for start in (0, 1000):
        cursor = Cursor(bytes(start) + b"\x80\x01", position=start, end=start + 1)
        with pytest.raises(FormatError, match="does not end"):
            cursor.varuint()


# texts --------------------------------------------------------------------------------------------------------------------


@given(st.text(alphabet=st.characters(exclude_characters="\0")))
def test_z16_comes_back(text: str) -> None:
    assert Cursor(bytes(Packer().z16(text))).z16() == text


@pytest.mark.parametrize(
    ("text", "wire"),
    [("", "0000"), ("Aé", "4100e9000000"), ("\U0001f600", "3dd800de0000"), ("\ud800", "00d80000"), ("Ā", "00010000")],
)
def test_z16_has_these_bytes(text: str, wire: str) -> None:
    packer = Packer()
    assert packer.z16(text) is packer
    assert bytes(packer).hex() == wire
    for start in (0, 1, 2, 3):  # texts are not aligned
        cursor = Cursor(b"\0\0\0"[:start] + bytes(packer) + b"AB", position=start)
        assert cursor.z16() == text
        assert cursor.rest() == b"AB"


@pytest.mark.parametrize("data", [b"", b"A", b"A\0", b"A\0\0", b"\0", b"\x01\0\0\x01\0"])
def test_z16_without_an_end_is_refused_and_moves_nothing(data: bytes) -> None:
    cursor = Cursor(data + b"\0\0\0\0", end=len(data), where="name")
    with pytest.raises(FormatError, match="name at 0x0: string has no end"):
        cursor.z16()
    assert cursor.position == 0
    with pytest.raises(FormatError, match="the event has no end"):
        cursor.z16("the event")


def test_utf8_takes_so_many_bytes_and_replaces_what_is_none() -> None:
    cursor = Cursor("é€".encode() + b"\xff!")
    assert cursor.utf8(5) == "é€"
    assert cursor.utf8(2) == "\ufffd!"
    with pytest.raises(FormatError, match="string needs 1 bytes, 0 left"):
        cursor.utf8(1)
    packer = Packer()
    assert packer.utf8("é\ud800") is packer
    assert bytes(packer) == b"\xc3\xa9?"


# bytes --------------------------------------------------------------------------------------------------------------------


def test_view_take_skip_and_rest_move_by_what_they_give() -> None:
    data = bytearray(range(10))
    cursor = Cursor(data, position=1, end=9, base=100)
    assert (cursor.left, cursor.offset) == (8, 101)
    view = cursor.view(2)
    assert bytes(view) == b"\1\2"
    data[1] = 0xFF
    assert view[0] == 0xFF  # not copied
    taken = cursor.take(2)
    assert taken == b"\3\4"
    assert isinstance(taken, bytes)
    cursor.skip(1)
    assert cursor.offset == 106
    assert cursor.rest() == b"\6\7\x08"
    assert cursor.rest() == b""
    assert (cursor.left, cursor.offset) == (0, 109)
    assert cursor.take(0) == b""


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda cursor, size: cursor.view(size), "bytes"),
        (lambda cursor, size: cursor.take(size), "bytes"),
        (lambda cursor, size: cursor.skip(size), "bytes"),
        (lambda cursor, size: cursor.require(size), "value"),
        (lambda cursor, size: cursor.child(size), "block"),
        (lambda cursor, size: cursor.child(size, "tail"), "tail"),
    ],
)
def test_more_bytes_than_there_are_is_refused_before_anything_is_made(
    act: Callable[[Cursor, int], Any], what: str
) -> None:
    cursor = Cursor(b"abcd" * 3, position=1, end=5, base=0x10, where="it")
    for size in (5, 1 << 40, -1):
        tracemalloc.start()
        with pytest.raises(FormatError) as caught:
            act(cursor, size)
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()
        assert str(caught.value) == f"it at 0x11: {what} needs {size} bytes, 4 left"
        assert (caught.value.offset, caught.value.where) == (0x11, "it")
        assert (cursor.position, cursor.left) == (1, 4)
    act(cursor, 4)  # all there is
    act(Cursor(b""), 0)


def test_require_moves_nothing() -> None:
    cursor = Cursor(b"ab")
    cursor.require(2)
    assert cursor.left == 2


def test_a_child_is_bounded_and_knows_its_absolute_offset() -> None:
    parent = Cursor(b"abcdef", position=1, base=10, where="outer", error=ProtocolError)
    child = parent.child(3, "inner")
    assert parent.take(2) == b"ef"
    assert (child.offset, child.left, child.where) == (11, 3, "inner")
    assert child.take(3) == b"bcd"
    with pytest.raises(ProtocolError, match="inner at 0xe: u8 needs 1 bytes, 0 left"):
        child.u8()
    assert Cursor(b"ab", where="outer").child(1).where == "outer"


@pytest.mark.parametrize(("position", "end"), [(-1, 2), (3, 2), (0, 4), (4, None), (0, -1)])
def test_a_cursor_outside_of_its_data_is_refused(position: int, end: int | None) -> None:
    with pytest.raises(ValueError, match=r"outside of 3 bytes"):
        Cursor(b"abc", position=position, end=end)


@pytest.mark.parametrize(("position", "end"), [(0, 0), (3, None), (3, 3), (0, 3), (2, 2)])
def test_a_cursor_may_stand_at_the_edges_of_its_data(position: int, end: int | None) -> None:
    cursor = Cursor(b"abc", position=position, end=end)
    assert cursor.left == (3 if end is None else end) - position


def test_a_cursor_begins_at_the_start_and_fails_as_a_format_error() -> None:
    cursor = Cursor(b"a")
    assert (cursor.position, cursor.base, cursor.where, cursor.offset) == (0, 0, "", 0)
    error = cursor.fail("bad")
    assert type(error) is FormatError
    assert str(error) == " at 0x0: bad"


def test_reading_past_the_end_says_where_and_moves_nothing() -> None:
    cursor = Cursor(b"\1\2\3", base=100, where="block")
    with pytest.raises(FormatError, match="block at 0x64") as caught:
        cursor.u32()
    assert caught.value.offset == 100
    assert cursor.u16() == 0x201


# decimal ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("00012", 12), ("9" * 19, 10**19 - 1)])
def test_a_decimal_number_is_read(text: str, number: int) -> None:
    assert decimal(text) == number


@pytest.mark.parametrize("text", [None, "", "²", "٣", "-1", "+1", "1_0", " 1", "1.5", "9" * 20, "9" * 5000])
def test_what_is_no_decimal_number_is_none(text: str | None) -> None:
    assert decimal(text) is None


def test_fewer_digits_may_be_asked_for() -> None:
    assert decimal("999", digits=3) == 999
    assert decimal("0001", digits=3) is None
