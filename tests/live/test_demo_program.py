"""The verbs on the program of `dotnetdiag demo`, which computes, allocates and throws: what can be proven of whole jobs on any
runtime, without the workload of ../shared.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.runtimes import DEMO, Target, demo_runtimes, workload

import dotnetdiag

pytestmark = pytest.mark.live

PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]


@pytest.fixture(params=demo_runtimes() or ("none",))
def demo(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The program, running."""
    if request.param == "none":
        pytest.skip("no .NET runtime was found: ../shared/dotnet, DOTNET_ROOT, PATH, PyPI")
    with workload(request.param, DEMO) as started:
        yield started


def run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [*PYTHON, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_recorded_and_explained(demo: Target, tmp_path: Path) -> None:
    path = tmp_path / "demo.nettrace"
    profiles = "dotnet-common,dotnet-sampled-thread-time"
    run("trace", "collect", "-p", str(demo.pid), "--profile", profiles, "--duration", "1s", "-o", path)
    assert demo.alive
    trace = dotnetdiag.open(path)
    assert trace.complete
    assert trace.raw.process.pid == demo.pid
    messages = trace["Exception/Start"]["ExceptionMessage"].to_pylist()
    assert messages
    assert all(str(message).startswith("round ") for message in messages)
    assert any("Demo.Primes" in row.name() for row in dotnetdiag.cpu(trace).top(10))
    assert "Demo.Primes" in run("trace", "report", path, "topN", "-n", "10")
    run("trace", "convert", path, "--format", "speedscope", "-o", tmp_path / "demo")
    (made,) = tmp_path.glob("*.speedscope.json")
    assert json.loads(made.read_text(encoding="utf-8"))["profiles"]


def test_an_interrupt_ends_a_recording_and_the_file_is_whole(demo: Target, tmp_path: Path) -> None:
    path = tmp_path / "demo.nettrace"
    command = [*PYTHON, "trace", "collect", "-p", str(demo.pid), "-o", str(path)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert any(line.startswith("Recording trace") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr.read()
    finally:
        process.kill()
        process.communicate()
    assert dotnetdiag.open(path).complete
    assert demo.alive


def test_its_exceptions_are_watched(demo: Target) -> None:
    printed = run("trace", "watch", "-p", str(demo.pid), "--clrevents", "exception", "--event", "Exception/Start",
                  "--limit", "2", "--json")  # fmt: skip
    first, second = (json.loads(line)["payload"]["ExceptionMessage"] for line in printed.splitlines())
    assert int(second.removeprefix("round ")) - int(first.removeprefix("round ")) == 5
    assert demo.alive


def test_its_main_thread_is_in_the_stack_report(demo: Target) -> None:
    assert "Demo.Main" in run("stack", "report", "-p", str(demo.pid))
    assert demo.alive


def test_doctor_reaches_it_and_ps_lists_it(demo: Target) -> None:
    done = subprocess.run(
        [*PYTHON, "doctor", str(demo.pid), "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "reachable" in [finding["code"] for finding in json.loads(done.stdout)]
    (shown,) = (one for one in json.loads(run("ps", "--json")) if one["pid"] == demo.pid)
    assert shown["problem"] == ""
