"""``trace collect --follow``: everything .NET that a command starts has a file of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import CACHE, command, unpack
from tests.shared import needs

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
FOLLOW = ("trace", "collect", "--follow", "--clrevents", "gc")
CLR = "Microsoft-Windows-DotNETRuntime"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.nettrace"))


@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_three_generations_have_a_complete_file_each(runtime: str, tmp_path: Path) -> None:
    words, environment = command(runtime, "child", "run=child run=gc", "exit=5")
    done = run(*FOLLOW, "-o", str(tmp_path / "t"), "--json", "--", *words, **environment)
    assert done.returncode == 5, done.stderr
    told = json.loads(done.stdout)
    assert [one["complete"] for one in told["recordings"]] == [True, True, True]
    assert [one["lost_events"] for one in told["recordings"]] == [0, 0, 0]
    assert sorted(one["path"] for one in told["recordings"]) == list(map(str, files(tmp_path / "t")))
    entry = "workload-aot" if runtime == "NativeAOT" else "workload"
    for one in told["recordings"]:
        assert Path(one["path"]).name == f"{entry}_{one['pid']}.nettrace"
    with dd.open(told["recordings"][-1]["path"]) as trace:  # the youngest did the work: exactly so many
        assert trace.counts()[CLR]["GC/Start"] >= 10
    merged = tmp_path / "all.nettrace"
    assert run("trace", "merge", *map(str, files(tmp_path / "t")), "-o", str(merged)).returncode == 0
    with dd.open(merged) as trace:
        assert {process.pid for process in trace.processes} == {one["pid"] for one in told["recordings"]}


def test_a_build_of_the_compiler_with_its_server_finishes(tmp_path: Path) -> None:
    """Under dotnet-trace a program that starts others never ends. (The compiler of ../shared has no server beside it, and says nothing of it.)"""
    folder = unpack()
    source, made = tmp_path / "x.cs", tmp_path / "x.dll"
    source.write_text("class P { static void Main() { } }")
    references = [f"-r:{path}" for path in (folder / "dotnet/shared/Microsoft.NETCore.App/10.0.14").glob("*.dll")]
    words = [
        str(folder / "dotnet/dotnet"),
        str(folder / "bincore/csc.dll"),
        "-shared",
        "-nologo",
        "-noconfig",
        "-nostdlib",
    ]
    environment = {"DOTNET_ROOT": str(CACHE / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    done = run(
        *FOLLOW, "-o", str(tmp_path / "t"), "--", *words, *references, f"-out:{made}", str(source), **environment
    )
    assert done.returncode == 0, done.stderr
    assert made.exists()
    assert files(tmp_path / "t")
    for path in files(tmp_path / "t"):
        with dd.open(path) as trace:
            assert trace.complete


def test_what_a_script_leaves_behind_is_recorded_until_it_ends(tmp_path: Path) -> None:
    words, environment = command("10", "gc", "gen0=2")
    app = shlex.join(words)
    done = run(
        *FOLLOW, "-o", str(tmp_path), "--", "sh", "-c", f"(sleep 0.7; {app}) >/dev/null & {app}; exit 3", **environment
    )
    assert done.returncode == 3, done.stderr
    assert "The command has ended, and " in done.stderr
    assert len(files(tmp_path)) == 2


def test_what_a_script_leaves_behind_is_not_waited_for_where_that_is_asked_for(tmp_path: Path) -> None:
    words, environment = command("10", "idle", "seconds=1000")
    script = f"{shlex.join(words)} >{tmp_path}/printed & while ! grep -q ready {tmp_path}/printed; do sleep 0.05; done; exit 3"
    done = run(*FOLLOW, "--stop-on-exit", "-o", str(tmp_path), "--", "sh", "-c", script, **environment)
    try:
        assert done.returncode == 3, done.stderr
        (path,) = files(tmp_path)
        with dd.open(path) as trace:
            assert trace.complete
    finally:
        os.kill(int(path.stem.rpartition("_")[2]), signal.SIGKILL)


def test_ctrl_c_ends_all_of_them_and_all_files_are_whole(tmp_path: Path) -> None:
    words, environment = command("10", "child", "run=idle seconds=1000")
    process = subprocess.Popen(
        [*PYTHON, *FOLLOW, "-o", str(tmp_path), "--show-child-io", "--", *words],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline()[:5] for _ in range(2)] == ["ready", "ready"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert len(files(tmp_path)) == 2
    for path in files(tmp_path):
        with dd.open(path) as trace:
            assert trace.complete


def test_all_who_dial_a_port_are_followed(tmp_path: Path) -> None:
    port = tmp_path / "p"
    process = subprocess.Popen(
        [*PYTHON, *FOLLOW, "-o", str(tmp_path / "t"), "--diagnostic-port", str(port)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Waiting for connection on ")
    for runtime in ("8", "NativeAOT"):
        words, environment = command(runtime, "gc", "gen0=1")
        subprocess.run(
            words,
            env={**os.environ, **environment, "DOTNET_DiagnosticPorts": str(port)},
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(files(tmp_path / "t")) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [(["-p", "1"], "not a process that runs already"), (["-o", "-", "--", "true"], "name a folder for them")],
)
def test_what_cannot_be_followed_is_told(words: list[str], said: str) -> None:
    done = run(*FOLLOW, *words)
    assert done.returncode == 3
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
