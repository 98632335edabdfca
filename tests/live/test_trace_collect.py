"""``trace collect`` as people use it: how it ends, what is in the file then, what it says."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.live.runtimes import command, workload
from tests.shared import needs

from dotnetdiag.nettrace import read

pytestmark = [
    pytest.mark.live,
    needs("dotnet", "the workload on real runtimes"),
]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
CLR = "Microsoft-Windows-DotNETRuntime"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTHON, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def collecting(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A collector that says that it records."""
    process = subprocess.Popen(
        [*PYTHON, "trace", "collect", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Recording trace"):
                break
        else:
            raise AssertionError("it ended before it recorded")
        yield process
    finally:
        process.kill()
        process.communicate()


def test_duration_ends_it_and_the_file_is_whole(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with workload(runtime, "idle", "seconds=100") as target:
        done = run("trace", "collect", "-p", str(target.pid), "--duration", "500ms", "-o", str(path), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["size_bytes"] == path.stat().st_size
    assert told["pid"] == target.pid
    contents = read(path.read_bytes())
    assert contents.complete
    has_names = any(known.provider.endswith("Rundown") for known in contents.metadata.values())
    assert has_names == (runtime != "NativeAOT"), "NativeAOT writes no rundown"
    assert "defaulting to trace profiles" in done.stderr


def test_losses_are_counted_without_numpy(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    code = (
        "import sys; from dotnetdiag.cli.commands import run;"
        "code = run(); print('numpy' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    with workload("10", "flood", "threads=2", "each=200000", "size=64", "wait=stdin") as target:
        words = ["-p", str(target.pid), "--providers", "Workload-Manifest", "--buffersize", "1", "-o", str(path)]
        with subprocess.Popen(
            [sys.executable, "-c", code, "trace", "collect", *words, "--rundown", "false", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("Recording trace"):
                    break
            target.say()
            out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err.splitlines()[-1] == "False"
    contents = read(path.read_bytes())
    told = json.loads(out)
    assert (told["complete"], told["lost_events"]) == (contents.complete, contents.lost.total)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_signal_stops_nicely(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        collecting("-p", str(target.pid), "-o", str(path)) as collector,
    ):
        collector.send_signal(number)
        out, err = collector.communicate(timeout=60)
        assert collector.returncode == 0, err
        assert "Stopping the trace" in err
        assert str(path) in out
        assert read(path.read_bytes()).complete
        assert target.alive


def test_a_second_signal_ends_at_once_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "idle", "seconds=100") as target,
        collecting("-p", str(target.pid), "-o", str(path)) as collector,
    ):
        os.kill(target.pid, signal.SIGSTOP)  # so that the nice end does not come
        try:
            collector.send_signal(signal.SIGINT)
            assert collector.stderr is not None
            assert collector.stderr.readline().startswith("Stopping the trace")
            with pytest.raises(subprocess.TimeoutExpired):
                collector.wait(0.5)
            collector.send_signal(signal.SIGINT)
            _, err = collector.communicate(timeout=20)
        finally:
            os.kill(target.pid, signal.SIGCONT)
        assert collector.returncode == 2
        assert err.splitlines()[-1] == "error: cancelled"
        contents = read(path.read_bytes())
        assert contents.format.startswith("nettrace")
        assert not contents.complete


def test_exit_of_the_target_ends_it_with_all_that_arrived(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "events", "rounds=50", "wait=stdin") as target,
        collecting("-p", str(target.pid), "--providers", "Workload-Manifest", "-o", str(path)) as collector,
    ):
        target.say()
        _, err = collector.communicate(timeout=60)
        assert collector.returncode == 0, err
        assert read(path.read_bytes()).complete


def test_a_killed_target_leaves_what_arrived(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "flood", "threads=1", "each=2000000000", "size=64", "wait=stdin") as target,
        collecting(
            "-p", str(target.pid), "--providers", "Workload-Manifest:0xffffffffffffffff:5", "-o", str(path)
        ) as collector,
    ):
        target.say()
        while not path.exists() or path.stat().st_size < 1_000_000:
            assert collector.poll() is None
        target.process.kill()
        _, err = collector.communicate(timeout=60)
        assert collector.returncode == 2
        assert f"Process {target.pid} was gone before the trace had its end" in err
        assert "names of methods" in err
        contents = read(path.read_bytes())
        assert len(contents.headers) > 1000
        assert not contents.complete


def test_a_full_disk_is_one_line_that_names_the_file() -> None:
    with workload("10", "idle", "seconds=100") as target:
        done = run("trace", "collect", "-p", str(target.pid), "--duration", "300ms", "-o", "/dev/full")
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("error: /dev/full: No space left on device")
        assert "Traceback" not in done.stderr
        assert target.alive


def test_a_child_is_recorded_from_its_start_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    words, environment = command("10", "gc", "gen0=5", "exit=7")
    done = run("trace", "collect", "-o", str(path), "--providers", f"{CLR}:gc", "--", *words, **environment)
    assert done.returncode == 7, done.stderr
    assert "Process exited with code '7'." in done.stderr
    contents = read(path.read_bytes())
    starts = [number for number, known in contents.metadata.items() if known.provider == CLR and known.event_id == 1]
    assert sum(int((contents.headers.metadata_id == number).sum()) for number in starts) >= 5


def test_children_of_a_child_are_not_left_suspended(tmp_path: Path) -> None:
    words, environment = command("10", "child", "run=gc")
    done = run("trace", "collect", "-o", str(tmp_path / "x"), "--show-child-io", "--", *words, **environment)
    assert done.returncode == 0, done.stderr
    assert "done child" in done.stdout


def test_a_runtime_that_a_script_starts_after_the_recording_is_not_left_suspended(tmp_path: Path) -> None:
    words, environment = command("8", "gc", "gen0=1")
    app, late = shlex.join(words), tmp_path / "late"
    script = f"{app}; (sleep 1.5; {app} >{late}; echo over >>{late}) >/dev/null 2>&1 &"
    done = run("trace", "collect", "-o", str(tmp_path / "x"), "--", "sh", "-c", script, **environment)
    assert done.returncode == 0, done.stderr
    assert "a process stays that resumes .NET programs" in done.stderr
    ends = time.monotonic() + 60
    while not late.exists() or not late.read_text().endswith("over\n"):
        assert time.monotonic() < ends, "the late runtime waits"
        time.sleep(0.1)
    assert "done gc" in late.read_text()


def test_a_second_program_of_a_script_is_not_held_by_its_own_socket(tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=1")
    app = shlex.join(words)
    environment |= {"DOTNET_DefaultDiagnosticPortSuspend": "1"}
    done = run(
        "trace",
        "collect",
        "-o",
        str(tmp_path / "x"),
        "--show-child-io",
        "--",
        "sh",
        "-c",
        f"{app}; {app}",
        **environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done gc") == 2


def test_what_is_told_of_a_script_is_told_of_its_runtime(tmp_path: Path) -> None:
    words, environment = command("8", "idle", "seconds=100")
    script = f"{shlex.join(words)} & echo $! >{tmp_path}/pid; sleep 2; kill -9 $!; wait; sleep 1"
    done = run("trace", "collect", "--json", "-o", str(tmp_path / "x"), "--", "sh", "-c", script, **environment)
    told = json.loads(done.stdout)
    assert told["pid"] == int((tmp_path / "pid").read_text())
    assert told["target_died"]
    assert "names of methods and the last events may be missing" in done.stderr


def test_a_program_that_runs_longer_than_its_recording_is_told_to_end(tmp_path: Path) -> None:
    words, environment = command("8", "idle", "seconds=100")
    done = run("trace", "collect", "--duration", "1s", "-o", str(tmp_path / "x"), "--", *words, **environment)
    assert done.returncode == 0, done.stderr
    assert "The program still ran, and was told to end (SIGTERM)." in done.stderr


def test_a_program_that_is_not_dotnet_is_said_so(tmp_path: Path) -> None:
    done = run("trace", "collect", "-o", str(tmp_path / "x"), "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert "ended with code 0 before a .NET runtime" in done.stderr
    assert run("trace", "collect", "--", "no-such-program").returncode == 3


def test_a_runtime_that_dials_us_is_recorded(tmp_path: Path) -> None:
    path, port = tmp_path / "x.nettrace", tmp_path / "port"
    collector = subprocess.Popen(
        [*PYTHON, "trace", "collect", "--diagnostic-port", str(port), "--providers", f"{CLR}:gc", "-o", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert collector.stderr is not None
        assert collector.stderr.readline().startswith("Waiting for connection on ")
        assert f"DOTNET_DiagnosticPorts={port}" in collector.stderr.readline()
        words, environment = command("8", "gc", "gen0=5")
        program = subprocess.run(
            words,
            env={**os.environ, **environment, "DOTNET_DiagnosticPorts": str(port)},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert b"done gc" in program.stdout
        _, err = collector.communicate(timeout=60)
        assert collector.returncode == 0, err
        assert read(path.read_bytes()).complete
        assert not port.exists()
    finally:
        collector.kill()
        collector.communicate()


def test_a_port_where_a_runtime_listens_is_dialled() -> None:
    with (
        TemporaryDirectory() as folder,  # the address of a socket has 107 bytes: tmp_path can be too long for it
        workload("9", "idle", "seconds=100", TMPDIR=folder) as target,
    ):
        (port,) = Path(folder).glob("dotnet-diagnostic-*-socket")
        done = run("info", "--diagnostic-port", f"{port},connect", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["pid"] == target.pid


def test_a_stopping_event_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        workload("10", "gc", "gen0=20", "gen2=2", "wait=stdin", "linger=stdin") as target,
        collecting(
            *("-p", str(target.pid), "--providers", f"{CLR}:gc", "-o", str(path)),
            *("--stopping-event-provider-name", CLR, "--stopping-event-event-name", "GC/Start"),
            *("--stopping-event-payload-filter", "Depth:2"),
        ) as collector,
    ):
        target.say()
        _, err = collector.communicate(timeout=60)
        assert collector.returncode == 0, err
        assert "Stopped at GC/Start." in err
        assert read(path.read_bytes()).complete
        assert target.alive


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Must specify either --process-id, --name, --wait-for, --diagnostic-port, or --dsrouter."),
        (
            ["-p", "1", "-n", "x"],
            "Only one of the --name, --process-id, --diagnostic-port, or --dsrouter options may be specified.",
        ),
        (["-p", "-1"], "-1 is not a valid process ID"),
        (["-n", "no-such-name"], "There is no active process with the given name: no-such-name"),
        (["-p", "1", "--", "true"], "options may be specified when launching a child process"),
        (["-p", "1", "--show-child-io"], "--show-child-io must not be specified when attaching to a process"),
        (["-p", "1", "--providers", "A:xyz"], "at character 3"),
        (["-p", "1", "--profile", "gc-verbos"], "near: gc-verbose; `dotnetdiag trace list-profiles`"),
        (["-p", "1", "--clrevents", "gcc"], "is not a valid CLR event keyword; did you mean 'gc'?"),
        (["-p", "1", "--duration", "10"], "write 30s, 5m, 1h30m, 2d, 800ms or dd:hh:mm:ss"),
        (["-p", "1", "--stopping-event-event-name", "x"], "--stopping-event-provider-name"),
        (["-p", "1", "--event-filter", "X=1"], "no provider 'X' in the session"),
    ],
)
def test_bad_input_is_one_line_and_code_3(arguments: list[str], text: str) -> None:
    done = run("trace", "collect", *arguments)
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert text in done.stderr
