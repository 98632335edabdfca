"""``Listener`` for asyncio, as a server would have it: the steps are the package's, only this shell is the tests' own."""

from __future__ import annotations

from dotnetdiag.transport import Deadline, Listener, listening
from dotnetdiag.transport.addresses import Address
from dotnetdiag.transport.aio import AsyncStream, _AsyncClosing, drive


class AsyncListener(_AsyncClosing[Listener]):
    """``Listener`` for asyncio."""

    def __init__(self, inner: Listener) -> None:
        super().__init__(inner)
        self.address = inner.address

    async def accept(self, deadline: Deadline) -> AsyncStream:
        """The next connection; as ``Listener.accept``."""
        return AsyncStream(await self._drive(self._inner.accepting(), deadline))


async def listen(address: Address, *, allow_remote: bool = False, deadline: Deadline | None = None) -> AsyncListener:
    """Listen on ``address``; as ``listening.listen``."""
    steps = listening.listening(address, allow_remote=allow_remote)
    return AsyncListener(await drive(steps, deadline or Deadline(None)))
