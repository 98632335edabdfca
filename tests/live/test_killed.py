"""Who is killed in the middle of a recording of 100 MB: nobody hangs, nobody stays suspended, files have every complete block."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import Target, workload
from tests.shared import needs

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
FLOOD = ("flood", "threads=1", "each=2000000000", "size=64", "wait=stdin")
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5"
KILLED_AT_BYTES = 50_000_000


@contextmanager
def recording(target: Target, path: Path) -> Iterator[subprocess.Popen[str]]:
    words = ["trace", "collect", "-p", str(target.pid), "--providers", PROVIDERS, "-o", str(path)]
    process = subprocess.Popen([*PYTHON, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while not (line := process.stderr.readline()).startswith("Recording trace"):
            assert line
        target.say()
        while not path.exists() or path.stat().st_size < KILLED_AT_BYTES:
            assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.communicate()


def require_whole_blocks(path: Path) -> None:
    """All that stands before the end that is not there."""
    with dd.open(path) as trace:
        assert not trace.complete
        assert sum(trace.counts()["Workload-Manifest"].values()) > 100_000
        assert trace.damage is None or re.search("left|end", trace.damage)


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_a_killed_tool_leaves_every_complete_block_and_a_target_that_goes_on(runtime: str, tmp_path: Path) -> None:
    """NativeAOT 9 dies of it now and then, of SIGSEGV in its own code (4 of 90 times): then it is asked again."""
    attempts = 5 if runtime == "NativeAOT" else 1
    for attempt in range(1, attempts + 1):
        path, again = tmp_path / f"x{attempt}.nettrace", tmp_path / f"again{attempt}.nettrace"
        words = ("--providers", PROVIDERS, "--duration", "500ms", "-o", str(again))
        with workload(runtime, *FLOOD) as target:
            with recording(target, path) as tool:
                tool.kill()
                tool.wait()
            require_whole_blocks(path)
            done = run("trace", "collect", "-p", str(target.pid), *words)
            if attempt < attempts and target.process.poll() == -signal.SIGSEGV:
                continue
            assert done.returncode == 0, done.stderr
            with dd.open(again) as trace:
                assert trace.complete
            assert target.alive
            return


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_a_killed_target_ends_its_recording(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with workload(runtime, *FLOOD) as target, recording(target, path) as tool:
        target.process.kill()
        _, err = tool.communicate(timeout=60)
        assert tool.returncode == 2
        assert f"Process {target.pid} was gone before the trace had its end" in err
    require_whole_blocks(path)
