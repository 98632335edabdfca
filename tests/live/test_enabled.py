"""A program that does not know of this package, under diagnostics by a variable, as the reference tools see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.live.routing import dotnet_trace, ended, listed_by_dotnet_trace
from tests.live.runtimes import unpack
from tests.server.environment import Environment

import dotnetdiag as dd

pytestmark = pytest.mark.live

PROGRAM = """\
import sys, threading
over = threading.Event()
def spin_in_python():
    while not over.is_set():
        sum(range(1000))
thread = threading.Thread(target=spin_in_python, name="spinner")
thread.start()
print("ready", flush=True)
sys.stdin.readline()
over.set()
"""


def test_the_reference_tools_see_a_program_that_was_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack()
    environment = Environment(tmp_path / "env")
    assert environment.words("-m", "dotnetdiag.server", "--install-hook")[0] == 0
    (tmp_path / "spinning.py").write_text(PROGRAM)
    with TemporaryDirectory(prefix="dd-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        words = {"DOTNETDIAG_ENABLE": "1", "TMPDIR": folder}
        with environment.program(str(tmp_path / "spinning.py"), **words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert f" {process.pid} " in listed_by_dotnet_trace()
            path = tmp_path / "a.nettrace"
            collected = dotnet_trace("collect", "-p", process.pid, "--duration", "00:00:02", "-o", path)
            assert "Trace completed" in ended(collected)
            ended(dotnet_trace("convert", path, "--format", "Speedscope", "-o", tmp_path / "a"))
            assert process.communicate("\n", timeout=60) == ("", "")
    frames = json.loads((tmp_path / "a.speedscope.json").read_text())["shared"]["frames"]
    assert any("spin_in_python" in frame["name"] for frame in frames)
    told = dd.open(path).process
    assert told.runtime == f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    shown = [sys.executable, "-m", "dotnetdiag", "trace", "info", str(path)]
    done = subprocess.run(shown, capture_output=True, text=True, check=True, timeout=60, env=dict(os.environ))
    assert f"{told.runtime}  Linux" in done.stdout
