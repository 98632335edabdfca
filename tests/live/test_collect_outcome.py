"""What ``trace collect`` says of how it went, and what it does about signals, hang-ups and a second recording."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.live.runtimes import command, workload
from tests.live.test_trace_collect import CLR, PYTHON, collecting, run
from tests.shared import needs

from dotnetdiag.nettrace import read
from dotnetdiag.transport import processes

pytestmark = [
    pytest.mark.live,
    needs("dotnet", "the workload on real runtimes"),
]
FLOOD = "Workload-Manifest:0xffffffffffffffff:5"


def test_lost_events_are_counted_and_what_helps_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "flood", "threads=2", "each=300000", "size=64", "wait=stdin", "linger=stdin") as target,
        collecting(
            "-p", str(target.pid), "--providers", FLOOD, "--buffersize", "1", "-o", str(path), "--json"
        ) as collector,
    ):
        target.say()
        target.expect("done flood")
        collector.send_signal(signal.SIGINT)
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 0, err
    told = json.loads(out)
    contents = read(path.read_bytes())
    assert told["lost_events"] == contents.lost.total > 0
    assert told["complete"] is True
    assert f"{contents.lost.total:,} events were lost" in err
    assert "1 MB" in err
    assert "--buffersize" in err


def test_a_recording_without_losses_says_nothing_of_them(tmp_path: Path) -> None:
    with workload("8", "idle", "seconds=100") as target:
        done = run(
            "trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", str(tmp_path / "x"), "--json"
        )
    told = json.loads(done.stdout)
    assert (told["lost_events"], told["complete"], told["target_died"], told["target_exited"]) == (
        0,
        True,
        False,
        False,
    )
    assert "lost" not in done.stderr
    assert "missing" not in done.stderr


@pytest.mark.parametrize("runtime", ["NativeAOT", "10"])
@pytest.mark.parametrize("options", [[], ["--clrevents", "gc"]])
def test_a_runtime_without_a_sampler_is_told_and_a_report_does_not_advise_to_sample_it(
    runtime: str, options: list[str], tmp_path: Path
) -> None:
    path, lacks = tmp_path / "x.nettrace", "NativeAOT has no sample profiler"
    with workload(runtime, "idle", "seconds=100") as target:
        done = run("trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", str(path), *options)
    is_native = runtime == "NativeAOT"
    assert done.returncode == 0
    assert (lacks in done.stderr) == (is_native and not options)
    said = run("trace", "report", str(path), "topN").stdout
    assert (lacks in run("trace", "report", str(path)).stdout) == (lacks in said) == is_native
    assert ("record with" in said) == (bool(options) and not is_native)


def test_a_second_recording_into_the_same_file_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        collecting("-p", str(target.pid), "-o", str(path)) as collector,
    ):
        second = run("trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", str(path))
        assert second.returncode == 2
        assert second.stderr.splitlines()[-1] == f"error: {path}: another recording writes into this file"
        collector.send_signal(signal.SIGINT)
        _, err = collector.communicate(timeout=60)
        assert collector.returncode == 0, err
    assert read(path.read_bytes()).complete


@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_nothing_will_come_is_told_at_once_and_the_program_is_unharmed(runtime: str, tmp_path: Path) -> None:
    """A session that is started and stopped while the program is suspended; then another one, and then it runs (ipc-protocol.md §21.1)."""
    path = tmp_path / "x.nettrace"
    with workload(runtime, "gc", "gen0=3", "linger=stdin", suspended=True) as target:
        for _ in range(2):
            done = run(
                *("trace", "collect", "-p", str(target.pid), "--resume-runtime", "false"),
                *("--clrevents", "gc", "--duration", "300ms", "-o", str(path)),
            )
            assert done.returncode == 0, done.stderr
            assert "is suspended at startup and is not resumed here" in done.stderr
            assert "the file is empty" in done.stderr
            assert path.read_bytes() == b""
        assert run("doctor", str(target.pid)).returncode == 1
        stacks = run("stack", "report", "-p", str(target.pid))
        assert "suspended at startup" in stacks.stderr
        with collecting("-p", str(target.pid), "--clrevents", "gc", "-o", str(path)) as collector:
            assert target.expect("ready")
            assert target.expect("done gc")
            collector.send_signal(signal.SIGINT)
            _, err = collector.communicate(timeout=60)
            assert collector.returncode == 0, err
        assert target.alive
    contents = read(path.read_bytes())
    assert contents.complete
    starts = [number for number, known in contents.metadata.items() if known.provider == CLR and known.event_id == 1]
    assert sum(int((contents.headers.metadata_id == number).sum()) for number in starts) >= 3


def test_a_stopped_process_is_told_at_once() -> None:
    with workload("10", "idle", "seconds=100") as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, target.pid, os.WSTOPPED)
        for verb in (("trace", "collect"), ("info",), ("dump", "collect"), ("stack", "report")):
            done = run(*verb, "-p", str(target.pid))
            assert done.returncode == 1
            assert "is stopped (state T)" in done.stderr


def test_ctrl_c_on_a_terminal_leaves_the_child_until_its_session_has_ended(tmp_path: Path) -> None:
    """The terminal sends the signal to its whole foreground group; the child is not in it."""
    path = tmp_path / "x.nettrace"
    words, environment = command("10", "idle", "seconds=100")
    ours, theirs = pty.openpty()
    collector = subprocess.Popen(
        [*PYTHON, "trace", "collect", "-o", str(path), "--clrevents", "gc", "--", *words],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=_take_the_terminal,
    )
    os.close(theirs)
    seen = b""
    while b"Press <Enter>" not in seen:
        seen += os.read(ours, 4096)
    (child,) = (
        pid
        for pid in processes.iter_pids()
        if _parent(pid) == collector.pid and "idle" in (processes.argv(pid) or ())  # the other is the watchdog
    )
    os.write(ours, b"\x03")
    assert collector.wait(60) == 128 + signal.SIGINT
    os.close(ours)
    assert read(path.read_bytes()).complete
    assert not processes.exists(child), "the signal was passed on"


def _take_the_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _parent(pid: int) -> int | None:
    fields = processes.stat_fields(pid)
    return None if fields is None else int(fields[1])


def test_a_lost_terminal_ends_a_recording_with_its_names(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    ours, theirs = pty.openpty()
    with workload("10", "idle", "seconds=100") as target:
        collector = subprocess.Popen(
            [*PYTHON, "trace", "collect", "-p", str(target.pid), "-o", str(path), "--clrevents", "gc"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_the_terminal,
        )
        os.close(theirs)
        seen = b""
        while b"Press <Enter>" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)  # the kernel sends SIGHUP
        assert collector.wait(60) == 0
    contents = read(path.read_bytes())
    assert contents.complete
    assert any(known.provider.endswith("Rundown") for known in contents.metadata.values())


def test_a_pid_of_a_program_that_is_not_dotnet_is_said_so() -> None:
    process = subprocess.Popen(["sleep", "100"])
    try:
        for words in (("info", "-p"), ("trace", "collect", "-p"), ("doctor",)):
            done = run(*words, str(process.pid))
            assert done.returncode in (1, 3)
            assert "sleep is not a .NET process" in done.stdout + done.stderr
    finally:
        process.kill()
        process.wait()


def test_a_recording_in_the_background_leaves_what_is_typed_to_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with workload("10", "idle", "seconds=100") as target:
        words = [*PYTHON, "trace", "collect", "-p", str(target.pid), "-o", str(path), "--duration", "1s"]
        shell, ours = pty.fork()
        if shell == 0:  # what a shell does with `command &`
            job = os.posix_spawn(words[0], words, os.environ, setpgroup=0)
            _, status = os.waitpid(job, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.kill(job, signal.SIGKILL)
                os._exit(os.WSTOPSIG(status))
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        os.write(ours, b"ls\n")
        with suppress(OSError):  # the end of a terminal
            while os.read(ours, 4096):
                pass
        assert os.waitstatus_to_exitcode(os.waitpid(shell, 0)[1]) == 0
        os.close(ours)
    assert read(path.read_bytes()).complete
