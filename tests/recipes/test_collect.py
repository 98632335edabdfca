"""A recording from its beginning to its end, without a runtime: what ends it early, and what its file is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.scripted import SESSION, ScriptedRuntime, after, obeys, pattern, says, says_and_waits, streams
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.client import Client
from dotnetdiag.errors import Cancelled, OutputExists, TransportError, UnknownName
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import launch, recording
from dotnetdiag.recipes.collect import CollectOptions, Observer, Stop, collect
from dotnetdiag.recipes.launch import Launch
from dotnetdiag.recipes.outcome import has_exited
from dotnetdiag.recipes.stopping import StoppingEvent
from dotnetdiag.recipes.target import Target
from dotnetdiag.testing import Talk
from dotnetdiag.transport import processes


@pytest.fixture
def runtime() -> Iterator[ScriptedRuntime]:
    with TemporaryDirectory() as folder:
        scripts = {Command.CollectTracing2: streams(0.01), Command.StopTracing: obeys}
        made = ScriptedRuntime(Path(folder) / "runtime", scripts)
        yield made
        made.close()


def options_for(runtime: ScriptedRuntime, folder: Path, **more: Any) -> CollectOptions:
    return CollectOptions(target=Target(port=f"{runtime.path},connect"), output=folder / "x.nettrace", **more)


def test_a_stopping_event_of_a_provider_that_is_not_recorded_is_told_before_anything_runs(
    runtime: ScriptedRuntime, tmp_path: Path
) -> None:
    def options(provider: str) -> CollectOptions:
        event = StoppingEvent(provider=provider, event="GC/Start")
        return options_for(runtime, tmp_path, clr_events="gc", providers="My-Source", stopping_event=event)

    with pytest.raises(UnknownName, match=r"^no provider 'My-Sorce' among those that are recorded; near: My-Source$"):
        collect(options("My-Sorce"))
    assert runtime.asked == []
    for provider in ("my-source", "Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntimeRundown"):
        assert options(provider).composed()


def test_a_cancel_ends_the_session(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    stop = Stop()
    with pytest.raises(Cancelled):
        collect(options_for(runtime, tmp_path), Observer(progress=lambda *_: stop.cancel()), stop)
    runtime.wait_for_end()


def test_a_cancel_that_comes_before_the_recording_leaves_the_file_that_is_there(
    runtime: ScriptedRuntime, tmp_path: Path
) -> None:
    stop = Stop()
    stop.cancel()
    (tmp_path / "x.nettrace").write_bytes(b"of yesterday")
    with pytest.raises(Cancelled):
        collect(options_for(runtime, tmp_path), stop=stop)
    assert (tmp_path / "x.nettrace").read_bytes() == b"of yesterday"


def test_a_stop_that_comes_before_the_session_ends_it(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    def report(size_bytes: int, _: float) -> None:
        assert size_bytes < 200_000, "the stop was forgotten"

    stop = Stop()
    stop.stop()
    assert collect(options_for(runtime, tmp_path), Observer(progress=report), stop).was_stopped
    assert runtime.asked.count(Command.StopTracing) == 1


@pytest.mark.parametrize("comes", ["before the end", "after it"])
def test_an_event_that_comes_after_the_session_was_ended_has_not_stopped_it(comes: str, tmp_path: Path) -> None:
    data = data_of("gccollect-10.nettrace")

    def script(talk: Talk) -> None:
        talk.begin_session(data if comes == "before the end" else b"")
        talk.wait_for_stop(20)
        if comes == "after it":
            talk.send(data)

    with TemporaryDirectory() as folder:
        scripts = {Command.CollectTracing2: script, Command.StopTracing: obeys}
        runtime = ScriptedRuntime(Path(folder) / "runtime", scripts)
        clr = "Microsoft-Windows-DotNETRuntime"
        event = StoppingEvent(provider=clr, event="GC/Start")
        options = options_for(runtime, tmp_path, providers=clr, stopping_event=event)
        done = collect(replace(options, duration=None if comes == "before the end" else 0.1))
        runtime.close()
    said = "Stopped at GC/Start." if comes == "before the end" else "did not come before the recording was ended."
    assert done.notes[-1].endswith(said)


@pytest.mark.parametrize("verb", ["stop", "cancel"])
@pytest.mark.parametrize("what", ["port", "program"])
def test_a_job_that_waits_for_its_runtime_is_ended(what: str, verb: str, tmp_path: Path) -> None:
    stop, waits = Stop(), threading.Event()
    if what == "port":
        options = CollectOptions(target=Target(port=f"{tmp_path}/port,listen"), output=tmp_path / "x.nettrace")
        observer = Observer(waiting=lambda _: waits.set())
    else:  # no runtime of .NET will come of it
        options = CollectOptions(launch=Launch(command=("sleep", "600")), output=tmp_path / "x.nettrace")
        observer = Observer()
        waits.set()

    def end() -> None:
        assert waits.wait(20)
        getattr(stop, verb)()

    ending = threading.Thread(target=end)
    ending.start()
    with pytest.raises(Cancelled):
        collect(options, observer, stop)
    ending.join()
    assert list(tmp_path.iterdir()) == []


def test_a_recording_in_one_thread_is_ended_by_another(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    stop, sizes = Stop(), list[int]()

    def report(size_bytes: int, _: float) -> None:
        sizes.append(size_bytes)
        if size_bytes:
            threading.Thread(target=stop.stop).start()

    done = dd.collect(f"{runtime.path},connect", tmp_path / "x.nettrace", stop=stop, progress=report)
    assert done.was_stopped
    assert sizes[-1] == done.size_bytes == (tmp_path / "x.nettrace").stat().st_size


def test_a_runtime_that_does_not_answer_is_not_waited_for_when_nothing_is_wanted_any_more(
    tmp_path: Path,
) -> None:
    """A signal handler may cancel in the middle of the wait for the answer to CollectTracing."""
    stop = Stop()

    def on_signal(*_: Any) -> None:
        stop.cancel()
        if stop.may_raise:
            raise KeyboardInterrupt

    with TemporaryDirectory() as folder:
        runtime = ScriptedRuntime(Path(folder) / "runtime", after(60, says(b"")))
        before = signal.signal(signal.SIGUSR1, on_signal)

        def cancel_when_asked() -> None:
            runtime.wait_for(Command.CollectTracing2)
            os.kill(os.getpid(), signal.SIGUSR1)

        try:
            threading.Thread(target=cancel_when_asked).start()
            with pytest.raises(KeyboardInterrupt):
                collect(options_for(runtime, tmp_path), stop=stop)
        finally:
            signal.signal(signal.SIGUSR1, before)
            runtime.close()
    assert list(tmp_path.iterdir()) == []


def test_the_end_is_told_once_before_the_progress_that_follows_it(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    stop = Stop()

    def progress(size_bytes: int, _: float) -> None:
        calls.append(("progress", size_bytes))
        if size_bytes:
            stop.stop()

    observer = Observer(progress=progress, stopping=lambda: calls.append(("stopping",)))
    collect(options_for(runtime, tmp_path), observer, stop)
    assert calls.count(("stopping",)) == 1
    end = calls.index(("stopping",))
    assert calls[0][0] == "progress"
    assert 0 < end < len(calls) - 1
    assert calls[end - 1][1] > 0


def test_the_progress_of_a_recording_is_its_bytes_and_seconds(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000, 100_000))
    monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    told: list[tuple[int, float]] = []
    stop = Stop()
    stop.stop()
    done = collect(
        options_for(runtime, tmp_path), Observer(progress=lambda size, seconds: told.append((size, seconds))), stop
    )
    assert [seconds for _, seconds in told] == list(range(1, len(told) + 1))
    assert told[-1][0] == done.size_bytes == (tmp_path / "x.nettrace").stat().st_size
    assert done.duration_s == len(told) + 1


@pytest.mark.parametrize("resume", [True, False])
def test_a_runtime_that_cannot_be_told_to_go_on_is_recorded_all_the_same(
    resume: bool, runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise TransportError("it is busy")

    monkeypatch.setattr(recording, "is_held", lambda _: True)
    monkeypatch.setattr(recording, "resume", fail)
    done = collect(options_for(runtime, tmp_path, resume=resume, duration=0.1))
    said = "The runtime could not be told to go on at once: it is busy"
    assert [note for note in done.notes if "told" in note] == ([said] if resume else [])
    assert done.size_bytes


def test_a_runtime_that_answers_nothing_when_it_is_told_to_go_on_is_recorded_after_a_limit(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.play(Command.ResumeRuntime, says_and_waits())
    monkeypatch.setattr(recording, "TOLD_S", 0.05)
    done = collect(options_for(runtime, tmp_path, duration=0.1))
    assert done.notes == ("The runtime could not be told to go on at once: no answer within 0.05 s",)
    assert done.size_bytes


def test_a_stop_does_not_wait_for_a_runtime_that_is_told_to_go_on(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.play(Command.ResumeRuntime, says_and_waits())
    monkeypatch.setattr(recording, "TOLD_S", 1e6)
    stop = Stop()

    def stop_when_told() -> None:
        runtime.wait_for(Command.ResumeRuntime)
        stop.stop()

    stopper = threading.Thread(target=stop_when_told)
    stopper.start()
    done = collect(options_for(runtime, tmp_path), stop=stop)
    stopper.join()
    assert done.notes == ()
    assert done.size_bytes


def test_a_runtime_that_cannot_be_asked_whether_it_waits_is_recorded_all_the_same(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Client) -> bool:
        raise TransportError("there is no such socket")

    monkeypatch.setattr(Client, "is_suspended", fail)
    assert collect(options_for(runtime, tmp_path, resume=False, duration=0.1)).size_bytes


def test_a_cancel_does_not_wait_for_a_runtime_that_is_told_to_go_on(runtime: ScriptedRuntime, tmp_path: Path) -> None:
    runtime.play(Command.ResumeRuntime, says_and_waits())
    stop = Stop()

    def cancel_when_told() -> None:
        runtime.wait_for(Command.ResumeRuntime)
        stop.cancel()

    canceller = threading.Thread(target=cancel_when_told)
    canceller.start()
    with pytest.raises(Cancelled):
        collect(options_for(runtime, tmp_path), stop=stop)
    canceller.join()
    assert list(tmp_path.iterdir()) == [], "it was not waited for until the recording began"


def test_a_runtime_that_takes_no_custom_rundown_is_recorded_without_one_and_that_is_said(
    runtime: ScriptedRuntime, tmp_path: Path
) -> None:
    for presets, said in (("gc-collect", ["The runtime takes no custom rundown; recorded without one."]), (None, [])):
        stop = Stop()
        stop.stop()
        done = collect(options_for(runtime, tmp_path, presets=presets, force=True), stop=stop)
        assert [note for note in done.notes if "rundown" in note] == said


@pytest.mark.parametrize(("ended", "code", "name"), [(0, 0, None), (3, 3, None), (-signal.SIGSEGV, 139, "SIGSEGV")])
def test_the_program_that_was_started_tells_how_it_ended(
    ended: int, code: int, name: str | None, runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def launched(*_: Any, **__: Any) -> Iterator[Any]:
        yield SimpleNamespace(
            client=Client.connect(str(runtime.path)), address=str(runtime.path), heirs=(), wait=lambda _: ended
        )

    monkeypatch.setattr(launch, "launched", launched)
    stop = Stop()
    stop.stop()
    done = collect(CollectOptions(launch=Launch(command=("app",)), output=tmp_path / "x.nettrace"), stop=stop)
    assert (done.child_exit_code, done.child_signal) == (code, name)


def test_a_recording_goes_to_the_standard_output(
    runtime: ScriptedRuntime, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stop = Stop()
    stop.stop()
    done = collect(CollectOptions(target=Target(port=f"{runtime.path},connect"), output=Path("-")), stop=stop)
    data = capfdbinary.readouterr().out
    assert data == pattern(done.size_bytes)


def test_names_that_nobody_has_asked_for_are_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Noon:
            return cls(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recording, "datetime", Noon)
    made = {recording.new_path("app", take=True) for _ in range(20)}
    assert {path.name for path in made} == {
        f"app_20260101_120000{f'_{number}' if number > 1 else ''}.nettrace" for number in range(1, 21)
    }
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in made}
    assert recording.new_path("app") not in made
    assert all(path.stat().st_mode & 0o077 == 0 for path in made)


@pytest.mark.skipif(sys.platform != "linux", reason="knows the peer's process by its socket")
def test_a_recording_tells_whether_its_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = os.getpid(), processes.start_time_ticks(os.getpid())
    monkeypatch.setattr(recording, "has_exited", lambda *known, wait_s: known == ours and wait_s > 0)
    with TemporaryDirectory() as folder:
        runtime = ScriptedRuntime(Path(folder) / "runtime", {Command.CollectTracing2: says(SESSION)})
        try:
            assert collect(options_for(runtime, tmp_path)).target_exited
        finally:
            runtime.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_has_gone_when_another_has_its_number_or_nobody_but_its_parent_knows_it() -> None:
    began = processes.start_time_ticks(os.getpid())
    assert began is not None
    assert [has_exited(os.getpid(), ticks, wait_s=0) for ticks in (began, began - 1, began + 1, None)] == [
        *(False, True, True, False)
    ]
    with subprocess.Popen(["sleep", "60"]) as child:
        began = processes.start_time_ticks(child.pid)
        assert not has_exited(child.pid, began, wait_s=0)
        child.kill()
        assert has_exited(child.pid, began, wait_s=20)


def test_files_of_formats_are_those_of_the_recording(
    runtime: ScriptedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.speedscope.json").touch()
    stop = Stop()
    stop.stop()
    target = Target(port=f"{runtime.path},connect")
    collect(CollectOptions(target=target, formats=("speedscope",)), stop=stop)
    (tmp_path / "x.speedscope.json").touch()
    with pytest.raises(OutputExists):
        collect(options_for(runtime, tmp_path, formats=("speedscope",)))
