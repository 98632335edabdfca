"""TLS with certificates on both sides, and the token: who is let in, who is not, and that it is said."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.transport.certificates import TOKEN, Goodbye, dialled_with_tls, say, security

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TimedOut, TransportError, UsageError
from dotnetdiag.transport import Deadline, connect, listen, parse_address, waiting
from dotnetdiag.transport.addresses import TcpAddress
from dotnetdiag.transport.security import (
    LONGEST_TOKEN,
    MAGIC,
    NO_SECURITY,
    SIZE,
    Security,
    check,
    introducing,
    read_token,
    require_secure,
    welcoming,
)
from dotnetdiag.transport.sockets import SocketStream

pytestmark = pytest.mark.usefixtures("no_leaks")

SOON = 10.0


class Met:
    """Both ends of a connection, as far as they let each other in; an error where they do not."""

    def __init__(self, dialler: Security, listener: Security, host: str = "127.0.0.1") -> None:
        self.problems: dict[str, TransportError] = {}
        self.ends: dict[str, SocketStream] = {}
        with listen(TcpAddress("127.0.0.1", 0)) as listening:
            assert isinstance(listening.address, TcpAddress)
            dialled = connect(listening.address, Deadline(SOON))
            accepted = listening.accept(Deadline(SOON))
        assert isinstance(dialled, SocketStream)
        assert isinstance(accepted, SocketStream)
        threads = [
            threading.Thread(target=self._do, args=("dialler", lambda: introducing(dialled, dialler, host))),
            threading.Thread(target=self._do, args=("listener", lambda: welcoming(accepted, listener))),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * SOON)

    def _do(self, whose: str, steps: Callable[[], waiting.Steps[SocketStream]]) -> None:
        try:
            self.ends[whose] = waiting.run(steps(), Deadline(SOON))
        except TransportError as error:
            self.problems[whose] = error

    def close(self) -> None:
        for end in self.ends.values():
            end.close()


def test_both_have_certificates_and_the_token(tmp_path: Path) -> None:
    ours = security(tmp_path)
    met = Met(ours, ours)
    assert not met.problems
    dialler, listener = met.ends["dialler"], met.ends["listener"]
    data = os.urandom(3_000_000)
    sending = threading.Thread(target=dialler.send, args=(data, Deadline(SOON)))
    sending.start()
    received = b""
    while len(received) < len(data):
        received += listener.receive(1 << 20, Deadline(SOON))
    sending.join()
    assert received == data
    assert dialler.is_alive()
    listener.send(b"answer", Deadline(SOON))
    dialler.end_sending()  # and still receives
    assert listener.receive(10, Deadline(SOON)) == b""
    assert dialler.receive(10, Deadline(SOON)) == b"answer"
    listener.close()
    assert dialler.receive(10, Deadline(SOON)) == b""
    assert not dialler.is_alive()
    met.close()


@pytest.mark.parametrize("goodbye", Goodbye)
def test_a_peer_that_has_ended_is_not_quiet_however_it_ends(goodbye: Goodbye, tmp_path: Path) -> None:
    ours = security(tmp_path)
    accepted: list[SocketStream] = []

    def welcome() -> None:
        stream = listening.accept(Deadline(SOON))
        assert isinstance(stream, SocketStream)
        accepted.append(waiting.run(welcoming(stream, ours), Deadline(SOON)))

    with listen(TcpAddress("127.0.0.1", 0)) as listening:
        assert isinstance(listening.address, TcpAddress)
        thread = threading.Thread(target=welcome)
        thread.start()
        dialled = dialled_with_tls(("127.0.0.1", listening.address.port), ours)
        thread.join(SOON)
    with accepted[0] as stream, dialled:
        assert stream.is_alive()
        assert stream.is_quiet()
        assert not stream.has_arrived()
        say(goodbye, dialled)
        assert waiting.is_ready(stream.fileno(), False, SOON)
        assert stream.has_arrived()
        assert not stream.is_quiet()
        assert stream.is_alive() is (goodbye is Goodbye.TOLD_ONLY)


def test_closing_ends_a_handshake_at_once(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    ours, problems = security(tmp_path), list[TransportError]()
    stream = SocketStream(one)

    def welcome() -> None:
        try:
            waiting.run(steps(), Deadline(10 * SOON))
        except TransportError as error:
            problems.append(error)

    def steps() -> waiting.Steps[SocketStream]:
        welcome_steps = welcoming(stream, ours)
        step = next(welcome_steps)
        began.set()
        yield step
        return (yield from welcome_steps)

    began = threading.Event()
    thread = threading.Thread(target=welcome)
    thread.start()
    with other:
        assert began.wait(SOON)
        stream.close()
        thread.join(SOON)
        assert not thread.is_alive()
    assert isinstance(problems[0], ConnectFailed)


def test_what_was_read_ahead_has_arrived(tmp_path: Path) -> None:
    met = Met(security(tmp_path), security(tmp_path))
    with met.ends["dialler"] as dialler, met.ends["listener"] as listener:
        dialler.send(b"two", Deadline(SOON))
        assert listener.receive(1, Deadline(SOON)) == b"t"
        assert listener.has_arrived()
        assert not listener.is_quiet()
        assert listener.receive(2, Deadline(SOON)) == b"wo"
        assert listener.is_quiet()


def test_a_certificate_of_another_ca_is_not_let_in(tmp_path: Path) -> None:
    ours, others = security(tmp_path), security(tmp_path, name="theirs")
    met = Met(replace(others, ca=ours.ca), ours)  # the dialler believes us, we do not believe it
    assert "unable to get local issuer certificate" in str(met.problems["listener"])
    met.close()
    met = Met(ours, replace(others, ca=ours.ca))
    assert "unable to get local issuer certificate" in str(met.problems["dialler"])
    met.close()


def test_a_dialler_without_tls_is_not_let_in(tmp_path: Path) -> None:
    ours = security(tmp_path)
    met = Met(Security(token=TOKEN), ours)
    assert "TLS handshake failed" in str(met.problems["listener"])
    met.close()


def test_a_certificate_is_for_the_name_that_is_dialled(tmp_path: Path) -> None:
    ours = security(tmp_path)
    met = Met(ours, ours, host="other.example")
    assert "other.example" in str(met.problems["dialler"])
    met.close()


@pytest.mark.parametrize("tls", [True, False])
def test_the_token_of_another_is_not_let_in(tls: bool, tmp_path: Path) -> None:
    ours = security(tmp_path) if tls else Security(token=TOKEN)
    met = Met(replace(ours, token="another token, as long"), ours)
    assert met.problems["listener"].problem == "the peer has not sent our token"
    assert met.ends["dialler"].receive(1, Deadline(SOON)) == b""
    met.close()


def test_the_token_goes_first_as_its_digest() -> None:
    one, other = socket.socketpair()
    with SocketStream(one) as stream, other:
        assert waiting.run(introducing(stream, Security(token=TOKEN), "x"), Deadline(SOON)) is stream
        said = other.recv(1000)
    assert said == b"DDTOKEN\0" + hashlib.sha256(TOKEN.encode()).digest()
    assert len(said) == SIZE
    assert said.startswith(MAGIC)


@pytest.mark.parametrize("size", [0, 1, SIZE - 1])
def test_half_a_token_is_none(size: int) -> None:
    said = Security(token=TOKEN).preamble[:size]
    one, other = socket.socketpair()
    with other:
        other.sendall(said)
        with pytest.raises(TimedOut):
            waiting.run(welcoming(SocketStream(one), Security(token=TOKEN)), Deadline(0.02))
        assert other.recv(1) == b""
    one, other = socket.socketpair()
    other.sendall(said)
    other.close()
    with pytest.raises(ConnectionEnded):
        waiting.run(welcoming(SocketStream(one), Security(token=TOKEN)), Deadline(SOON))


def test_without_security_nothing_is_said_or_expected() -> None:
    one, other = socket.socketpair()
    with SocketStream(one) as stream, other:
        assert waiting.run(introducing(stream, NO_SECURITY, "x"), Deadline(SOON)) is stream
        assert waiting.run(welcoming(stream, NO_SECURITY), Deadline(SOON)) is stream
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"certificate": "x"}, "needs the CA"),
        ({"ca": "x"}, "needs a certificate"),
        ({"key": "x"}, "a key without its certificate"),
        ({"token": "short"}, "16 to 1024"),
        ({"token": "x" * (LONGEST_TOKEN + 1)}, "16 to 1024"),
    ],
)
def test_half_of_a_set_is_refused(values: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Security(**values)


def test_files_that_cannot_be_used_are_named_before_anybody_dials(tmp_path: Path) -> None:
    ours = security(tmp_path)
    with pytest.raises(UsageError, match=r"absent\.pem"):
        check(replace(ours, certificate=str(tmp_path / "absent.pem")))
    with pytest.raises(UsageError, match="TLS with"):
        check(replace(ours, key=ours.ca))
    check(ours)


def test_the_token_is_in_no_text() -> None:
    assert TOKEN not in repr(Security(token=TOKEN))


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("/path", False),
        ("127.0.0.1:1", False),
        ("localhost:1", False),
        ("[::1]:1", False),
        ("[::ffff:127.0.0.1]:1", False),
        ("*:1", True),
        ("0.0.0.0:1", True),
        ("192.0.2.1:1", True),
        ("example.com:1", True),
    ],
)
def test_beyond_loopback_needs_all_of_it(address: str, is_refused: bool, tmp_path: Path) -> None:
    ours = security(tmp_path)
    place = parse_address(address)
    require_secure(place, ours, insecure=False)
    require_secure(place, NO_SECURITY, insecure=True)
    for half in (NO_SECURITY, Security(token=TOKEN), replace(ours, token="")):
        if is_refused:
            with pytest.raises(UsageError, match="only with TLS"):
                require_secure(place, half, insecure=False)
        else:
            require_secure(place, half, insecure=False)


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token(str(tmp_path / "token")) == TOKEN
    (tmp_path / "token").write_text("\n")
    with pytest.raises(UsageError, match="no token in it"):
        read_token(str(tmp_path / "token"))
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="no token can be read"):
        read_token(str(tmp_path / "token"))
    with pytest.raises(UsageError, match="No such file"):
        read_token(str(tmp_path / "absent"))


def test_what_is_wrong_with_a_connection_is_said_as_such(tmp_path: Path) -> None:
    ours = security(tmp_path)
    met = Met(ours, ours)
    raw = met.ends["dialler"].detach()
    socket.socket.send(raw, b"no record of TLS")
    with pytest.raises(TransportError, match="receiving failed: TLS: "):
        met.ends["listener"].receive(10, Deadline(SOON))
    raw.close()
    met.close()


def test_a_listener_that_is_not_there_is_no_handshake(tmp_path: Path) -> None:
    ours = security(tmp_path)
    one, other = socket.socketpair()
    other.close()
    with pytest.raises(ConnectFailed):
        waiting.run(introducing(SocketStream(one), ours, "x"), Deadline(SOON))
