"""Requests for user_events, which come with a descriptor: no server of ours keeps one."""

from __future__ import annotations

import os
import select
import socket
import sys
from pathlib import Path

import pytest
from tests.server.conftest import Make
from tests.server.shells import PATIENCE_S, dial, read_all

from dotnetdiag.ipc.eventpipe import Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.tracing import CollectTracing5UserEvents
from dotnetdiag.server.installing import PythonCommands

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SCM_RIGHTS")


def wanted(*tracepoints: Tracepoints) -> bytes:
    return CollectTracing5UserEvents(
        providers=tuple(Provider(name=f"A{number}", tracepoints=one) for number, one in enumerate(tracepoints))
    ).pack()


ONE = wanted(Tracepoints(default="t"))


def refusal(connection: socket.socket) -> int:
    return ErrorReply.from_frame(Frame.parse(read_all(connection))).hresult


@pytest.mark.parametrize("together", [False, True], ids=["behind the request", "on its bytes"])
def test_the_descriptor_is_not_kept(together: bool, serve: Make, folder: Path) -> None:
    address = serve(PythonCommands()).listen(folder / "s")
    reading, writing = os.pipe()
    with dial(address) as connection:
        if together:
            socket.send_fds(connection, [ONE], [writing])
        else:
            connection.sendall(ONE)
            socket.send_fds(connection, [b"\0"], [writing])
        os.close(writing)
        assert refusal(connection) == HResult.NOT_SUPPORTED
    assert select.select([reading], [], [], PATIENCE_S)[0], "the server has the other end of the pipe still"
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_it_is_answered_before_a_descriptor_comes(serve: Make, folder: Path) -> None:
    address = serve(PythonCommands()).listen(folder / "s")
    with dial(address, ONE) as connection:
        assert refusal(connection) == HResult.NOT_SUPPORTED


def test_an_id_that_is_listed_twice_is_refused_as_runtimes_should(serve: Make, folder: Path) -> None:
    """.NET 10 dies of it once the descriptor has come (ipc-protocol.md §21.1)."""
    address = serve(PythonCommands()).listen(folder / "s")
    twice = wanted(Tracepoints(sets=(TracepointSet(name="t", ids=(0x11223344, 0x55667788)),)))
    twice = twice.replace((0x55667788).to_bytes(4, "little"), (0x11223344).to_bytes(4, "little"))
    with dial(address, twice) as connection:
        assert refusal(connection) == HResult.BAD_ENCODING
