"""Killed tools: runtimes that wait for one at their start are let run by what it has left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.live.runtimes import command, workload
from tests.shared import needs

from dotnetdiag.transport import processes

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_a_program_is_let_run_whose_recorder_was_killed_before_it_had_begun(runtime: str, tmp_path: Path) -> None:
    words, environment = command(runtime, "gc", "gen0=1")
    printed, script = (
        tmp_path / "printed",
        f"echo $$ >{tmp_path}/pid; read line; exec {shlex.join(words)} >{tmp_path}/printed",
    )
    process = subprocess.Popen(
        [*PYTHON, "trace", "collect", "-o", str(tmp_path / "x"), "--show-child-io", "--", "sh", "-c", script],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
    )
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    address = port_of(int((tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    wait_until(lambda: printed.exists() and "done gc" in printed.read_text())
    wait_until(lambda: not address.parent.exists())


def port_of(pid: int) -> Path:
    """That is in the environment of a process."""
    text = (processes.environ(pid) or {})[b"DOTNET_DiagnosticPorts"].decode()
    return Path(text.partition(",")[0])


@pytest.mark.parametrize("form", ["{}", "uds:{}"])
@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_a_runtime_that_waits_at_a_port_whose_owner_was_killed_is_let_run(
    runtime: str, form: str, tmp_path: Path
) -> None:
    port = tmp_path / "p"
    program = (
        "import sys, time\n"
        "from dotnetdiag.recipes.target import Target, connected\n"
        "with connected(Target(port=sys.argv[1])) as client: print(client.is_suspended(), flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, form.format(port)], stdout=subprocess.PIPE, text=True
    ) as owner:
        wait_until(port.exists)
        with workload(
            runtime,
            "idle",
            "seconds=1000",
            suspended=True,
            DOTNET_DefaultDiagnosticPortSuspend="0",
            DOTNET_DiagnosticPorts=str(port),
        ) as target:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "True\n"
            os.kill(owner.pid, signal.SIGKILL)
            assert target.expect("ready")
    wait_until(lambda: not port.exists())


@pytest.mark.parametrize("runtime", ["10", "NativeAOT"])
def test_a_worker_that_was_forked_by_a_killed_owner_keeps_nobody_waiting(runtime: str, tmp_path: Path) -> None:
    """It has the watchdog's pipe and the port's socket too, and outlives its parent."""
    port, program = (
        tmp_path / "p",
        "import os, sys, time\n"
        "from dotnetdiag.recipes.target import Target, connected\n"
        "with connected(Target(port=sys.argv[1])) as client:\n"
        "    worker = os.fork()\n"
        "    if not worker: time.sleep(600); os._exit(0)\n"
        "    print(worker, flush=True); time.sleep(600)\n",
    )
    with subprocess.Popen([sys.executable, "-c", program, str(port)], stdout=subprocess.PIPE, text=True) as owner:
        wait_until(port.exists)
        waiting = {
            "suspended": True,
            "DOTNET_DefaultDiagnosticPortSuspend": "0",
            "DOTNET_DiagnosticPorts": str(port),
        }
        with workload(runtime, "idle", "seconds=1000", **waiting) as target:  # type: ignore[arg-type]
            assert owner.stdout is not None
            worker = int(owner.stdout.readline())
            try:
                os.kill(owner.pid, signal.SIGKILL)
                assert target.expect("ready")
                assert processes.exists(worker)
            finally:
                os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not port.exists())
