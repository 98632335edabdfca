"""The compiled loops alone: their numbers are ours, and they write nothing outside of the arrays handed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.events.help import decoded, schema_of

from dotnetdiag.events import fallback, kernels
from dotnetdiag.events.json_texts import LONGEST_NUMBER
from dotnetdiag.events.layout import Count
from dotnetdiag.events.operations import EMPTY_ELEMENTS, LARGEST_COUNT, Op, Operation, State, as_table

KERNELS: Any = kernels.KERNELS
pytestmark = pytest.mark.skipif(KERNELS is None, reason="the kernels are not compiled")
Array = np.ndarray[Any, Any]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def test_kernels_and_fall_back_have_the_same_numbers() -> None:
    assert {
        "Op": list(Op),
        "Count": list(Count),
        "State": list(State),
        "LARGEST_COUNT": LARGEST_COUNT,
        "EMPTY_ELEMENTS": EMPTY_ELEMENTS,
        "LONGEST_NUMBER": LONGEST_NUMBER,
    } == KERNELS.NUMBERS


def walk(*ops: Operation, rows: int = 4, slots: tuple[int, ...] = (0,), words: int = 8, registers: int = 1) -> Array:
    """Over rows of eight bytes; ``words`` of output, and more behind it that nobody may touch."""
    out = np.full(words + 64, 0xAA, np.uint64)
    starts = np.arange(rows, dtype=np.int64) * 8
    KERNELS.walk(
        np.arange(rows * 8, dtype=np.uint8), starts, starts, np.zeros(rows, np.int64), starts + 8, as_table(ops),
        ints(*slots), out[:words], np.zeros((registers, 2), np.int64), np.zeros(registers, np.int64),
        np.zeros(len(slots), np.uint8), np.zeros(rows, np.int64), np.zeros(rows, np.uint8), 1,
    )  # fmt: skip
    assert (out[words:] == 0xAA).all()
    return out[:words]


@pytest.mark.parametrize(
    ("op", "bytes_per_row"),
    [
        (Operation(code=Op.SCALAR, slot=0, size=1), 1),
        (Operation(code=Op.SCALAR, slot=0, size=2), 2),
        (Operation(code=Op.SCALAR, slot=0, size=4), 4),
        (Operation(code=Op.SCALAR, slot=0, size=8), 8),
        (Operation(code=Op.SCALAR, slot=0, size=16), 16),
        (Operation(code=Op.VARUINT, slot=0), 8),
        (Operation(code=Op.VARINT, slot=0), 8),
        (Operation(code=Op.Z16, slot=0), 16),
        (Operation(code=Op.Z8, slot=0), 16),
        (Operation(code=Op.REMAINDER, slot=0), 16),
        (Operation(code=Op.SPAN, slot=0, size=1, count_at=Count.U32), 16),
        (Operation(code=Op.LIST, slot=0, size=1, count_at=Count.U16, behind=1), 16),
    ],
    ids=lambda value: f"{value.code.name}-{value.size}" if isinstance(value, Operation) else "",
)
def test_a_program_has_room_for_its_output_or_does_not_run(op: Operation, bytes_per_row: int) -> None:
    for rows in (1, 4, 9):
        enough = -(-bytes_per_row * rows // 8)
        walk(op, rows=rows, words=enough)
        with pytest.raises(ValueError, match="leaves its arrays"):
            walk(op, rows=rows, words=enough - 1)


@pytest.mark.parametrize(
    "op",
    [
        Operation(code=Op.SCALAR, slot=1, size=4),
        Operation(code=Op.SCALAR, slot=0, size=3),
        Operation(code=Op.SCALAR, slot=0, size=-8),
        Operation(code=Op.SCALAR, size=4, keep=1),
        Operation(code=Op.SCALAR, size=16, keep=0),
        Operation(code=Op.SPAN, size=1, count_at=Count.FIELD, param=1),
        Operation(code=Op.SPAN, size=1, count_at=Count.FIELD, param=-1),
        Operation(code=Op.LIST, size=1, behind=0),
        Operation(code=Op.LIST, size=1, behind=2),
        Operation(code=Op.BLOCK, size=8, behind=1),
        Operation(code=Op.BLOCK, slot=0, behind=1),
    ],
    ids=repr,
)
def test_a_program_that_leaves_its_arrays_does_not_run(op: Operation) -> None:
    with pytest.raises(ValueError, match="leaves its arrays"):
        walk(op)
    with pytest.raises(ValueError, match="leaves its arrays"):
        walk(Operation(code=Op.SCALAR, slot=0, size=1), slots=(-8,))
    with pytest.raises(ValueError, match="leaves its arrays"):
        walk(Operation(code=Op.SCALAR, slot=0, size=1), slots=(4,))


def test_texts_that_change_between_two_looks_stay_in_their_places() -> None:
    """A mapped file may be written to while it is read."""
    texts = "ab\u20ac\U0001f40d\u0416" * 3
    raw = np.frombuffer(texts.encode("utf-16-le"), np.uint8)
    starts, lengths = ints(0, 8, 16), ints(8, 8, 20)
    sizes = np.zeros(3, np.int64)
    KERNELS.utf8_sizes(raw, starts, lengths, sizes)
    offsets = np.concatenate([ints(0), np.cumsum(sizes)])
    for other in (np.full(len(raw), 0x20, np.uint8), np.full(len(raw), 0xFF, np.uint8), raw[::-1].copy()):
        memory = np.full(int(offsets[-1]) + 100, 0xAA, np.uint8)
        KERNELS.utf8_write(other, starts, lengths, offsets, memory[: offsets[-1]])
        assert (memory[offsets[-1] :] == 0xAA).all()
        short = np.full(40, 0xAA, np.uint8)
        KERNELS.utf8_write(other, starts, lengths, offsets, short[:5])
        assert (short[5:] == 0xAA).all()


@pytest.mark.parametrize("name", ["copy", "narrow"])
def test_spans_outside_of_their_arrays_are_not_copied(name: str) -> None:
    data, copy = np.arange(64, dtype=np.uint8), getattr(KERNELS, name)
    for starts, offsets in (
        (ints(60), ints(0, 8)),
        (ints(-1), ints(0, 4)),
        (ints(0), ints(0, 17)),
        (ints(0), ints(-4, 4)),
    ):
        memory = np.full(100, 0xAA, np.uint8)
        copy(data, starts, offsets, memory[:16])
        assert (memory == 0xAA).all()


LIST_OF_TEXTS = as_table([Operation(code=Op.LIST, size=1, behind=2), Operation(code=Op.Z8)])


def test_elements_that_change_between_two_looks_are_as_many_as_were_counted() -> None:
    data = np.frombuffer(b"a\0b\0cd", np.uint8)
    forms: list[tuple[Any, Any]] = [(KERNELS.elements, np.zeros(0, np.int64)), (fallback.elements, 0)]
    for elements, scratch in forms:
        found = np.zeros(5, np.int64)
        elements(data, ints(0), ints(5), ints(6), LIST_OF_TEXTS, 1, 2, scratch, found)
        assert found.tolist() == [0, 2, 4, 6, 6]


def test_elements_beyond_their_array_are_left_out() -> None:
    memory = np.full(20, -1, np.int64)
    data = np.frombuffer(b"a\0b\0cd", np.uint8)
    KERNELS.elements(data, ints(0), ints(5), ints(6), LIST_OF_TEXTS, 1, 2, np.zeros(0, np.int64), memory[:3])
    assert memory.tolist() == [0, 2, 4] + [-1] * 17


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bound", (ints(0, 1), np.zeros(1, np.uint32), 9, ints(0, 0))),
        ("bound", (ints(0, 1), np.zeros(2, np.uint32), 9, ints(0))),
        ("add_up", (ints(1, 2), 0, ints(0, 0))),
        ("copy", (np.zeros(9, np.uint8), ints(0, 1), ints(0, 1), np.zeros(9, np.uint8))),
        ("narrow", (np.zeros(9, np.uint8), ints(0, 1), ints(0, 1), np.zeros(9, np.uint8))),
        ("utf8_sizes", (np.zeros(9, np.uint8), ints(0, 1), ints(0, 1), ints(0))),
        ("utf8_write", (np.zeros(9, np.uint8), ints(0, 1), ints(0, 1), ints(0, 1), np.zeros(9, np.uint8))),
    ],
)
def test_arrays_that_differ_in_length_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="differ in length"):
        getattr(KERNELS, name)(*arguments)


def test_rows_of_ids_without_a_place_are_not_sorted() -> None:
    ids, offsets, lengths = np.array([1, 9, 1], np.uint32), ints(5, 6, 7), np.array([1, 2, 3], np.uint32)
    assert not KERNELS.bucket(ids, offsets, lengths, np.zeros(9, np.int64), offsets.copy(), lengths.copy())
    assert not KERNELS.bucket(ids, offsets, lengths, np.zeros(16, np.int64), offsets[:2].copy(), lengths.copy())
    found, kept, _ = kernels.bucket(ids, offsets, lengths)
    assert (found, kept.tolist()) == ([(1, 2), (9, 3)], [5, 7, 6])


def test_padding_of_any_size_is_passed_over() -> None:
    for size in (0, 1, 3, 7, 300):
        table = decoded(schema_of(f"a:u1,:pad{size}"), [b"\5" + bytes(size)] * 2)
        assert (table["a"].to_pylist(), table.undecodable) == ([5, 5], None)
