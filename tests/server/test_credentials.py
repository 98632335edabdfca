"""Who gets an answer."""

from __future__ import annotations

import pytest

from dotnetdiag.server.commands import Caller
from dotnetdiag.server.credentials import may_ask
from dotnetdiag.transport.addresses import TcpAddress, UnixAddress

SOCKET = UnixAddress("/s")


@pytest.mark.parametrize(("uid", "may"), [(0, True), (1000, True), (1001, False), (65534, False), (None, False)])
def test_the_same_user_and_root_may_ask_at_a_socket(uid: int | None, may: bool) -> None:
    assert may_ask(Caller(uid=uid), SOCKET, our_uid=1000) is may


def test_a_server_of_root_answers_root_alone() -> None:
    assert may_ask(Caller(uid=0), SOCKET, our_uid=0)
    assert not may_ask(Caller(uid=1000), SOCKET, our_uid=0)


def test_over_tcp_something_else_decides() -> None:
    assert may_ask(Caller(), TcpAddress("127.0.0.1", 1))
