from __future__ import annotations

import os
import tracemalloc
from queue import Empty, SimpleQueue

import pytest

from dotnetdiag.nettrace.writer import PAYLOAD_LIMIT
from dotnetdiag.server.held_events import ROW, HeldEvents, os_thread_id

CAPACITY = 1 << 16


@pytest.fixture
def wake() -> SimpleQueue[None]:
    return SimpleQueue()


def calls(wake: SimpleQueue[None]) -> int:
    count = 0
    while True:
        try:
            wake.get_nowait()
        except Empty:
            return count
        count += 1


def test_what_was_written_is_taken_once(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake)
    held.channel(7)(b"abc", b"a" * 16, b"b" * 16, b"s" * 8, 99)
    held.channel(8)(b"de")
    batch = held.take()
    assert batch is not None
    assert batch.rows["metadata_id"].tolist() == [7, 8]
    assert batch.rows["thread"].tolist() == [99, os_thread_id()]
    assert batch.rows["capture_thread"].tolist() == [os_thread_id()] * 2
    assert batch.rows["stack"].tolist() == [1, 0]
    assert (batch.rows["activity"].tolist(), batch.rows["related"].tolist()) == ([1, 0], [2, 0])
    assert batch.rows["size"].tolist() == [3, 2]
    assert bytes(batch.payloads) == b"abcde"
    assert batch.stacks == (b"s" * 8,)
    assert held.take() is None


def test_the_room_comes_back_in_full(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake)
    write = held.channel(1)
    for number in range(100):
        write(b"x" * number, os.urandom(16), b"", os.urandom(80))
        held.skip()
    batch = held.take()
    assert batch is not None
    assert held.room == CAPACITY - batch.size_bytes
    assert batch.size_bytes > batch.rows.nbytes + len(batch.payloads) + sum(map(len, batch.stacks))
    held.give_back(batch.size_bytes)
    assert held.room == CAPACITY


def test_from_the_first_that_does_not_fit_nothing_is_held_until_it_was_taken(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake)
    write = held.channel(1)
    write(b"first")
    write(b"x" * PAYLOAD_LIMIT)
    write(b"would fit")
    batch = held.take()
    assert batch is not None
    assert bytes(batch.payloads) == b"first"
    assert batch.dropped == {os_thread_id(): 2}
    write(b"fits")
    batch = held.take()
    assert batch is not None
    assert (bytes(batch.payloads), batch.dropped) == (b"fits", {})


def test_what_is_more_than_a_payload_may_be_takes_a_number_alone(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake)
    held.channel(1)(b"x" * (PAYLOAD_LIMIT + 1))
    held.channel(1)(b"fits")
    batch = held.take()
    assert batch is not None
    assert batch.rows["metadata_id"].tolist() == [0, 1]
    assert not batch.dropped


def test_the_worker_is_called_for_the_first_event_for_much_and_for_losses(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake)
    write = held.channel(1)
    write(b"")
    assert calls(wake) == 1
    write(b"")
    assert calls(wake) == 0
    while not held.is_urgent:
        write(b"x" * 1000)
    assert calls(wake) == 1
    for _ in range(1000):
        write(b"x" * 1000)
    assert calls(wake) == 0
    held.take()
    write(b"x" * PAYLOAD_LIMIT)  # nothing is given back yet
    assert calls(wake) == 1


def test_memory_is_bounded_whatever_is_written(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(1 << 20, wake)
    write = held.channel(1)
    tracemalloc.start()
    for _ in range(20_000):
        write(os.urandom(100), os.urandom(16), os.urandom(16), os.urandom(800))
    assert tracemalloc.get_traced_memory()[0] < 3 << 20
    tracemalloc.stop()
    batch = held.take()
    assert batch is not None
    assert len(batch.rows) + sum(batch.dropped.values()) == 20_000


def test_closed_it_holds_nothing(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, wake, block=True)
    write = held.channel(1)
    write(b"x")
    held.close()
    for _ in range(100):
        write(b"x")
        held.skip()
    batch = held.take()
    assert batch is not None
    assert not len(batch.rows)
    assert ROW.itemsize == 44
