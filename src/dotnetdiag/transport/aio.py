"""The asyncio twins of ``streams``, ``connecting`` and ``listening``: the same names and steps, another driver.

Rule 1: a system call that takes bytes or makes a descriptor is the last thing before ``return``; nothing is awaited in
between. So a cancelled or timed-out wait never loses data and never leaks a descriptor (``loop.sock_recv`` and
``loop.sock_accept`` can do both, and ``loop.sock_connect`` takes a full backlog of a Unix socket for success).
Rule 2: every operation gives the other tasks a turn before it begins, also when it need not wait.

What blocks is called in a daemon thread, so that nothing (a name server that is silent) can hold up the end of the program.
Where the event loop cannot watch descriptors (Windows), a thread waits for them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self

from dotnetdiag.errors import UsageError
from dotnetdiag.transport import connecting
from dotnetdiag.transport.addresses import Address
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.streams import Stream, receive_buffer
from dotnetdiag.transport.waiting import Blocking, Change, Outcome, Ready, Steps, T, result_of, start_thread, wait_for


class AsyncStream:
    """``Stream`` for asyncio. One reader and one writer may use it at the same time."""

    def __init__(self, inner: Stream) -> None:
        self._inner, self.address = inner, inner.address
        self._waits = Waits()

    def fileno(self) -> int:
        return self._inner.fileno()

    async def close(self) -> None:
        """Close it and wake whoever waits; never waits itself, so it also works in a cancelled task. ``aclose`` is the same."""
        self._waits.close()
        self._inner.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, steps: Steps[T], deadline: Deadline) -> T:
        return await drive(steps, deadline, self._waits)

    async def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        """Send all of ``data``; as ``Stream.send``. After a cancellation an unknown part of it has been sent."""
        await self._drive(self._inner.sending(data), deadline)

    async def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        """Wait for bytes and put them into ``view``; as ``Stream.receive_into``. A cancellation loses nothing."""
        return await self._drive(self._inner.receiving_into(view), deadline)

    async def receive(self, size: int, deadline: Deadline) -> bytes:
        """Wait for 1 to ``size`` bytes; ``b""`` at the end of the stream."""
        buffer = receive_buffer(size)
        return bytes(buffer[: await self.receive_into(buffer, deadline)])

    async def send_descriptor(self, fd: int, deadline: Deadline) -> None:
        """Pass the open file ``fd`` to the peer; as ``Stream.send_descriptor``."""
        await self._drive(self._inner.sending_descriptor(fd), deadline)

    def is_alive(self) -> bool:
        return self._inner.is_alive()

    def is_quiet(self) -> bool:
        return self._inner.is_quiet()

    def has_arrived(self, size: int = 1) -> bool:
        return self._inner.has_arrived(size)

    def peer_pid(self) -> int | None:
        return self._inner.peer_pid()

    def peer_uid(self) -> int | None:
        return self._inner.peer_uid()


def sync_stream(stream: AsyncStream) -> Stream:
    """The stream below, for a thread that reads it alone for a while."""
    return stream._inner


async def connect(address: Address, deadline: Deadline) -> AsyncStream:
    """A connection to ``address``; as ``connecting.connect``."""
    return AsyncStream(await drive(connecting.connecting(address), deadline))


class Waits:
    """The waits for one descriptor on the running loop: at most one reader and one writer."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[bool, tuple[asyncio.AbstractEventLoop, int, asyncio.Future[bool]]] = {}

    @staticmethod
    def possible() -> bool:
        """Whether the running loop can watch descriptors."""
        return not type(asyncio.get_running_loop()).__name__.startswith("Proactor")

    async def wait(self, step: Ready, deadline: Deadline) -> None:
        """Until the socket is ready, or ``close``. Raises ``TimedOut``."""
        if step.write in self._waiting:
            doing = "send" if step.write else "receive"
            raise UsageError(f"two tasks {doing} on {step.address or 'one stream'} at the same time")
        while not await self._wait_once(step, deadline.wait_s(step.problem, address=step.address)):
            pass  # deadline.wait_s raises when it is over

    async def _wait_once(self, step: Ready, seconds: float) -> bool:
        loop, fd = asyncio.get_running_loop(), step.socket.fileno()
        ready: asyncio.Future[bool] = loop.create_future()
        self._waiting[step.write] = loop, fd, ready
        (loop.add_writer if step.write else loop.add_reader)(fd, _settle, ready, True)
        timer = loop.call_later(seconds, _settle, ready, False)
        try:
            return await ready
        finally:
            timer.cancel()
            self._stop(step.write)

    def close(self) -> None:
        """Wake everybody; the descriptor is not watched any more, so it may be closed."""
        for write in tuple(self._waiting):
            _settle(self._waiting[write][2], True)
            self._stop(write)

    def _stop(self, write: bool) -> None:
        if (waiting := self._waiting.pop(write, None)) is not None:
            loop, fd, _ = waiting
            if not loop.is_closed():
                (loop.remove_writer if write else loop.remove_reader)(fd)


async def drive(steps: Steps[T], deadline: Deadline, waits: Waits | None = None) -> T:
    """As ``waiting.run``."""
    waits = waits or Waits()
    try:
        await asyncio.sleep(0)
        step = next(steps)
        while True:
            if isinstance(step, Blocking | Change):
                try:
                    if isinstance(step, Blocking):
                        answer = await in_thread(functools.partial(step.call, deadline))
                    else:
                        answer = await _wait_for_change(step, deadline)
                except Exception as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(answer)
            else:
                if not isinstance(step, Ready):
                    await asyncio.sleep(min(step.seconds, deadline.wait_s(step.problem, address=step.address)))
                elif waits.possible():
                    await waits.wait(step, deadline)
                else:
                    await in_thread(functools.partial(wait_for, step, deadline))
                step = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


async def _wait_for_change(step: Change, deadline: Deadline) -> Any:
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(changed.set)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more

    with step.observed(tell):
        while (found := step.look()) is None:
            wait_s = deadline.wait_s(step.problem, address=step.address)  # raises when it is over
            try:
                async with asyncio.timeout(wait_s):
                    await changed.wait()
            except TimeoutError:
                continue
            changed.clear()
    return found


def begin_in_thread(call: Callable[[], T]) -> Future[Outcome[T]]:
    """What comes of a call that a daemon thread makes. It cannot be cancelled."""
    future: Future[Outcome[T]] = Future()
    future.set_running_or_notify_cancel()
    start_thread(call, future.set_result)
    return future


async def in_thread(call: Callable[[], T]) -> T:
    """As ``begin_in_thread``, awaited. After a cancellation a stream that still comes is closed."""
    future = begin_in_thread(call)
    try:
        return result_of(await asyncio.wrap_future(future))
    except asyncio.CancelledError:
        future.add_done_callback(_discard)
        raise


def _discard(future: Future[Outcome[Any]]) -> None:
    value, _ = future.result()
    if isinstance(value, Stream):
        value.close()


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)
