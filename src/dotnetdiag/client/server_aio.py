"""The reverse server for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.limits import TIMEOUT_S
from dotnetdiag.client.reverse import Dialler, ReversePort
from dotnetdiag.client.server import Connected, DiallerRoute, Presence, not_closed, opened
from dotnetdiag.errors import TransportError
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import begin_in_thread, drive, in_thread
from dotnetdiag.transport.waiting import Outcome, result_of

if TYPE_CHECKING:
    from dotnetdiag.ipc.operations.information import ProcessInformation
    from dotnetdiag.transport.security import Security


class AsyncConnectedRuntime(Connected[AsyncClient]):
    """``ConnectedRuntime`` for asyncio: ``await runtime.info``, ``await runtime.is_suspended``, ``await runtime.resume()``."""

    _info: ProcessInformation | None = None

    @property
    async def info(self) -> ProcessInformation:
        """As ``ConnectedRuntime.info``."""
        self._info = self._info or await self.client.process_info()
        return self._info

    @property
    async def is_suspended(self) -> bool | None:
        """As ``ConnectedRuntime.is_suspended``."""
        return await self.client.is_suspended()

    async def resume(self) -> None:
        """As ``ConnectedRuntime.resume``."""
        await self.client.resume()


class _AsyncPresence(Presence[AsyncConnectedRuntime]):
    def make(self, dialler: Dialler) -> AsyncConnectedRuntime:
        client = AsyncClient(DiallerRoute(self.port, dialler), timeout_s=self.timeout_s)
        return AsyncConnectedRuntime(self.port, dialler, client)


class AsyncRuntimeServer:
    """``RuntimeServer`` for asyncio: ``async with AsyncRuntimeServer(address) as server: async for runtime in server: …``. It listens
    from the beginning of the block.
    """

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> None:
        self._address, self._timeout_s, self._security = address, timeout_s, security
        self._made: _AsyncPresence | None = None

    @property
    def _presence(self) -> _AsyncPresence:
        if self._made is None:
            raise TransportError("the server does not listen yet: use it in an async with block", address=self._address)
        return self._made

    @property
    def address(self) -> str:
        """As ``RuntimeServer.address``."""
        return str(self._presence.port.address)

    @property
    def runtimes(self) -> tuple[AsyncConnectedRuntime, ...]:
        """As ``RuntimeServer.runtimes``."""
        return self._presence.all()

    async def wait(self, *, timeout_s: float | None = None) -> AsyncConnectedRuntime:
        """As ``RuntimeServer.wait``."""
        found = await drive(self._presence.arriving(set()), Deadline(timeout_s))
        return not_closed(found, self.address)

    async def __aiter__(self) -> AsyncIterator[AsyncConnectedRuntime]:
        given: set[AsyncConnectedRuntime] = set()
        while (one := await drive(self._presence.arriving(given), Deadline(None))) is not None:
            yield one

    async def aclose(self) -> None:
        """As ``RuntimeServer.close``."""
        if self._made is not None:
            await in_thread(self._made.port.close)

    async def __aenter__(self) -> Self:
        opening = begin_in_thread(lambda: opened(self._address, Deadline(self._timeout_s), self._security))
        try:
            port = result_of(await asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise
        self._made = _AsyncPresence(port, self._timeout_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        there = "not listening" if self._made is None else f"{len(self.runtimes)} runtimes"
        return f"<AsyncRuntimeServer {self._address}: {there}>"


def _close(opened_port: Future[Outcome[ReversePort]]) -> None:
    port, _ = opened_port.result()
    if port is not None:
        port.close()
