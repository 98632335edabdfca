"""`dotnetdiag demo`: what it does with files that are there, and how it ends; with `--run` a program to try things on, which never stays
behind.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live.runtimes import command, names

from dotnetdiag.recipes.demonstration import demo_program

pytestmark = [pytest.mark.live, pytest.mark.skipif(not names(), reason="no .NET runtime was found")]

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process runs")


@pytest.fixture(autouse=True)
def a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine has, or one of ../shared."""
    monkeypatch.setenv("DOTNET_ROOT", command(next(name for name in names() if name != "NativeAOT"))[1]["DOTNET_ROOT"])


@contextmanager
def running() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The verb, and the process id that it tells."""
    with subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag.cli.main", "demo", "--run"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as verb:
        try:
            assert verb.stdout is not None
            told = re.fullmatch(r"demo: process (\d+) on \.NET \d\S* \(.+\); Ctrl-C ends it\n", verb.stdout.readline())
            assert told is not None
            yield verb, int(told[1])
        finally:
            verb.kill()


def wait_for_end(pid: int) -> None:
    """Of a process that is not our child."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(process) as file:
        assert select.select([file], [], [], 30)[0], f"process {pid} still runs"


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_its_normal_end_and_the_program_ends_with_it(number: signal.Signals) -> None:
    with running() as (verb, pid):
        verb.send_signal(number)
        assert verb.wait(30) == 0
    wait_for_end(pid)


@needs_proc
def test_the_program_ends_when_the_verb_is_killed() -> None:
    with running() as (verb, pid):
        verb.kill()
        verb.wait(30)
        wait_for_end(pid)


@needs_proc
def test_the_verb_ends_with_the_program() -> None:
    with running() as (verb, pid):
        os.kill(pid, signal.SIGKILL)
        assert verb.wait(30) == 0


DEMO = [sys.executable, "-m", "dotnetdiag.cli.main", "demo"]


@pytest.mark.parametrize("name", ["demo.nettrace", "demo.flamegraph.html"])
def test_files_that_are_there_are_not_overwritten_and_nothing_is_started(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    said = f"error: {name}: there is a file of this name already; --force overwrites it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_recording_and_is_in_the_exit_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    (tmp_path / "demo.nettrace").write_text("old")
    words = [*DEMO, "--seconds", "600", "--force"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path) as verb:
        try:
            assert verb.stderr is not None
            while not verb.stderr.readline().startswith("Recording trace in progress"):
                assert verb.poll() is None
            verb.send_signal(number)
            said, _ = verb.communicate(timeout=120)
        finally:
            verb.kill()
    assert (verb.returncode, "Picture   demo.flamegraph.html" in said) == (code, True)
    assert {path.name for path in tmp_path.iterdir()} == {"demo.nettrace", "demo.flamegraph.html"}


def test_the_program_ends_with_the_block() -> None:
    with demo_program() as program:
        assert program.process.poll() is None
    assert program.process.poll() is not None
