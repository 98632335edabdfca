"""Routers in a folder whose sockets fit into an address; a count of descriptors around every test."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted import PATIENCE_S
from tests.descriptors import open_files

from dotnetdiag.router.router import Router
from dotnetdiag.router.status import RouterEvent

StartRouter = Callable[..., "Heard"]


class Heard:
    """A router, and what it has told."""

    def __init__(self, **how: Any) -> None:
        self.events: list[RouterEvent] = []
        self._came = threading.Condition()
        self.router = Router(on_event=self._hear, **how)

    def _hear(self, event: RouterEvent) -> None:
        with self._came:
            self.events.append(event)
            self._came.notify_all()

    def wait_for(self, what: str, times: int = 1, **facts: object) -> list[RouterEvent]:
        """So many events of this kind, those before included."""

        def found() -> list[RouterEvent]:
            return [
                one
                for one in self.events
                if one.what == what and all(getattr(one, name) == value for name, value in facts.items())
            ]

        with self._came:
            assert self._came.wait_for(lambda: len(found()) >= times, PATIENCE_S), (what, facts, self.events)
        return found()

    def wait_for_why(self, what: str, why: str) -> None:
        """An event of this kind that gives this reason."""

        def is_there() -> bool:
            return any(one.what == what and why in one.why for one in self.events)

        with self._came:
            assert self._came.wait_for(is_there, PATIENCE_S), (what, why, self.events)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dd-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start() -> Iterator[StartRouter]:
    """Start a router; it is closed at the end, and leaves no descriptor open."""
    before = open_files()
    started: list[Heard] = []

    def begin(**how: Any) -> Heard:
        started.append(Heard(**how))
        return started[-1]

    yield begin
    for one in reversed(started):
        one.router.close()
        assert one.router.wait(PATIENCE_S)
    ends = time.monotonic() + PATIENCE_S
    while open_files() - before:  # those of WebSockets are closed by threads
        assert time.monotonic() < ends, open_files() - before
        time.sleep(0.01)
