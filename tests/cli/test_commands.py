"""All verbs: help with an example, JSON where something is printed, light to start, complete in the shell."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.live.runtimes import names, workload
from tests.nettrace.traces import small_trace
from tests.shared import needs

from dotnetdiag.cli.commands import commands
from dotnetdiag.cli.trace_report import KINDS
from dotnetdiag.nettrace import read

SILENT = {
    "run",
    "setenv",
    "resume",
    "startup-hook",
    "perfmap enable",
    "perfmap disable",
    "counters push",
    "counters serve",
    "profiler attach",
    "profiler startup",
}
"""They change something and print nothing."""
OTHER = {"completion", "demo", "trace user-events", "stack symbolicate"}
"""Print a script, a walk, one line on stderr, the text that they were given."""


def leaves(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


LEAVES = dict(leaves())


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("name", LEAVES)
def test_help_shows_an_example(name: str) -> None:
    assert re.search(r"^ *(\w+=\S+ )?dotnetdiag \w+", LEAVES[name].help or "", re.MULTILINE), (
        f"{name} --help has no example"
    )


@pytest.mark.parametrize("name", [name for name in LEAVES if name not in SILENT | OTHER])
def test_what_prints_can_print_json(name: str) -> None:
    options = {option for parameter in LEAVES[name].params for option in parameter.opts}
    formats = [
        p.type.choices
        for p in LEAVES[name].params
        if p.name in ("format", "fmt", "form") and isinstance(p.type, click.Choice)
    ]
    assert "--json" in options or any("jsonl" in choices for choices in formats), f"{name} has no --json"


@pytest.mark.parametrize("name", [name for name in LEAVES if not name.startswith("doctor")])
def test_a_process_can_be_named_in_three_ways(name: str) -> None:
    options = {option for parameter in LEAVES[name].params for option in parameter.opts}
    if "--process-id" in options:
        assert {"-p", "-n", "--name", "--diagnostic-port"} <= options


def test_each_tool_has_its_ps() -> None:
    for group in ("trace", "dump", "profiler", "perfmap", "stack"):
        assert f"{group} ps" in LEAVES


def test_the_help_of_the_whole_names_every_verb() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name in LEAVES:
        assert f"\n  {name.split()[0]} " in done.stdout


def test_ps_loads_neither_click_nor_numpy() -> None:
    code = (
        "import os, sys; os._exit = lambda code: None; sys.argv = ['dotnetdiag', 'ps']\n"
        "from dotnetdiag.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in ('click', 'rich', 'numpy', 'asyncio', 'json') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.live
@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
def test_both_ways_to_ps_say_the_same() -> None:
    with workload(*(names()[0], "idle", "seconds=100")) as target:
        fast, usual = run("ps", "--json"), run("trace", "ps", "--json")
    assert fast.returncode == usual.returncode == 0
    for done in (fast, usual):
        (shown,) = (process for process in json.loads(done.stdout) if process["pid"] == target.pid)
        assert shown["problem"] == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_DOTNETDIAG_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("trace convert x --format speed", ["speedscope"]),
        ("trace convert x --format Speedscope,flame", ["Speedscope,flamegraph"]),
        ("trace collect --format pp", ["pprof"]),
        ("trace collect --profile gc-", ["gc-verbose", "gc-collect"]),
        ("trace watch --profile gc-verbose,data", ["gc-verbose,database"]),
        ("trace collect --clrevents excep", ["exception"]),
        ("trace collect --clrevents gc+excep", ["gc+exception"]),
        ("trace collect --clreventlevel ver", ["verbose"]),
    ],
)
def test_completion_knows_values_also_of_a_list(words: str, found: list[str]) -> None:
    count = len(words.split())
    done = run(_DOTNETDIAG_COMPLETE="bash_complete", COMP_WORDS=f"dotnetdiag {words}", COMP_CWORD=str(count))
    assert done.stdout.split() == [f"plain,{one}" for one in found]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("trace report g", ["file,g", "plain,gc"]),
        ("trace report app.nettrace th", ["file,th", "plain,threadpool", "plain,threads"]),
        ("trace report a.nettrace b.nettrace top", ["file,top", "plain,topN"]),
        ("trace report gc g", ["file,g"]),
        ("trace report app.nettrace gc g", ["file,g"]),
        ("trace report app.nettrace gc --nu", ["plain,--number"]),
        ("trace report --ht", ["plain,--html"]),
    ],
)
def test_completion_knows_kinds_of_reports_before_files_and_behind_them(words: str, found: list[str]) -> None:
    count = len(words.split())
    done = run(_DOTNETDIAG_COMPLETE="bash_complete", COMP_WORDS=f"dotnetdiag {words}", COMP_CWORD=str(count))
    assert done.stdout.split() == found


@pytest.mark.parametrize("words", ["trace report", "trace report app.nettrace"])
def test_completion_offers_all_kinds_of_reports(words: str) -> None:
    count = len(words.split()) + 1
    done = run(_DOTNETDIAG_COMPLETE="bash_complete", COMP_WORDS=f"dotnetdiag {words} ", COMP_CWORD=str(count))
    assert done.stdout.split() == ["file,", *(f"plain,{kind}" for kind in KINDS)]


def test_the_usage_of_a_report_names_its_kind_once() -> None:
    assert "Usage: dotnetdiag trace report topN [OPTIONS] FILE...\n" in run("trace", "report", "topN", "--help").stdout


def test_help_of_reports_is_of_all_kinds() -> None:
    said = run("trace", "report", "--help").stdout
    assert said.startswith("Usage: dotnetdiag trace report [OPTIONS]")
    assert all(f"\n  {kind} " in said for kind in ("advice", "topN", "gc", "requests", "spans"))


def test_completion_knows_verbs_and_options() -> None:
    done = run(_DOTNETDIAG_COMPLETE="bash_complete", COMP_WORDS="dotnetdiag trace co", COMP_CWORD="2")
    assert "plain,collect" in done.stdout
    done = run(_DOTNETDIAG_COMPLETE="bash_complete", COMP_WORDS="dotnetdiag trace collect --buf", COMP_CWORD="3")
    assert "--buffersize" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("inof",), "Did you mean 'info'?"),
        (("trace", "colect"), "Did you mean 'collect'?"),
        (("trace", "report", "app.nettrace", "topn"), "Did you mean 'topN'?"),
        (("counters", "ps"), "Did you mean 'dotnetdiag ps'?"),
        (("info",), "Must specify either --process-id, --name, --wait-for, --diagnostic-port, or --dsrouter."),
        (("info", "-p", "x"), "is not a valid integer"),
        (("info", "-p", "999999999"), "process 999999999: no process of this number runs here"),
        (("trace", "info", "/nonexistent.nettrace"), "/nonexistent.nettrace"),
        (("setenv", "-p", "1"), "Missing argument"),
        (("stack", "report", "-p", "1", "--interval", "999999999999d"), "an interval of 8.64e+16 s"),
        (("stack", "report", "-p", "1", "--interval", "9" * 400 + "d"), "an interval of inf s"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], text: str) -> None:
    done = run(*words)
    assert done.returncode in (1, 2, 3)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert text.lower() in done.stderr.lower()


@pytest.mark.parametrize("words", ["", "trace", "stack", "dump", "perfmap", "profiler"])
def test_a_verb_that_lacks_its_verb_shows_its_help(words: str) -> None:
    done = run(*words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(*words.split(), "--help").stdout


def test_no_colours_when_piped_or_not_wanted() -> None:
    assert "\x1b[" not in run("doctor").stdout
    assert "\x1b[" not in run("ps").stdout


@pytest.mark.parametrize("words", [["doctor"], ["ps"]])
def test_no_colours_on_a_terminal_where_they_are_not_wanted(words: list[str]) -> None:
    _, plain = in_terminal(words, b"never", b"", NO_COLOR="1")
    _, coloured = in_terminal(words, b"never", b"")
    assert b"\x1b[" not in plain
    assert b"\x1b[" in coloured or b"No supported" in coloured


def in_terminal(
    words: list[str], until: bytes, then: bytes, *, columns: int = 80, **environment: str
) -> tuple[int, bytes]:
    """Run on a terminal; send ``then`` when ``until`` was seen. The exit code and all output."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag.cli.main", *words],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={
            **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
            "TERM": "xterm",
            **environment,
        },
        start_new_session=True,
    )
    os.close(follower)
    output, sent = b"", False
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        output += data
        if until in output and not sent:
            os.write(leader, then)
            sent = True
    os.close(leader)
    return process.wait(60), output


@pytest.mark.live
@needs("dotnet", "the workload on real runtimes")
def test_enter_ends_a_recording_and_the_line_shows_bytes_rate_and_time_left(tmp_path: object) -> None:
    with workload("10", "idle", "seconds=100") as target:
        code, output = in_terminal(
            ["trace", "collect", "-p", str(target.pid), "--duration", "50s", "-o", f"{tmp_path}/x.nettrace"],
            b"Recording trace ",
            b"\n",
        )
    assert code == 0, output
    assert re.search(rb"\[\ds\]  Recording trace [\d.]+ [KM]?B  [\d.]+ [KM]?B/s   \d+s left", output), output
    assert b"Press <Enter> or <Ctrl+C> to exit..." in output
    assert b"Stopping the trace" in output
    assert b"Trace completed." in output


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "table"])
def test_all_events_come_out_whatever_stdout_is(form: str, unbuffered: str, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(small_trace(4))
    done = run("trace", "events", str(path), "--format", form, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 0
    assert done.stderr == "warning: x.nettrace: 3 events were lost when it was recorded\n"
    events = len(read(path.read_bytes()).headers)
    assert len(done.stdout.splitlines()) - (form != "jsonl") == events


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(
    ("words", "code"), [(["ps", "--nosuch"], 3), (["stack", "report", "-p", "999999999"], 3), (["ps", "--json"], 0)]
)
def test_the_exit_code_tells_where_stderr_takes_nothing(words: list[str], code: int) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "dotnetdiag.cli.main", *words]
        assert subprocess.run(words, stdout=subprocess.DEVNULL, stderr=full, timeout=60, check=False).returncode == code


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
def test_a_reader_who_goes_before_the_last_words_are_flushed_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = "from dotnetdiag.cli import main\nmain._run = lambda words: print('x') or 0\nmain.main()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [0, 2])
def test_a_stream_that_was_closed_by_who_started_us_stays_taken(closed: int) -> None:
    """Otherwise its number would be that of the next file or socket, which gets what is said then."""
    code = (
        "import os, sys, dotnetdiag.cli.main as main\n"
        f"main._run = lambda words: print(os.path.realpath('/proc/self/fd/{closed}'), os.open('/', os.O_RDONLY)) or 0\n"
        "main.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
        preexec_fn=lambda: os.close(closed),
    )
    place, number = done.stdout.split()
    assert (place, int(number) > 2) == (os.devnull.encode(), True)
