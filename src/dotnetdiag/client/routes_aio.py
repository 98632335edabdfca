"""``routes`` and the reverse port for asyncio: the same decisions, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from dotnetdiag.client.reverse import ADVERTISE_TIMEOUT_S, RESUME_TIMEOUT_S, Waiting, resume_request
from dotnetdiag.errors import DiagnosticsError, ProtocolError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import SIZE, Advertise
from dotnetdiag.ipc.ports import PortMode, parse_tool_port
from dotnetdiag.transport import Address, Deadline, Endpoint, aio, parse_address
from dotnetdiag.transport.aio import AsyncListener, AsyncStream


class AsyncRoute(Protocol):
    """As ``Route``."""

    async def dial(self, deadline: Deadline) -> AsyncStream: ...

    async def target_pid(self, deadline: Deadline) -> int | None: ...

    async def close(self) -> None: ...


class AsyncPidRoute:
    """As ``PidRoute``."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        if pid <= 0:
            raise UsageError(f"{pid} is not a valid process ID")
        self.pid, self.known = pid, known

    async def dial(self, deadline: Deadline) -> AsyncStream:
        known, self.known = self.known, None
        return (await aio.connect_pid(self.pid, deadline, known=known))[0]

    async def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - a protocol has it
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
    """As ``ReverseRoute`` on a ``ReverseServer`` of its own; listens, in a task, from the first use on."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.advertise: Advertise | None = None
        self._listener: AsyncListener | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: Waiting[AsyncStream] = Waiting()
        self._changed = asyncio.Event()
        self._resumed: set[UUID] = set()
        self._pid: int | None = None
        self._closed = False

    async def dial(self, deadline: Deadline) -> AsyncStream:
        cookie = (await self._known(deadline)).cookie
        while True:
            stream = self._waiting.take(cookie)
            if stream is None:
                await self._wait(deadline)
            elif stream.is_alive():
                return stream
            else:
                await stream.close()

    async def target_pid(self, deadline: Deadline) -> int | None:
        await self._known(deadline)
        return self._pid

    async def close(self) -> None:
        self._closed = True
        self._changed.set()
        if self._listener is not None:
            await self._listener.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for stream in self._waiting.clear():
            await stream.close()

    async def _known(self, deadline: Deadline) -> Advertise:
        await self._listen()
        while self.advertise is None:
            self.advertise = self._waiting.first()
            if self.advertise is None:
                await self._wait(deadline)
            else:
                stream = self._waiting.peek(self.advertise.cookie)
                self._pid = None if stream is None else stream.peer_pid()
        return self.advertise

    async def _listen(self) -> None:
        if self._closed:
            raise TransportError("the port is closed", address=str(self.address))
        if self._task is None:
            self._listener = await aio.listen(self.address)
            self._task = asyncio.ensure_future(self._accept_all(self._listener))

    async def _wait(self, deadline: Deadline) -> None:
        """Until something has been admitted. All who wait look again then, in their turn."""
        if self._closed:
            raise TransportError("the port is closed", address=str(self.address))
        left = deadline.left("no runtime has connected", address=str(self.address))
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), left)
        except TimeoutError:
            raise TimedOut(
                "no runtime has connected", address=str(self.address), timeout_s=deadline.timeout_s
            ) from None

    async def _accept_all(self, listener: AsyncListener) -> None:
        while True:
            try:
                stream = await listener.accept(Deadline(None))
            except DiagnosticsError:
                return
            try:
                await self._admit(await _read_advertise(stream), stream)
            except DiagnosticsError:
                await stream.close()  # not a runtime; the port goes on
            except asyncio.CancelledError:
                await stream.close()
                raise

    async def _admit(self, advertise: Advertise, stream: AsyncStream) -> None:
        stranger = self.advertise is not None and advertise.cookie != self.advertise.cookie
        if stranger and advertise.cookie not in self._resumed:
            self._resumed.add(advertise.cookie)
            deadline = Deadline(RESUME_TIMEOUT_S)
            await stream.send(resume_request(), deadline)
            while await stream.receive(1 << 10, deadline):
                pass
            await stream.close()
            return
        replaced = self._waiting.admit(advertise, stream)
        self._changed.set()
        if replaced is not None:
            await replaced.close()


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
