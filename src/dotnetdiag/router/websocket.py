"""WebSocket peers, by the library ``websockets`` (the extra ``websocket``). Each is a stream like any other: one end of a pair of sockets,
whose other end two threads join to the WebSocket. What one message holds is of no importance: they carry bytes.

A WebSocket has no half-close: an end of either side is the end of both. The token is a header here: ``Authorization: Bearer HEX``, the SHA-256 of it.
"""

from __future__ import annotations

import hmac
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dotnetdiag.errors import ConnectFailed, GrammarError, MissingDependency, TransportError, UsageError
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.addresses import TcpAddress
from dotnetdiag.transport.listening import listening
from dotnetdiag.transport.security import AUTHENTICATION_S, Security, context_of
from dotnetdiag.transport.sockets import SocketListener, SocketStream
from dotnetdiag.transport.streams import Listener, Stream
from dotnetdiag.transport.waiting import Change, Steps, start

if TYPE_CHECKING:
    from types import ModuleType

PIECE_BYTES = 1 << 16
LARGEST_MESSAGE = 1 << 22
"""Of a peer: with the queue of the library, which holds two, this bounds what a connection takes here."""
QUEUED_MESSAGES = 2
CLOSE_S = 2.0
MOST_WAITING = 128
SHORTAGE_PAUSE_S = 0.1
PORTS = {"ws": 80, "wss": 443}

_LOGGER = logging.getLogger("dotnetdiag.router.websocket")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False  # what is wrong with one connection is nobody else's matter


@dataclass(frozen=True, slots=True)
class WebSocketAddress:
    """``ws://host:port/path``; ``wss``: over TLS."""

    tcp: TcpAddress
    path: str
    is_tls: bool = False

    def __str__(self) -> str:
        return f"{'wss' if self.is_tls else 'ws'}{str(self.tcp).removeprefix('tcp')}{self.path}"


def parse_websocket(text: str) -> WebSocketAddress:
    """Raises GrammarError."""
    parts = urlsplit(text)
    try:
        if parts.query or parts.fragment or parts.username is not None or not parts.hostname:
            raise ValueError("it has a scheme, a host, a port and a path")
        address = TcpAddress(parts.hostname, PORTS[parts.scheme] if parts.port is None else parts.port)
    except ValueError as exc:
        raise GrammarError("address", text, 0, f"write ws://host:port/path: {exc}") from exc
    return WebSocketAddress(address, parts.path or "/", parts.scheme == "wss")


def is_websocket(text: str) -> bool:
    """Whether an address is one of these."""
    return text.lower().startswith(("ws://", "wss://"))


def check_websocket(address: WebSocketAddress, security: Security) -> None:
    """Raise MissingDependency, and UsageError for certificates that go unused, or lack."""
    _library("client")
    if address.is_tls != bool(security.certificate):
        raise UsageError(
            f"{address}: {'wss:// needs a certificate, key and CA' if address.is_tls else 'TLS is wss://'}"
        )


def _library(name: str) -> ModuleType:
    try:
        from importlib import import_module

        return import_module(f"websockets.sync.{name}")
    except ImportError as exc:
        raise MissingDependency("websockets", extra="websocket", purpose="a WebSocket") from exc


class WebSocketListener(Listener):
    """Accepts WebSockets at one path; others are answered with 404, or 401 without the token."""

    def __init__(self, bound: SocketListener, address: WebSocketAddress, security: Security) -> None:
        assert isinstance(bound.address, TcpAddress)
        self._address, self._security = WebSocketAddress(bound.address, address.path, address.is_tls), security
        self._text = str(self._address)
        self.address = bound.address
        self._bound = bound.detach()
        self._bound.setblocking(True)
        self._library = _library("server")
        self._came: deque[SocketStream] = deque()
        self._observers: list[Callable[[], None]] = []
        self._closed, self._lock = threading.Event(), threading.Lock()
        self._server: Any = None
        start(threading.Thread(target=self._serve, name="dotnetdiag websocket", daemon=True))

    @property
    def text(self) -> str:
        """The address with its scheme and path."""
        return self._text

    def fileno(self) -> int:
        return -1 if self._closed.is_set() else self._bound.fileno()

    def accepting(self) -> Steps[Stream]:
        def look() -> SocketStream | None:
            if self._closed.is_set():
                raise TransportError("the listener is closed", address=self._text)
            return self._came.popleft() if self._came else None

        stream: Stream = yield Change(look, self._observed, "nobody connected", self._text)
        return stream

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            server = self._server
        self._bound.close()
        for observer in tuple(self._observers):
            observer()
        while self._came:
            self._came.popleft().close()
        if server is not None:
            _shut_down(server)

    @contextmanager
    def _observed(self, observer: Callable[[], None]) -> Iterator[None]:
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def _serve(self) -> None:
        """The library's server ends when it cannot accept; where descriptors are short, there may be some again."""
        while not self._closed.is_set():
            with suppress(OSError):
                server = self._library.serve(
                    self._handle,
                    sock=self._bound.dup(),
                    ssl=context_of(self._security, for_server=True) if self._address.is_tls else None,
                    process_request=self._refusal,
                    compression=None,
                    open_timeout=AUTHENTICATION_S,
                    close_timeout=CLOSE_S,
                    max_size=LARGEST_MESSAGE,
                    max_queue=QUEUED_MESSAGES,
                    logger=_LOGGER,
                )
                with self._lock:
                    self._server, is_late = server, self._closed.is_set()
                if is_late:
                    _shut_down(server)
                server.serve_forever()
                server.socket.close()
            self._closed.wait(SHORTAGE_PAUSE_S)

    def _refusal(self, connection: Any, request: Any) -> Any:
        if request.path != self._address.path:
            return connection.respond(HTTPStatus.NOT_FOUND, "not here\n")
        said = request.headers.get("Authorization", "")
        if self._security.token and not hmac.compare_digest(said.encode(), _bearer(self._security).encode()):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no\n")
        return None

    def _handle(self, connection: Any) -> None:
        if self._closed.is_set() or len(self._came) >= MOST_WAITING:
            return
        ours, theirs = socket.socketpair()
        stream = SocketStream(ours, address=f"{self._text} from {connection.remote_address[0]}")
        with self._lock:
            self._came.append(stream)
            if self._closed.is_set():
                stream.close()
        for observer in tuple(self._observers):
            observer()
        _join(connection, theirs)


def listening_websocket(address: WebSocketAddress, security: Security) -> Steps[WebSocketListener]:
    """The steps of listening. Raises TransportError, MissingDependency."""
    _library("server")
    bound = yield from listening(address.tcp, allow_remote=True)
    assert isinstance(bound, SocketListener)
    return WebSocketListener(bound, address, security)


def dial_websocket(address: WebSocketAddress, security: Security, deadline: Deadline) -> SocketStream:
    """A connection. Raises ConnectFailed, MissingDependency."""
    library = _library("client")
    try:
        connecting = library.connect(
            str(address),
            ssl=context_of(security, for_server=False) if address.is_tls else None,
            additional_headers={"Authorization": _bearer(security)} if security.token else None,
            compression=None,
            proxy=None,
            open_timeout=deadline.wait_s("no connection", address=str(address)),
            close_timeout=CLOSE_S,
            max_size=LARGEST_MESSAGE,
            max_queue=QUEUED_MESSAGES,
            logger=_LOGGER,
        )
        connection = connecting.__enter__()  # newer versions want a block; ours ends in another thread
    except TransportError:
        raise
    except Exception as exc:  # the library's errors have no root but this that they share with those of sockets
        raise ConnectFailed(f"no WebSocket: {exc}", address=str(address)) from exc
    ours, theirs = socket.socketpair()
    start(threading.Thread(target=_join, args=(connection, theirs), name="dotnetdiag websocket", daemon=True))
    return SocketStream(ours, address=str(address))


def _shut_down(server: Any) -> None:
    """It waits for its connections to end: in a thread."""
    threading.Thread(target=server.shutdown, name="dotnetdiag websocket end", daemon=True).start()


def _bearer(security: Security) -> str:
    return f"Bearer {security.digest.hex()}"


def _join(connection: Any, theirs: socket.socket) -> None:
    """Bytes both ways until one side ends; then all is closed. Who does not take them makes the other wait."""

    def send_all() -> None:
        with suppress(Exception):  # whatever it is, it is the end
            while data := theirs.recv(PIECE_BYTES):
                connection.send(data)
        connection.close()

    sender = threading.Thread(target=send_all, name="dotnetdiag websocket", daemon=True)
    sender.start()
    with suppress(Exception):
        for message in connection:
            theirs.sendall(message)  # a text is no bytes: the end
    with suppress(OSError):
        theirs.shutdown(socket.SHUT_RDWR)
    sender.join()
    theirs.close()
