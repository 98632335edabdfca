"""Bytes into a file by a thread: all of them, in their order, and no error is lost."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Iterator

import pytest

from dotnetdiag.recipes.heap_writing import PIECE_BYTES, SMALL_BYTES, writing_behind


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


class Full(io.BytesIO):
    def write(self, data: object, /) -> int:
        raise OSError(28, "No space left on device")


def test_pieces_of_all_sizes_come_in_their_order() -> None:
    chance = random.Random(3)
    pieces = [
        chance.randbytes(chance.choice((0, 1, 40, SMALL_BYTES, SMALL_BYTES + 1, PIECE_BYTES))) for _ in range(300)
    ]
    file = io.BytesIO()
    with writing_behind(file) as behind:
        for piece in pieces:
            behind.write(memoryview(piece) if len(piece) % 2 else piece)
    assert file.getvalue() == b"".join(pieces)


def _write(file: io.BytesIO, pieces: int) -> None:
    with writing_behind(file) as behind:
        for _ in range(pieces):
            behind.write(bytes(PIECE_BYTES))


@pytest.mark.parametrize("pieces", [1, 10_000])
def test_what_a_write_meets_is_raised_before_the_end_or_at_it(pieces: int) -> None:
    with pytest.raises(OSError, match="No space"):
        _write(Full(), pieces)


def _break_off() -> None:
    with writing_behind(io.BytesIO()) as behind:
        behind.write(bytes(PIECE_BYTES))
        raise KeyError


def test_after_an_error_in_the_block_no_thread_is_left() -> None:
    with pytest.raises(KeyError):
        _break_off()
