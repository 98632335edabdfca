"""The way of a stop to the runtime, which is of interest for as long as the session is there."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.client.scripted import ScriptedRuntime, says, says_and_waits, says_pid

from dotnetdiag.client import Client, routes
from dotnetdiag.client.routes import WhileOpen
from dotnetdiag.errors import ConnectFailed, TimedOut, TransportError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.testing import Script
from dotnetdiag.transport import Deadline, suspension


class Connection:
    """A stream that is open for so many looks."""

    address = "of the stream"

    def __init__(self, looks: int = 1000) -> None:
        self.looks, self.is_closed = looks, False

    def fileno(self) -> int:
        self.looks -= 1
        return 7 if self.looks >= 0 else -1

    def close(self) -> None:
        self.is_closed = True


class Unreachable:
    """Lets every dial take its time, and remembers how long that was."""

    def __init__(self) -> None:
        self.slices: list[float | None] = []

    def dial(self, deadline: Deadline) -> Any:
        self.slices.append(deadline.timeout_s)
        raise TimedOut("the backlog is full", address="of the runtime")


class Reachable:
    def __init__(self) -> None:
        self.connection = Connection()

    def dial(self, _: Deadline) -> Any:
        return self.connection


def route(of: Any, stream: Any) -> Any:
    return WhileOpen(of, stream)


def test_a_dial_is_tried_for_longer_each_time() -> None:
    unreachable = Unreachable()
    with pytest.raises(TransportError, match="the session is closed") as caught:
        route(unreachable, Connection(5)).dial(Deadline(None))
    assert caught.value.address == "of the stream"
    assert unreachable.slices == [routes.DIAL_SLICE_S * factor for factor in (1, 2, 4, 8, 16)]


def test_a_dial_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = Unreachable()
    clock = itertools.count(0.0, 1.0)
    deadline = Deadline(6, clock=lambda: next(clock))
    with pytest.raises(TimedOut) as caught:
        route(unreachable, Connection()).dial(deadline)
    assert (str(caught.value), caught.value.timeout_s) == (
        str(TimedOut("no connection", address="of the runtime", timeout_s=6)),
        6,
    )
    assert str(caught.value.__cause__).startswith("of the runtime: the backlog is full")
    assert len(unreachable.slices) == 3


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_dial_that_finds_no_free_descriptor_is_tried_again(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "DIAL_SLICE_S", 0.001)

    failures: list[TransportError] = []

    class Short(Reachable):
        def dial(self, _: Deadline) -> Any:
            if failures:
                raise failures.pop() from OSError(number, "Too many open files")
            return self.connection

    failures += [ConnectFailed("Too many open files", errno=number), TransportError("no free file descriptor")]
    short = Short()
    assert route(short, Connection()).dial(Deadline(10)) is short.connection
    assert not failures
    failures += [TransportError("no free file descriptor")]
    clock = itertools.count(0.0, 1.0)
    with pytest.raises(TransportError, match="no free file descriptor"):
        route(short, Connection()).dial(Deadline(2, clock=lambda: next(clock)))


def test_a_session_that_is_closed_dials_nobody() -> None:
    unreachable = Unreachable()
    with pytest.raises(TransportError, match="the session is closed"):
        route(unreachable, Connection(0)).dial(Deadline(1))
    assert unreachable.slices == []


def test_a_connection_of_a_session_that_was_closed_meanwhile_is_hung_up() -> None:
    reachable = Reachable()
    assert route(reachable, Connection()).dial(Deadline(1)) is reachable.connection
    assert not reachable.connection.is_closed
    with pytest.raises(TransportError, match="the session is closed"):
        route(reachable, Connection(1)).dial(Deadline(1))
    assert reachable.connection.is_closed


@pytest.mark.parametrize(
    ("answer", "told"),
    [(says_pid(os.getpid()), True), (says_pid(os.getpid() + 1), None), (says_and_waits(), None), (says(), None)],
    ids=["its pid", "another", "nothing", "it hangs up"],
)
def test_only_of_a_runtime_that_says_it_is_the_peer_do_the_threads_say_whether_it_is_suspended(
    answer: Script, told: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they may be those of a relay."""
    left: list[float] = []

    def look(_: int, *, timeout_s: float) -> bool:
        left.append(timeout_s)
        return True

    monkeypatch.setattr(suspension, "is_suspended", look)
    with TemporaryDirectory() as folder:
        runtime = ScriptedRuntime(Path(folder) / "s", answer)
        try:
            assert Client.connect(str(runtime.path), timeout_s=0.4).is_suspended() is told
        finally:
            runtime.close()
    assert runtime.asked == [Command.ProcessInfo3]
    assert [0 < one <= 0.4 for one in left] == ([True] if told else [])
