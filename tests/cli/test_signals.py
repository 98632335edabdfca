"""Signals that end what a verb does: taken in the main thread, given back, and left alone where they were ignored."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from dotnetdiag.cli.signals import ALL, handled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handling in before.items():
        signal.signal(number, handling)


def test_a_signal_comes_to_the_handler_and_later_to_whom_it_came_before() -> None:
    came: list[int] = []
    before: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: before.append(number))
    with handled(ALL, lambda number, _: came.append(number)):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert (came, before) == ([signal.SIGTERM], [signal.SIGTERM])


def test_what_is_ignored_stays_ignored() -> None:
    """Under nohup SIGHUP is, in a script's ``command &`` SIGINT and SIGQUIT are."""
    came: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with handled(ALL, lambda number, _: came.append(number)):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with handled(ALL, lambda *_: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_names_that_a_system_has_not_are_passed_over() -> None:
    with handled(("SIGNOSUCH",), lambda *_: None):
        pass
