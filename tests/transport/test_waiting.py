"""The drivers of steps: how long they wait, and in how many pieces."""

from __future__ import annotations

import asyncio
import math
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dotnetdiag.errors import TimedOut, TransportError
from dotnetdiag.transport import aio, waiting
from dotnetdiag.transport.deadline import LONGEST_WAIT_S, Deadline
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.waiting import Blocking, Pause, Steps, T

DAY_S = 86400.0


class Socket(socket.socket):
    """Its methods can be replaced."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def driven(kind: str, steps: Steps[T], deadline: Deadline) -> T:
    return waiting.run(steps, deadline) if kind == "sync" else asyncio.run(aio.drive(steps, deadline))


@contextmanager
def pair() -> Iterator[tuple[SocketStream, socket.socket]]:
    one, two = socket.socketpair()
    one = Socket(fileno=one.detach())
    with SocketStream(one) as stream, two:
        yield stream, two


def fake_poll(monkeypatch: pytest.MonkeyPatch, clock: Clock, waits_ms: list[float], *, ready_at: float) -> None:
    """``poll`` lets the clock go on. It says what the real one does of a time that does not fit."""

    class Poller:
        def register(self, fd: int, events: int) -> None:
            assert fd >= 0

        def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
            if timeout_ms > 0x7FFFFFFF:
                raise OverflowError("timeout is too large")
            waits_ms.append(timeout_ms)
            clock.now += timeout_ms / 1000
            return [(0, 1)] if clock.now >= ready_at else []

    monkeypatch.setattr(select, "poll", Poller)


def test_poll_is_given_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits_ms = Clock(), list[float]()
    fake_poll(monkeypatch, clock, waits_ms, ready_at=99)
    with pair() as (stream, _), pytest.raises(TimedOut):
        stream.receive(1, Deadline(2.5, clock=clock))
    assert waits_ms == [2500.0]


def test_a_month_is_waited_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits_ms = Clock(), list[float]()
    fake_poll(monkeypatch, clock, waits_ms, ready_at=math.inf)
    with pair() as (stream, _), pytest.raises(TimedOut, match="within"):
        stream.receive(1, Deadline(30.5 * DAY_S, clock=clock))
    assert waits_ms == [DAY_S * 1000] * 30 + [DAY_S * 500]


@pytest.mark.parametrize("timeout_s", [None, math.inf, 1e300])
def test_for_ever_is_waited_for_in_pieces(monkeypatch: pytest.MonkeyPatch, timeout_s: float | None) -> None:
    clock, waits_ms = Clock(), list[float]()
    with pair() as (stream, _):
        fake_poll(monkeypatch, clock, waits_ms, ready_at=40 * DAY_S)
        attempts = 0

        def receive_nowait(view: memoryview) -> int:
            nonlocal attempts
            attempts += 1
            if clock.now < 40 * DAY_S:
                raise BlockingIOError
            return 1

        stream._socket.recv_into = receive_nowait  # type: ignore[method-assign, assignment]
        assert stream.receive_into(memoryview(bytearray(1)), Deadline(timeout_s, clock=clock)) == 1
        assert len(waits_ms) == 40
        assert attempts == 2, "a piece of the wait is no attempt"


@pytest.mark.parametrize("timeout_s", [math.inf, 30 * DAY_S])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_long_timeouts_work_for_real(timeout_s: float, kind: str) -> None:
    with pair() as (stream, other):

        async def work() -> bytes:
            twin = aio.AsyncStream(stream)
            asyncio.get_running_loop().call_later(0.02, other.send, b"x")
            if kind == "async":
                return await twin.receive(1, Deadline(timeout_s))
            return await asyncio.to_thread(stream.receive, 1, Deadline(timeout_s))

        assert asyncio.run(work()) == b"x"


def test_asyncio_waits_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> list[float]:
        loop, waits_s = asyncio.get_running_loop(), list[float]()
        call_later = loop.call_later

        def recording(delay: float, *arguments: Any) -> asyncio.TimerHandle:
            waits_s.append(delay)
            return call_later(0 if len(waits_s) < 3 else delay, *arguments)

        monkeypatch.setattr(loop, "call_later", recording)
        with pair() as (stream, other):
            reader = asyncio.create_task(aio.AsyncStream(stream).receive(1, Deadline(math.inf)))
            while len(waits_s) < 3:
                await asyncio.sleep(0)
            other.send(b"x")
            assert await reader == b"x"
        return waits_s

    assert asyncio.run(work()) == [LONGEST_WAIT_S] * 3


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_deadline_is_for_the_whole_message_and_not_for_each_piece_of_it(kind: str) -> None:
    """Each piece is taken well within the time, all of them together are not."""
    clock = Clock()
    with pair() as (stream, other):
        send_nowait = stream._socket.send

        def slow(data: memoryview, flags: int) -> int:
            clock.now += 4
            other.setblocking(False)
            try:
                while other.recv(1 << 20):
                    pass
            except BlockingIOError:
                pass
            return send_nowait(data[:1000], flags)

        stream._socket.send = slow  # type: ignore[method-assign, assignment]
        deadline = Deadline(10, clock=clock)
        with pytest.raises(TimedOut):
            driven(kind, stream.sending(bytes(10_000)), deadline)
        assert clock.now == 12, "it ends with the third piece"


def steps_that_fail() -> Steps[str]:
    try:
        yield Blocking(lambda deadline: 1 // 0)
    except ZeroDivisionError:
        answer = yield Blocking(lambda deadline: deadline.timeout_s)
        yield Pause(0, "")
        return f"went on with {answer}"
    return "no error came"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_error_of_a_blocking_call_comes_back_into_the_steps(kind: str) -> None:
    assert driven(kind, steps_that_fail(), Deadline(5)) == "went on with 5"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_pause_is_cut_short_by_the_deadline_and_the_steps_are_closed(kind: str) -> None:
    closed: list[bool] = []

    def steps() -> Steps[None]:
        try:
            while True:
                yield Pause(100, "nothing came of it")
        finally:
            closed.append(True)

    with pytest.raises(TimedOut, match="nothing came of it within"):
        driven(kind, steps(), Deadline(0.02))
    assert closed == [True]


def test_the_result_of_a_cancelled_thread_is_closed() -> None:
    with pair() as (stream, _):

        async def work() -> None:
            task = asyncio.create_task(aio.in_thread(lambda: stream))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while stream.fileno() >= 0:
                await asyncio.sleep(0.001)

        asyncio.run(asyncio.wait_for(work(), 10))


# calls that cannot be ended ---------------------------------------------------------------------------------------------


def test_what_a_call_gives_or_raises_within_the_deadline_is_the_caller_s() -> None:
    assert waiting.call_within(lambda: 5, Deadline(5), "too late") == 5
    with pytest.raises(ZeroDivisionError):
        waiting.call_within(lambda: 1 // 0, Deadline(None), "too late")


def test_a_call_that_blocks_is_left_alone_after_the_deadline() -> None:
    goes_on, threads = threading.Event(), list[threading.Thread]()

    def call() -> None:
        threads.append(threading.current_thread())
        goes_on.wait()

    with pytest.raises(TimedOut, match="the folder does not answer within") as caught:
        waiting.call_within(call, Deadline(0.05), "the folder does not answer", "/folder")
    assert caught.value.address == "/folder"
    assert threads[0].daemon, "the program could not end"
    goes_on.set()
    threads[0].join()


def test_a_call_within_no_time_is_timed_out() -> None:
    clock = Clock()
    deadline = Deadline(1, clock=clock)
    clock.now = 2
    with pytest.raises(TimedOut):
        waiting.call_within(threading.Event().wait, deadline, "too late")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_call_without_a_thread_is_an_error_of_ours(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)

    def begin() -> object:
        if kind == "sync":
            return waiting.call_within(list, Deadline(5), "too late")
        return asyncio.run(aio.in_thread(list))

    with pytest.raises(TransportError, match="no more threads"):
        begin()


@pytest.mark.parametrize("error", [StopIteration, SystemExit])
def test_whatever_a_call_raises_in_a_thread_ends_the_wait_for_it(error: type[BaseException]) -> None:
    """A coroutine that raises StopIteration raises RuntimeError (PEP 479)."""

    def call() -> None:
        raise error

    with pytest.raises(error):
        waiting.call_within(call, Deadline(5), "too late")
    with pytest.raises((RuntimeError, error)):
        asyncio.run(aio.in_thread(call))


def test_a_descriptor_of_any_number_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """``select`` takes none above 1,023."""
    monkeypatch.delattr(select, "select")
    with pair() as (stream, other):
        assert waiting.is_ready(stream.fileno(), True, 0)
        assert not waiting.is_ready(stream.fileno(), False, 0)
        other.send(b"x")
        assert waiting.is_ready(stream.fileno(), False, 5)
