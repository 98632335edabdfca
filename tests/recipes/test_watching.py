"""A watch that cannot begin leaves no session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.scripted import PATIENCE_S, ScriptedRuntime, after, obeys, streams

import dotnetdiag as dd
from dotnetdiag.client import Client
from dotnetdiag.errors import TransportError, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.live import events as live_events
from dotnetdiag.recipes import slow_start, watching
from dotnetdiag.recipes.target import Target
from dotnetdiag.recipes.watching import WatchOptions, start_watching


@pytest.fixture
def runtime() -> Iterator[ScriptedRuntime]:
    with TemporaryDirectory() as folder:
        made = ScriptedRuntime(
            Path(folder) / "runtime", {Command.CollectTracing2: streams(None), Command.StopTracing: obeys}
        )
        yield made
        made.close()


def test_a_wrong_limit_is_told_before_anything_is_sent(runtime: ScriptedRuntime) -> None:
    with pytest.raises(UsageError, match="a limit of -1 events"):
        start_watching(Client.connect(str(runtime.path)), WatchOptions(limit=-1))
    assert runtime.asked == []


@pytest.mark.parametrize("seconds", [0.5, 0.0])
def test_of_a_runtime_that_does_not_begin_for_long_it_is_told(
    seconds: float, runtime: ScriptedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that collects garbage without a pause; one that begins at once is not told of, however long it is watched."""
    monkeypatch.setattr(slow_start, "LATE_S", 0.2)
    runtime.play(Command.CollectTracing2, after(seconds, streams(None)))
    told: list[tuple[float, float]] = []
    client = Client.connect(str(runtime.path), timeout_s=0.3)
    with start_watching(client, WatchOptions(), late=lambda *times: told.append(times)):
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(PATIENCE_S)
    assert told == ([(0.2, slow_start.START_TIMEOUT_S)] if seconds else [])


def test_a_session_that_nobody_can_read_is_closed(runtime: ScriptedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(live_events, "threading", SimpleNamespace(Thread=NoThread))
    with pytest.raises(TransportError, match="no more threads"):
        start_watching(Client.connect(str(runtime.path)), WatchOptions())
    assert Command.StopTracing in runtime.asked
    runtime.wait_for_end()


@pytest.mark.parametrize("error", [TransportError("gone"), KeyboardInterrupt()])
def test_a_session_whose_runtime_cannot_be_resumed_is_closed(
    error: BaseException, runtime: ScriptedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(watching, "is_held", lambda _: True)
    monkeypatch.setattr(watching, "resume", fail)
    with pytest.raises(type(error)):
        start_watching(Client.connect(str(runtime.path)), WatchOptions())
    assert Command.StopTracing in runtime.asked
    runtime.wait_for_end()


@pytest.mark.parametrize("kind", ["address", "client"])
def test_a_watch_takes_an_address_as_well_as_a_client(kind: str, runtime: ScriptedRuntime) -> None:
    address = f"{runtime.path},connect"
    live = dd.watch(address if kind == "address" else Client.connect(address))
    live.close()
    assert Command.StopTracing in runtime.asked
    runtime.wait_for_end()


def test_the_port_that_a_watch_has_opened_is_closed_with_it(
    runtime: ScriptedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    @contextmanager
    def connected(target: Target) -> Iterator[Any]:
        yield Client.connect(target.port or "")
        closed.append(target.port or "")

    monkeypatch.setattr(watching, "connected", connected)
    live = dd.watch(f"{runtime.path},connect")
    assert closed == []
    live.close()
    live.close()
    assert closed == [f"{runtime.path},connect"]
