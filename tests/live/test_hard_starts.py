"""Programs that make it hard to be started: other groups, other users, other signals, no runtime, no thread, no name."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import command, unpack
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.transport import processes

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
IDLE = ("idle", "seconds=1000")


def hook() -> str:
    return str(unpack() / "workload" / "hook" / "hook.dll")


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_program_that_has_left_its_process_group_is_ended_all_the_same(tmp_path: Path) -> None:
    words, environment = command("NativeAOT", *IDLE)
    leaves = "import os, sys; os.setpgid(0, os.getpgid(os.getppid())); os.execvp(sys.argv[1], sys.argv[1:])"
    program = [sys.executable, "-c", leaves, *words]
    done = run("trace", "collect", "--duration", "500ms", "-o", str(tmp_path / "x"), "--", *program, **environment)
    assert done.returncode == 0, done.stderr
    assert "The program still ran" in done.stderr


@pytest.mark.parametrize("follows", [False, True])
def test_a_tool_that_is_killed_just_after_the_program_has_started_leaves_nobody_waiting(
    follows: bool, tmp_path: Path
) -> None:
    words, environment = command("NativeAOT", "idle", "seconds=0")
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{pid_file}.part; mv {pid_file}.part {pid_file}; sleep 4; exec {shlex.join(words)}"
    arguments = [
        "trace",
        "collect",
        *(["--follow"] if follows else []),
        "-o",
        str(tmp_path / "o"),
        "--",
        "sh",
        "-c",
        script,
    ]
    with TemporaryDirectory(dir="/tmp") as place:
        program = (
            "import os, sys, time\n"
            "import dotnetdiag.recipes.watchdog as watchdog\n"
            "def killed(*_):  # the program runs, and its group is not told\n"
            f"    while not os.path.exists({str(pid_file)!r}): time.sleep(0.01)\n"
            "    os.kill(os.getpid(), 9)\n"
            "watchdog.Watchdog.is_of = killed\n"
            "sys.argv[0] = 'dotnetdiag'\n"
            "from dotnetdiag.cli.main import main\n"
            "main()"
        )
        killed = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, **environment, "TMPDIR": place},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert killed.returncode == -signal.SIGKILL
        pid = int(pid_file.read_text())
        wait_until(lambda: not processes.exists(pid))
        wait_until(lambda: not [name for name in os.listdir(place) if name.startswith("dotnetdiag-")])


@pytest.mark.parametrize(("words", "code"), [(["trace", "collect"], 5), (["trace", "watch"], 5), (["run"], 5)])
def test_the_exit_code_of_a_command_without_a_runtime_is_ours(words: list[str], code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [*PYTHON, *words, "--", "sh", "-c", "exit 5"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == code


def test_a_variable_that_switches_diagnostics_off_is_named(tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=1")
    environment["DOTNET_EnableDiagnostics"] = "0"
    done = run("trace", "collect", "-o", str(tmp_path / "x"), "--", *words, **environment)
    assert "DOTNET_EnableDiagnostics=0 in its environment switches diagnostics off" in done.stderr


def test_the_result_as_json_stands_alone_on_standard_output(tmp_path: Path) -> None:
    words, environment = command("NativeAOT", "gc", "gen0=1")
    done = run("trace", "collect", "--json", "--show-child-io", "-o", str(tmp_path / "x"), "--", *words, **environment)
    assert json.loads(done.stdout)["complete"]
    assert "done gc" in done.stderr


@pytest.mark.parametrize("name", ["DOTNET_DefaultDiagnosticPortSuspend", "DOTNET_DiagnosticPorts"])
def test_variables_of_which_a_program_would_wait_are_refused(name: str) -> None:
    done = run("run", "--env", f"{name}=1", "--", "true")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_a_process_that_cannot_be_followed_leaves_no_file(tmp_path: Path) -> None:
    words, environment = command("NativeAOT", "gc", "gen0=1")
    done = run(
        "trace", "collect", "--follow", "-o", str(tmp_path), "--startup-hook", hook(), "--", *words, **environment
    )
    assert done.returncode == 0, done.stderr  # the program's own
    assert "not recorded" in done.stderr
    assert "No .NET process has come" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_whose_name_is_long_in_bytes_has_a_file(tmp_path: Path) -> None:
    words, environment = command("NativeAOT", "gc", "gen0=1")
    program = tmp_path / ("\U00020000" * 60)
    program.symlink_to(words[0])
    done = run("trace", "collect", "--follow", "-o", str(tmp_path / "o"), "--", str(program), *words[1:], **environment)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "o").iterdir())) == 1


def test_a_process_for_which_there_is_no_thread_is_named_and_let_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, environment = command("NativeAOT", "gc", "gen0=1")
    real, failed = threading.Thread.start, list[str]()

    def start(self: threading.Thread) -> None:
        if self.name == "dotnetdiag follow 1" and not failed:
            failed.append(self.name)
            raise RuntimeError("can't start new thread")
        real(self)

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(threading.Thread, "start", start)
    done = dd.follow(["sh", "-c", "; ".join([shlex.join(words)] * 3)], tmp_path)
    assert len(done.recordings) == 2
    assert [one.problem for one in done.unrecorded] == [
        "the system gives this program no more threads: can't start new thread"
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGWINCH, 0)])
def test_a_signal_that_comes_before_the_runtime_is_passed_on(number: signal.Signals, code: int, tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=1")
    program = (
        "import os, signal, sys\n"
        "wanted = {signal.SIGTERM, signal.SIGWINCH}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, wanted)\n"
        "print('here', flush=True)\n"
        "if signal.sigwait(wanted) == signal.SIGTERM: sys.exit(5)\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)\n"
        "os.execvp(sys.argv[1], sys.argv[1:])"
    )
    with subprocess.Popen(
        [*PYTHON, "run", "--startup-hook", hook(), "--", sys.executable, "-c", program, *words],
        env={**os.environ, **environment, "WL_HOOK_FILE": str(tmp_path / "hook")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err


def test_a_program_that_is_run_at_a_terminal_reads_it() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            sys.executable, [*PYTHON, "run", "--", "sh", "-c", "test -t 0 && read line </dev/tty && echo got $line"]
        )
    os.write(terminal, b"hello\n")
    seen, ends = b"", time.monotonic() + 60
    while b"got hello" not in seen and time.monotonic() < ends:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert b"got hello" in seen
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_folder_whose_name_is_no_text_is_not_where_the_port_is(tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=1")
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    done = subprocess.run(
        [*PYTHON, "trace", "collect", "-o", str(tmp_path / "x"), "--", *words],
        env={
            **os.environb,
            **{name.encode(): value.encode() for name, value in environment.items()},
            b"TMPDIR": folder,
        },
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_forked_worker_does_not_hold_up_the_end_of_a_recording(tmp_path: Path) -> None:
    """It has the watchdog's pipe too."""
    words, environment = command("NativeAOT", "gc", "gen0=1", "wait=stdin")
    program = (
        "import os, sys, threading, time\n"
        "import dotnetdiag as dd\n"
        "from dotnetdiag.recipes import watchdog\n"
        "real = watchdog.Watchdog.is_of\n"
        "def fork(self, group):\n"
        "    real(self, group)\n"
        "    if os.fork() == 0: time.sleep(30); os._exit(0)\n"
        "watchdog.Watchdog.is_of = fork\n"
        "watchdog.FAREWELL_S = 600\n"
        "dd.collect(command=sys.argv[2:], output=sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x"), *words],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=25,
    )
    assert done.returncode == 0
