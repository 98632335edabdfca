"""What DuckDB does is done by a thread, so that a signal is what its handler makes of it and not an error of DuckDB's."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.query.asked import opened

from dotnetdiag.query.beside import beside
from dotnetdiag.query.duckdb_engine import Database
from dotnetdiag.query.recordings import OpenTrace


class Interruptible:
    """A database of which somebody is told to end a query."""

    def __init__(self) -> None:
        self.was_told = threading.Event()

    def interrupt(self) -> None:
        self.was_told.set()


class Pressed(KeyboardInterrupt):
    """What a handler raises."""


@pytest.fixture
def soon_pressed() -> Iterator[None]:
    def handler(*_: object) -> None:
        raise Pressed

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_what_it_gives_and_what_it_raises_are_given_and_raised() -> None:
    assert beside(Interruptible(), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        beside(Interruptible(), lambda: 1 // 0)


@pytest.mark.usefixtures("soon_pressed")
def test_what_a_handler_raises_ends_the_query() -> None:
    database = Interruptible()
    begun = time.monotonic()
    with pytest.raises(Pressed):
        beside(database, lambda: database.was_told.wait(60))
    assert database.was_told.is_set()
    assert time.monotonic() - begun < 30


def test_everything_that_duckdb_is_asked_is_asked_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    class Noting:
        def __init__(self, database: Any) -> None:
            self._database = database

        def __getattr__(self, name: str) -> Any:
            if name in ("execute", "register", "sql"):
                seen.append((name, threading.current_thread().name))
            return getattr(self._database, name)

    made = Database([OpenTrace(opened("gccollect-10.nettrace"))])
    monkeypatch.setattr(made, "_database", Noting(made._database))
    try:
        for query in ("select count(*) from gc", "from gc()", "select count(*) from events", "from tables"):
            assert len(made.sql(query)) > 0
    finally:
        made.close()
    assert {name for name, _ in seen} == {"execute", "register", "sql"}
    assert {thread for _, thread in seen} == {"dotnetdiag query"}
