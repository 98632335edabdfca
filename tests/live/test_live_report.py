"""Questions to processes that run: the answers are those of a recording of the same work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.live.runtimes import REQUIRED, command, workload
from tests.live.sessions import until_sessions

import dotnetdiag as dd
from dotnetdiag.analysis.nameless import NOT_TOLD
from dotnetdiag.recipes.live_report import KINDS

pytestmark = pytest.mark.live

BEGIN_S = 1.0
"""The session is begun by then; nothing depends on it but that the work falls into it."""
DURATION_S = 4


def ask(runtime: str, mode: str, kind: str, *words: str) -> Any:
    with workload(runtime, mode, *words, "wait=stdin", "linger=stdin") as target:
        answers: list[Any] = []
        asking = threading.Thread(
            target=lambda: answers.append(dd.ask(target.pid, kind, duration=DURATION_S)), daemon=True
        )
        asking.start()
        if runtime in ("3.1", "NativeAOT"):  # whose threads have no names
            asking.join(BEGIN_S)
        else:
            until_sessions(target, 1)
        target.say()
        asking.join(60)
        target.say()
    assert answers, "the question had an answer within a minute"
    return answers[0]


@pytest.mark.parametrize("runtime", REQUIRED)
def test_collections_of_a_process_that_runs(runtime: str) -> None:
    made = ask(runtime, "gc", "gc", "gen0=3", "gen1=3", "gen2=4")
    assert made.totals.induced == 10
    assert made.totals.pause_percent is not None
    assert set(made.collections.values("reason")) <= {"Induced", "InducedNotForced", "AllocSmall"}
    assert 0 < made.totals.pause_ms < 1000 * DURATION_S


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_exceptions_of_a_process_that_runs_have_their_methods(runtime: str) -> None:
    made = ask(runtime, "exceptions", "exceptions", "rounds=20")
    counts = dict(zip(made.by_type.values("type"), made.by_type.values("count"), strict=True))
    assert counts == {"Workload.WidgetException": 40, "System.ArgumentException": 20, "System.FormatException": 20}
    assert made.totals.per_second == pytest.approx(80 / DURATION_S, rel=0.5)
    methods = {row["method"] for row in made.by_method.to_pylist()}
    if runtime != "NativeAOT":
        assert {"workload!Workload.Exceptions.Deep(int32,int32)", "workload!Workload.Exceptions.Wrap(int32)"} <= methods


@pytest.mark.parametrize(
    ("kind", "mode", "words"),
    [
        ("allocations", "alloc", ["widgets=20000", "size=1000"]),
        ("contention", "contention", ["rounds=20"]),
        ("jit", "generics", []),
        ("requests", "http", ["rounds=10"]),
        ("tasks", "async", []),
        ("threadpool", "threadpool", ["jobs=8"]),
        ("waits", "contention", ["rounds=10"]),
    ],
)
def test_every_question_has_an_answer(kind: str, mode: str, words: list[str]) -> None:
    totals = ask("10", mode, kind, *words).totals
    assert totals.count > 0
    assert getattr(totals, "unfinished", 0) <= 1  # of what went on when the session began or ended


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_awaits_of_a_process_that_runs_have_their_ends(runtime: str) -> None:
    totals = ask(runtime, "async", "tasks", "rounds=5").totals
    assert totals.count > 10
    assert totals.unfinished == 0


def test_threads_of_a_process_that_runs_say_how_long_they_waited() -> None:
    made = ask("10", "contention", "threads", "rounds=10")
    assert any(made.threads.values("wait_ms"))
    assert any(made.threads.values("lock_ms"))


@pytest.mark.parametrize("kind", ["gc", "loader", "requests"])
def test_a_process_in_which_nothing_happens_has_an_empty_answer(kind: str) -> None:
    with workload("10", "gc", "wait=stdin", "linger=stdin") as target:
        made = dd.ask(target.pid, kind, duration=1)
        target.say()
        target.say()
    assert len(made.notes) == 1
    assert made.notes[0].startswith("no ")


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_what_stands_out_in_a_process_that_runs(runtime: str) -> None:
    made = ask(runtime, "gc", "advice", "gen0=30", "gen1=0", "gen2=30")
    (row,) = [row for row in made.findings.to_pylist() if row["question"] == "gc"]
    assert "60 of 60 collections" in row["text"]
    assert "are induced" in row["text"]
    assert made.lacking["exceptions"] == "no exceptions: none was thrown"


def test_nothing_stands_out_in_a_process_that_idles() -> None:
    with workload("10", "gc", "wait=stdin", "linger=stdin") as target:
        made = dd.ask(target.pid, "advice", duration=1)
        target.say()
        target.say()
    assert len(made.findings) == 0
    assert not any("record" in note for note in made.notes)


def test_a_start_that_is_watched() -> None:
    words, environment = command("10", "gc", "gen0=1")
    watch = ["trace", "watch", "--report", "startup", "--duration", "30s", "--json", "--", *words]
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag", *watch],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    made = json.loads(done.stdout)
    assert [row["phase"] for row in made["phases"]][:2] == ["before the runtime", "the runtime starts"]
    assert made["totals"]["program"] == "workload"
    assert made["notes"] == ["no exceptions: there were none"]


def asked_of_command(runtime: str, mode: str, kind: str, *words: str) -> Any:
    """The answer of the verb that starts the workload, which ends by itself."""
    command_line, environment = command(runtime, mode, *words)
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag", "trace", "watch", "--report", kind, "--json", "--", *command_line],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_methods_of_a_command_that_ends_have_their_names(runtime: str) -> None:
    made = asked_of_command(runtime, "exceptions", "exceptions", "rounds=10")
    methods = {row["method"] for row in made["by_method"]}
    assert {"workload!Workload.Exceptions.Deep(int32,int32)", "workload!Workload.Exceptions.Wrap(int32)"} <= methods
    assert made["notes"] == []


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_tasks_of_a_command_that_ends_have_the_names_of_their_methods(runtime: str) -> None:
    made = asked_of_command(runtime, "async", "tasks", "rounds=5")
    assert any("<Second>d__2.MoveNext()" in str(row["method"]) for row in made["by_method"])
    assert not any("0x" in row["chain"] or "?" in row["chain"] for row in made["chains"])


def test_a_command_that_is_killed_is_said_not_to_have_told_names() -> None:
    words, environment = command("10", "exceptions", "rounds=10000000")
    watch = watching(
        ["trace", "watch", "--report", "exceptions", "--json", "--", *words], {**os.environ, **environment}
    )
    (child,) = (one for one in children_of(watch.pid) if b"workload" in Path(f"/proc/{one}/cmdline").read_bytes())
    time.sleep(BEGIN_S)
    os.kill(child, signal.SIGKILL)
    out, _ = watch.communicate(timeout=60)
    made = json.loads(out)
    assert NOT_TOLD in made["notes"]
    assert {row["method"] for row in made["by_method"]} == {None}


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def watching(words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """The verb, once it watches."""
    watch = subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert watch.stderr is not None
    assert watch.stderr.readline().startswith("Watching.")
    return watch


def test_ctrl_c_ends_a_watch_with_its_report() -> None:
    with workload("10", "gc", "wait=stdin", "linger=stdin") as target:
        words = ["trace", "watch", "-p", str(target.pid), "--report", "gc", "--json"]
        watch = watching(words)
        target.say()
        target.expect("done gc")
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=60)
        target.say()
    assert json.loads(out)["totals"]["induced"] == 10
    assert "events read" in err
    assert watch.returncode == 0


@pytest.mark.parametrize(
    "words", [["--top"], ["--event", "GC/Start"], ["--where", "Depth > 1"], ["--limit", "3"], ["--format", "xls"]]
)
def test_a_report_does_not_go_with_what_is_of_events(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag", "trace", "watch", "-p", "1", "--report", "gc", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("form", ["csv", "jsonl", "markdown"])
def test_a_watch_prints_the_table_of_its_report(form: str) -> None:
    with workload("10", "gc", "wait=stdin", "linger=stdin") as target:
        words = ["trace", "watch", "-p", str(target.pid), "--report", "gc", "--duration", "3s", "--format", form]
        watch = watching(words)
        target.say()
        target.expect("done gc")
        out, _ = watch.communicate(timeout=60)
        target.say()
    assert watch.returncode == 0
    lines = [line for line in out.splitlines() if "Induced" in line]
    assert len(lines) == 10
    assert form != "jsonl" or all(json.loads(line)["reason"] == "Induced" for line in lines)


def test_a_question_that_there_is_not_is_refused() -> None:
    with pytest.raises(
        dd.UnknownName, match=r"no question 'gcs' to a process that runs; there are advice, .*waits; near: gc"
    ):
        dd.ask(1, "gcs", duration=1)
    assert set(KINDS) <= set(dir(dd))


def test_a_watch_writes_its_report_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "gc.html"
    with workload("10", "gc", "wait=stdin", "linger=stdin") as target:
        words = ["trace", "watch", "-p", str(target.pid), "--report", "gc", "--duration", "3s", "--html", str(page)]
        watch = watching(words)
        target.say()
        target.expect("done gc")
        out, _ = watch.communicate(timeout=60)
        again = subprocess.run(
            [sys.executable, "-m", "dotnetdiag", *words], capture_output=True, text=True, timeout=60, check=False
        )
        target.say()
    assert (watch.returncode, out) == (0, f"{page}: {page.stat().st_size:,} bytes\n")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert '{"name":"induced","value":"10"}' in text
    assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)


def test_a_page_is_of_a_report() -> None:
    words = ["trace", "watch", "-p", "1", "--html", "x.html"]
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "--report" in done.stderr) == (3, True)
