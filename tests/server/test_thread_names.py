from __future__ import annotations

import threading

import pytest

from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.thread_names import is_own, program_threads, thread_name


class _Strange(threading.Thread):
    """Its class says of it what is no text and no number."""

    name = 7  # type: ignore[assignment]
    ident = "seven"  # type: ignore[assignment]
    native_id = None


class _Unmade(threading.Thread):
    def __init__(self) -> None:
        pass


def test_a_thread_is_called_what_thread_was_told() -> None:
    assert thread_name(threading.Thread(name="worker")) == "worker"
    assert thread_name(_Strange()).startswith("Thread-")
    assert thread_name(_Unmade()) == ""


@pytest.mark.parametrize(("name", "own"), [("dotnetdiag", False), (f"{OWN_THREADS}meters", True), ("worker", False)])
def test_threads_of_this_package_are_known_by_their_names(name: str, own: bool) -> None:
    assert is_own(threading.Thread(name=name)) is own
    assert not is_own(_Strange())
    assert not is_own(_Unmade())


def test_threads_of_the_program_are_those_that_run() -> None:
    end = threading.Event()
    threads = [
        _Strange(target=end.wait, daemon=True),
        threading.Thread(target=end.wait, daemon=True),
        threading.Thread(target=end.wait, daemon=True, name=f"{OWN_THREADS}test"),
    ]
    before = set(program_threads())
    for thread in threads:
        thread.start()
    try:
        began = set(program_threads()) - before
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert len(began) == 2
    assert (threads[1].ident, threads[1].native_id) in began
