"""``routes`` for asyncio: the same decisions, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from dotnetdiag.client.reverse import ReversePort
from dotnetdiag.client.routes import ProcessIdentity, parse_port, refuse_stopped
from dotnetdiag.errors import TargetStopped, TimedOut, TransportError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.transport import Address, Deadline, Endpoint, aio
from dotnetdiag.transport.aio import AsyncStream

T = TypeVar("T")


class AsyncRoute:
    """As ``Route``."""

    async def dial(self, deadline: Deadline) -> AsyncStream:
        raise NotImplementedError

    async def target_pid(self, deadline: Deadline) -> int | None:
        raise NotImplementedError

    async def close(self) -> None:
        """As ``Route.close``."""


class AsyncPidRoute(AsyncRoute):
    """As ``PidRoute``."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        self._process = ProcessIdentity(pid, known)

    async def dial(self, deadline: Deadline) -> AsyncStream:
        process = self._process
        stream, process.found = await aio.connect_pid(
            process.pid, deadline, known=process.take_known(), started_ticks=process.started_ticks
        )
        return stream

    async def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - the base has it
        return await asyncio.to_thread(self._process.target_pid)


class AsyncAddressRoute(AsyncRoute):
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


class AsyncReverseRoute(AsyncRoute):
    """As ``ReverseRoute``; listens from the first use on."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._opening: asyncio.Future[ReversePort] | None = None
        self._calls = 0
        self._chosen: tuple[Advertise, int | None] | None = None
        self._closed = False

    async def dial(self, deadline: Deadline) -> AsyncStream:
        cookie = (await self._choose(deadline))[0].cookie
        port = await self._open(deadline)
        return AsyncStream(await self._wait(port, lambda: port.take(cookie), deadline))

    async def target_pid(self, deadline: Deadline) -> int | None:
        return (await self._choose(deadline))[1]

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if self._opening.exception() is None:
                await asyncio.to_thread(self._opening.result().close)

    async def _choose(self, deadline: Deadline) -> tuple[Advertise, int | None]:
        port = await self._open(deadline)
        if self._chosen is None:
            self._chosen = await self._wait(port, port.choose, deadline)
        return self._chosen

    async def _open(self, deadline: Deadline) -> ReversePort:
        problem, address = "the port could not be opened", str(self.address)
        if self._closed:
            raise TransportError("the port is closed", address=address)
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            # no task: the end of the loop would cancel it, and the port would stay. A call that has no time for it begins it.
            limit = Deadline(OPEN_TIMEOUT_S)
            self._opening = asyncio.wrap_future(aio.start_thread(lambda: ReversePort(self.address, limit)))
        opening = self._opening
        self._calls += 1
        mine = self._calls
        try:
            done, _ = await asyncio.wait([opening], timeout=deadline.wait_s(problem, address=address))
        except asyncio.CancelledError:
            if not opening.done():  # the thread goes on, and the loop may be at its end
                opening.add_done_callback(lambda _: self._close_unless_wanted(mine))
            raise
        if not done:
            raise TimedOut(problem, address=address, timeout_s=deadline.timeout_s)
        return opening.result()

    def _close_unless_wanted(self, cancelled: int) -> None:
        """The port is open, and the call that was cancelled meanwhile was the last one."""
        opening = self._opening
        if cancelled == self._calls and opening is not None:
            self._opening = None
            _close_port(opening)

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
OPEN_TIMEOUT_S = 30.0
"""For the name server, where the port is on a host with a name."""


def _tell(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(changed.set)
    except RuntimeError:
        pass  # the loop was closed: nobody waits any more


def _close_port(opening: asyncio.Future[ReversePort]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def route_to(address: str) -> AsyncRoute:
    """As ``routes.route_to``, but nothing is opened yet."""
    parsed, listens = parse_port(address)
    return AsyncReverseRoute(parsed) if listens else AsyncAddressRoute(parsed)
