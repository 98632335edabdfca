"""``trace sql``: what is printed, in which forms, and what is said of what makes no sense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.cli.test_commands import run
from tests.nettrace.traces import small_trace
from tests.query.asked import saved

import dotnetdiag as dd

COUNT = 'select Reason, count(*) as n from "GC/Start" group by all order by all'


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return saved(tmp_path, "gccollect-10", "events-10")


def test_a_query_is_answered_as_a_table_and_as_json_and_csv(paths: list[str]) -> None:
    expected = dd.sql(paths[0], COUNT).to_pylist()
    lines = run("trace", "sql", paths[0], COUNT).stdout.splitlines()
    assert [line.split() for line in lines] == [["Reason", "n"], *([row["Reason"], str(row["n"])] for row in expected)]
    assert json.loads(run("trace", "sql", paths[0], COUNT, "--json").stdout) == expected
    csv = run("trace", "sql", paths[0], COUNT, "--format", "csv").stdout.splitlines()
    assert csv == ["Reason,n", *(f"{row['Reason']},{row['n']}" for row in expected)]


def test_many_files_are_asked_at_once_by_name_or_by_pattern(paths: list[str], tmp_path: Path) -> None:
    query = "select file, count(*) as n from events group by file"
    expected = {path: len(dd.open(path)) for path in paths}
    for words in (paths, [str(tmp_path / "*.nettrace")], [f"file://{tmp_path}/*.nettrace"]):
        done = run("trace", "sql", *words, query, "--json")
        assert done.returncode == 0, done.stderr
        assert {row["file"]: row["n"] for row in json.loads(done.stdout)} == expected


def test_a_query_that_was_forgotten_is_asked_for(paths: list[str]) -> None:
    done = run("trace", "sql", *paths)
    assert done.returncode
    assert f"{paths[-1]} is a file: give QUERY behind the FILEs." in done.stderr


def test_what_is_written_has_the_format_of_its_name(paths: list[str], tmp_path: Path) -> None:
    output = tmp_path / "made.parquet"
    done = run("trace", "sql", paths[0], "from gc", "-o", str(output))
    rows = len(dd.gc(paths[0]).collections)
    assert (done.returncode, done.stdout) == (0, f"{output}: {rows:,} rows, {output.stat().st_size:,} bytes\n")
    made = pyarrow.parquet.read_table(output)
    assert made.num_rows == len(dd.gc(paths[0]).collections)
    again = run("trace", "sql", paths[0], "from gc", "-o", str(output))
    assert again.returncode == 2
    assert "made.parquet" in again.stderr
    assert run("trace", "sql", paths[0], "from gc limit 1", "-o", str(output), "--force").returncode == 0
    assert pyarrow.parquet.read_table(output).num_rows == 1


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text there")
def test_a_query_that_is_no_text_is_a_wrong_query(paths: list[str]) -> None:
    """It was a mistake of ours, with another exit code."""
    words = [sys.executable, "-m", "dotnetdiag", "trace", "sql", paths[0]]
    done = subprocess.run([*words, b"select '\xff' as x"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (run("trace", "sql", paths[0], "selec 1").returncode, "")
    assert done.stderr == "error: character 9 of the query is none of UTF-8\n"


@pytest.mark.parametrize("more", [[], ["--format", "table"], ["--json"], ["--format", "csv"], ["--format", "sqlite"]])
def test_what_goes_to_stdout_by_name_is_what_goes_there_anyway(more: list[str], paths: list[str]) -> None:
    """Of no format that is named, the table that people read."""
    query = "select 1 as a, 'x' as b"
    words = [sys.executable, "-m", "dotnetdiag", "trace", "sql", paths[0], query, *more]
    plain = subprocess.run(words, capture_output=True, check=True)
    for name in ("-", "/dev/stdout"):
        named = subprocess.run([*words, "-o", name], capture_output=True, check=True)
        assert (named.stdout, named.stderr) == (plain.stdout, plain.stderr)
    assert plain.stdout
    assert more or plain.stdout.split() == [b"a", b"b", b"1", b"x"]


def test_a_fifo_gets_csv_where_no_format_is_named(paths: list[str], tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
        done = run("trace", "sql", paths[0], "select 1 as a, 2 as b", "-o", str(fifo))
        assert reader.communicate(timeout=30)[0].split() == ["a,b", "1,2"]
    assert (done.returncode, done.stdout) == (0, f"{fifo}: 1 rows, 8 bytes\n")


@pytest.mark.parametrize("verb", [["sql", "from gc"], ["events"]])
def test_a_recording_is_never_written_over(verb: list[str], paths: list[str], tmp_path: Path) -> None:
    before = Path(paths[0]).read_bytes()
    other = tmp_path / "other.csv"
    other.symlink_to(paths[0])
    patterns = [str(tmp_path / "*.nettrace")] if verb[0] == "sql" else []
    for source in (paths[0], *patterns):
        for output in (paths[0], str(other)):
            words = [verb[0], source, *verb[1:], "--format", "csv", "-o", output, "--force"]
            done = run("trace", *words)
            assert done.returncode != 0
            assert done.stderr == f"error: {output} is what is read: name another file to write\n"
    assert Path(paths[0]).read_bytes() == before


def test_show_tables_says_what_there_is(paths: list[str]) -> None:
    shown = run("trace", "sql", paths[0], "show tables").stdout
    assert "GC/Start" in shown
    assert "spans(start, stop)" in shown


def test_a_recording_comes_through_stdin_too(paths: list[str]) -> None:
    with open(paths[0], "rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "dotnetdiag", "trace", "sql", "-", "select count(*) as n from events", "--json"],
            stdin=file,
            capture_output=True,
            text=True,
        )
    assert json.loads(done.stdout) == [{"n": len(dd.open(paths[0]))}]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ('from "GC/Strat"', "near: GC/Start"),
        ("selec", "syntax error"),
        ("from read_text('/etc/hostname')", "external access"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_wrong_arguments(query: str, says: str, paths: list[str]) -> None:
    done = run("trace", "sql", paths[0], query)
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line


@pytest.mark.parametrize(
    "query", ["from jit", "select count(*) from jit", "select max(compile_ms) from jit where method is null"]
)
def test_what_a_report_notes_is_said_beside_the_answer(query: str, paths: list[str]) -> None:
    (note,) = dd.jit(paths[0]).notes
    assert dd.sql(paths[0], query).notes == (note,)
    done = run("trace", "sql", paths[0], query)
    assert (done.returncode, done.stderr) == (0, f"note: {note}\n")
    assert len(done.stdout) < 100
    assert dd.sql(paths[0], "from events limit 1").notes == ()


def test_a_note_on_some_of_several_recordings_names_the_first(paths: list[str]) -> None:
    lacks, has = paths
    (note,) = dd.exceptions(lacks).notes
    assert note not in dd.exceptions(has).notes
    assert f"{lacks}: {note}" in dd.sql(paths, "from exceptions").notes


def test_a_file_that_is_not_there_is_told_whatever_is_asked(paths: list[str]) -> None:
    done = run("trace", "sql", paths[0], "nosuch.nettrace", "select 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nosuch.nettrace" in done.stderr


def test_a_query_without_a_file_is_told(paths: list[str]) -> None:
    done = run("trace", "sql", paths[0])
    assert done.returncode == 3
    assert "FILE and QUERY" in done.stderr


def test_hostile_names_do_not_drive_a_terminal(paths: list[str]) -> None:
    done = run("trace", "sql", paths[0], "select chr(27) || '[31m' as x")
    assert "\x1b" not in done.stdout


def test_what_was_lost_is_said(paths: list[str]) -> None:
    whole = Path(paths[0]).read_bytes()
    Path(paths[0]).write_bytes(whole[: len(whole) // 2])
    done = run("trace", "sql", *paths, "select max(ms) from events")
    assert done.returncode == 0
    assert "gccollect-10" in done.stderr
    assert "what was whole was read" in done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert warning.startswith(f"warning: {paths[0]}: ")  # and nothing of the others


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda one: str(int(one))
)
def test_a_signal_ends_a_query_that_would_take_for_ever(number: signal.Signals, code: int, paths: list[str]) -> None:
    """DuckDB sees a signal when it looks for one, and every second was lost to it."""
    query = "select sum(a.ms * b.ms * c.ms * d.ms) from events a, events b, events c, events d"
    words = [sys.executable, "-m", "dotnetdiag", "trace", "sql", *paths, query]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)  # it works on it
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said.strip()) == (code, "error: cancelled")


def test_each_file_is_asked_once(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is given by its name and by a pattern."""
    query = "select count(*) as n from events"
    (once,) = json.loads(run("trace", "sql", paths[0], query, "--json").stdout)
    monkeypatch.chdir(Path(paths[0]).parent)
    name = Path(paths[0]).name
    (twice,) = json.loads(run("trace", "sql", name, f"{name[:-1]}?", f"./{name}", query, "--json").stdout)
    assert once == twice


@pytest.fixture
def made(tmp_path: Path) -> list[str]:
    """A recording that is made here, of whose losses a last line tells, and behind it two that cannot be opened."""
    (tmp_path / "a.nettrace").write_bytes(small_trace(4))
    (tmp_path / "b.nettrace").write_bytes(b"")
    (tmp_path / "c.nettrace").write_text("This is not a recording.\n" * 10)
    return [str(tmp_path / name) for name in ("a.nettrace", "b.nettrace", "c.nettrace")]


FILES = "select file, count(*) > 0 as some from events group by file"


def test_files_that_cannot_be_read_are_skipped_where_that_is_asked_for(made: list[str], tmp_path: Path) -> None:
    for words in (["/no/such.nettrace", *made], ["/no/such.nettrace", str(tmp_path / "*.nettrace")]):
        done = run("trace", "sql", "--skip-unreadable", *words, FILES, "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, [{"file": made[0], "some": True}])
        assert done.stderr.splitlines()[:-1] == [
            "note: /no/such.nettrace: No such file or directory; it was skipped",
            f"note: {made[1]}: end of data at 0x0: the file is empty; it was skipped",
            f"note: {made[2]}: first bytes at 0x0: neither a NetPerf nor a nettrace file; it was skipped",
        ]


def test_ten_files_that_are_skipped_are_named_and_the_others_counted(made: list[str], tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / f"b{number:02}.nettrace").touch()
    done = run("trace", "sql", str(tmp_path / "*.nettrace"), FILES, "--skip-unreadable")
    assert done.returncode == 0
    *named, more, _ = done.stderr.splitlines()
    assert len(named) == 10
    assert all(line.endswith("the file is empty; it was skipped") for line in named)
    assert more == "note: and 3 more that cannot be read were skipped"


def test_where_no_file_can_be_read_that_is_one_line_and_the_code_of_one(made: list[str]) -> None:
    alone = run("trace", "sql", made[1], FILES)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr == f"error: {made[1]}: end of data at 0x0: the file is empty\n"
    skipping = run("trace", "sql", "--skip-unreadable", made[1], FILES)
    assert (skipping.returncode, skipping.stdout, skipping.stderr) == (2, "", alone.stderr)
    done = run("trace", "sql", "--skip-unreadable", *made[1:], FILES)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{alone.stderr.rstrip()}; none of the 2 recordings can be read\n"


def test_of_several_files_the_error_says_which_option_skips(made: list[str], tmp_path: Path) -> None:
    hint = "; --skip-unreadable answers from the others\n"
    for words in (made, [str(tmp_path / "*.nettrace")]):
        done = run("trace", "sql", *words, FILES)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"error: {made[1]}: end of data at 0x0: the file is empty{hint}"
    done = run("trace", "sql", made[0], "/no/such.nettrace", "select 1")
    assert (done.returncode, done.stderr) == (2, f"error: /no/such.nettrace: No such file or directory{hint}")
    done = run("trace", "sql", made[0], "/no/*.nettrace", "select 1")  # which is no recording that could be skipped
    assert (done.returncode, done.stderr) == (2, "error: /no/*.nettrace: no file has a name like this\n")


def test_a_table_that_a_skipped_file_may_have_is_not_there_and_the_file_is_told(made: list[str]) -> None:
    done = run("trace", "sql", "--skip-unreadable", *made, 'from "Exception/Start"')
    assert (done.returncode, done.stdout) == (3, "")
    *notes, error = done.stderr.splitlines()
    assert len(notes) == 2
    assert error.startswith("error: no table 'Exception/Start'")
