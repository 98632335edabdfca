"""The list of runtimes where the system runs short, and what is no name."""

from __future__ import annotations

import threading

import pytest

from dotnetdiag.errors import TransportError, UsageError
from dotnetdiag.recipes import processes


def test_an_empty_name_means_no_process() -> None:
    """A variable that is not set; runtimes whose entry assembly is not known have an empty one."""
    with pytest.raises(UsageError, match="empty name"):
        processes.find_pid("")


@pytest.fixture
def one_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        pid = 7

    monkeypatch.setattr(processes, "call_within", lambda *_: [Found()])


@pytest.mark.usefixtures("one_runtime")
def test_a_shortage_of_threads_is_one_of_our_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(TransportError, match="no more threads"):
        processes.list_processes()


@pytest.mark.usefixtures("one_runtime")
def test_a_process_that_cannot_be_looked_at_is_not_left_out_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> processes.Process:
        raise TransportError("too many open files")

    monkeypatch.setattr(processes, "_describe", fail)
    with pytest.raises(TransportError, match="too many open files"):
        processes.list_processes()
