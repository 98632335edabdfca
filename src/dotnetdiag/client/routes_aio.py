"""``routes`` for asyncio: the same decisions, awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from dotnetdiag.client.reverse import ReversePort
from dotnetdiag.client.routes import ProcessIdentity, parse_port, refuse_stopped
from dotnetdiag.errors import DiagnosticsError, TargetStopped, TimedOut, TransportError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.transport import Address, Deadline, Endpoint, aio
from dotnetdiag.transport.aio import AsyncStream

T = TypeVar("T")


class AsyncRoute(Protocol):
    """As ``Route``."""

    async def dial(self, deadline: Deadline) -> AsyncStream: ...

    async def target_pid(self, deadline: Deadline) -> int | None: ...

    async def close(self) -> None: ...


class AsyncPidRoute:
    """As ``PidRoute``."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        self._process = ProcessIdentity(pid, known)

    async def dial(self, deadline: Deadline) -> AsyncStream:
        process = self._process
        stream, process.found = await aio.connect_pid(
            process.pid, deadline, known=process.take_known(), started_ticks=process.started_ticks
        )
        return stream

    async def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - a protocol has it
        return await asyncio.to_thread(self._process.target_pid)

    async def close(self) -> None:
        pass


class AsyncAddressRoute:
    """As ``AddressRoute``."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def dial(self, deadline: Deadline) -> AsyncStream:
        stream = await aio.connect(self.address, deadline)
        try:
            refuse_stopped(stream.peer_pid())
        except TargetStopped:
            await stream.close()
            raise
        return stream

    async def target_pid(self, deadline: Deadline) -> int | None:
        async with await aio.connect(self.address, deadline) as stream:
            return stream.peer_pid() or None

    async def close(self) -> None:
        pass


class AsyncReverseRoute:
    """As ``ReverseRoute``; listens from the first use on."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._opening: Future[ReversePort] | None = None
        self._chosen: tuple[Advertise, int | None] | None = None
        self._closed = False

    async def dial(self, deadline: Deadline) -> AsyncStream:
        cookie = (await self._choose(deadline))[0].cookie
        port = await self._open()
        return AsyncStream(await self._wait(port, lambda: port.take(cookie), deadline))

    async def target_pid(self, deadline: Deadline) -> int | None:
        return (await self._choose(deadline))[1]

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            try:
                port = await asyncio.shield(asyncio.wrap_future(self._opening))
            except DiagnosticsError:
                return  # it could not be opened
            await asyncio.to_thread(port.close)

    async def _choose(self, deadline: Deadline) -> tuple[Advertise, int | None]:
        port = await self._open()
        if self._chosen is None:
            self._chosen = await self._wait(port, port.choose, deadline)
        return self._chosen

    async def _open(self) -> ReversePort:
        """The port, opened by the first who wants it. When that one is cancelled meanwhile, the next one gets it, or ``close``."""
        if self._opening is None and not self._closed:
            self._opening = _in_thread(lambda: ReversePort(self.address))
        if self._opening is not None:
            opening = self._opening
            try:
                port = await asyncio.shield(asyncio.wrap_future(opening))
            except DiagnosticsError:
                self._opening = None if self._opening is opening else self._opening  # the next one tries again
                raise
            if not self._closed:
                return port
        raise TransportError("the port is closed", address=str(self.address))

    async def _wait(self, port: ReversePort, look: Callable[[], T | None], deadline: Deadline) -> T:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        with port.observed(lambda: _tell(loop, changed)):
            while True:
                changed.clear()
                found = look()
                if found is not None:
                    return found
                problem, address = "no runtime has connected", str(port.address)
                left = deadline.left(problem, address=address)
                try:
                    async with asyncio.timeout(left if left is None or left < LONGEST_TIMER_S else LONGEST_TIMER_S):
                        await changed.wait()
                except TimeoutError:
                    if deadline.is_over:
                        raise TimedOut(problem, address=address, timeout_s=deadline.timeout_s) from None


LONGEST_TIMER_S = 86400.0


def _tell(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(changed.set)
    except RuntimeError:
        pass  # the loop was closed: nobody waits any more


def _in_thread(call: Callable[[], T]) -> Future[T]:
    """What the call gives, whichever loop asks for it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="dotnetdiag port opens", daemon=True).start()
    return future


def route_to(address: str) -> AsyncRoute:
    """As ``routes.route_to``, but nothing is opened yet."""
    parsed, listens = parse_port(address)
    return AsyncReverseRoute(parsed) if listens else AsyncAddressRoute(parsed)
