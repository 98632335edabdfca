"""The short way of commands that scripts call often says what the long way says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.cli import exits, heap_walks, trace_report
from dotnetdiag.cli.plain_forms import TRACING_ERROR, run_plain
from dotnetdiag.cli.shown import KINDS, OTHERS
from dotnetdiag.recipes.heap_collect import BUFFER_MB, HeapOptions

NAMES = [name for name in recordings() if not name.endswith(".xz")][:4]


@pytest.fixture(params=NAMES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "a recording.nettrace"
    path.write_bytes(data_of(request.param))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_that_of_the_long_way(kind: str, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words, longer in (((), ("--traceback",)), (("--json",), ("--format", "json"))):
        for order in ([kind, str(file)], [str(file), kind]):
            assert run_plain(["trace", "report", *order, *words]) == 0
            short = capfd.readouterr()
            expected = run("trace", "report", *order, *longer)
            assert (short.out, short.err, 0) == (expected.stdout, expected.stderr, expected.returncode)


@pytest.mark.parametrize(
    "words",
    [
        ("gc",),
        ("gc", "missing.nettrace"),
        ("gc", "."),
        ("gc", "gc"),
        ("gc", "-"),
        ("gc", "x", "--csv"),
        ("x", "gc", "--json", "--json"),
        ("gc", "./x"),
        ("gc", "unread"),
        ("x", "y"),
        ("x", "topN"),
        ("topN", "gc"),
        ("spans", "gc"),
        ("--json", "x", "gc"),
        ("x", "--json", "gc"),
        (),
    ],
    ids=" ".join,
)
def test_everything_else_goes_the_long_way(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x", "y", "gc", "topN", "spans"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "unread").symlink_to("nowhere" if os.geteuid() == 0 else "x")
    monkeypatch.setattr(os, "access", lambda path, mode: path != "unread" and (tmp_path / path).exists())
    assert run_plain(["trace", "report", *words]) is None


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize(
    "words", [("-p", "12"), ("-p", "12", "-o", "x.gcdump"), ("-o", "a b/x.gcdump", "-p", "12")], ids=" ".join
)
def test_a_heap_is_collected_as_the_long_way_does(
    words: tuple[str, ...], is_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def collected(options: HeapOptions, output: Path | None, **others: object) -> bool:
        asked.append((options.target.pid, options.timeout, options.buffer_mb, options.raw, output, others))
        return is_complete

    monkeypatch.setattr(heap_walks, "collect_into", collected)
    assert run_plain(["gcdump", "collect", *words]) == (0 if is_complete else TRACING_ERROR)
    output = Path(words[words.index("-o") + 1]) if "-o" in words else None
    assert asked == [(12, None, BUFFER_MB, None, output, {})]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-p",),
        ("-p", "0"),
        ("-p", "-1"),
        ("-p", "1234567890"),
        ("-p", "\u0663"),
        ("-p", "1", "-p", "2"),
        ("-o", "x.gcdump"),
        ("-p", "1", "-o"),
        ("-p", "1", "-o", "x.nettrace"),
        ("-p", "1", "-o", "folder.gcdump"),
        ("-p", "1", "-o", "folder.gcdump/"),
        ("-p", "1", "-o", "-x.gcdump"),
        ("-p", "1", "-o", "-"),
        ("-p", "1", "--force"),
        ("-p", "1", "-o", "x.gcdump", "--json"),
        ("-n", "name"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_other_ways_to_collect_a_heap_go_the_long_way(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gcdump").mkdir()
    assert run_plain(["gcdump", "collect", *words]) is None


def test_the_kinds_are_those_of_the_long_way() -> None:
    assert {*KINDS, *OTHERS} == {*trace_report.KINDS}
    assert exits.TRACING_ERROR == TRACING_ERROR


def test_the_short_way_loads_no_parser(file: Path) -> None:
    code = (
        "import os, sys; from dotnetdiag.cli import main as verb; "
        "verb._leave = lambda code: os.write(2, f'{code} {\"click\" in sys.modules}'.encode()) and os._exit(0); "
        f"sys.argv = ['dotnetdiag', 'trace', 'report', {str(file)!r}, 'gc']; verb.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.endswith("0 False")
