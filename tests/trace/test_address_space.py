"""What lies where in the memory of each process."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trace.made import MadeTrace, names_at

from dotnetdiag.nettrace import ThreadInfo
from dotnetdiag.trace.bounds import process_ids


def test_a_leaf_is_looked_up_where_it_is_and_a_return_address_one_byte_before() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.method(0x1000, 0x100, "First")
    made.method(0x1100, 0x100, "Second")
    symbols = made.symbols()
    assert names_at(symbols, [0x1100]) == ["a!Some.Type.Second()"]
    assert names_at(symbols, [0x1100], exact=np.zeros(1, np.bool_)) == ["a!Some.Type.First()"]
    assert names_at(symbols, [0x1100], exact=None) == ["a!Some.Type.First()"]


def test_an_address_behind_the_last_method_is_one_only_as_a_return_address_of_its_last_call() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.method(0x1000, 0x100, "Throw")
    assert names_at(made.symbols(), [0x1100, 0x1101, 0xFFF, 0]) == ["a!Some.Type.Throw()", "!0x1101", "!0xfff", "!0x0"]


def test_the_process_of_a_thread_that_the_file_does_not_name_is_not_known() -> None:
    threads = {index: ThreadInfo(index=index, process_id=10 * index) for index in (3, 1)}
    assert process_ids({}, np.array([1], np.uint64)) is None
    found = process_ids(threads, np.array([0, 1, 2, 3, 4, (1 << 64) - 1], np.uint64))
    assert found is not None
    assert found.tolist() == [0, 10, 0, 30, 0, 0]


@pytest.mark.parametrize(("one", "two"), [(10, 20), (1, 2)])
def test_processes_have_addresses_of_their_own_and_share_the_kernel(one: int, two: int) -> None:
    made = MadeTrace()
    kernel = 0xFFFFFFFF81000000
    for thread, process in ((1, one), (2, two)):
        made.process(thread, process)
    made.mapping(1, 0xFFFF800000000000, 0xFFFFFFFFFFFFFFFF, "vmlinux", thread=1)
    made.mapping(5, 0x10000, 0x20000, "one.so", thread=1)
    made.mapping(6, 0x10000, 0x20000, "two.so", thread=2)
    made.mapping(7, 0x70000, 0x80000, "both.so", thread=1)
    made.mapping(7, 0x70000, 0x80000, "both.so", thread=2)
    made.symbol(1, kernel, kernel + 0xF, "schedule")
    made.symbol(7, 0x71000, 0x71010, "shared")
    symbols = made.symbols()
    processes = np.array([one, two, one, two, two, 99, two], np.int64)
    where = [0x10001, 0x10001, 0x71001, 0x71001, kernel + 0xF, 0x10001, 0xFFFFFFFFFFFFFFFF]
    assert names_at(symbols, where, processes=processes) == [
        "one.so!0x10001",
        "two.so!0x10001",
        "both.so!shared",
        "both.so!shared",
        "vmlinux!schedule",
        "!0x10001",
        "!0xffffffffffffffff",
    ]
    assert symbols.processes == {one, two}


@pytest.mark.parametrize(
    ("known", "owners", "several"),
    [
        ((), (7,), False),
        ((7,), (7,), False),
        ((7,), (7, 0), False),
        ((7,), (7, 8), True),
        ((7,), (8,), True),
        ((7, 8), (7,), True),
    ],
)
def test_an_address_may_be_of_a_process_of_which_nothing_is_known(
    known: tuple[int, ...], owners: tuple[int, ...], several: bool
) -> None:
    made = MadeTrace()
    for thread, process in enumerate(known, 1):
        made.process(thread, process)
        made.mapping(4 + thread, 0x10000, 0x20000, "app.so", thread=thread)
    assert made.symbols().are_of_several(owners) is several
