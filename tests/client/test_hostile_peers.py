"""A server that misbehaves gives an error of ours within the timeout, and leaves no descriptor open."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tests.descriptors import descriptors

from dotnetdiag.client import Client, user_events
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import DiagnosticsError, ProtocolError, RequestRefused, TimedOut, TransportError
from dotnetdiag.ipc.eventpipe import Provider, Tracepoints
from dotnetdiag.ipc.frames import MAGIC
from dotnetdiag.ipc.process_info import ProcessInfo3Reply
from dotnetdiag.ipc.replies import SessionReply

TIMEOUT_S = 0.3
GOOD = ProcessInfo3Reply(
    pid=7,
    cookie=UUID(int=1),
    command_line="x",
    os="Linux",
    arch="x64",
    entry_assembly="x",
    runtime_version="9.0",
).pack()

Behaviour = Callable[[socket.socket, threading.Event], None]


@contextmanager
def server(path: Path, behave: Behaviour) -> Iterator[Client]:
    """Serve every connection with ``behave`` until the block ends."""
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while not done.is_set():
                connection, _ = listener.accept()
                with connection:
                    if not done.is_set():
                        try:
                            connection.recv(65536)
                            behave(connection, done)
                        except OSError:
                            pass  # the client has gone, as it should

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Client.connect(str(path), timeout_s=TIMEOUT_S)
        finally:
            done.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()


def says(data: bytes) -> Behaviour:
    return lambda connection, done: connection.sendall(data)


def says_and_waits(data: bytes) -> Behaviour:
    def behave(connection: socket.socket, done: threading.Event) -> None:
        connection.sendall(data)
        connection.settimeout(10)
        connection.recv(1)  # until the client closes

    return behave


def drips(connection: socket.socket, done: threading.Event) -> None:
    for byte in GOOD:
        connection.sendall(bytes([byte]))
        if done.wait(0.05):
            return


@pytest.mark.parametrize(
    ("behave", "error"),
    [
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError),
        (says(MAGIC + b"\x13\x00\xff\x00\0\0"), ProtocolError),
        (says(MAGIC + b"\xff\xff\xff\x00\0\0"), TransportError),
        (says(MAGIC + b"\x14\x00\x04\x00\0\0"), ProtocolError),
        (says(MAGIC + b"\x14\x00\xff\x00\0\0"), ProtocolError),
        (says_and_waits(GOOD[:10]), TimedOut),
        (says_and_waits(GOOD[:25]), TimedOut),
        (says_and_waits(b""), TimedOut),
        (drips, TimedOut),
    ],
    ids=[
        "garbage",
        "size 19",
        "size 65535",
        "not a reply",
        "bare OK",
        "half header",
        "half payload",
        "silence",
        "drip",
    ],
)
def test_answer_that_is_wrong_is_an_error_of_ours(
    tmp_path: Path, behave: Behaviour, error: type[DiagnosticsError]
) -> None:
    before = descriptors()
    with server(tmp_path / "s", behave) as client:
        with pytest.raises(error):
            client.process_info()
        with pytest.raises(error):
            asyncio.run(AsyncClient.connect(str(tmp_path / "s"), timeout_s=TIMEOUT_S).process_info())
    assert descriptors() == before


@pytest.mark.parametrize("offset", range(len(GOOD)))
def test_close_at_any_offset_is_an_error_of_ours(tmp_path: Path, offset: int) -> None:
    with server(tmp_path / "s", says(GOOD[:offset])) as client:
        with pytest.raises(TransportError):
            client.process_info()
        with pytest.raises(TransportError):
            asyncio.run(AsyncClient.connect(str(tmp_path / "s"), timeout_s=TIMEOUT_S).process_info())


def test_whole_answer_is_taken(tmp_path: Path) -> None:
    with server(tmp_path / "s", says(GOOD)) as client:
        assert client.process_info().pid == 7


def test_session_whose_stream_breaks_keeps_what_arrived(tmp_path: Path) -> None:
    head = SessionReply(session_id=5).pack()
    with server(tmp_path / "s", says(head + b"x" * 1000)) as client:
        with client.trace("A") as session:
            assert session.save(tmp_path / "out") == 1000
        assert (tmp_path / "out").read_bytes() == b"x" * 1000


def test_a_session_in_silence_can_be_left(tmp_path: Path) -> None:
    """The stream stays silent after the stop: closing gives up after its time, and leaves nothing open."""
    head = SessionReply(session_id=5).pack()
    before = descriptors()
    with server(tmp_path / "s", says_and_waits(head)) as client:
        session = client.trace("A")
        with pytest.raises(TimedOut):
            session.read(timeout_s=0.05)
        session.abort()
        session.close()
    assert descriptors() == before


def test_descriptor_travels_behind_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """user_events: request, then one byte with the descriptor, then the answer (ipc-protocol.md §15)."""
    got: list[int] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            header = connection.recv(20)  # no more than the request: the descriptor is on the byte behind it
            assert header[16:18] == b"\x02\x06"
            connection.recv(int.from_bytes(header[14:16], "little") - 20)
            got.extend(socket.recv_fds(connection, 1, 1)[1])
            connection.sendall(SessionReply(session_id=9).pack())
            with listener.accept()[0] as stopping:
                assert stopping.recv(100)[16:18] == b"\x02\x01"
                stopping.sendall(SessionReply(session_id=9).pack())
            assert connection.recv(1) == b""

    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path / "user_events_data"),))
    (tmp_path / "user_events_data").write_bytes(b"events")
    thread = threading.Thread(target=serve)
    thread.start()
    provider = Provider(name="X", tracepoints=Tracepoints(default="x"))
    with Client.connect(str(tmp_path / "s"), timeout_s=5).trace_user_events(None, [provider]) as session:
        assert session.session_id == 9
        assert session.is_alive
    thread.join(5)
    assert os.read(got[0], 10) == b"events"
    os.close(got[0])


def test_a_kernel_without_user_events_is_told_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path / "missing"),))
    with pytest.raises(RequestRefused, match="this kernel offers no user_events"):
        Client.connect(str(tmp_path / "nobody")).trace_user_events(None, [Provider(name="X")])
    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path),))
    with open("/dev/null", "rb") as null, pytest.raises(RequestRefused, match="is /dev/null, not"):
        Client.connect(str(tmp_path / "nobody")).trace_user_events(null.fileno(), [Provider(name="X")])
    with pytest.raises(RequestRefused, match="not an open file descriptor"):
        Client.connect(str(tmp_path / "nobody")).trace_user_events(9999, [Provider(name="X")])
