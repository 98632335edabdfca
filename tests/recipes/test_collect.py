"""A recording from its beginning to its end, without a runtime: what ends it early, and what its file is called."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.scripted import ScriptedRuntime, after, obeys, says, streams

from dotnetdiag.errors import OutputExists
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import collect as collecting
from dotnetdiag.recipes.collect import CollectOptions, Watch, collect
from dotnetdiag.recipes.target import Target


@pytest.fixture
def runtime() -> Iterator[ScriptedRuntime]:
    with TemporaryDirectory() as folder:
        scripts = {Command.CollectTracing2: streams(0.01), Command.StopTracing: obeys}
        made = ScriptedRuntime(Path(folder) / "runtime", scripts)
        yield made
        made.close()


def options_for(runtime: ScriptedRuntime, folder: Path, **more: Any) -> CollectOptions:
    return CollectOptions(target=Target(port=f"{runtime.path},connect"), output=folder / "x.nettrace", **more)


def test_an_abort_that_comes_before_the_session_ends_it(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    watch = Watch()
    watch.abort()
    with pytest.raises(KeyboardInterrupt):
        collect(options_for(runtime, tmp_path), watch)
    assert runtime.ended.wait(20)


def test_a_stop_that_comes_before_the_session_ends_it(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    def report(size_bytes: int, _: float) -> None:
        assert size_bytes < 200_000, "the stop was forgotten"

    watch = Watch(progress=report)
    watch.stop()
    assert collect(options_for(runtime, tmp_path), watch).was_stopped
    assert runtime.asked.count(Command.StopTracing) == 1


def test_a_runtime_that_does_not_answer_is_not_waited_for_when_nothing_is_wanted_any_more(
    tmp_path: Path,
) -> None:
    """A signal handler may cancel in the middle of the wait for the answer to CollectTracing."""
    watch = Watch()
    with TemporaryDirectory() as folder:
        runtime = ScriptedRuntime(Path(folder) / "runtime", after(60, says(b"")))
        before = signal.signal(signal.SIGUSR1, lambda *_: watch.cancel())

        def cancel_when_asked() -> None:
            runtime.wait_for(Command.CollectTracing2)
            os.kill(os.getpid(), signal.SIGUSR1)

        try:
            threading.Thread(target=cancel_when_asked).start()
            with pytest.raises(KeyboardInterrupt):
                collect(options_for(runtime, tmp_path), watch)
        finally:
            signal.signal(signal.SIGUSR1, before)
            runtime.close()
    assert list(tmp_path.iterdir()) == []


def test_a_cancel_outside_of_what_may_be_interrupted_is_looked_at_later() -> None:
    watch = Watch()
    watch.cancel()
    with pytest.raises(KeyboardInterrupt):
        watch.check()
    with pytest.raises(KeyboardInterrupt), watch.interruptible():
        raise AssertionError("it was cancelled before")


def test_names_that_nobody_has_asked_for_are_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Noon:
            return cls(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(collecting, "datetime", Noon)
    made = {collecting._new_path("app", take=True) for _ in range(20)}
    assert {path.name for path in made} == {
        f"app_20260101_120000{f'_{number}' if number > 1 else ''}.nettrace" for number in range(1, 21)
    }
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in made}
    assert collecting._new_path("app") not in made
    assert all(path.stat().st_mode & 0o077 == 0 for path in made)


def test_files_of_formats_are_those_of_the_recording(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.speedscope.json").touch()
    watch = Watch()
    watch.stop()
    target = Target(port=f"{runtime.path},connect")
    collect(CollectOptions(target=target, formats=("speedscope",)), watch)
    (tmp_path / "x.speedscope.json").touch()
    with pytest.raises(OutputExists):
        collect(options_for(runtime, tmp_path, formats=("speedscope",)), Watch())


class Child:
    """A program that ends with the first of ``ending`` signals that comes, or after so many looks."""

    def __init__(self, *, looks: int | None = None, ending: tuple[int, ...] = ()) -> None:
        self.looks, self.ending, self.sent = looks, ending, list[int]()

    def send_signal(self, number: int) -> None:
        self.sent.append(number)

    def wait(self, _: float) -> int | None:
        if self.looks is not None:
            self.looks -= 1
            if self.looks < 0:
                return 7
        return next((-number for number in self.sent if number in self.ending), None)


ENDED, KILLED = "The program still ran, and was told to end (SIGTERM).", "The program still ran, and was killed."


@pytest.mark.parametrize(
    ("child", "came", "ended_by_us", "expected"),
    [
        (Child(looks=5), None, False, (7, [], [])),
        (Child(looks=0), None, True, (7, [], [])),
        (Child(ending=(signal.SIGTERM,)), None, True, (None, [ENDED], [signal.SIGTERM])),
        (Child(), None, True, (None, [KILLED], [signal.SIGTERM])),
        (Child(ending=(signal.SIGINT,)), signal.SIGINT, True, (-signal.SIGINT, [], [signal.SIGINT])),
        (Child(ending=(signal.SIGHUP,)), signal.SIGHUP, False, (-signal.SIGHUP, [], [signal.SIGHUP])),
        (Child(), signal.SIGINT, True, (None, [KILLED], [signal.SIGINT])),
    ],
)
def test_the_end_of_a_program_that_was_recorded(
    child: Child, came: int | None, ended_by_us: bool, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(collecting, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    made = Child(looks=child.looks, ending=child.ending)
    code, notes = collecting._end_of(made, Watch(signal=came), ended_by_us=ended_by_us)  # type: ignore[arg-type]
    assert (code, notes, made.sent) == expected
