"""``routes`` and the reverse port for asyncio: the same decisions, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

from dotnetdiag.client.reverse import ADVERTISE_TIMEOUT_S, Waiting
from dotnetdiag.errors import DiagnosticsError, ProtocolError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import SIZE, Advertise
from dotnetdiag.ipc.ports import PortMode, parse_tool_port
from dotnetdiag.transport import Address, Deadline, aio, parse_address
from dotnetdiag.transport.aio import AsyncListener, AsyncStream


class AsyncRoute(Protocol):
    """As ``Route``."""

    async def dial(self, deadline: Deadline) -> AsyncStream: ...

    async def target_pid(self, deadline: Deadline) -> int | None: ...

    async def close(self) -> None: ...


class AsyncPidRoute:
    """As ``PidRoute``."""

    def __init__(self, pid: int) -> None:
        if pid <= 0:
            raise UsageError(f"{pid} is not a valid process ID")
        self.pid = pid

    async def dial(self, deadline: Deadline) -> AsyncStream:
        return (await aio.connect_pid(self.pid, deadline))[0]

    async def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002
        return self.pid

    async def close(self) -> None:
        pass


class AsyncAddressRoute:
    """As ``AddressRoute``."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def dial(self, deadline: Deadline) -> AsyncStream:
        return await aio.connect(self.address, deadline)

    async def target_pid(self, deadline: Deadline) -> int | None:
        stream = await self.dial(deadline)
        try:
            return stream.peer_pid()
        except TransportError:
            return None
        finally:
            await stream.close()

    async def close(self) -> None:
        pass


class AsyncReverseRoute:
    """As ``ReverseRoute`` on a ``ReverseServer`` of its own; listens from the first use on."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.advertise: Advertise | None = None
        self._listener: AsyncListener | None = None
        self._waiting: Waiting[AsyncStream] = Waiting()
        self._lock = asyncio.Lock()
        self._pid: int | None = None
        self._closed = False

    async def dial(self, deadline: Deadline) -> AsyncStream:
        async with self._turn(deadline):
            cookie = (await self._known(deadline)).cookie
            return await self._take(cookie, deadline)

    async def target_pid(self, deadline: Deadline) -> int | None:
        async with self._turn(deadline):
            await self._known(deadline)
            return self._pid

    async def close(self) -> None:
        self._closed = True
        if self._listener is not None:
            await self._listener.close()
        for stream in self._waiting.clear():
            await stream.close()

    async def _known(self, deadline: Deadline) -> Advertise:
        while self.advertise is None:
            self.advertise = self._waiting.first()
            if self.advertise is None:
                await self._accept(deadline)
            else:
                stream = self._waiting.peek(self.advertise.cookie)
                self._pid = None if stream is None else stream.peer_pid()
        return self.advertise

    async def _take(self, cookie: UUID, deadline: Deadline) -> AsyncStream:
        while True:
            stream = self._waiting.take(cookie)
            if stream is None:
                await self._accept(deadline)
            elif stream.is_alive():
                return stream
            else:
                await stream.close()

    async def _accept(self, deadline: Deadline) -> None:
        if self._closed:
            raise TransportError("the port is closed", address=str(self.address))
        if self._listener is None:
            self._listener = await aio.listen(self.address)
        stream = await self._listener.accept(deadline)
        try:
            advertise = await _read_advertise(stream)
        except DiagnosticsError:
            await stream.close()  # not a runtime; the port goes on
            return
        replaced = self._waiting.admit(advertise, stream)
        if replaced is not None:
            await replaced.close()

    @asynccontextmanager
    async def _turn(self, deadline: Deadline) -> AsyncIterator[None]:
        left = deadline.left("another task waits for the runtime", address=str(self.address))
        try:
            await asyncio.wait_for(self._lock.acquire(), left)
        except TimeoutError:
            raise TimedOut("no connection", address=str(self.address), timeout_s=deadline.timeout_s) from None
        try:
            yield
        finally:
            self._lock.release()


async def _read_advertise(stream: AsyncStream) -> Advertise:
    deadline = Deadline(ADVERTISE_TIMEOUT_S)
    data = bytearray()
    while len(data) < SIZE:
        part = await stream.receive(SIZE - len(data), deadline)
        if not part:
            raise ProtocolError(f"{len(data)} bytes are too few for an advertise of {SIZE}", where="advertise")
        data += part
    return Advertise.parse(bytes(data))


def route_to(address: str) -> AsyncRoute:
    """As ``routes.route_to``."""
    port = parse_tool_port(address if "," in address else address + ",connect")
    parsed = parse_address(port.address)
    return AsyncAddressRoute(parsed) if port.mode is PortMode.CONNECT else AsyncReverseRoute(parsed)
