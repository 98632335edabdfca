"""The list of runtimes where the system runs short, and what is no name."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dotnetdiag.cli.advice import advice_for
from dotnetdiag.errors import AmbiguousName, ProcessNotFound, TransportError, UsageError
from dotnetdiag.recipes import processes


def test_an_empty_name_means_no_process() -> None:
    """A variable that is not set; runtimes whose entry assembly is not known have an empty one."""
    with pytest.raises(UsageError, match="empty name"):
        processes.find_pid("")


class Named:
    def __init__(self, pid: int, name: str, entry_assembly: str) -> None:
        self.pid, self.name, self.entry_assembly = pid, name, entry_assembly


def test_a_name_is_found_as_it_is_spelled_and_otherwise_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Named(1, "dotnet", "Web"), Named(2, "web", "web"), Named(3, "Worker", "worker")]
    monkeypatch.setattr(processes, "list_processes", lambda: found)
    assert [processes.find_pid(name) for name in ("Web", "web", "WORKER")] == [1, 2, 3]
    with pytest.raises(AmbiguousName) as several:
        processes.find_pid("WEB")
    assert advice_for(several.value) == "-p takes one of these process ids"
    with pytest.raises(ProcessNotFound, match=r"^There is no active process with the given name: we; near: web$"):
        processes.find_pid("we")
    with pytest.raises(ProcessNotFound, match=r"^There is no active process with the given name: nothing$") as caught:
        processes.find_pid("nothing")
    assert advice_for(caught.value) == "`dotnetdiag ps` lists what can be reached"


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


def test_a_list_waits_for_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {8: threading.Event(), 9: threading.Event()}
    asked = {pid: SimpleNamespace(pid=pid, name="x") for pid in answers}

    def answer(known: list[Any], _: float) -> Any:
        answers[known[0].pid].wait(20)
        return known[0]

    join = threading.Thread.join

    def join_and_answer(thread: threading.Thread) -> None:
        """The one asked last answers first."""
        for pid in (9, 8):
            answers[pid].set()
        join(thread)

    monkeypatch.setattr(processes, "call_within", lambda *_: asked.values())
    monkeypatch.setattr(processes, "_describe", answer)
    monkeypatch.setattr(threading.Thread, "join", join_and_answer)
    try:
        assert [one.pid for one in processes.list_processes()] == [8, 9]
    finally:
        for one in answers.values():
            one.set()
