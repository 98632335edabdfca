"""What ``doctor`` finds on real processes: one finding a line, each with what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.live.runtimes import workload

from dotnetdiag.recipes import examination

pytestmark = pytest.mark.live


def doctor(*words: str, **environment: str) -> tuple[int, list[dict[str, object]]]:
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", "doctor", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, json.loads(done.stdout)


def test_a_healthy_runtime(runtime: str) -> None:
    with workload(runtime, "idle", "seconds=100") as target:
        code, findings = doctor(str(target.pid))
    codes = [finding["code"] for finding in findings]
    assert "reachable" in codes
    assert code == 0
    if runtime == "3.1":
        assert findings[-1]["code"] == "too-old"
        assert findings[-1]["level"] == "warning"
    else:
        assert codes[-2:] == ["answers", "running"]
    assert all(finding["advice"] for finding in findings if not finding["ok"])


def test_a_suspended_runtime() -> None:
    with workload("9", "idle", "seconds=100", suspended=True) as target:
        code, findings = doctor(str(target.pid))
    assert code == 1
    assert findings[-1]["code"] == "suspended"
    assert "resume" in str(findings[-1]["advice"])


def test_a_runtime_with_diagnostics_off() -> None:
    with workload("10", "idle", "seconds=100", DOTNET_EnableDiagnostics="0") as target:
        code, findings = doctor(str(target.pid))
    assert code == 1
    assert any(finding["code"] == "diagnostics-disabled" for finding in findings)


def test_a_runtime_that_is_stopped() -> None:
    with workload("10", "idle", "seconds=100") as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, target.pid, os.WSTOPPED)  # until all its threads stand
        (finding,) = examination.examine(target.pid)
    assert finding.code == "stopped"
    assert not finding.ok


def test_a_process_that_is_not_there() -> None:
    code, findings = doctor("999999999")
    assert code == 1
    assert [finding["code"] for finding in findings] == ["no-such-process"]


def test_a_process_that_is_not_dotnet() -> None:
    code, findings = doctor(str(os.getpid()))
    assert code == 1
    assert any(finding["code"] == "not-dotnet" for finding in findings)


def test_without_a_process_it_tells_of_this_installation() -> None:
    with workload("8", "idle", "seconds=100") as target:
        _, findings = doctor()
    codes = [finding["code"] for finding in findings]
    assert codes[:3] == ["version", "kernels", "temp-folder"]
    assert any(str(target.pid) in str(finding["text"]) for finding in findings if finding["code"] == "runtime")
