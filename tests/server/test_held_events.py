from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

import pytest

from dotnetdiag.nettrace.writer import PAYLOAD_LIMIT
from dotnetdiag.server import held_events
from dotnetdiag.server.blocking import never_wait, own_lock
from dotnetdiag.server.held_events import BLOCK_S, ROW, HeldEvents, os_thread_id

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
    held = HeldEvents(CAPACITY, partial(wake.put, None))
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
    held = HeldEvents(CAPACITY, partial(wake.put, None))
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
    held = HeldEvents(CAPACITY, partial(wake.put, None))
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
    held = HeldEvents(CAPACITY, partial(wake.put, None))
    held.channel(1)(b"x" * (PAYLOAD_LIMIT + 1))
    held.channel(1)(b"fits")
    batch = held.take()
    assert batch is not None
    assert batch.rows["metadata_id"].tolist() == [0, 1]
    assert not batch.dropped


def test_the_worker_is_called_for_the_first_event_for_much_and_for_losses(wake: SimpleQueue[None]) -> None:
    held = HeldEvents(CAPACITY, partial(wake.put, None))
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
    held = HeldEvents(1 << 20, partial(wake.put, None))
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
    held = HeldEvents(CAPACITY, partial(wake.put, None), block=True)
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


# threads that wait for room -------------------------------------------------------------------------------------------


class Waits(threading.Condition):
    """Of a buffer in which threads wait: a wait is counted, and takes no time but that of its clock."""

    def __init__(self, held: HeldEvents, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(held._lock)
        self.count, self._now_s = 0, 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        held._room_came = self
        monkeypatch.setattr(held_events, "monotonic", lambda: self._now_s)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        assert timeout <= BLOCK_S
        self.count += 1
        self._now_s += timeout
        self.meanwhile()
        return False


@pytest.fixture
def full(wake: SimpleQueue[None]) -> HeldEvents:
    held = HeldEvents(CAPACITY, partial(wake.put, None), block=True)
    held.give_back(ROW.itemsize - CAPACITY)  # room for one event without a payload
    held.channel(1)(b"")
    return held


@pytest.fixture
def waits(full: HeldEvents, monkeypatch: pytest.MonkeyPatch) -> Waits:
    return Waits(full, monkeypatch)


def in_a_thread(act: Callable[[], object]) -> None:
    """In one that has taken from no session."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def write_ten(held: HeldEvents) -> None:
    for _ in range(10):
        held.channel(1)(b"x")


def test_a_reader_that_has_gone_is_waited_for_once(full: HeldEvents, waits: Waits) -> None:
    in_a_thread(lambda: write_ten(full))
    in_a_thread(lambda: write_ten(full))
    assert waits.count == 1
    batch = full.take()
    assert batch is not None
    assert sum(batch.dropped.values()) == 20
    assert len(batch.rows) == 1


def test_a_reader_that_comes_back_is_waited_for_again(full: HeldEvents, waits: Waits) -> None:
    in_a_thread(lambda: write_ten(full))
    full.take()
    full.give_back(2 * ROW.itemsize, is_read=True)
    in_a_thread(lambda: write_ten(full))
    assert waits.count == 2
    batch = full.take()
    assert batch is not None
    assert (len(batch.rows), sum(batch.dropped.values())) == (1, 9)


def test_a_reader_that_takes_little_is_waited_for_as_long_as_it_takes_something(full: HeldEvents, waits: Waits) -> None:
    def read() -> None:
        full.take()
        full.give_back(1, is_read=True)

    waits.meanwhile = read
    in_a_thread(lambda: full.channel(1)(b""))
    assert waits.count == ROW.itemsize
    batch = full.take()
    assert batch is not None
    assert (len(batch.rows), batch.dropped) == (1, {})


def test_room_that_encoding_has_made_is_no_reader(full: HeldEvents, waits: Waits) -> None:
    waits.meanwhile = lambda: full.give_back(1)
    in_a_thread(lambda: write_ten(full))
    assert waits.count == 1


def test_a_thread_that_serves_readers_waits_for_none(full: HeldEvents, waits: Waits) -> None:
    def serve() -> None:
        never_wait()
        write_ten(full)

    in_a_thread(serve)
    assert not waits.count


@pytest.mark.parametrize("held", ["a lock", "this session", "another session"])
def test_nobody_waits_who_holds_a_lock_of_ours(held: str, full: HeldEvents, waits: Waits) -> None:
    other = HeldEvents(CAPACITY, lambda: None)
    lock = {"a lock": own_lock(), "this session": full._lock, "another session": other._lock}[held]

    def interrupt() -> None:
        with lock:
            write_ten(full)

    in_a_thread(interrupt)
    while_held = waits.count
    in_a_thread(lambda: write_ten(full))
    assert (while_held, waits.count) == (0, 1)
