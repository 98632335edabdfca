"""However a verb ends, it leaves no program waiting at its startup, no socket file, and no wrong word of what became of the recording."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.client.scripted import eventually
from tests.live.runtimes import command, workload
from tests.live.test_trace_collect import PYTHON, collecting, run
from tests.live.test_watch import CLR, FLOOD
from tests.shared import needs

from dotnetdiag.cli.recording import ends_nicely
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.nettrace import read
from dotnetdiag.recipes.collect import CollectOptions, Observer, Stop, collect
from dotnetdiag.recipes.launch import Launch
from dotnetdiag.transport import processes

pytestmark = [
    pytest.mark.live,
    needs("dotnet", "the workload on real runtimes"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Shorter than tmp_path: it is for sockets."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A verb that runs."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*PYTHON, *arguments], text=True, **{**streams, **options})
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def shell(words: list[str]) -> str:
    """The command as a shell reads it."""
    return " ".join(map(shlex.quote, words))


# programs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("collect", "--no-stacks", "-o", "{folder}/x"),
        ("watch", "--providers", f"{CLR}:GC", "--event-filter", f"{CLR}=1"),
    ],
    ids=["collect", "watch"],
)
def test_a_session_that_is_refused_at_a_port_of_ours_leaves_the_runtime_running(
    words: tuple[str, ...], folder: Path
) -> None:
    """.NET 8 is too old for what is asked."""
    port = folder / "port"
    arguments = [word.format(folder=folder) for word in words]
    with started("trace", *arguments, "--diagnostic-port", str(port)) as tool:
        eventually(port.exists, "it does not listen")
        words_of_program, environment = command("8", "gc", "gen0=1")
        program = subprocess.run(
            words_of_program,
            env={**os.environ, **environment, "DOTNET_DiagnosticPorts": str(port)},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert b"done gc" in program.stdout
        _, err = tool.communicate(timeout=60)
    assert tool.returncode, err
    assert "error: " in err
    assert not port.exists()


def test_a_mistake_in_the_duration_starts_nothing_and_waits_for_nobody(folder: Path) -> None:
    done = run("trace", "collect", "--duration", "5", "-o", f"{folder}/x", "--", "touch", f"{folder}/started")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    for verb in ("collect", "watch"):
        done = run("trace", verb, "--duration", "5", "--diagnostic-port", f"{folder}/port")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert not list(folder.iterdir())


def test_what_the_program_has_started_ends_with_it(folder: Path) -> None:
    """It would start runtimes that wait for a port that is gone."""
    words, environment = command("10", "idle", "seconds=100")
    script = f"sleep 1000 & echo $! > {folder}/pid; exec {shell(words)}"
    done = run("trace", "collect", "--duration", "300ms", "-o", f"{folder}/x", "--", "sh", "-c", script, **environment)
    assert done.returncode == 0, done.stderr
    pid = int((folder / "pid").read_text())
    eventually(lambda: processes.is_zombie(pid) or not processes.exists(pid), "it still runs")


def test_a_program_is_waited_for_that_outlives_its_first_runtime(folder: Path) -> None:
    words, environment = command("10", "gc", "gen0=1")
    script = f"{shell(words)}; sleep 6; touch {folder}/end; exit 7"
    done = run("trace", "collect", "-o", f"{folder}/x", "--", "sh", "-c", script, **environment)
    assert done.returncode == 7, done.stderr
    assert "Process exited with code '7'." in done.stderr
    assert (folder / "end").exists()


def test_ctrl_c_at_the_moment_when_the_program_has_started_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, environment = command("10", "idle", "seconds=100")
    made: list[int] = []
    real = subprocess._fork_exec  # type: ignore[attr-defined]

    def fork_exec(*arguments: Any) -> int:
        pid: int = real(*arguments)
        if b"dotnetdiag.recipes.inherited_port" in arguments[0] or "dotnetdiag.recipes.inherited_port" in arguments[0]:
            return pid  # the watchdog, and who keeps the port afterwards
        made.append(pid)
        signal.raise_signal(signal.SIGINT)
        return made[0]

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "_fork_exec", fork_exec)
    stop, observer = Stop(), Observer()
    with pytest.raises((KeyboardInterrupt, DiagnosticsError)), ends_nicely(stop, observer, enter=False):
        collect(CollectOptions(launch=Launch(command=tuple(words)), output=tmp_path / "x", duration=1), observer, stop)
    assert len(made) == 1
    assert not processes.exists(made[0])


# ports ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [("trace", "collect"), ("trace", "watch"), ("info",), ("dump", "collect"), ("stack", "report")],
    ids=lambda words: words[0] if len(words) == 1 else words[1],
)
def test_sigterm_removes_the_socket_file(words: tuple[str, ...], folder: Path) -> None:
    port = folder / "port"
    with started(*words, "--diagnostic-port", str(port)) as tool:
        assert tool.stderr is not None
        line = tool.stderr.readline()
        assert line.startswith("Waiting for connection on "), line
        eventually(port.exists, "it does not listen")
        tool.terminate()
        _, err = tool.communicate(timeout=60)
    assert tool.returncode, err
    assert "Traceback" not in err
    assert not port.exists()


# outputs ----------------------------------------------------------------------------------------------------------------


def test_a_pipe_that_nobody_has_opened_is_refused_and_the_program_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    words, environment = command("10", "idle", "seconds=100")
    script = f"echo $$ > {tmp_path}/pid; exec {shell(words)}"
    done = run("trace", "collect", "-o", f"{tmp_path}/fifo", "--", "sh", "-c", script, **environment)
    assert done.returncode, done.stderr
    assert "nobody reads this pipe" in done.stderr
    assert not processes.exists(int((tmp_path / "pid").read_text()))


def test_a_recording_into_a_pipe_that_nobody_reads_can_be_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with (
            workload("10", "idle", "seconds=100") as target,
            collecting("-p", str(target.pid), "--duration", "300ms", "-o", str(fifo)) as collector,
        ):
            assert collector.stderr is not None
            for _ in range(20):  # the first presses of Ctrl-C count as one
                collector.send_signal(signal.SIGINT)
                try:
                    collector.wait(1)
                except subprocess.TimeoutExpired:
                    continue
                break
            assert collector.poll() is not None
            assert "Traceback" not in collector.stderr.read()
            assert target.alive
    finally:
        os.close(reader)


@pytest.mark.parametrize("ends", ["by its duration", "by SIGTERM"])
def test_a_watch_into_a_pipe_that_nobody_reads_ends(ends: str) -> None:
    ours, theirs = os.pipe()
    duration = ("--duration", "1s") if ends == "by its duration" else ()
    try:
        with (
            workload("10", "flood", "threads=1", "each=2000000000", "size=64", "wait=stdin") as target,
            started("trace", "watch", "-p", str(target.pid), "--providers", FLOOD, *duration, stdout=theirs) as tool,
        ):
            assert tool.stderr is not None
            assert tool.stderr.readline().startswith("Watching")
            target.say()
            assert os.read(ours, 1), "nothing is written"
            if not duration:
                tool.terminate()
            tool.wait(60)
            assert "Traceback" not in tool.stderr.read()
            assert target.alive
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_output_that_was_deleted_meanwhile_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        collecting("-p", str(target.pid), "-o", str(path)) as collector,
    ):
        eventually(path.exists, "it is not made")
        path.unlink()
        collector.send_signal(signal.SIGINT)
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 2, err
    assert out == ""
    assert f"error: {path}: " in err
    assert "Trace completed" not in err


@pytest.mark.parametrize("closed", [0, 2])
def test_a_recording_needs_no_input_and_no_place_to_talk(closed: int, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        started(
            *("trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", str(path)),
            preexec_fn=lambda: os.close(closed),
        ) as tool,
    ):
        _, err = tool.communicate(timeout=60)
        assert tool.returncode == 0, err
        assert "Traceback" not in err
    assert read(path.read_bytes()).complete


def test_a_recording_is_whole_and_told_of_where_stderr_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        open("/dev/full", "wb") as full,
        started("trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", str(path), stderr=full) as tool,
    ):
        out, _ = tool.communicate(timeout=60)
    assert tool.returncode == 0
    assert out.startswith(str(path))
    assert read(path.read_bytes()).complete


@pytest.mark.parametrize("words", [("trace", "collect"), ("info",), ("ps",)], ids=lambda words: words[-1])
def test_results_that_have_no_place_to_go_are_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    with workload("10", "idle", "seconds=100") as target:
        of_whom = () if words == ("ps",) else ("-p", str(target.pid))
        with started(*words, *of_whom, cwd=tmp_path, preexec_fn=lambda: os.close(1)) as tool:
            _, err = tool.communicate(timeout=60)
    assert (tool.returncode, err.count("\n")) == (2, 1), err
    assert err.startswith("error: standard output is closed")
    assert not list(tmp_path.iterdir())
