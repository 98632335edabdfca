"""``counters list``, ``monitor``, ``collect`` and ``watch`` beside real runtimes, also beside those that stop, end or refuse."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import command, workload
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.recipes.counter_rejoin import LATER_S

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

WITH_METERS = ("8", "9", "10", "NativeAOT")
PATIENCE_S = 60
WANTED = r"Workload.Meter,Workload-Counters"
OFTEN = ("--refresh-interval", "0.5", "--counters", WANTED)


def modes(runtime: str) -> str:
    return "counters" if runtime == "3.1" else "counters+meters"


@contextmanager
def verb(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag", "counters", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def rows_until(process: subprocess.Popen[str], wanted: Any) -> list[dict[str, Any]]:
    """What ``--json`` has said when that is so; the session's own limit ends a wait in vain."""
    rows = []
    assert process.stdout is not None
    for line in process.stdout:
        rows.append(json.loads(line))
        if wanted(rows):
            return rows
    raise AssertionError(f"it has ended: {process.communicate()[1]}")


def pids_in(path: Path) -> set[str]:
    """Of a file that is there from when the first process is watched."""
    text = path.read_text() if path.exists() else ""
    return {row["pid"] for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.parametrize("runtime", ["3.1", *WITH_METERS])
def test_the_list_is_what_the_program_has(runtime: str) -> None:
    with workload(runtime, modes(runtime)) as target:
        done = run("counters", "list", "-p", str(target.pid), "--counters", "Workload-Counters", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    meters = {(one["instrument"], one["type"], one["unit"]) for one in found if one["provider"] == "Workload.Meter"}
    assert meters == (set() if runtime == "3.1" else {
        ("orders", "Counter", "{order}"), ("queue", "UpDownCounter", "{item}"), ("latency", "Histogram", "ms"),
        ("temperature", "ObservableGauge", "Cel"), ("ticks", "ObservableCounter", "{tick}"),
        ("balance", "ObservableUpDownCounter", ""),
    })  # fmt: skip
    counters = {one["instrument"]: one for one in found if one["kind"] == "eventsource"}
    assert {"answer", "request-time", "requests", "pulled"} <= counters.keys()
    if runtime != "NativeAOT":  # which has no EventCounters of System.Runtime by default
        assert counters["working-set"]["description"].startswith("Working Set")


@pytest.mark.parametrize("runtime", ["3.1", *WITH_METERS])
def test_monitor_gives_the_values_of_the_program(runtime: str) -> None:
    def is_enough(rows: list[dict[str, Any]]) -> bool:
        answers = sum(row["instrument"] == "answer" for row in rows)
        return answers >= 2 and (runtime == "3.1" or any(row["instrument"] == "temperature" for row in rows))

    with (
        workload(runtime, modes(runtime)) as target,
        verb("monitor", "-p", str(target.pid), *OFTEN, "--json", "--duration", f"{PATIENCE_S}s") as process,
    ):
        rows = rows_until(process, is_enough)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert {row["pid"] for row in rows} == {target.pid}
    assert {row["value"] for row in rows if row["instrument"] == "answer"} == {42.5}
    rooms = {(row["tags"]["room"], row["value"]) for row in rows if row["instrument"] == "temperature"}
    assert rooms <= {("a,b", 21.5), ("zażółć=🐍", -3.0)}
    assert bool(rooms) is (runtime != "3.1")


def test_collect_writes_many_processes_and_those_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    with (
        workload("10", "counters+meters") as stays,
        workload("NativeAOT", "counters+meters") as ends,
        verb("collect", "-p", str(stays.pid), "-p", str(ends.pid), *OFTEN, "-o", str(path)) as process,
    ):
        assert process.stderr is not None
        ends_by = iter(process.stderr.readline, "")
        next(line for line in ends_by if "Starting" in line)
        while {str(stays.pid), str(ends.pid)} - pids_in(path):
            assert process.poll() is None
        ends.process.kill()
        said = next(line for line in ends_by if str(ends.pid) in line and "watched" not in line)
        assert "ended" in said
        before = len(path.read_text())
        while len(path.read_text()) == before:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert {row["pid"] for row in rows} == {str(stays.pid), str(ends.pid)}
    assert {json.loads(row["tags"])["room"] for row in rows if row["instrument"] == "temperature"} == {
        "a,b",
        "zażółć=🐍",
    }


def test_a_target_that_is_stopped_disturbs_nobody() -> None:
    with (
        workload("10", "counters+meters") as target,
        workload("9", "counters+meters") as stopped,
        verb("monitor", "-p", str(target.pid), "-p", str(stopped.pid), *OFTEN, "--json") as process,
    ):
        rows_until(process, lambda rows: {row["pid"] for row in rows} == {target.pid, stopped.pid})
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            rows_until(process, lambda rows: len({row["ms"] // 500 for row in rows if row["pid"] == target.pid}) >= 6)
            assert process.stderr is not None
            line = next(line for line in iter(process.stderr.readline, "") if "no values for" in line)
            assert f"(process {stopped.pid})" in line
            assert f"kill -CONT {stopped.pid}" in line
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        rows_until(process, lambda rows: rows[-1]["pid"] == stopped.pid)
        assert "gives values again" in process.stderr.readline()
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0
        finally:
            os.kill(stopped.pid, signal.SIGCONT)


def test_a_target_that_does_not_answer_is_told_and_the_others_are_watched() -> None:
    with workload("10", "counters+meters") as target, workload("9", "counters+meters") as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            words = ("-p", str(stopped.pid), "-p", str(target.pid), *OFTEN, "--json")
            with verb("monitor", *words, "--duration", f"{PATIENCE_S}s") as process:
                rows_until(process, lambda rows: {row["pid"] for row in rows} == {target.pid})
                assert process.stderr is not None
                line = next(line for line in iter(process.stderr.readline, "") if str(stopped.pid) in line)
                assert "stopped" in line
        finally:
            os.kill(stopped.pid, signal.SIGCONT)


def test_a_program_that_crosses_a_limit_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "crossed.nettrace"
    action = f"trace collect --clrevents gc --duration 1s -o {path}"
    with workload("10", "counters+meters") as target:
        limit = 'Workload.Meter[temperature]{room="a,b"} >= 21.5 for 1s'
        done = run("counters", "watch", "-p", str(target.pid), limit, "--once", "--then", action)
    assert done.returncode == 10, done.stderr
    assert "value 21.5 >= 21.5 for " in done.stdout
    assert path.stat().st_size


@pytest.mark.parametrize("runtime", WITH_METERS)
def test_a_runtime_that_waits_at_its_start_is_let_run_once_it_is_watched(runtime: str) -> None:
    with (
        workload(runtime, modes(runtime), suspended=True) as target,
        verb("monitor", "-p", str(target.pid), *OFTEN, "--json", "--duration", f"{PATIENCE_S}s") as process,
    ):
        rows_until(process, lambda rows: any(row["instrument"] == "temperature" for row in rows))


@pytest.mark.parametrize("runtime", WITH_METERS)
def test_a_program_is_watched_from_its_start_and_its_exit_code_becomes_ours(runtime: str, tmp_path: Path) -> None:
    words, environment = command(runtime, "counters+meters", "seconds=4")
    path = tmp_path / "x.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag", "counters", "collect", *OFTEN, "-o", str(path), "--", *words],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=2 * PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Process exited with code '0'." in done.stderr
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["value"] for row in rows if row["instrument"] == "answer"} == {42.5}
    assert {row["instrument"] for row in rows} >= {"orders", "temperature", "latency"}


def test_a_program_that_fails_gives_its_code() -> None:
    done = run("counters", "monitor", "--json", "--", sys.executable, "-c", "import sys; sys.exit(7)")
    assert done.returncode == 7
    assert "connected" in done.stderr


def test_who_waits_at_its_start_and_was_not_named_by_its_number_is_left_alone() -> None:
    with (
        workload("10", "counters+meters", suspended=True) as target,
        verb("monitor", "-n", "workload", *OFTEN, "--json", "--duration", f"{PATIENCE_S}s") as process,
    ):
        assert process.stderr is not None
        line = next(line for line in iter(process.stderr.readline, "") if str(target.pid) in line)
        assert "is suspended at startup: it is watched when it runs" in line
        dd.Client(target.pid).resume()
        rows_until(process, lambda rows: any(row["pid"] == target.pid for row in rows))


@pytest.mark.parametrize("runtime", WITH_METERS)
def test_what_a_killed_tool_has_left_in_a_runtime_is_waited_for(runtime: str) -> None:
    """It keeps the interval of the session that nobody has any more until it notices."""
    wanted = ("--counters", "Workload.Meter", "--json")
    with workload(runtime, "counters+meters") as target:
        one = ("monitor", "-p", str(target.pid), *wanted)
        with verb(*one, "--refresh-interval", "3", "--duration", f"{PATIENCE_S}s") as killed:
            rows_until(killed, lambda rows: rows)
            killed.kill()
        # on a busy machine it is noticed so late that the last try comes first, LATER_S behind the others
        with verb(*one, "--refresh-interval", "1", "--duration", f"{2 * PATIENCE_S + LATER_S:g}s") as process:
            rows = rows_until(process, lambda rows: len({row["utc"] for row in rows if row["interval_s"] == 1}) > 2)
    assert rows[-1]["interval_s"] == 1


@pytest.mark.parametrize("runtime", WITH_METERS)
def test_the_list_joins_the_session_that_there_is_and_leaves_none_behind(runtime: str) -> None:
    with workload(runtime, "counters+meters") as target:
        pid = str(target.pid)
        with verb(
            "monitor", "-p", pid, "--counters", "Workload.Meter", "--json", "--duration", f"{PATIENCE_S}s"
        ) as other:
            rows_until(other, lambda rows: rows)
            beside = {one["instrument"] for one in json.loads(run("counters", "list", "-p", pid, "--json").stdout)}
            rows_until(other, lambda rows: len({row["utc"] for row in rows}) > 2)
        again = {one["instrument"] for one in json.loads(run("counters", "list", "-p", pid, "--json").stdout)}
        with verb(
            "monitor", "-p", pid, "--counters", "Workload.Meter", "--json", "--duration", f"{PATIENCE_S}s"
        ) as after:
            rows_until(after, lambda rows: rows)
    assert {"orders", "temperature"} <= beside
    assert {"orders", "temperature"} <= again


@pytest.mark.parametrize("runtime", ["9", "10"])
def test_the_queue_of_the_thread_pool_is_its_length_and_no_rate(runtime: str) -> None:
    """9 and 10 announce it as a counter."""
    with workload(runtime, "threadpool", "jobs=3000", "wait=stdin", "linger=stdin") as target:
        words = ("watch", "-p", str(target.pid), "System.Runtime[dotnet.thread_pool.queue.length] > 100", "--once")
        with verb(*words, "--duration", f"{PATIENCE_S}s") as process:
            assert process.stderr is not None
            assert "watched" in process.stderr.readline()
            target.say()
            said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 10
    assert "value" in said


@pytest.mark.parametrize("runtime", WITH_METERS)
def test_the_list_of_who_waits_at_its_start_is_no_empty_one(runtime: str) -> None:
    with workload(runtime, "counters+meters", suspended=True) as target:
        done = run("counters", "list", "-p", str(target.pid))
        assert (done.returncode, "resume it first" in done.stderr) == (2, True)
        assert target.alive
