"""The cursor and the packer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import FormatError
from dotnetdiag.wire import Cursor, Packer, decimal


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_varuint_comes_back(value: int) -> None:
    assert Cursor(bytes(Packer().varuint(value))).varuint() == value


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_varint_comes_back(value: int) -> None:
    assert Cursor(bytes(Packer().varint(value))).varint() == value


@given(st.text(alphabet=st.characters(exclude_characters="\0")))
def test_z16_comes_back(text: str) -> None:
    assert Cursor(bytes(Packer().z16(text))).z16() == text


def test_reading_past_the_end_says_where_and_moves_nothing() -> None:
    cursor = Cursor(b"\1\2\3", base=100, where="block")
    with pytest.raises(FormatError, match="block at 0x64") as caught:
        cursor.u32()
    assert caught.value.offset == 100
    assert cursor.u16() == 0x201


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("00012", 12), ("9" * 19, 10**19 - 1)])
def test_a_decimal_number_is_read(text: str, number: int) -> None:
    assert decimal(text) == number


@pytest.mark.parametrize("text", [None, "", "²", "٣", "-1", "+1", "1_0", " 1", "1.5", "9" * 20, "9" * 5000])
def test_what_is_no_decimal_number_is_none(text: str | None) -> None:
    assert decimal(text) is None
