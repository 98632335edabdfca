"""``counters watch``: of servers of our own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.recipes.test_counter_watch import served

from dotnetdiag.cli import actions
from dotnetdiag.cli.actions import Action, Actions, parse_action
from dotnetdiag.cli.commands import commands

CROSSED = "System.Runtime[dotnet.process.memory.working_set] > 1MB"
NOT_CROSSED = "System.Runtime[dotnet.process.memory.working_set] < 1MB"
OFTEN = ("--refresh-interval", "50ms")


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path, "server") as (port,):
        yield port


def watching(*words: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dotnetdiag", "counters", "watch", *OFTEN, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload, no-any-return]


def test_the_first_that_is_crossed_ends_it_with_10(port: str) -> None:
    done = CliRunner().invoke(commands, ["counters", "watch", "--dport", port, NOT_CROSSED, CROSSED, "--once", *OFTEN])
    assert done.exit_code == 10, done.output
    (line,) = done.stdout.splitlines()
    assert f"({os.getpid()})  System.Runtime  dotnet.process.memory.working_set  value" in line
    assert line.endswith(" > 1,000,000")


def test_programs_get_an_object_for_each(port: str) -> None:
    words = ["counters", "watch", "--dport", port, f"{CROSSED} for 100ms", "--once", "--json", *OFTEN]
    done = CliRunner().invoke(commands, words)
    assert done.exit_code == 10, done.output
    said = json.loads(done.stdout)
    assert said["pid"] == os.getpid()
    assert (said["provider"], said["instrument"]) == ("System.Runtime", "dotnet.process.memory.working_set")
    assert said["value"] > 1e6
    assert said["lasted_s"] >= 0.1
    assert said["figure"] == "value"


def test_where_nothing_is_crossed_it_ends_with_0(port: str) -> None:
    words = ["counters", "watch", "--dport", port, NOT_CROSSED, "--once", "--duration", "1s", *OFTEN]
    done = CliRunner().invoke(commands, words)
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_verb_is_run_for_the_process(port: str) -> None:
    process = watching("--dport", port, CROSSED, "--once", "--then", "info --json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 10, err
    assert "working_set" in out
    assert f"dotnetdiag info --diagnostic-port {port} --json" in err
    assert f'"pid": {os.getpid()}' in err, "what the verb prints goes to stderr"


def test_a_verb_that_fails_is_told(port: str) -> None:
    process = watching("--dport", port, CROSSED, "--once", "--then", "info --diagnostic-port {pid}.nobody,connect")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 10
    assert f"info --diagnostic-port '{{pid}}.nobody,connect': exit code 1 for {port}" in err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_ends_the_verb_too(port: str) -> None:
    verb = "trace watch System.Runtime::: --duration 1h"
    process = watching("--dport", port, CROSSED, "--then", verb)
    assert process.stderr is not None
    seen = ""
    while f"dotnetdiag {verb.split()[0]}" not in seen:
        seen = process.stderr.readline()
        assert seen
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nonsense"], "write 'Provider[instrument] > 0.8'"),
        ([CROSSED, "--then", "trace collecd"], "'collecd' is none of"),
        ([CROSSED, "--then", "trace collect --durations 1s"], "No such option '--durations'"),
        ([CROSSED, "--then", "ps --help"], "does nothing for a process"),
        ([CROSSED, "--then", "'"], "is no verb with its options"),
        ([CROSSED, "--then", ""], "'' is none of"),
        ([CROSSED, "--cooldown", "5"], "cool-down: write 30s"),
        ([], "Missing argument 'THRESHOLD...'"),
    ],
)
def test_mistakes_are_told_before_anything_is_watched(words: list[str], why: str) -> None:
    done = CliRunner().invoke(commands, ["counters", "watch", "--all", *words])
    assert done.exit_code != 0
    assert why in (done.output or "") + str(done.exception)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("trace collect --duration 1s", "trace collect -p 7 --duration 1s"),
        ("trace collect -p5", "trace collect -p5"),
        ("trace collect --name=x", "trace collect --name=x"),
        ("info 5", "info 5"),
        ("dump collect -o core.{pid}", "dump collect -p 7 -o core.7"),
        ("trace collect --buffersize 5 -p {pid}", "trace collect --buffersize 5 -p 7"),
        ("run -- app -p 5", "run -- app -p 5"),
        ("ps", "ps"),
        ("trace collect -- app -p 5", "trace collect -p 7 -- app -p 5"),
    ],
)
def test_a_verb_gets_the_process_where_it_names_none(verb: str, words: str) -> None:
    with commands.make_context("dotnetdiag", [], resilient_parsing=True) as ctx:
        action = parse_action(ctx, verb)
    assert action.words_for(7, 7) == words.split()


def test_of_a_port_the_process_id_is_known(port: str) -> None:
    action = Action(words=("dump", "collect", "-o", "core.{pid}"), name=2)
    assert action.words_for(port, 77) == ["dump", "collect", "--diagnostic-port", port, "-o", "core.77"]


def test_nothing_of_the_folder_where_somebody_stands_is_run(port: str, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit(77)")
    command = [sys.executable, "-P", "-m", "dotnetdiag", "counters", "watch", *OFTEN]
    done = subprocess.run(
        [*command, "--dport", port, CROSSED, "--once", "--then", "info"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 10
    assert "exit code" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_verb_that_does_not_end_is_killed(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "ENDS_S", 0.2)
    running = Actions(Action(words=("trace", "collect"), name=2))
    stuck = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    with running:
        os.kill(stuck.pid, signal.SIGSTOP)
        running._running[7] = stuck
        running.signal(signal.SIGTERM)
        running.wait()
    assert stuck.returncode in (-signal.SIGKILL, -signal.SIGTERM)
