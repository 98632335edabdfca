"""``Listener`` for asyncio, as a server would have it: the steps are the package's, only this shell is the tests' own."""

from __future__ import annotations

from typing import Self

from dotnetdiag.transport import Deadline, Listener, listening
from dotnetdiag.transport.addresses import Address
from dotnetdiag.transport.aio import AsyncStream, Waits, drive


class AsyncListener:
    """``Listener`` for asyncio."""

    def __init__(self, inner: Listener) -> None:
        self._inner, self.address = inner, inner.address
        self._waits = Waits()

    def fileno(self) -> int:
        return self._inner.fileno()

    async def close(self) -> None:
        """As of ``AsyncStream``."""
        self._waits.close()
        self._inner.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def socket_file(self) -> tuple[str, tuple[int, int]] | None:
        return self._inner.socket_file()

    async def accept(self, deadline: Deadline) -> AsyncStream:
        """The next connection; as ``Listener.accept``."""
        return AsyncStream(await drive(self._inner.accepting(), deadline, self._waits))


async def listen(address: Address, *, allow_remote: bool = False, deadline: Deadline | None = None) -> AsyncListener:
    """Listen on ``address``; as ``listening.listen``."""
    steps = listening.listening(address, allow_remote=allow_remote)
    return AsyncListener(await drive(steps, deadline or Deadline(None)))
