"""Verbs over a port that real runtimes dial: what is left suspended is said, with what lets it run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import command, workload
from tests.live.test_trace_collect import PYTHON
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.nettrace import read

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]


@pytest.mark.parametrize("words", ["info", "stack report", "setenv A=1"])
def test_a_verb_over_a_port_says_that_the_runtime_is_still_suspended_and_what_lets_it_run(
    words: str, tmp_path: Path
) -> None:
    port = str(tmp_path / "port")
    with workload("10", "idle", "seconds=100", suspended=True, DOTNET_DiagnosticPorts=port) as target:
        done = run(*words.split(), "--diagnostic-port", port)
        assert done.returncode == (2 if words == "stack report" else 0)
        assert f"still suspended at startup. Let it run: dotnetdiag resume --diagnostic-port {port}\n" in done.stderr
        done = run("resume", "-p", str(target.pid))  # over its own socket: of no use to one that a port holds
        assert done.stderr == f"Its port still holds it: dotnetdiag resume --diagnostic-port {port}\n"
        assert f"over the port that holds it ({port})" in run("doctor", str(target.pid)).stdout
        done = run("resume", "--diagnostic-port", port)
        assert "hold" not in done.stderr
        assert target.expect("ready")
        assert "FAIL" not in run("doctor", str(target.pid)).stdout


@pytest.mark.parametrize("verb", ["collect -o x.nettrace", "watch"])
def test_a_session_by_pid_says_that_a_port_holds_the_runtime(verb: str, tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    with workload("10", "idle", "seconds=100", suspended=True, DOTNET_DiagnosticPorts=port) as target:
        words = verb.replace("x.nettrace", str(tmp_path / "x.nettrace")).split()
        done = run("trace", *words, "-p", str(target.pid), "--duration", "500ms")
        assert (
            f"by a port: nothing comes before it is resumed over that (dotnetdiag resume --diagnostic-port {port})."
            in (done.stderr)
        )
        run("resume", "--diagnostic-port", port)
        assert target.expect("ready")


def test_a_runtime_that_its_port_does_not_suspend_is_not_said_to_be(tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    with workload("10", "idle", "seconds=100", DOTNET_DiagnosticPorts=f"{port},nosuspend"):
        done = run("stack", "report", "--diagnostic-port", port)
    assert done.returncode == 0, done.stderr
    assert "Thread" in done.stdout
    assert "suspended" not in done.stderr


@pytest.mark.parametrize("over", ["port", "pid"])
def test_a_runtime_that_its_own_socket_holds_beside_a_port_is_let_run_by_both(over: str, tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    with workload(
        "10",
        "idle",
        "seconds=100",
        suspended=True,
        DOTNET_DiagnosticPorts=port,
        DOTNET_DefaultDiagnosticPortSuspend="1",
    ) as target:
        by_port, by_pid = ("--diagnostic-port", port), ("-p", str(target.pid))
        first, second = (by_port, by_pid) if over == "port" else (by_pid, by_port)
        assert f"dotnetdiag resume {' '.join(second)}\n" in run("resume", *first).stderr
        assert "and over its own socket" in run("doctor", *by_pid).stdout
        assert run("resume", *second).stderr in ("", f"Waiting for connection on {port}\n") or over == "pid"
        assert target.expect("ready")


def test_a_program_that_is_started_with_its_own_socket_suspending_runs(tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=2")
    done = subprocess.run(
        [*PYTHON, "trace", "collect", "-o", str(tmp_path / "x"), "--clrevents", "gc", "--", *words],
        env={**os.environ, **environment, "DOTNET_DefaultDiagnosticPortSuspend": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read((tmp_path / "x").read_bytes()).complete


def held_by(port: Path) -> dict[str, Any]:
    """A variable that makes a runtime wait at this port, and nowhere else."""
    return {"DOTNET_DiagnosticPorts": f"{port},suspend", "DOTNET_DefaultDiagnosticPortSuspend": "0"}


def listed(*words: str, port: Path) -> Any:
    """``ports`` once it listens; the first line on its stderr is read."""
    started = subprocess.Popen([*PYTHON, "ports", str(port), *words], stdout=PIPE, stderr=PIPE, text=True)
    assert started.stderr is not None
    assert started.stderr.readline() == f"listening on {port}\n"
    return started


def test_who_dials_a_port_is_shown_when_it_comes_and_when_it_goes(runtime: str, tmp_path: Path) -> None:
    port = tmp_path / "port"
    if runtime == "3.1":  # knows no ports
        with listed("--duration", "1s", port=port) as shown, workload(runtime, "idle", "seconds=100", **held_by(port)):
            assert shown.communicate(timeout=30) == ("", "")
        return
    with listed("--json", "--resume", "--duration", "60s", port=port) as shown:
        try:
            with workload(runtime, "idle", "seconds=100", suspended=True, **held_by(port)) as target:
                came = json.loads(shown.stdout.readline())
                assert (came["what"], came["pid"], came["suspended"]) == ("connected", target.pid, True)
                assert came["runtime_version"].startswith("9." if runtime == "NativeAOT" else f"{runtime}.")
                assert target.expect("ready")
            gone = json.loads(shown.stdout.readline())
            assert (gone["what"], gone["pid"], gone["cookie"]) == ("gone", target.pid, came["cookie"])
            assert gone["seconds"] > came["seconds"]
        finally:
            shown.send_signal(signal.SIGINT)
        assert shown.wait(20) == 0
    assert not port.exists()


def test_a_runtime_that_waits_is_said_to_and_waits_on(tmp_path: Path) -> None:
    port = tmp_path / "port"
    with workload("10", "idle", "seconds=100", suspended=True, **held_by(port)) as target:
        with listed("--duration", "2s", port=port) as shown:
            out, err = shown.communicate(timeout=30)
        assert re.fullmatch(rf" +\d\.\d s  connected  +{target.pid}  suspended  10\.\S+ +workload  .*idle.*\n", out)
        assert err == "It waits at its start: --resume lets it run.\n"
        assert dd.Client(target.pid).is_suspended()
        run("resume", "--diagnostic-port", str(port))
        assert target.expect("ready")


@pytest.mark.parametrize("prefix", ["DOTNET", "COMPlus"])
@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_runtimes_take_the_old_names_of_their_variables_too_but_for_native_aot(
    runtime: str, prefix: str, tmp_path: Path
) -> None:
    words, environment = command(runtime, "gc", "gen0=3")
    environment |= {f"{prefix}_DiagnosticPorts": str(tmp_path / "port")}
    with (
        dd.listen(str(tmp_path / "port")) as server,
        subprocess.Popen(words, env={**os.environ, **environment}, stdout=PIPE, text=True) as process,
    ):
        if (runtime, prefix) == ("NativeAOT", "COMPlus"):
            assert "done gc" in process.communicate(timeout=60)[0]
            assert server.runtimes == ()
            return
        connected = server.wait(timeout_s=30)
        assert connected.is_suspended
        connected.resume()
        assert "done gc" in process.communicate(timeout=60)[0]


@pytest.mark.parametrize("name", ["DOTNET_DefaultDiagnosticPortSuspend", "COMPlus_DefaultDiagnosticPortSuspend"])
@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_a_runtime_that_waits_at_its_own_socket_is_recorded_from_its_start_and_let_run(
    runtime: str, name: str, tmp_path: Path
) -> None:
    words, environment = command(runtime, "gc", "gen0=3")
    path = tmp_path / "x.nettrace"
    with subprocess.Popen(words, env={**os.environ, **environment, name: "1"}, stdout=PIPE, text=True) as process:
        done = run("trace", "collect", "-p", str(process.pid), "--clrevents", "gc+loader", "-o", str(path))
        assert done.returncode == 0, done.stderr
        assert "done gc" in process.communicate(timeout=60)[0]
    with dd.open(path) as trace:
        counts = trace.counts()["Microsoft-Windows-DotNETRuntime"]
        assert counts["Runtime/Start"] == 1
        assert counts["GC/Start"] >= 3
