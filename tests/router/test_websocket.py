"""Bytes over WebSockets: frames in pieces, partly sent, of other kinds; who is let in; pings; peers that take nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import DONE, PATIENCE_S, pattern
from tests.router.conftest import StartRouter
from tests.router.test_router import QUESTION, asked, dialled, said

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, GrammarError
from dotnetdiag.router import tools, websocket
from dotnetdiag.router.places import MOST_STRANGERS
from dotnetdiag.router.websocket import (
    LARGEST_MESSAGE,
    MOST_CONTROL_FRAMES,
    WebSocketStream,
    introducing_websocket,
    parse_websocket,
    welcoming_websocket,
)
from dotnetdiag.transport import Deadline, sockets, waiting
from dotnetdiag.transport.security import NO_SECURITY, Security
from dotnetdiag.transport.sockets import SocketStream

pytest.importorskip("websockets")
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.server import ServerProtocol
from websockets.sync.client import connect
from websockets.uri import parse_uri

URL = "ws://127.0.0.1:1/x"
SOON = 10.0


class Peer:
    """The other end of a stream, as the library understands it."""

    def __init__(self, protocol: Any, end: socket.socket, stream: WebSocketStream) -> None:
        self.protocol, self.end, self.stream = protocol, end, stream
        end.settimeout(PATIENCE_S)

    def say(self, data: bytes = b"") -> None:
        """What the protocol wants to be sent, and this."""
        self.end.sendall(b"".join([*self.protocol.data_to_send(), data]))

    def hear(self) -> list[Any]:
        """Frames of one piece; none at the end."""
        data = self.end.recv(1 << 20)
        if data:
            self.protocol.receive_data(data)
        return list(self.protocol.events_received()) if data else []

    def hear_data(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += b"".join(frame.data for frame in self.hear() if frame.opcode is not Opcode.PONG)
        return data


def fill(stream: WebSocketStream, data: memoryview) -> int:
    """Send until the system takes no more: how many bytes it has taken."""
    sent = 0
    while True:
        try:
            sent += stream.send_nowait(data[sent:])
        except BlockingIOError:
            return sent


def send_until_gone(connection: socket.socket) -> None:
    while True:
        connection.sendall(pattern(1 << 20))


@pytest.fixture(params=["we listen", "we dial"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    ours, theirs = socket.socketpair()
    address, accepted = parse_websocket(URL), SocketStream(ours, address="there")
    theirs.settimeout(PATIENCE_S)
    protocol: Any
    if request.param == "we listen":
        protocol = ClientProtocol(parse_uri(URL))
        protocol.send_request(protocol.connect())
        theirs.sendall(b"".join(protocol.data_to_send()))
        stream = waiting.run(welcoming_websocket(accepted, address, NO_SECURITY), Deadline(SOON))
        protocol.receive_data(theirs.recv(1 << 16))
        protocol.events_received()
    else:
        protocol = ServerProtocol()
        made: list[WebSocketStream] = []
        steps = introducing_websocket(accepted, address, NO_SECURITY)
        thread = threading.Thread(target=lambda: made.append(waiting.run(steps, Deadline(SOON))))
        thread.start()
        protocol.receive_data(theirs.recv(1 << 16))
        protocol.send_response(protocol.accept(protocol.events_received()[0]))
        theirs.sendall(b"".join(protocol.data_to_send()))
        thread.join(SOON)
        (stream,) = made
    with theirs, stream:
        yield Peer(protocol, theirs, stream)


# bytes ----------------------------------------------------------------------------------------------------------------


def test_bytes_arrive_in_whatever_pieces_their_frames_come(peer: Peer) -> None:
    peer.protocol.send_binary(b"one")
    peer.protocol.send_binary(b"two", fin=False)
    peer.protocol.send_continuation(b"", fin=False)
    peer.protocol.send_ping(b"in between")
    peer.protocol.send_continuation(b"three", fin=True)
    for byte in b"".join(peer.protocol.data_to_send()):
        peer.end.sendall(bytes([byte]))
    received = b""
    while len(received) < 11:
        received += peer.stream.receive(2, Deadline(SOON))
    assert received == b"onetwothree"
    assert [frame.data for frame in peer.hear()] == [b"in between"]
    assert peer.stream.is_quiet()


def test_a_frame_that_is_sent_in_part_is_gone_on_with(peer: Peer) -> None:
    data = pattern(3_000_000)
    peer.stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sending = threading.Thread(target=peer.stream.send, args=(data, Deadline(SOON)))
    sending.start()
    assert peer.hear_data(len(data)) == data
    sending.join(SOON)


def test_no_more_bytes_count_as_sent_than_the_system_has_taken(peer: Peer) -> None:
    data = memoryview(pattern(8 << 20))
    sent = fill(peer.stream, data)
    assert sent < len(data)
    peer.protocol.send_ping(b"?")  # its answer waits behind the frame that is sent in part
    peer.say()
    peer.stream.answer()
    received = b""
    while len(received) < len(data):
        try:
            sent += peer.stream.send_nowait(data[sent:])
        except BlockingIOError:
            received += b"".join(frame.data for frame in peer.hear() if frame.opcode is Opcode.BINARY)
        if sent == len(data):
            peer.stream.end_sending()
            while frames := peer.hear():
                received += b"".join(frame.data for frame in frames if frame.opcode is Opcode.BINARY)
                if frames[-1].opcode is Opcode.CLOSE:
                    break
            break
    assert received == data


def test_a_message_that_is_too_large_is_an_end(peer: Peer) -> None:
    head = bytes([0x82, 0x7F | (0x80 if isinstance(peer.protocol, ClientProtocol) else 0)])
    peer.say(head + (LARGEST_MESSAGE + 1).to_bytes(8, "big") + bytes(4))
    assert peer.stream.receive(10, Deadline(SOON)) == b""
    assert not peer.stream.is_alive()


@pytest.mark.parametrize("way", ["text", "close", "closed", "garbage"])
def test_what_came_before_the_end_is_received(way: str, peer: Peer) -> None:
    peer.protocol.send_binary(b"before")
    if way == "text":
        peer.protocol.send_text(b"no bytes")
        peer.protocol.send_binary(b"after")
    elif way == "close":
        peer.protocol.send_close(1000)
    peer.say(b"\xff" * 20 if way == "garbage" else b"")
    if way == "closed":
        peer.end.close()
    assert peer.stream.receive(100, Deadline(SOON)) == b"before"
    assert peer.stream.receive(100, Deadline(SOON)) == b""
    assert peer.stream.has_hung_up() or way == "closed"
    assert not peer.stream.is_alive()
    if way == "close":
        assert peer.hear()[0].opcode is Opcode.CLOSE
        with pytest.raises(ConnectionEnded):
            peer.stream.send(b"x", Deadline(SOON))


def test_the_end_is_told(peer: Peer) -> None:
    peer.stream.end_sending()
    peer.stream.close()
    assert peer.hear()[0].opcode is Opcode.CLOSE
    assert peer.hear() == []


# pings ----------------------------------------------------------------------------------------------------------------


def test_a_ping_is_answered_and_is_nothing_that_is_said(peer: Peer) -> None:
    peer.protocol.send_ping(b"there?")
    peer.say()
    assert waiting.is_ready(peer.stream.fileno(), False, SOON)
    assert peer.stream.is_quiet()
    assert [(frame.opcode, frame.data) for frame in peer.hear()] == [(Opcode.PONG, b"there?")]
    peer.protocol.send_binary(b"data")
    peer.say()
    assert waiting.is_ready(peer.stream.fileno(), False, SOON)
    assert not peer.stream.is_quiet()
    assert peer.stream.receive(10, Deadline(SOON)) == b"data"


def test_who_pings_and_takes_no_answer_is_no_peer(peer: Peer) -> None:
    fill(peer.stream, memoryview(pattern(8 << 20)))
    for _ in range(MOST_CONTROL_FRAMES + 1):
        peer.protocol.send_ping(b"x" * 100)
    peer.say()
    assert waiting.is_ready(peer.stream.fileno(), False, SOON)
    assert not peer.stream.is_quiet()
    assert not peer.stream.is_alive()


def test_peers_that_ping_and_wait_are_answered(
    folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "LOOK_S", 0.01)
    answered: list[Any] = []
    heard = start(tools="ws://127.0.0.1:0/t", runtimes="ws://127.0.0.1:0/r")
    with connect(heard.router.tools_address, ping_interval=None) as tool:
        tool.send(QUESTION)
        while not heard.router.status().waiting_tools:
            pass
        assert tool.ping().wait(PATIENCE_S)
        with connect(heard.router.runtimes_address, ping_interval=None) as runtime:
            runtime.send(said(5))
            assert runtime.recv(PATIENCE_S) == QUESTION
            assert runtime.ping().wait(PATIENCE_S)
            runtime.send(DONE)
            answered.append(tool.recv(PATIENCE_S))
        with connect(heard.router.runtimes_address, ping_interval=None) as runtime:
            runtime.send(said(6))
            heard.wait_for("connected", 2)
            for _ in range(2):  # it says nothing by that, and stays
                assert runtime.ping().wait(PATIENCE_S)
            assert len(heard.router.status().connected) >= 1
    assert answered == [DONE]


def test_a_runtime_that_pings_while_the_tool_is_told_of_it_is_still_there(folder: Path, start: StartRouter) -> None:
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(str(folder / "port"))
        port.listen()
        port.settimeout(PATIENCE_S)
        heard = start(tools=f"{folder / 'port'},connect", runtimes="ws://127.0.0.1:0/r")
        with connect(heard.router.runtimes_address, ping_interval=None) as runtime:
            runtime.send(said(5))
            with port.accept()[0] as tool:
                assert tool.recv(34, socket.MSG_WAITALL) == said(5)
                for _ in range(3):
                    assert runtime.ping().wait(PATIENCE_S)
                tool.sendall(QUESTION)
                assert runtime.recv(PATIENCE_S) == QUESTION
                runtime.send(DONE)
                assert tool.recv(100) == DONE


# who takes nothing, who says nothing ----------------------------------------------------------------------------------


def test_a_tool_that_takes_nothing_is_hung_up_on(
    folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        pytest.skip("this system has no TCP_USER_TIMEOUT")
    monkeypatch.setattr(sockets, "NO_ANSWER_S", 1)
    heard = start(tools="ws://127.0.0.1:0/t", runtimes=f"{folder / 'runtimes'}")
    with dialled(folder / "runtimes", said(5)) as runtime, closing(raw(heard.router.tools_address)) as tool:
        tool.sendall(frame(QUESTION))
        assert runtime.recv(100) == QUESTION
        runtime.settimeout(PATIENCE_S)
        with pytest.raises(OSError, match=r"(?i)broken pipe|reset"):
            send_until_gone(runtime)
    assert heard.wait_for("ended")[0].why == "the tool is gone"


def test_a_tool_that_takes_nothing_makes_the_runtime_wait_and_is_asked_nothing(
    folder: Path, start: StartRouter
) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes="ws://127.0.0.1:0/r")
    with closing(raw(heard.router.runtimes_address)) as runtime:  # which answers no ping
        runtime.sendall(frame(said(5)))
        heard.wait_for("connected")
        with dialled(folder / "tools", QUESTION) as tool:
            assert runtime.recv(100).endswith(QUESTION)
            data, sent = frame(b"x" * 60_000) * 500, threading.Event()

            def send() -> None:
                runtime.sendall(data)
                sent.set()

            sending = threading.Thread(target=send)
            sending.start()
            assert not sent.wait(0.5)
            received = 0
            while received < 30_000_000:
                received += len(tool.recv(1 << 20))
            sending.join(PATIENCE_S)
            runtime.setblocking(False)
            with pytest.raises(BlockingIOError):
                runtime.recv(1)


def test_who_says_something_gets_in_however_many_say_nothing(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes="ws://127.0.0.1:0/r")
    place = heard.router.runtimes_address.removeprefix("ws://").removesuffix("/r").split(":")
    silent = [socket.create_connection((place[0], int(place[1]))) for _ in range(MOST_STRANGERS + 50)]
    threads = threading.active_count()
    try:
        start(tools=f"{heard.router.runtimes_address},connect", runtimes=f"{folder / 'runtimes'}")
        with DiallingRuntime(folder / "runtimes", number=5):
            assert asked(folder / "tools") == 5
            assert threading.active_count() - threads < 10
    finally:
        for one in silent:
            one.close()


# who is let in --------------------------------------------------------------------------------------------------------


def raw(address: str) -> socket.socket:
    """A WebSocket by hand, which answers nothing by itself."""
    url = parse_websocket(address)
    connection = socket.create_connection((url.tcp.host, url.tcp.port), timeout=PATIENCE_S)
    protocol = ClientProtocol(parse_uri(address))
    protocol.send_request(protocol.connect())
    connection.sendall(b"".join(protocol.data_to_send()))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    return connection


def frame(data: bytes) -> bytes:
    """As a client sends it, masked with zeroes."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x82" + size + bytes(4) + data


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 "),
        (b"GET /x HTTP/1.1\r\nAuthorization: Bearer 00\r\n\r\n", b"HTTP/1.1 401 "),
        (b"GET /x HTTP/1.1\r\nAuthorization: Bearer 00\r\nAuthorization: Bearer 00\r\n\r\n", b"HTTP/1.1 401 "),
        (b"no HTTP at all\r\n\r\n", b""),
    ],
)
def test_who_is_not_let_in_is_told_why(request_text: bytes, answer: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(request_text)
        steps = welcoming_websocket(SocketStream(ours), parse_websocket(URL), Security(token="x" * 16))
        with pytest.raises(ConnectFailed, match="no WebSocket"):
            waiting.run(steps, Deadline(SOON))
        assert theirs.recv(1000).startswith(answer)


def test_without_a_handshake_it_is_426_or_400() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(ConnectFailed, match="it was answered with 4"):
            waiting.run(welcoming_websocket(SocketStream(ours), parse_websocket(URL), NO_SECURITY), Deadline(SOON))
        assert theirs.recv(1000).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("half", [b"", b"GET /x HTTP/1.1\r\n"])
def test_half_a_handshake_is_none(half: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(half)
    theirs.close()
    with pytest.raises(ConnectionEnded):
        waiting.run(welcoming_websocket(SocketStream(ours), parse_websocket(URL), NO_SECURITY), Deadline(SOON))


def test_what_comes_with_the_handshake_is_received() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        protocol = ClientProtocol(parse_uri(URL))
        protocol.send_request(protocol.connect())
        theirs.sendall(b"".join(protocol.data_to_send()) + frame(b"early"))
        with waiting.run(
            welcoming_websocket(SocketStream(ours), parse_websocket(URL), NO_SECURITY), Deadline(SOON)
        ) as stream:
            assert stream.has_arrived()
            assert stream.receive(10, Deadline(SOON)) == b"early"


def test_addresses() -> None:
    assert str(parse_websocket("WS://[::1]:5/a")) == "ws://[::1]:5/a"
    assert parse_websocket("wss://a").tcp.port == websocket.PORTS["wss"]
    for text in ("ws://a:1/b?c", "ws://", "ws://u@a/"):
        with pytest.raises(GrammarError):
            parse_websocket(text)
