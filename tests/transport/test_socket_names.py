from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.transport.socket_names import (
    SocketName,
    parse_pipe_name,
    parse_socket_name,
    router_socket_name,
    socket_name,
)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_a_name_that_is_made_is_read_back(pid: int, key: int) -> None:
    assert parse_socket_name(socket_name(pid, key)) == SocketName(pid, key)
    assert parse_socket_name(router_socket_name(pid, key)) == SocketName(pid, key, dsrouter=True)


def test_known_names() -> None:
    assert socket_name(29, 4711) == "dotnet-diagnostic-29-4711-socket"
    assert parse_socket_name("dotnet-diagnostic-dsrouter-7-1700000000-socket") == SocketName(7, 1700000000, True)
    assert parse_pipe_name("dotnet-diagnostic-7") == SocketName(7, 0)
    assert parse_pipe_name("dotnet-diagnostic-dsrouter-7") == SocketName(7, 0, True)


@pytest.mark.parametrize(
    "name", ["", "dotnet-diagnostic-7-1-socket.bak", "x-dotnet-diagnostic-7-1-socket", "dotnet-diagnostic-٩-1-socket"]
)
def test_other_names_are_none(name: str) -> None:
    assert parse_socket_name(name) is None
    assert parse_pipe_name(name) is None
