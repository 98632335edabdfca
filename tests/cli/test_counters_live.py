"""``counters monitor`` and ``counters collect``: of servers of our own."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.analysis.counters_made import MadeCounters
from tests.recipes.test_counter_watch import served

from dotnetdiag.cli.commands import commands
from dotnetdiag.cli.counter_screen import screen, value_lines
from dotnetdiag.cli.signals import ONE_PRESS_S
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.recipes.counter_watch import CounterProcess
from dotnetdiag.testing import Runtime
from dotnetdiag.tui.counter_values import ShownValue

OFTEN = ("--refresh-interval", "50ms")

PATIENCE_S = 60


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path, "server") as (port,):
        yield port


def tries(*words: str) -> Iterator[Result]:
    """What a verb says, for longer and longer: on a busy machine values may come late."""
    for seconds in (1, 4, 16):
        done = CliRunner().invoke(commands, ["counters", *words, *OFTEN, "--duration", f"{seconds}s"])
        assert done.exit_code == 0, done.output
        yield done


def until_some(*words: str) -> Result:
    """What a verb says once it has values."""
    for done in tries(*words):
        if "dotnet.process.cpu.time" in done.stdout:
            break
    return done


def test_without_a_terminal_each_value_is_a_line(port: str) -> None:
    done = until_some("monitor", "--dport", port)
    line = next(line for line in done.stdout.splitlines() if "dotnet.process.cpu.time" in line)
    assert f"({os.getpid()})" in line
    assert "System.Runtime" in line
    assert "cpu.mode=" in line
    assert "watched, Python 3." in done.stderr


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_values_for_programs_are_those_of_collect(port: str, form: str) -> None:
    said = until_some("monitor", "--dport", port, "--format", form).stdout
    rows = (
        list(csv.DictReader(io.StringIO(said))) if form == "csv" else [json.loads(line) for line in said.splitlines()]
    )
    assert {str(row["pid"]) for row in rows} == {str(os.getpid())}
    assert {row["provider"] for row in rows} == {"System.Runtime"}
    assert list(rows[0])[:4] == ["ms", "utc", "provider", "instrument"]


def test_collected_values_go_where_they_are_wanted(
    port: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for done in tries("collect", "--dport", port, "-o", "-", "--format", "jsonl"):
        rows, said = [json.loads(line) for line in capfd.readouterr().out.splitlines()], done.stderr
        if rows:
            break
    assert "dotnet.process.cpu.time" in {row["instrument"] for row in rows}
    assert f"{len(rows):,} values of 1 process" in said
    path = tmp_path / "x.json"
    done = CliRunner().invoke(
        commands, ["counters", "collect", "--dport", port, "-o", str(path), *OFTEN, "--duration", "1s"]
    )
    assert done.exit_code == 0, done.output
    assert f"{len(json.loads(path.read_bytes())):,} values of 1 process in" in done.stderr


def test_a_fifo_gets_no_suffix(port: str, tmp_path: Path) -> None:
    """The values stood in ``fifo.csv`` beside it, and its reader got none; ``-o >(command)`` failed."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in tries("collect", "--dport", port, "-o", str(path), "--format", "csv"):
            written = os.read(reading, 100)
            if written:
                break
        assert written.startswith(b"ms,utc,provider,")
    finally:
        os.close(reading)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("fifo")] == ["fifo"]


@pytest.mark.parametrize("verb", ["monitor", "collect"])
def test_the_last_values_of_a_process_that_ends_keep_its_name(verb: str, tmp_path: Path) -> None:
    made = MadeCounters()
    for second in range(3):
        made.at(100 + second).gauge("g", sessionId="SHARED", meterName="M", lastValue=str(second))
    path = tmp_path / "x.jsonl"
    words = ["--json"] if verb == "monitor" else ["-o", str(path)]
    with Runtime("9.0", listen=str(tmp_path / "p"), name="ends", replay=made.data()) as runtime:
        done = CliRunner().invoke(
            commands, ["counters", verb, "--dport", f"{runtime.address},connect", "--counters", "M", *words]
        )
    assert done.exit_code == 0, done.output
    said = done.stdout if verb == "monitor" else path.read_text()
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["value"] for row in rows] == [0, 1, 2]
    assert {row["process"] for row in rows} == {"ends"}
    assert None not in {row["pid"] for row in rows}


PIPE_BYTES = 4096


def held_by(pipe: int) -> int:
    """How many bytes wait in it."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how much a pipe takes is set as Linux does")
@pytest.mark.parametrize("words", [("monitor", "--json"), ("collect", "-o", "-", "--format", "jsonl")])
def test_a_reader_that_stands_still_does_not_keep_it_from_ending(port: str, words: tuple[str, ...]) -> None:
    """It was in a write, and only SIGKILL ended it."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    verb = [sys.executable, "-m", "dotnetdiag", "counters", *words, "--dport", port, "--refresh-interval", "0.05"]
    process = subprocess.Popen(verb, stdout=writing, stderr=subprocess.DEVNULL)
    try:
        ends, held, since = time.monotonic() + PATIENCE_S, 0, time.monotonic()
        while held < PIPE_BYTES // 2 or time.monotonic() - since < 1:  # not writable it is from the first line on
            assert time.monotonic() < ends, "the pipe is not full"
            time.sleep(0.01)
            if (now := held_by(reading)) != held:
                held, since = now, time.monotonic()
        process.terminate()
        time.sleep(ONE_PRESS_S + 0.1)
        process.terminate()
        assert process.wait(PATIENCE_S) != 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def test_where_nobody_came_no_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    done = CliRunner().invoke(
        commands, ["counters", "collect", "-n", "nobody is called so", "-o", str(path), *OFTEN, "--duration", "0.1s"]
    )
    assert done.exit_code == 0, done.output
    assert "nobody was watched" in done.stderr
    assert not path.exists()


@pytest.mark.parametrize("verb", ["monitor", "collect"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which processes: -p (--process-id), -n (--name), --diagnostic-port, --all, or a command behind --."),
        (("-p", "1", "--counters", "A[x"), "a closing ']' is expected"),
        (("-p", "1", "--refresh-interval", "0"), "an interval of 0 is none"),
        (("-p", "1", "--refresh-interval", "soon"), "write 30s"),
        (("-p", "0"), "is not a valid process ID"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(verb: str, words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(commands, ["counters", verb, *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    "words", [("--all",), ("-p", "1", "-p", "2"), ("-n", "a", "-n", "b"), ("-p", "1", "--dport", "x")]
)
def test_columns_that_do_not_tell_processes_apart_are_refused_for_many(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(commands, ["counters", "collect", "--compat", *words])
    assert isinstance(done.exception, UsageError)
    assert "name one, or leave --compat out" in str(done.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("monitor",),
        ("collect", "-o", "x.csv"),
        ("serve", "--bind", "127.0.0.1:0"),
        ("watch", "A[x] > 1"),
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_nobody_has_is_said_to_be_waited_for(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        commands, ["counters", *words, "-n", "nobody is called so", *OFTEN, "--duration", "100ms"]
    )
    assert done.exit_code == 0, done.output
    assert done.stderr.count("waiting for a process named nobody is called so\n") == 1


def test_how_to_come_to_a_port_that_listens_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        commands, ["counters", "monitor", "--dport", f"{tmp_path}/p,listen", *OFTEN, "--duration", "100ms"]
    )
    said = f"waiting for a runtime at {tmp_path}/p; start it with DOTNET_DiagnosticPorts={tmp_path}/p\n"
    assert done.stderr.count(said) == 1


def test_lines_for_dotnet_counters_work_and_what_has_no_effect_is_said(port: str) -> None:
    plain = until_some("monitor", "--dport", port).stderr
    assert "changes nothing" not in plain
    said = until_some("monitor", "--dport", port, "--showDeltas", "--abbreviateLargeNumbers", "false").stderr
    assert said.count("--showDeltas changes nothing") == 1
    assert said.count("--abbreviateLargeNumbers changes nothing") == 1


def test_who_is_there_is_not_waited_for(port: str) -> None:
    assert "waiting" not in until_some("monitor", "--dport", port).stderr


def test_why_a_verb_ends_is_not_said_before_too(tmp_path: Path) -> None:
    ports = [f"{tmp_path}/{name},connect" for name in "ab"]
    done = CliRunner().invoke(
        commands, ["counters", "monitor", *(word for port in ports for word in ("--dport", port)), *OFTEN]
    )
    assert isinstance(done.exception, DiagnosticsError)
    told = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert len(told) == 1
    assert str(done.exception) not in told[0]


def test_who_could_not_be_watched_is_told_where_another_is(port: str, tmp_path: Path) -> None:
    said = until_some("monitor", "--dport", port, "--dport", f"{tmp_path}/nobody,connect").stderr
    assert [line for line in said.splitlines() if "nobody" in line] == [f"{tmp_path}/nobody: there is no such socket"]


@pytest.mark.parametrize("verb", ["monitor", "serve", "push", "watch"])
def test_help_names_no_other_verb_for_the_output_of_a_command(verb: str) -> None:
    said = " ".join(CliRunner().invoke(commands, ["counters", verb, "--help"]).stdout.split())
    assert "its output goes to stderr where stdout has results" in said
    assert "trace watch" not in said


def value(name: str, number: float | None, *, process: int = 1, tags: str = "", provider: str = "P") -> ShownValue:
    return ShownValue(process=process, provider=provider, name=name, tags=tags, value=number, time="12:30:01.123")


ONE = CounterProcess(number=1, pid=77, name="app", runtime="10.0", target="process 77")


def test_a_screen_has_groups_and_fits() -> None:
    values = [value("a (By)", 1234.5), value("b", 1, tags="k=x"), value("b", 2, tags="k=y\x1b[31m")]
    lines = screen(values, [ONE], "status", width=40, height=20)
    assert lines[0] == "status"
    assert "app (77)" in lines
    assert "[P]" in lines
    assert [line.split() for line in lines if "a (By)" in line] == [["a", "(By)", "1,234.5"]]
    assert [line.split()[-1] for line in lines if "k=" in line] == ["1", "2"]
    assert all(len(line) <= 40 and "\x1b" not in line for line in lines)
    few = screen(values, [ONE], "status", width=40, height=5)
    assert len(few) == 5
    assert few[-1].startswith("… 4 lines more")


def test_processes_share_a_screen_that_is_too_small() -> None:
    many = [value(f"v{number:02}", number, process=process) for process in (1, 2) for number in range(40)]
    few = [value("v", 1, process=3)]
    three = [replace(ONE, number=number, pid=number) for number in (1, 2, 3)]
    lines = screen([*many, *few], three, "status", width=40, height=23)
    assert len(lines) == 23
    at = [lines.index(f"app ({number})") for number in (1, 2, 3)]
    assert at == [2, 11, 20]
    assert [line for line in lines if "more" in line] == ["… 34 lines more: choose counters"] * 2
    assert lines[-1].split() == ["v", "1"]


def test_processes_that_have_no_line_are_counted() -> None:
    values = [value(f"v{number}", 1, process=process) for process in range(9) for number in range(9)]
    nine = [replace(ONE, number=number, pid=number) for number in range(9)]
    lines = screen(values, nine, "status", width=40, height=12)
    assert len(lines) <= 12
    assert [line for line in lines if line.startswith("app")] == ["app (0)", "app (1)"]
    assert lines[-1] == "… 7 processes more"


def test_a_value_is_a_line_with_its_process() -> None:
    assert value_lines([value("b", -0.0001, tags="k=x")], [ONE]) == ["12:30:01.123  app (77)  P  b {k=x}  0"]
