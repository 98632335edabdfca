"""A forked child holds no listener of its parent's, and no connection that was made to one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dotnetdiag.errors import TransportError
from dotnetdiag.transport import Deadline, listen
from dotnetdiag.transport.addresses import Address, TcpAddress, UnixAddress
from dotnetdiag.transport.connecting import connect
from dotnetdiag.transport.forks import close_in_forked_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="makes no copy of a process"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def soon() -> Deadline:
    return Deadline(20.0)


def held_by_a_child(act: Callable[[], None]) -> None:
    """``act`` while a forked child lives."""
    ours, its = socket.socketpair()
    child = os.fork()
    if not child:
        try:
            ours.close()
            its.sendall(b"!")
            its.recv(1)  # until the parent has done
        finally:
            os._exit(0)
    its.close()
    with ours:
        assert ours.recv(1) == b"!"
        act()
    os.waitpid(child, 0)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_an_address_is_free_again_although_a_forked_child_lives(kind: str, short_tmp: Path) -> None:
    address: Address = UnixAddress(str(short_tmp / "s")) if kind == "unix" else TcpAddress("127.0.0.1", 0)
    listener = listen(address)
    bound = listener.address

    def act() -> None:
        listener.close()
        listen(bound).close()

    held_by_a_child(act)


def test_who_has_connected_sees_the_end_although_a_forked_child_lives(short_tmp: Path) -> None:
    with listen(UnixAddress(str(short_tmp / "s"))) as listener, connect(listener.address, soon()) as client:
        accepted = listener.accept(soon())

        def act() -> None:
            accepted.close()
            assert client.receive(1, soon()) == b""

        held_by_a_child(act)


def test_a_connection_of_our_own_stays_open_in_a_forked_child(short_tmp: Path) -> None:
    with (
        listen(UnixAddress(str(short_tmp / "s"))) as listener,
        connect(listener.address, soon()) as client,
        listener.accept(soon()) as accepted,
    ):
        child = os.fork()
        if not child:
            try:
                client.send(b"child", soon())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert accepted.receive(5, soon()) == b"child"


def test_a_forked_child_leaves_the_socket_file_to_its_parent(short_tmp: Path) -> None:
    with listen(UnixAddress(str(short_tmp / "s"))) as listener:
        held_by_a_child(lambda: None)
        with connect(listener.address, soon()):
            listener.accept(soon()).close()


def test_what_cannot_be_closed_does_not_keep_a_child_from_beginning() -> None:
    class Stubborn:
        def close(self) -> None:
            raise TransportError("no", address="")

    stubborn = Stubborn()
    close_in_forked_child(stubborn)
    held_by_a_child(lambda: None)
