"""``--wait-for``: a process that is not there yet."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import command, workload
from tests.shared import needs

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]


def waiting(*words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([*PYTHON, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Waiting for a process ")
    return process


def renamed(runtime: str, name: str, folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The workload as a program that nobody else runs."""
    words, environment = command(runtime, *arguments)
    at = next(number for number, word in enumerate(words) if "workload" in Path(word).name)
    program = Path(words[at])
    for file in program.parent.iterdir():
        own = name + program.suffix if file == program else file.name.replace("workload.", f"{name}.")
        shutil.copy(file, folder / own)
    words[at] = str(folder / (name + program.suffix))
    return words, environment


@contextmanager
def program(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("runtime", ["3.1", "8", "9", "10", "NativeAOT"])
def test_a_process_is_attached_to_as_soon_as_it_is_there(runtime: str, tmp_path: Path) -> None:
    words, environment = renamed(runtime, "unheard", tmp_path, "idle", "seconds=1000")
    process = waiting("info", "--json", "--wait-for", "UNHEARD")
    with program(words, environment) as target:
        out, err = process.communicate(timeout=60)
        if runtime == "3.1":  # it is attached to, and cannot say who it is
            assert process.returncode == 4, err
        else:
            assert json.loads(out)["pid"] == target.pid


def test_one_that_is_there_already_is_taken_and_several_are_not() -> None:
    with workload("10", "idle", "seconds=1000") as first:
        done = run("info", "--json", "--wait-for", "workload")
        told = json.loads(done.stdout) if done.returncode == 0 else {}
        if told.get("pid") != first.pid:  # other tests run beside this one
            assert "more than one active processes" in done.stderr
        with workload("10", "idle", "seconds=1000") as second:
            done = run("info", "--json", "--wait-for", "workload")
            assert done.returncode == 3
            assert f"{first.pid}" in done.stderr
            assert f"{second.pid}" in done.stderr


def test_a_recording_waits_for_its_process(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    words, environment = renamed("NativeAOT", "later", tmp_path, "gc", "gen0=20", "wait=stdin")
    process = waiting("trace", "collect", "--wait-for", "later", "--clrevents", "gc", "-o", str(path))
    with program(words, environment) as target:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("Recording trace"):
            assert line
        target.communicate("\n", timeout=60)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    with dd.open(path) as trace:
        assert len(trace["GC/Start"]) >= 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", ["info", "trace collect", "trace watch"])
def test_a_wait_is_ended_by_a_signal(words: str, number: signal.Signals, code: int) -> None:
    process = waiting(*words.split(), "--wait-for", "no such program")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == code


def test_a_python_program_is_called_as_its_script(tmp_path: Path) -> None:
    script = tmp_path / "quietly_waiting.py"
    script.write_text("input()\n")
    process = waiting("info", "--json", "--wait-for", "quietly_waiting")
    with program([sys.executable, "-m", "dotnetdiag.server", str(script)], {}) as target:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["pid"] == target.pid
        watch = run("counters", "monitor", "--name", "quietly_waiting", "--duration", "3s", "--json")
        assert {json.loads(line)["pid"] for line in watch.stdout.splitlines()} == {target.pid}, watch.stderr
