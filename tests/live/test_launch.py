"""Programs that are started by a verb: what they get before their first instruction, what is recorded of it, how they end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import command, unpack
from tests.shared import needs

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
CORECLR, PORTED = ("8", "9", "10"), ("8", "9", "10", "NativeAOT")
CLSID = "5F1A6C2E-3B7D-4A8E-9C10-D0E5A1B2C3D4"
PROVIDERS = "Microsoft-Windows-DotNETRuntime:0x19:5"


@pytest.mark.parametrize("runtime", PORTED)
def test_a_recording_of_a_program_has_the_first_events_of_its_runtime(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    words, environment = command(runtime, "gc", "gen0=1", "exit=3")
    done = run("trace", "collect", "-o", str(path), "--providers", PROVIDERS, "--", *words, **environment)
    assert done.returncode == 3, done.stderr
    with dd.open(path) as trace:
        counts = trace.counts()["Microsoft-Windows-DotNETRuntime"]
        if (
            runtime == "NativeAOT"
        ):  # it writes no Runtime/Start, whatever is asked for: the first of it are its heap's segments
            assert counts["GC/CreateSegment"] > 0
        else:
            assert counts["Runtime/Start"] == 1
            assert "Main" in trace["Method/LoadVerbose"]["MethodName"].to_pylist()


@pytest.mark.parametrize("verb", ["run", "trace collect", "trace watch"])
@pytest.mark.parametrize("runtime", PORTED)
def test_variables_are_set_before_the_first_instruction(runtime: str, verb: str, tmp_path: Path) -> None:
    words, environment = command(runtime, "env", "prefix=WLT_")
    options = {
        "run": [],
        "trace collect": ["--show-child-io", "-o", str(tmp_path / "x")],
        "trace watch": ["--show-child-io"],
    }
    done = run(*verb.split(), *options[verb], "--env", "WLT_A=x=y", "--env", "WLT_B=", "--", *words, **environment)
    assert done.returncode == 0, done.stderr
    printed = done.stderr if verb == "trace watch" else done.stdout
    assert "WLT_A=x=y" in printed
    assert "WLT_B=" in printed


@pytest.mark.parametrize("verb", ["run", "trace collect -o x", "trace watch"])
@pytest.mark.parametrize("runtime", CORECLR)
def test_a_startup_hook_and_a_profiler_run_before_main(runtime: str, verb: str, tmp_path: Path) -> None:
    folder, hooked, profiled = unpack() / "workload", tmp_path / "hook", tmp_path / "profiler"
    words, environment = command(runtime, "gc", "gen0=1", "exit=5")
    done = run(
        *verb.replace("-o x", f"-o {tmp_path}/x").split(),
        *("--startup-hook", str(folder / "hook" / "hook.dll"), "--profiler", f"{CLSID}={folder}/libwlprofiler.so"),
        *("--env", f"WL_HOOK_FILE={hooked}", "--env", f"WL_PROFILER_FILE={profiled}", "--", *words),
        **environment,
    )
    assert done.returncode == 5, done.stderr
    assert len(hooked.read_text().splitlines()) == 1
    assert profiled.read_text().startswith("startup pid=")


@pytest.mark.parametrize("verb", ["run", "trace collect -o x"])
def test_native_aot_takes_no_hook_and_is_not_left_waiting(verb: str, tmp_path: Path) -> None:
    words, environment = command("NativeAOT", "idle", "seconds=1000")
    hook = str(unpack() / "workload" / "hook" / "hook.dll")
    done = run(*verb.replace("-o x", f"-o {tmp_path}/x").split(), "--startup-hook", hook, "--", *words, **environment)
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("verb", ["run --startup-hook {hook}", "trace collect -o {x}", "trace watch"])
def test_dotnet_core_3_is_refused_at_once_with_what_works(verb: str, tmp_path: Path) -> None:
    words, environment = command("3.1", "idle", "seconds=1000")
    hook = unpack() / "workload" / "hook" / "hook.dll"
    began = time.monotonic()
    done = run(*verb.format(hook=hook, x=tmp_path / "x").split(), "--", *words, **environment)
    assert time.monotonic() - began < 20
    assert done.returncode == 4
    instead = (
        "give it the hook in the variable" if "hook" in verb else "start it alone, and record it by its process id"
    )
    assert f".NET Core 3.x: {instead}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_that_gets_only_variables_needs_no_runtime_of_ours() -> None:
    done = run("run", "--env", "WLT=1", "--", "sh", "-c", "echo $WLT; exit 9")
    assert (done.returncode, done.stdout) == (9, "1\n")


def test_signals_go_to_the_program_and_its_end_is_told() -> None:
    words, environment = command("10", "idle", "seconds=1000")
    hook = str(unpack() / "workload" / "hook" / "hook.dll")
    process = subprocess.Popen(
        [*PYTHON, "run", "--startup-hook", hook, "--", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 0), err  # the workload's own doing


def test_a_watched_program_ends_the_watch_and_its_code_is_ours() -> None:
    words, environment = command("10", "exceptions", "rounds=2", "exit=6")
    done = run(
        "trace",
        "watch",
        "--json",
        "--clrevents",
        "exception",
        "--event",
        "Exception/Start",
        "--",
        *words,
        **environment,
    )
    assert done.returncode == 6, done.stderr
    assert len(list(map(json.loads, done.stdout.splitlines()))) == 8  # four a round


def test_a_watch_that_has_enough_ends_the_program() -> None:
    words, environment = command("10", "gc+idle", "gen0=1000000", "seconds=1000")
    done = run(
        "trace", "watch", "--limit", "3", "--event", "GC/Start", "--clrevents", "gc", "--", *words, **environment
    )
    assert done.returncode == 0, done.stderr
    assert "was told to end (SIGTERM)" in done.stderr


def test_a_recording_ends_with_its_command_where_that_is_asked_for(tmp_path: Path) -> None:
    """A script that starts a program and goes away: without the option the recording lasts as long as the program."""
    words, environment = command("10", "idle", "seconds=1000")
    script = f"{shlex.join(words)} & sleep 3; kill -0 $! && echo still; exit 4"
    done = run("trace", "collect", "--stop-on-exit", "-o", str(tmp_path / "x"), "--", "sh", "-c", script, **environment)
    assert done.returncode == 4, done.stderr
    with dd.open(tmp_path / "x") as trace:
        assert trace.complete


def test_two_selectors_or_none_are_told_in_one_line() -> None:
    for words in (["-p", "1", "--", "true"], ["--wait-for", "x", "-p", "1"], []):
        done = run("trace", "watch", *words)
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1
