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
from tests.client.scripted import ScriptedRuntime, obeys, streams

import dotnetdiag as dd
from dotnetdiag.client import Client
from dotnetdiag.errors import TransportError, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.live import events as live_events
from dotnetdiag.recipes import watching
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
