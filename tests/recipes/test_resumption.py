"""Runtimes that cannot be let run at once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import DONE, PATIENCE_S, says

from dotnetdiag.errors import ServerError, TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import resumption
from dotnetdiag.recipes.ports import visits
from dotnetdiag.recipes.resumption import resume_later
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.testing import Talk


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "AGAIN_S", 0.01)


def test_it_is_told_again_until_it_answers() -> None:
    answers = iter([TimedOut("it is stopped"), OSError("no descriptor"), None])
    asked = []

    def resume() -> None:
        asked.append(1)
        if (error := next(answers)) is not None:
            raise error

    resume_later(resume, lambda: True).join(PATIENCE_S)
    assert len(asked) == 3


def test_what_it_answers_it_has_heard() -> None:
    asked = []

    def resume() -> None:
        asked.append(1)
        raise ServerError("ResumeRuntime", 0x80004005)

    resume_later(resume, lambda: True).join(PATIENCE_S)
    assert asked == [1]


def test_one_that_is_gone_is_left() -> None:
    wanted = iter([True, True, False])

    def resume() -> None:
        raise TimedOut("nothing arrived")

    thread = resume_later(resume, lambda: next(wanted))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_runtime_that_does_not_hear_the_first_time_is_resumed_while_somebody_listens() -> None:
    asked = []

    def deaf_once(talk: Talk) -> None:
        asked.append(1)
        if len(asked) > 1:
            says(DONE)(talk)
            stop.stop()

    stop = Stop()
    with TemporaryDirectory(dir="/tmp") as folder:
        address = Path(folder) / "port"
        with DiallingRuntime(address, {Command.ResumeRuntime: deaf_once}):
            seen = [visit.what for visit in visits(str(address), resume=True, stop=stop, duration=PATIENCE_S)]
    assert seen == ["connected"]
    assert len(asked) == 2
