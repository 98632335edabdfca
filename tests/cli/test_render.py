"""What is written: by one place, cleaned of what drives a terminal, in whatever encoding, and nothing but the last column cut."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest
from tests.analysis.traces import managed, traced
from tests.cli.test_strange_sockets import environment, folder, pretender
from tests.nettrace.recordings import data_of
from tests.syntax import syntax_of

from dotnetdiag.cli import render
from dotnetdiag.table import Table
from dotnetdiag.tui.widths import LEAST_WIDTH

__all__ = ["folder"]
SOURCE = Path(render.__file__).parent
EVIL = "\x1b]0;owned\x07\x9b31m\n1  init"
COLUMNS = ("pid", "name", "assembly", "runtime", "uptime", "command line")
ROW = (
    "1234567",
    "dotnet (pid 1 in its namespace)",
    "Company.Product.Web",
    "10.0.14",
    "3m05s",
    "dotnet app.dll " + "x" * 200,
)


def writers(path: Path) -> list[str]:
    """Names of calls that write to a standard stream."""
    calls = [node.func for node in ast.walk(syntax_of(path)) if isinstance(node, ast.Call)]
    names = [ast.unparse(call) for call in calls]
    return [
        name for name in names if name in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.name)
def test_only_one_file_writes(path: Path) -> None:
    allowed = {"render.py": None, "main.py": ["print"]}  # main says that there is no stdout to write to
    assert path.name == "render.py" or writers(path) in ([], allowed.get(path.name))


def test_lines_and_cells_do_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    render.echo(EVIL)
    render.echo(EVIL, err=True)
    render.table(("a", "b"), [(EVIL, EVIL)])
    captured = capsys.readouterr()
    shown = "\\x1b]0;owned\\x07\\x9b31m\\x0a1  init"
    assert captured.err == shown + "\n"
    assert [line.count(shown) for line in captured.out.splitlines()] == [1, 0, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="no /dev/full")
@pytest.mark.parametrize(
    "verb", ["ps --json", "trace list-profiles", "trace list-profiles --json", "trace list-profiles --format csv"]
)
def test_a_stdout_that_takes_nothing_is_named(verb: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dotnetdiag.cli.main", *verb.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (2, "error: stdout: No space left on device\n")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii", "latin-1", "utf-8:surrogateescape"])
def test_json_is_json_in_any_encoding_and_does_not_drive_the_terminal(encoding: str) -> None:
    code = (
        "import sys, dotnetdiag.cli.main as main\n"
        "from dotnetdiag.cli.render import json_text\n"
        "main._run = lambda words: json_text(eval(words[0]))\n"
        "main.main()"
    )
    value = {"text": "caf\udce9 \U0001f600 é " + EVIL}
    done = subprocess.run(
        [sys.executable, "-c", code, ascii(value)],
        capture_output=True,
        timeout=60,
        check=False,
        env=environment(PYTHONIOENCODING=encoding),
    )
    assert json.loads(done.stdout) == value, done.stderr
    assert not set(done.stdout) & {0x1B, 0x07, 0x9B} - ({0x9B} if encoding[0] == "u" else set())


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
@pytest.mark.parametrize("words", [["ps"], ["ps", "--json"], ["info", "-p", "PID"], ["trace", "collect", "-p", "PID"]])
def test_a_command_line_of_any_bytes_ends_no_verb_in_a_traceback(words: list[str], folder: Path) -> None:
    with pretender(folder, b"caf\xe9\x1b]0;owned\x07\nFORGED") as pid:
        words = [str(pid) if word == "PID" else word for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "dotnetdiag.cli.main", *words],
            capture_output=True,
            timeout=60,
            check=False,
            cwd=folder,
            env=environment(TMPDIR=str(folder), PYTHONIOENCODING="utf-8:strict"),
        )
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode == (0 if words[0] == "ps" else 1)
    assert b"\x1b" not in done.stdout
    if words[0] == "ps":
        assert b"caf\\udce9" in done.stdout
        assert not any(line.startswith(b"FORGED") for line in done.stdout.splitlines())


@pytest.mark.parametrize("text", ["a\x7f", "ó\x7f\x80", "🐍\x9b\x9f", EVIL])
def test_json_has_no_controls_and_says_the_same(text: str) -> None:
    """DEL went through where all else was ASCII."""
    cleaned = render.clean_json(json.dumps(text, ensure_ascii=False))
    assert not any(127 <= ord(letter) < 160 for letter in cleaned)
    assert json.loads(cleaned) == text


@pytest.mark.parametrize(
    ("term", "no_color", "screen", "colours"),
    [
        ("xterm", None, True, True),
        ("xterm", "", True, True),
        ("xterm", "1", True, False),
        ("dumb", None, False, False),
    ],
)
def test_no_color_takes_colours_alone(
    term: str, no_color: str | None, screen: bool, colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    assert (render.is_screen(), render.is_terminal()) == (screen, colours)


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160, 300])
@pytest.mark.parametrize("colours", [True, False])
def test_only_the_last_column_gives_way(
    width: int, colours: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(render, "is_terminal", lambda: colours)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: not colours)  # rich is not to write colours into what is measured
    render.table(COLUMNS, [ROW], right=("pid", "uptime"))
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if ROW[0] in line)
    assert all(cell in row for cell in ROW[:-1])
    assert "dotnet " in row
    assert max(len(line) for line in lines) <= max(width, sum(map(len, ROW[:-1])) + 3 * len(ROW) + LEAST_WIDTH)


VERBS = (
    "",
    "trace",
    "ps",
    "ps --json",
    "doctor",
    "trace list-profiles",
    "trace list-profiles --json",
    "completion bash",
    "--help",
    "trace info x.nettrace",
    "trace info x.nettrace --json",
    "trace events x.nettrace",
    "trace events x.nettrace --json",
    "trace events x.nettrace --format csv",
    "trace report x.nettrace",
    "trace report x.nettrace --json",
    "trace diff x.nettrace x.nettrace",
    "trace dump x.nettrace",
    "trace dump x.nettrace --json",
    "trace convert x.nettrace --format speedscope -o -",
    "trace convert x.nettrace --format nettrace -o -",
    "trace trim x.nettrace --to 1 -o -",
    "trace merge x.nettrace x.nettrace -o -",
    "trace redact x.nettrace -o -",
    "stack symbolicate trace.txt -o -",
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    Path("x.nettrace").write_bytes(bytes(traced(managed(0, 1, "P.A"), managed(10, 1)).raw.buffer))
    Path("trace.txt").write_text("at P.A()")
    return [sys.executable, "-m", "dotnetdiag.cli.main"]


@pytest.mark.parametrize("words", VERBS)
def test_a_reader_who_has_gone_is_no_error_of_any_verb(words: str, program: list[str]) -> None:
    with subprocess.Popen([*program, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 0, said
    assert b"error" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX systems")
@pytest.mark.parametrize(
    "words",
    [
        "",
        "ps",
        "trace report x.nettrace",
        "trace convert x.nettrace --format speedscope -o -",
        "trace list-profiles --json",
    ],
)
def test_a_closed_stdout_is_an_error_of_one_line(words: str, program: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.nettrace").write_bytes(data_of("cpu-only-10.nettrace"))
    line = ["sh", "-c", '"$@" >&-', "sh", *program, *words.split()]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: standard output is closed; results go there\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX systems")
@pytest.mark.parametrize("closing", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_program_that_is_started_needs_no_stdout_of_ours(closing: str, program: list[str], tmp_path: Path) -> None:
    script = f"touch {tmp_path}/ran; exit 7"
    line = ["sh", "-c", f'"$@" {closing}', "sh", *program, "run", "--", "sh", "-c", script]
    done = subprocess.run(line, timeout=60, check=False)
    assert (tmp_path / "ran").exists()
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "00:00:00:00"),
        (30, "00:00:00:30"),
        (90061.0, "01:01:01:01"),
        (0.2, "00:00:00:00.2"),
        (1.25, "00:00:00:01.25"),
    ],
)
def test_durations_are_written_as_dotnet_trace_writes_them(seconds: float, text: str) -> None:
    assert render.timespan_text(seconds) == text


def test_what_is_no_number_in_json_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    render.json_text({"a": [float("inf"), 1.5, (float("nan"),)], "b": "Infinity"}, indent=None)
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5, [None]], "b": "Infinity"}


def test_tables_in_documents_are_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    some = Table({"a\x9b": [1, None], "b": [["\x7f"], []]}, title="some")
    rows = some.to_pylist()
    for value, same in (
        (some, rows),
        (Table({"a": []}), []),
        ({"one": some, "n": float("nan")}, {"one": rows, "n": None}),
    ):
        render.json_text(value)
        render.json_text(same)
        written = capsys.readouterr().out
        assert written[: len(written) // 2] == written[len(written) // 2 :]
    render.json_list([{"rows": some}, [1], some])
    render.json_list([{"rows": rows}, [1], rows])
    written = capsys.readouterr().out
    assert written[: len(written) // 2] == written[len(written) // 2 :]
    assert json.loads(written[: len(written) // 2]) == [{"rows": rows}, [1], rows]


def test_columns_give_way_one_after_the_other_until_the_last_has_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [["1" * 10, "2" * 10, "3" * 10, "name" * 10]]
    for width, left in ((66, "abcn"), (65, "bcn"), (54, "bcn"), (53, "cn"), (20, "cn")):
        monkeypatch.setenv("COLUMNS", str(width))
        found, cells = render._narrowed("abcn", rows, "abc", ("a", "nothing", "b"), 30, {})
        assert "".join(found) == left
        assert [len(row) for row in cells] == [len(left)]
    assert "".join(render._narrowed("abcn", rows, "abc", ("a", "n"), 30, {})[0]) == "bc"


def test_columns_are_squeezed_before_others_are_left_out_and_no_more_than_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    row = ("1" * 10, "0123456789" * 4, "answer " * 5)
    for width, first, name in ((89, True, 40), (88, True, 39), (69, True, 20), (68, False, 31), (57, False, 20)):
        monkeypatch.setenv("COLUMNS", str(width))
        render.table(("ms", "name", "what"), [row], right=("ms",), drop=("ms",), room=35, squeeze={"name": 20})
        _, line, *more = capsys.readouterr().out.splitlines()
        shown = line.split()
        assert [one for one in shown if one.startswith("1111")] == [row[0]] * first
        assert len(shown[first]) == name
        assert (len(line) <= width, line.endswith("answer")) == (True, True)
        assert bool(more) is not first
    monkeypatch.setenv("COLUMNS", "56")
    render.table(("ms", "name", "what"), [row], right=("ms",), drop=("ms",), room=35, squeeze={"name": 20})
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "012345…7890123456789"


def test_no_member_of_an_object_is_held_while_the_next_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    class Document(dict[str, object]):
        """A dict of which is known when it goes."""

    gone: list[bool] = []

    def members() -> Iterator[tuple[str, Document]]:
        before = None
        for name in ("one", "two", "three"):
            if before is not None:
                gone.append(before() is None)
            made = Document(rows=Table({"a": [1, 2], "b": ["x", None]}), totals={"count": 2, "names": ["y\n"]}, none={})
            before = ref(made)
            yield name, made
            del made

    render.json_object(members())
    written = capsys.readouterr().out
    assert gone == [True, True]
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    same = {"rows": rows, "totals": {"count": 2, "names": ["y\n"]}, "none": {}}
    assert written == json.dumps(dict.fromkeys(("one", "two", "three"), same), indent=2) + "\n"


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [
        (1, ("thread",), "1 thread"),
        (0, ("thread",), "0 threads"),
        (2345, ("thread",), "2,345 threads"),
        (1, ("assembly", "assemblies"), "1 assembly"),
        (2, ("assembly", "assemblies"), "2 assemblies"),
    ],
)
def test_what_is_counted_is_one_or_several(count: int, words: tuple[str, ...], expected: str) -> None:
    assert render.counted(count, *words) == expected


def test_what_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    render.table(("count", "type"), [("1", None), ("2", "A")], right=("count",))
    assert capsys.readouterr().out.splitlines() == ["count  type", "    1  -", "    2  A"]
