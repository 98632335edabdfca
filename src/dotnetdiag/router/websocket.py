"""WebSocket peers: the frames are those of the library ``websockets`` (the extra ``websocket``), of which only the part without I/O is used; the
bytes go over a stream like any other. What one message holds is of no importance: they carry bytes.

Rule 1: a WebSocket has no half-close: an end of either side is the end of both.
Rule 2: whether the peer is still there is TCP's to find out (``SocketStream.keep_alive``). Pings of ours would wait behind the bytes that a slow
reader does not take, or their answers behind those that we do not take. Pings of the peer are answered whenever something is read.
Rule 3: no more is read than somebody asks for, so a reader that takes nothing makes the peer wait.

The token is a header here: ``Authorization: Bearer HEX``, the SHA-256 of it.
"""

from __future__ import annotations

import errno
import hmac
import logging
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import ConnectFailed, ConnectionEnded, GrammarError, MissingDependency, UsageError
from dotnetdiag.transport.addresses import TcpAddress
from dotnetdiag.transport.security import Security, introducing, welcoming
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.waiting import Steps, is_ready

if TYPE_CHECKING:
    from types import ModuleType

PIECE_BYTES = 1 << 16
"""Of one frame of ours."""
LARGEST_MESSAGE = 1 << 22
"""Of a peer: this bounds what a connection takes here."""
MOST_CONTROL_FRAMES = 64
"""Answers to pings that a peer has not taken. One that asks on is no peer."""
ROUNDS = 64
"""Calls of the system for one piece of data: a large frame takes many, and so do pings without end."""
LOOK_BYTES = 4096
HANDSHAKE_BYTES = 4096
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

        return import_module(f"websockets.{name}")
    except ImportError as exc:
        raise MissingDependency("websockets", extra="websocket", purpose="a WebSocket") from exc


class WebSocketStream(SocketStream):
    """The bytes of a WebSocket whose handshake is done. ``carrier`` is this stream's from now on; ``early``: frames that came with the handshake.

    For one thread. What ``send_nowait`` has not taken of some bytes must be given to it again, first: a part of their frame may be sent.
    """

    IS_PLAIN = False

    def __init__(self, carrier: SocketStream, protocol: Any, early: Iterable[Any] = ()) -> None:
        # one socket, one count of users: closing this closes the carrier
        self._socket, self._refs, self._owner_pid = carrier._socket, carrier._refs, carrier._owner_pid
        self.address = carrier.address
        self._carrier, self._protocol = carrier, protocol
        self._arrived: deque[memoryview] = deque()
        self._ended = False
        self._frames: deque[tuple[memoryview, int]] = deque()  # to be sent; how many bytes at the end of each are data
        self._taken = 0
        self._take_in(early)

    def send_nowait(self, data: bytes | memoryview) -> int:
        if not self._taken and not any(count for _, count in self._frames):
            self._require_open()
            piece = memoryview(data)[:PIECE_BYTES]
            self._protocol.send_binary(piece)
            self._queue(len(piece))
        self._flush()
        if not self._taken:
            raise BlockingIOError
        taken, self._taken = self._taken, 0
        return taken

    def receive_nowait(self, view: memoryview) -> int:
        self._receive_some(view)
        if not self._arrived:
            return 0
        data = self._arrived.popleft()
        count = min(len(data), len(view))
        view[:count] = data[:count]
        if count < len(data):
            self._arrived.appendleft(data[count:])
        return count

    def answer(self) -> None:
        """Answer pings, where nobody reads for now. What else has come is kept. Not while somebody waits for the socket to become readable."""
        try:
            self._receive_some(memoryview(bytearray(LOOK_BYTES)))
        except BlockingIOError:
            pass
        except OSError:
            self._ended = True

    def is_quiet(self) -> bool:
        """Pings are nothing that is said: they are answered. Not while somebody waits for the socket to become readable."""
        self.answer()
        return not self._arrived and self.is_alive()

    def is_alive(self) -> bool:
        return not self._ended and self._carrier.is_alive()

    def has_hung_up(self) -> bool:
        return self._ended or self._carrier.has_hung_up()

    def has_arrived(self, size: int = 1) -> bool:
        return bool(self._arrived) or self._ended or self._carrier.has_arrived(size)

    def end_sending(self) -> None:
        if self._protocol.state.name == "OPEN":
            self._protocol.send_close(1000)
            self._queue()
            try:
                self._flush()
            except OSError:  # it is gone already
                pass

    def close(self) -> None:
        if not self._refs.closed:
            self.end_sending()
        super().close()

    def _require_open(self) -> None:
        if self._protocol.state.name != "OPEN":
            raise ConnectionResetError(errno.ECONNRESET, "the peer closed the WebSocket")

    def _receive_some(self, buffer: memoryview) -> None:
        """Until data are there, or the end. Raises BlockingIOError when nothing is left, also when others should have their turn, and OSError."""
        rounds = 0
        while not self._arrived and not self._ended:
            if rounds >= ROUNDS and is_ready(
                self._socket.fileno(), False, 0
            ):  # so whoever waits for that does not wait
                raise BlockingIOError
            self._receive(buffer)
            rounds += 1

    def _receive(self, buffer: memoryview) -> None:
        """Take in what there is, up to the size of the buffer. Raises BlockingIOError when nothing is, and OSError."""
        count = self._carrier.receive_nowait(buffer)
        if not count:
            self._ended = True
            return
        self._protocol.receive_data(bytes(buffer[:count]))
        self._take_in(self._protocol.events_received())
        self._queue()
        try:
            self._flush()
        except OSError:  # it is tried again, and told, when there is something to send
            pass
        if len(self._frames) > MOST_CONTROL_FRAMES:
            raise OSError(errno.EPROTO, "the peer asks whether we are there, and takes no answer")

    def _take_in(self, frames: Iterable[Any]) -> None:
        for frame in frames:
            name = frame.opcode.name
            if name in ("BINARY", "CONT"):
                if frame.data and not self._ended:
                    self._arrived.append(memoryview(frame.data))
            elif name in ("CLOSE", "TEXT"):  # a text is no bytes
                self._ended = True
        self._ended = self._ended or self._protocol.parser_exc is not None

    def _queue(self, data_bytes: int = 0) -> None:
        """What the protocol wants to be sent; the last of it is a frame with so many bytes of data. The empty one: no more is sent."""
        frames = [memoryview(frame) for frame in self._protocol.data_to_send()]
        self._frames.extend((frame, data_bytes if frame is frames[-1] else 0) for frame in frames)

    def _flush(self) -> None:
        """Send what the system takes at once. Raises OSError, but not for what has to wait."""
        while self._frames:
            frame, data_bytes = self._frames[0]
            if not frame:
                self._carrier.end_sending()
            try:
                rest = frame[self._carrier.send_nowait(frame) :] if frame else frame
            except BlockingIOError:
                return
            left = min(data_bytes, len(rest))
            self._taken += data_bytes - left
            if rest:
                self._frames[0] = rest, left
            else:
                self._frames.popleft()


def introducing_websocket(
    stream: SocketStream, address: WebSocketAddress, security: Security
) -> Steps[WebSocketStream]:
    """The dialler's side of TLS and of the handshake. The stream is closed when it fails. Raises ConnectFailed, MissingDependency."""
    stream = yield from introducing(stream, replace(security, token=""), address.tcp.host)
    try:
        uri = _library("uri").parse_uri(str(address))
        protocol = _library("client").ClientProtocol(uri, max_size=LARGEST_MESSAGE, logger=_LOGGER)
        request = protocol.connect()
        if security.token:
            request.headers["Authorization"] = _bearer(security)
        protocol.send_request(request)
        yield from _sending(stream, protocol)
        _, *early = yield from _first_event(stream, protocol)
        if protocol.handshake_exc is not None:
            raise ConnectFailed(f"no WebSocket: {protocol.handshake_exc}", address=str(address))
        return WebSocketStream(stream, protocol, early)
    except BaseException:
        stream.close()
        raise


def welcoming_websocket(stream: SocketStream, address: WebSocketAddress, security: Security) -> Steps[WebSocketStream]:
    """The listener's side of TLS and of the handshake; who asks for another path is answered with 404, without the token with 401. The stream
    is closed when it fails. Raises ConnectFailed for who is not let in, ConnectionEnded, MissingDependency.
    """
    stream = yield from welcoming(stream, replace(security, token=""))
    try:
        protocol = _library("server").ServerProtocol(max_size=LARGEST_MESSAGE, logger=_LOGGER)
        request, *early = yield from _first_event(stream, protocol)
        problem = _refusal(request, address, security)
        response = protocol.accept(request) if problem is None else protocol.reject(*problem)
        protocol.send_response(response)
        yield from _sending(stream, protocol)
        if protocol.state.name != "OPEN":
            why = f"it was answered with {response.status_code}" + (f": {problem[1].strip()}" if problem else "")
            raise ConnectFailed(f"no WebSocket: {why}", address=stream.address, errno=errno.EACCES)
        return WebSocketStream(stream, protocol, early)
    except BaseException:
        stream.close()
        raise


def _refusal(request: Any, address: WebSocketAddress, security: Security) -> tuple[HTTPStatus, str] | None:
    if request.path != address.path:
        return HTTPStatus.NOT_FOUND, "not here\n"
    said = ",".join(request.headers.get_all("Authorization"))
    if security.token and not hmac.compare_digest(said.encode(), _bearer(security).encode()):
        return HTTPStatus.UNAUTHORIZED, "the peer has not sent our token\n"
    return None


def _first_event(stream: SocketStream, protocol: Any) -> Steps[list[Any]]:
    """The request or the response, and what came with it. Raises ConnectFailed, ConnectionEnded."""
    buffer = memoryview(bytearray(HANDSHAKE_BYTES))
    while True:
        count = yield from stream.receiving_into(buffer)
        if not count:
            raise ConnectionEnded("the peer closed the connection before it was a WebSocket", address=stream.address)
        protocol.receive_data(bytes(buffer[:count]))
        if events := protocol.events_received():
            return list(events)
        if protocol.handshake_exc is not None:
            yield from _sending(stream, protocol)
            raise ConnectFailed(f"no WebSocket: {protocol.handshake_exc}", address=stream.address)


def _sending(stream: SocketStream, protocol: Any) -> Steps[None]:
    for data in protocol.data_to_send():
        if data:
            yield from stream.sending(data)


def _bearer(security: Security) -> str:
    return f"Bearer {security.digest.hex()}"
