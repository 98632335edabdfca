"""One side of a router: where its peers are, who dials whom, and what they have to show."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import ConnectFailed, TransportError, UsageError
from dotnetdiag.ipc.ports import PortMode
from dotnetdiag.router.websocket import WebSocketAddress, check_websocket, introducing_websocket, welcoming_websocket
from dotnetdiag.transport import Deadline, Listener, connecting, listening
from dotnetdiag.transport.addresses import Address, TcpAddress
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.security import AUTHENTICATION_S, Security, check, introducing, require_secure, welcoming
from dotnetdiag.transport.sockets import SocketStream

FIRST_PAUSE_S, LONGEST_PAUSE_S, LONGER = 0.01, 0.5, 1.25
"""Between two attempts to dial, as a runtime makes them (ipc-protocol.md §8)."""
ATTEMPT_S = 5.0
"""For one attempt to dial."""
SHORTAGE_PAUSE_S = 0.1
"""Without free descriptors, or with too many connections, accepting waits this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """``LISTEN``: the peers dial us."""

    address: Address | WebSocketAddress
    mode: PortMode
    security: Security
    insecure: bool = False
    of_tools: bool = False
    """Who gets most of the bytes."""

    def __post_init__(self) -> None:
        tcp = self.place
        require_secure(tcp, self.security, insecure=self.insecure)
        check(self.security)
        if isinstance(self.address, WebSocketAddress):
            check_websocket(self.address, self.security)
        if self.mode is PortMode.CONNECT and isinstance(tcp, TcpAddress) and tcp.host == "*":
            raise UsageError(f"{self.address}: name the host to connect to; * is for listening")

    @property
    def place(self) -> Address:
        """Where a connection goes to, whatever is spoken there."""
        return self.address.tcp if isinstance(self.address, WebSocketAddress) else self.address

    @property
    def listens(self) -> bool:
        return self.mode is PortMode.LISTEN

    async def open(self) -> Listener:
        """Listen. Raises TransportError."""
        return await drive(listening.listening(self.place, allow_remote=True), Deadline(ATTEMPT_S))

    def text_of(self, listener: Listener) -> str:
        """Where it listens, with the port that the system chose."""
        if isinstance(self.address, WebSocketAddress):
            assert isinstance(listener.address, TcpAddress)
            return str(replace(self.address, tcp=listener.address))
        return str(listener.address)

    async def dial(self) -> SocketStream:
        """One attempt. Raises TransportError."""
        stream = await drive(connecting.connecting(self.place), Deadline(ATTEMPT_S))
        assert isinstance(stream, SocketStream)
        if not isinstance(self.place, TcpAddress):
            return stream
        stream.keep_alive(sends_much=self.of_tools)
        if isinstance(self.address, WebSocketAddress):
            return await drive(introducing_websocket(stream, self.address, self.security), Deadline(AUTHENTICATION_S))
        return await drive(introducing(stream, self.security, self.place.host), Deadline(AUTHENTICATION_S))

    async def dial_until_there(
        self, deadline: Deadline, *, failed: Callable[[str], None], is_wanted: Callable[[], bool] = lambda: True
    ) -> SocketStream:
        """Attempts, until one succeeds; ``failed`` is told why one has not. Raises TimedOut, and ConnectFailed when it is not wanted any
        more.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await self.dial()
            except TransportError as error:
                failed(str(error))
                deadline.wait_s(str(error))
            await asyncio.sleep(min(pause, deadline.left_s))
            pause = min(pause * LONGER, LONGEST_PAUSE_S)
            if not is_wanted():
                raise ConnectFailed("nobody wants it any more", address=str(self.address), errno=errno.ECANCELED)

    async def welcome(self, stream: SocketStream) -> SocketStream:
        """Who has dialled, once it has shown what it has to. The stream is closed when it does not. Raises TransportError."""
        if not isinstance(self.place, TcpAddress):
            return stream
        stream.keep_alive(sends_much=self.of_tools)
        if isinstance(self.address, WebSocketAddress):
            return await drive(welcoming_websocket(stream, self.address, self.security), Deadline(AUTHENTICATION_S))
        return await drive(welcoming(stream, self.security), Deadline(AUTHENTICATION_S))


async def accept_all(
    listener: Listener, handle: Callable[[SocketStream], object], has_room: Callable[[], bool]
) -> None:
    """Hand each connection on, until the listener is closed. Where the system has no more descriptors, it may have some again."""
    while listener.fileno() >= 0:
        if not has_room():
            await asyncio.sleep(SHORTAGE_PAUSE_S)
            continue
        try:
            stream = await drive(listener.accepting(), Deadline(None))
        except TransportError:
            await asyncio.sleep(SHORTAGE_PAUSE_S)
            continue
        assert isinstance(stream, SocketStream)
        handle(stream)
