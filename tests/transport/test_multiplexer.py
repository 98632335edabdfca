"""Many operations in one thread."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.descriptors import open_files

from dotnetdiag.errors import TimedOut
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.multiplexer import Multiplexer
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.waiting import Blocking, Change, Pause, Steps

PATIENCE_S = 20.0


class Fixture:
    """A multiplexer, and what comes of operations."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.multiplexer = Multiplexer("test", self.failures.append)
        self.results: list[Any] = []
        self._over = threading.Semaphore(0)

    def begin(self, steps: Steps[Any], timeout_s: float | None = PATIENCE_S) -> None:
        self.multiplexer.begin(self._watched(steps), Deadline(timeout_s))

    def wait(self) -> None:
        """Until one more operation is over."""
        assert self._over.acquire(timeout=PATIENCE_S)

    def _watched(self, steps: Steps[Any]) -> Steps[None]:
        try:
            self.results.append((yield from steps))
        finally:
            self._over.release()


@pytest.fixture
def fixture() -> Iterator[Fixture]:
    before, made = open_files(), Fixture()
    yield made
    made.multiplexer.close()
    assert open_files() <= before


@contextmanager
def pair() -> Iterator[tuple[SocketStream, SocketStream]]:
    ours, theirs = (SocketStream(one) for one in socket.socketpair())
    with ours, theirs:
        yield ours, theirs


def receiving(stream: SocketStream) -> Steps[int]:
    return stream.receiving_into(memoryview(bytearray(10)))


def test_operations_are_driven_beside_each_other(fixture: Fixture) -> None:
    with pair() as (ours, theirs), pair() as (ours2, theirs2):
        fixture.begin(receiving(ours))
        fixture.begin(receiving(ours2))
        theirs2.send(b"12", Deadline(1))
        fixture.wait()
        theirs.send(b"123", Deadline(1))
        fixture.wait()
    assert fixture.results == [2, 3]


def test_one_stream_is_read_and_written_at_the_same_time(fixture: Fixture) -> None:
    with pair() as (ours, theirs):
        fixture.begin(receiving(ours))
        fixture.begin(ours.sending(b"x" * 2_000_000))
        left = 2_000_000
        while left:
            left -= len(theirs.receive(1 << 16, Deadline(PATIENCE_S)))
        fixture.wait()
        theirs.send(b"123", Deadline(1))
        fixture.wait()
    assert fixture.results == [None, 3]


def test_an_operation_whose_time_is_over_is_closed_and_told(fixture: Fixture) -> None:
    with pair() as (ours, _):
        fixture.begin(receiving(ours), timeout_s=0.01)
        fixture.wait()
        fixture.multiplexer.close()
    assert [type(one) for one in fixture.failures] == [TimedOut]


def test_closing_a_stream_wakes_who_waits_on_it(fixture: Fixture) -> None:
    with pair() as (ours, _):
        fixture.begin(receiving(ours))
        ours.close()
        fixture.wait()
    assert fixture.results == [0]


def test_what_blocks_holds_nobody_up_and_its_result_is_sent_back(fixture: Fixture) -> None:
    go_on = threading.Event()

    def slow() -> Steps[int]:
        found: int = yield Blocking(lambda deadline: go_on.wait(PATIENCE_S) and 5)
        return found

    def quick() -> Steps[str]:
        yield Pause(0.001, "a moment")
        return "quick"

    fixture.begin(slow())
    fixture.begin(quick())
    fixture.wait()
    go_on.set()
    fixture.wait()
    assert fixture.results == ["quick", 5]


def test_what_a_blocking_call_raises_is_thrown_in(fixture: Fixture) -> None:
    def failing() -> Steps[str]:
        try:
            yield Blocking(lambda deadline: 1 // 0)
        except ZeroDivisionError as error:
            return str(error)
        return ""

    fixture.begin(failing())
    fixture.wait()
    assert fixture.results == ["integer division or modulo by zero"]


class Bell:
    """Something that changes."""

    def __init__(self) -> None:
        self.tell: Any = None
        self.found: Any = None
        self.is_observed = threading.Event()

    @contextmanager
    def observed(self, tell: Any) -> Iterator[None]:
        self.tell = tell
        self.is_observed.set()
        yield
        self.is_observed.clear()

    def look(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def steps(self) -> Steps[Any]:
        return (yield Change(self.look, self.observed, "nothing changes"))


def test_a_change_is_seen_whatever_thread_makes_it(fixture: Fixture) -> None:
    bell = Bell()
    fixture.begin(bell.steps())
    assert bell.is_observed.wait(PATIENCE_S)
    bell.tell()
    bell.found = "it"
    bell.tell()
    bell.tell()
    fixture.wait()
    assert fixture.results == ["it"]
    assert not bell.is_observed.is_set()


def test_what_was_there_before_is_seen_too(fixture: Fixture) -> None:
    bell = Bell()
    bell.found = 1
    fixture.begin(bell.steps())
    fixture.wait()
    assert fixture.results == [1]


def test_what_a_look_raises_and_the_end_of_its_time_are_thrown_in(fixture: Fixture) -> None:
    def caught(bell: Bell) -> Steps[str]:
        try:
            yield from bell.steps()
        except (ValueError, TimedOut) as error:
            return type(error).__name__
        return ""

    broken = Bell()
    broken.found = ValueError()
    fixture.begin(caught(broken))
    fixture.wait()
    fixture.begin(caught(Bell()), timeout_s=0.01)
    fixture.wait()
    assert fixture.results == ["ValueError", "TimedOut"]


def test_a_wait_that_is_longer_than_a_system_call_takes_goes_on(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dotnetdiag.transport import deadline

    monkeypatch.setattr(deadline, "LONGEST_WAIT_S", 0.005)
    bell = Bell()
    with pair() as (ours, theirs):
        fixture.begin(bell.steps())
        fixture.begin(receiving(ours))

        def later() -> Steps[None]:
            yield Pause(0.005, "")
            yield Pause(0.005, "")
            theirs.send_nowait(b"1")
            bell.found = "it"
            bell.tell()

        fixture.begin(later())
        for _ in range(3):
            fixture.wait()
    assert sorted(map(str, fixture.results)) == ["1", "None", "it"]
    assert fixture.failures == []


def test_an_operation_that_fails_is_told_and_the_others_go_on(fixture: Fixture) -> None:
    def failing() -> Steps[None]:
        yield Pause(0, "")
        raise ValueError("broken")

    bell = Bell()
    fixture.begin(bell.steps())
    fixture.begin(failing())
    fixture.wait()
    bell.found = 1
    bell.tell()
    fixture.wait()
    assert fixture.results == [1]
    assert [str(one) for one in fixture.failures] == ["broken"]


def test_closing_ends_every_operation_and_what_comes_later(fixture: Fixture) -> None:
    said: list[str] = []

    def waiting(steps: Steps[Any]) -> Steps[None]:
        try:
            yield from steps
        finally:
            said.append("closed")

    with pair() as (ours, _):
        bell = Bell()
        fixture.begin(waiting(receiving(ours)))
        fixture.begin(waiting(bell.steps()))
        assert bell.is_observed.wait(PATIENCE_S)
        fixture.multiplexer.close()
        assert said == ["closed", "closed"]
        fixture.multiplexer.begin(waiting(bell.steps()), Deadline(1))
        fixture.multiplexer.close()


def test_an_operation_may_close_its_own_multiplexer(fixture: Fixture) -> None:
    def closing() -> Steps[None]:
        yield Pause(0, "")
        fixture.multiplexer.close()

    fixture.begin(closing())
    fixture.wait()


def test_waits_that_are_over_leave_nothing_behind(fixture: Fixture) -> None:
    most = 0

    def waiting() -> Steps[None]:
        nonlocal most
        with pair() as (ours, theirs):
            for _ in range(5000):
                theirs.send_nowait(b"1")
                yield Pause(0, "")
                yield from receiving(ours)
                bell = Bell()
                bell.found = 1
                yield from bell.steps()
                most = max(most, len(fixture.multiplexer._timers))

    fixture.begin(waiting())
    fixture.wait()
    assert most < 100


def test_an_idle_one_takes_no_processor_time(fixture: Fixture) -> None:
    with pair() as (ours, theirs):
        fixture.begin(receiving(ours))
        before = time.process_time()
        threading.Event().wait(0.2)
        assert time.process_time() - before < 0.1
        theirs.close()
        fixture.wait()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_closes_its_copies_alone(fixture: Fixture) -> None:
    with pair() as (ours, theirs):
        fixture.begin(receiving(ours))
        child = os.fork()
        if not child:
            fixture.multiplexer.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        theirs.send(b"123", Deadline(1))
        fixture.wait()
    assert fixture.results == [3]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system shows no names of threads")
def test_a_new_name_is_the_systems_before_what_is_handed_over_next(fixture: Fixture) -> None:
    def name() -> Steps[str]:
        yield Pause(0, "")
        with open("/proc/thread-self/comm") as file:
            return file.read()

    for wanted in ("one", "one", "two"):
        fixture.multiplexer.rename(wanted)
        fixture.begin(name())
        fixture.wait()
    assert fixture.results == ["one\n", "one\n", "two\n"]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system shows no names of threads")
def test_a_thread_for_what_blocks_has_not_the_name_of_ours(fixture: Fixture) -> None:
    def name(_: Deadline) -> str:
        with open("/proc/thread-self/comm") as file:
            return file.read()

    def steps() -> Steps[str]:
        given: str = yield Blocking(name)
        return given

    fixture.begin(steps())
    fixture.wait()
    assert fixture.results == ["dotnetdiag call\n"]
