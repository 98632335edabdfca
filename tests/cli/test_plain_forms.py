"""The short way of commands that scripts call often says what the long way says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.cli import trace_report
from dotnetdiag.cli.plain_forms import run_plain
from dotnetdiag.cli.shown import KINDS, OTHERS

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


def test_the_kinds_are_those_of_the_long_way() -> None:
    assert {*KINDS, *OTHERS} == {*trace_report.KINDS}


def test_the_short_way_loads_no_parser(file: Path) -> None:
    code = (
        "import os, sys; from dotnetdiag.cli import main as verb; "
        "verb._leave = lambda code: os.write(2, f'{code} {\"click\" in sys.modules}'.encode()) and os._exit(0); "
        f"sys.argv = ['dotnetdiag', 'trace', 'report', {str(file)!r}, 'gc']; verb.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.endswith("0 False")
