"""Stacks of several tables under one numbering."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np

from dotnetdiag.nettrace import StackTable
from dotnetdiag.trace.stack_ids import StackIds


def context(*stacks: tuple[int, ...], pointer_size: int = 8) -> Any:
    table = StackTable(pointer_size)
    for stack in stacks:
        table.intern(struct.pack(f"<{len(stack)}{'Q' if pointer_size == 8 else 'I'}", *stack))
    return SimpleNamespace(stacks=table, recording=None)


def ids(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def frames(found: StackIds, numbers: Any) -> list[list[int]]:
    return [found.table.frames(number).tolist() for number in numbers.tolist()]


def test_windows_of_one_table_keep_their_ids_and_it_is_not_asked_for_before_the_end() -> None:
    class Recording:
        recording = None

        @property
        def stacks(self) -> StackTable:
            raise AssertionError("that is another pass over the file")

    found, recording = StackIds(), Recording()
    for _ in range(2):
        found.look_at(recording)  # type: ignore[arg-type]
        assert found.of(ids(7, 0, 7)).tolist() == [7, 0, 7]


def test_windows_of_other_tables_get_ids_of_one() -> None:
    found, first = StackIds(), context((1, 2), (3,))
    found.look_at(first)
    one = found.of(ids(1, 2, 0))
    found.look_at(context((3,), (4, 5)))
    two = found.of(ids(2, 1, 0))
    assert one.tolist() == [1, 2, 0]
    assert frames(found, one) == [[1, 2], [3], []]
    assert frames(found, two) == [[4, 5], [3], []]
    assert len(first.stacks) == 3, "the window's own table stays as it is"


def test_a_table_without_stacks_does_not_say_how_long_pointers_are() -> None:
    found = StackIds()
    found.look_at(context())
    found.of(ids(0))
    found.look_at(context((1, 2, 3), pointer_size=4))
    assert frames(found, found.of(ids(1))) == [[1, 2, 3]]


def test_what_is_not_kept_is_forgotten() -> None:
    found, only = StackIds(), context((1,), (2,), (3,))
    found.look_at(only)
    kept = found.keep(ids(3, 0))
    assert frames(found, kept) == [[3], []]
    assert len(found.table) == 2
    found.look_at(only)
    assert frames(found, found.of(ids(1, 3))) == [[1], [3]]
    assert len(found.table) == 3
