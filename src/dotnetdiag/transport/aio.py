"""The asyncio twins of ``streams`` and ``discovery``: the same names, the same steps, another way to wait.

Rule: a system call that takes bytes or makes a descriptor is the last thing before ``return``; nothing is awaited in
between. So a cancelled or timed-out wait never loses data and never leaks a descriptor (``loop.sock_recv`` and
``loop.sock_accept`` can do both, and ``loop.sock_connect`` takes a full backlog of a Unix socket for success).

Where the event loop cannot watch descriptors (Windows), and for named pipes, the sync stream works in a thread.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from dotnetdiag.errors import ConnectFailed, TimedOut, TransportError, UsageError
from dotnetdiag.transport import discovery, processes, streams
from dotnetdiag.transport.addresses import Address, PipeAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint
from dotnetdiag.transport.streams import Listener, SocketListener, SocketStream, Stream

T = TypeVar("T")


class AsyncStream:
    """``Stream`` for asyncio. One reader and one writer may use it at the same time."""

    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self._waits = Waits(inner.fileno)
        self.address = inner.address

    async def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        """Send all of ``data``; as ``Stream.send``. After a cancellation an unknown part of it has been sent."""
        inner = self._inner
        if not isinstance(inner, SocketStream) or not self._waits.possible():
            await self._in_thread(functools.partial(inner.send, data, deadline))
            return
        self._check_open()
        rest = memoryview(data).cast("B")
        while rest:
            try:
                rest = rest[inner.send_nowait(rest) :]
            except BlockingIOError:
                await self._waits.wait(True, deadline, "the peer does not take the bytes", self.address)
                self._check_open()

    async def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        """Wait for bytes and put them into ``view``; as ``Stream.receive_into``. A cancellation loses nothing."""
        inner = self._inner
        if not len(view):
            raise UsageError("cannot receive 0 bytes")
        if not isinstance(inner, SocketStream) or not self._waits.possible():
            return await self._in_thread(functools.partial(inner.receive_into, view, deadline))
        while not self._waits.closed:
            try:
                return inner.receive_nowait(view)
            except BlockingIOError:
                await self._waits.wait(False, deadline, "nothing arrived", self.address)
        return 0

    async def receive(self, size: int, deadline: Deadline) -> bytes:
        """Wait for 1 to ``size`` bytes; ``b""`` at the end of the stream."""
        if size < 1:
            raise UsageError(f"cannot receive {size} bytes")
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: await self.receive_into(memoryview(buffer), deadline)])

    async def send_descriptor(self, fd: int, deadline: Deadline) -> None:
        """Pass the open file ``fd`` to the peer; as ``Stream.send_descriptor``."""
        inner = self._inner
        if not isinstance(inner, SocketStream) or not self._waits.possible():
            await self._in_thread(functools.partial(inner.send_descriptor, fd, deadline))
            return
        self._check_open()
        while True:
            try:
                inner.send_descriptor_nowait(fd)
                return
            except BlockingIOError:
                await self._waits.wait(True, deadline, "the peer does not take the descriptor", self.address)
                self._check_open()

    async def receive_descriptor(self, deadline: Deadline) -> int | None:
        """The counterpart; as ``Stream.receive_descriptor``."""
        inner = self._inner
        if not isinstance(inner, SocketStream) or not self._waits.possible():
            return await self._in_thread(functools.partial(inner.receive_descriptor, deadline))
        while not self._waits.closed:
            try:
                return inner.receive_descriptor_nowait()
            except BlockingIOError:
                await self._waits.wait(False, deadline, "no descriptor arrived", self.address)
        return None

    def fileno(self) -> int:
        return self._inner.fileno()

    def is_alive(self) -> bool:
        return self._inner.is_alive()

    def peer_pid(self) -> int | None:
        return self._inner.peer_pid()

    async def close(self) -> None:
        """End the connection; never waits, so it also works in a cancelled task. ``aclose`` is the same."""
        self._waits.close()
        self._inner.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address or self.fileno()}>"

    def _check_open(self) -> None:
        if self._waits.closed:
            raise TransportError("the stream is closed", address=self.address)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """A cancellation closes the stream: what a thread has begun cannot be taken back."""
        try:
            return await asyncio.to_thread(call)
        except asyncio.CancelledError:
            await self.close()
            raise


def sync_stream(stream: AsyncStream) -> Stream:
    """The stream below, for a thread that reads it alone for a while."""
    return stream._inner


class AsyncListener:
    """``Listener`` for asyncio."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self._waits = Waits(inner.fileno)
        self.address = inner.address

    async def accept(self, deadline: Deadline) -> AsyncStream:
        """The next connection; as ``Listener.accept``."""
        inner = self._inner
        if not isinstance(inner, SocketListener) or not self._waits.possible():
            return await hand_over(functools.partial(inner.accept, deadline))
        while not self._waits.closed:
            try:
                return AsyncStream(inner.accept_nowait())
            except BlockingIOError:
                await self._waits.wait(False, deadline, "nobody connected", str(self.address))
        raise inner.closed_error()

    def fileno(self) -> int:
        return self._inner.fileno()

    async def close(self) -> None:
        """Stop listening; never waits. ``aclose`` is the same."""
        self._waits.close()
        self._inner.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Waits:
    """The waiting of one descriptor on the running loop: at most one reader and one writer."""

    __slots__ = ("_fileno", "_waiting", "closed")

    def __init__(self, fileno: Callable[[], int]) -> None:
        self._fileno = fileno
        self._waiting: dict[bool, tuple[asyncio.AbstractEventLoop, int, asyncio.Future[bool]]] = {}
        self.closed = False

    @staticmethod
    def possible() -> bool:
        """Whether the running loop can watch descriptors."""
        return not type(asyncio.get_running_loop()).__name__.startswith("Proactor")

    async def wait(self, write: bool, deadline: Deadline, problem: str, address: str) -> None:
        """Until the descriptor is ready, or closed. Raises ``TimedOut`` with ``problem``."""
        if write in self._waiting:
            raise UsageError(
                f"two tasks {'send' if write else 'receive'} on {address or 'one stream'} at the same time"
            )
        while not await self._once(write, deadline.left(problem, address=address)):
            pass  # the timer came; deadline.left raises, unless the two clocks differ a little

    async def _once(self, write: bool, left: float | None) -> bool:
        loop, fd = asyncio.get_running_loop(), self._fileno()
        ready: asyncio.Future[bool] = loop.create_future()
        self._waiting[write] = loop, fd, ready
        (loop.add_writer if write else loop.add_reader)(fd, _settle, ready, True)
        timer = None if left is None else loop.call_later(left, _settle, ready, False)
        try:
            return await ready
        finally:
            if timer is not None:
                timer.cancel()
            self._stop(write)

    def close(self) -> None:
        """Wake everybody; the descriptor is not watched any more, so it may be closed."""
        self.closed = True
        for write in tuple(self._waiting):
            _settle(self._waiting[write][2], True)
            self._stop(write)

    def _stop(self, write: bool) -> None:
        if (waiting := self._waiting.pop(write, None)) is not None:
            loop, fd, _ = waiting
            if not loop.is_closed():
                (loop.remove_writer if write else loop.remove_reader)(fd)


async def connect(address: Address, deadline: Deadline) -> AsyncStream:
    """A connection to ``address``; as ``streams.connect``."""
    if isinstance(address, PipeAddress) or not Waits.possible():
        return await hand_over(functools.partial(streams.connect, address, deadline))
    steps = streams.connecting(address)
    text = str(address)
    try:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return AsyncStream(done.value)
            left = deadline.left("no connection", address=text)
            answer = None
            if isinstance(step, streams.Writable):
                await Waits(step.socket.fileno).wait(True, deadline, "no connection", text)
            elif isinstance(step, streams.Pause):
                await asyncio.sleep(step.seconds if left is None else min(left, step.seconds))
            else:
                loop = asyncio.get_running_loop()
                try:
                    async with asyncio.timeout(left):
                        answer = await loop.getaddrinfo(step.host, step.port, type=socket.SOCK_STREAM)
                except TimeoutError:
                    raise TimedOut("the host was not found", address=text, timeout_s=deadline.timeout_s) from None
                except (OSError, UnicodeError) as exc:
                    raise streams.lookup_error(address, exc) from exc
    finally:
        steps.close()


async def listen(address: Address, *, allow_remote: bool = False) -> AsyncListener:
    """Listen on ``address``; as ``streams.listen``."""
    return AsyncListener(streams.listen(address, allow_remote=allow_remote))


async def connect_pid(
    pid: int,
    deadline: Deadline,
    *,
    proc: Path = processes.PROC,
    tmpdir: str | None = None,
    known: Sequence[Endpoint] | None = None,
) -> tuple[AsyncStream, Endpoint]:
    """A connection to the process ``pid``; as ``discovery.connect_pid``."""
    plan = await asyncio.to_thread(discovery.Attempts, pid, proc=proc, tmpdir=tmpdir, known=known)
    while True:
        for endpoint in plan.endpoints:
            try:
                stream = await connect(endpoint.address, deadline)
            except ConnectFailed as exc:
                plan.failed(endpoint, exc)
                continue
            if plan.accepts(endpoint, stream.peer_pid()):
                return stream, endpoint
            await stream.close()
        if not plan.is_starting:
            raise await asyncio.to_thread(plan.error)
        deadline.left(f"process {pid} does not listen yet")
        await asyncio.sleep(discovery.AGAIN_S)
        await asyncio.to_thread(plan.look_again)


async def endpoints(*, proc: Path = processes.PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """As ``discovery.endpoints``, in a thread: it reads many small files."""
    return await asyncio.to_thread(discovery.endpoints, proc=proc, tmpdir=tmpdir)


async def candidates(pid: int, *, proc: Path = processes.PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """As ``discovery.candidates``, in a thread."""
    return await asyncio.to_thread(discovery.candidates, pid, proc=proc, tmpdir=tmpdir)


async def hand_over(make: Callable[[], Stream]) -> AsyncStream:
    """The stream that ``make`` makes in a thread. After a cancellation the one that still comes is closed."""
    work = asyncio.get_running_loop().run_in_executor(None, make)
    try:
        return AsyncStream(await asyncio.shield(work))
    except asyncio.CancelledError:
        work.add_done_callback(_discard)
        raise


def _discard(work: asyncio.Future[Stream]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().close()


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)
