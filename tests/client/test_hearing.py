"""Connections that have not said yet who they are."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.client.scripted import PATIENCE_S, eventually

from dotnetdiag.client.hearing import Hearing
from dotnetdiag.errors import TransportError
from dotnetdiag.transport import Stream
from dotnetdiag.transport.sockets import SocketStream

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets that can be polled")
SIZE = 4


class Listener:
    def __init__(self, limit_s: float) -> None:
        self.admitted: list[Stream] = []
        self.hearing = Hearing(self._admit, size=SIZE, limit_s=limit_s)
        self.peers: list[socket.socket] = []

    def _admit(self, heard: threading.Event, stream: Stream) -> None:
        self.admitted.append(stream)
        heard.set()

    def connect(self) -> tuple[socket.socket, Stream, threading.Event]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stream, heard = SocketStream(ours), threading.Event()
        self.peers.append(theirs)
        self.hearing.add(heard, stream)
        return theirs, stream, heard


@pytest.fixture
def listener(request: pytest.FixtureRequest) -> Iterator[Listener]:
    made = Listener(getattr(request, "param", PATIENCE_S))
    yield made
    made.hearing.close()
    for stream in made.admitted:
        stream.close()
    for peer in made.peers:
        peer.close()
    eventually(lambda: made.hearing._thread is None, "it listens no more")


def test_each_is_given_on_when_it_has_said_enough_whatever_the_others_do(listener: Listener) -> None:
    silent, part, whole = (listener.connect() for _ in range(3))
    part[0].sendall(b"ab")
    whole[0].sendall(b"abcdef")
    assert whole[2].wait(PATIENCE_S)
    assert listener.admitted == [whole[1]]
    assert len(listener.hearing) == 2
    part[0].sendall(b"cd")
    assert part[2].wait(PATIENCE_S)
    assert listener.admitted == [whole[1], part[1]]
    assert not silent[2].is_set()


def test_one_that_ends_is_given_on_at_once(listener: Listener) -> None:
    peer, stream, heard = listener.connect()
    peer.close()
    assert heard.wait(PATIENCE_S)
    assert listener.admitted == [stream]


@pytest.mark.parametrize("listener", [0.05], indirect=True)
@pytest.mark.parametrize("said", [b"", b"ab"])
def test_one_that_says_too_little_is_closed_in_time(listener: Listener, said: bytes) -> None:
    peer, stream, heard = listener.connect()
    peer.sendall(said)
    assert heard.wait(PATIENCE_S)
    assert stream.fileno() == -1
    assert listener.admitted == []


def test_a_hundred_silent_ones_have_one_thread_which_ends_with_them(listener: Listener) -> None:
    for _ in range(100):
        listener.connect()
    assert sum(thread.name == "dotnetdiag hearing" for thread in threading.enumerate()) == 1
    listener.hearing.close()
    assert len(listener.hearing) == 0
    eventually(lambda: listener.hearing._thread is None, "it ends")
    peer, _, heard = listener.connect()  # and it begins again
    peer.sendall(b"abcd")
    assert heard.wait(PATIENCE_S)


def test_where_no_thread_can_be_started_the_connection_is_closed(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(TransportError):
        listener.connect()
    assert len(listener.hearing) == 0
