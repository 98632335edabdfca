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


@pytest.mark.parametrize(("uid", "may"), [(0, True), (1000, True), (1001, False), (-1, False), (None, True)])
def test_over_tcp_who_is_known_must_be_the_same_user_or_root(uid: int | None, may: bool) -> None:
    assert may_ask(Caller(uid=uid), TcpAddress("127.0.0.1", 1), our_uid=1000) is may
