"""A handler of the program raises while its thread is in our code: that is the program's."""

from __future__ import annotations

import functools
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.server.recorded import recording

from dotnetdiag.server.event_source import EventSource
from dotnetdiag.server.logs import LoggingEvents
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.value_text import text_of

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of POSIX")


class Late(Exception):
    """What a helper for timeouts raises."""


def on_time(*_: object) -> NoReturn:
    raise Late


class Helper:
    def on_time(self, *_: object) -> NoReturn:
        raise Late

    def __call__(self, *_: object) -> NoReturn:
        raise Late


def with_more(_: str, *__: object) -> NoReturn:
    raise Late


class Value:
    """Its own code is where the signal comes."""

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "in time"

    __index__ = __int__ = __str__


@pytest.fixture(params=[on_time, Helper().on_time, Helper(), functools.partial(with_more, "x")], ids=range(4))
def handler(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


def raised_by(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.usefixtures("handler")
def test_what_a_handler_raises_is_told_from_what_values_raise() -> None:
    assert is_of_signal(raised_by(lambda: str(Value())))
    assert not is_of_signal(raised_by(lambda: int("x")))


@pytest.mark.usefixtures("handler")
def test_only_the_main_thread_runs_handlers() -> None:
    error, seen = raised_by(lambda: str(Value())), []
    thread = threading.Thread(target=lambda: seen.append(is_of_signal(error)))
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.usefixtures("handler")
def test_it_reaches_the_program_through_an_event_a_text_and_a_record(tmp_path: Path) -> None:
    registry = Registry()
    registry.add(LoggingEvents())
    event = EventSource("X", registry=registry).event("E", fields={"field": int})
    calls: tuple[Callable[[], Any], ...] = (
        lambda: event(Value()),
        lambda: text_of(Value()),
        lambda: logging.getLogger("late").warning("%s", Value()),
    )
    with recording(tmp_path / "x.nettrace", registry, "X", "Microsoft-Extensions-Logging"):
        for call in calls:
            with pytest.raises(Late):
                call()
