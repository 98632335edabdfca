"""``stack symbolicate``: where its text goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.assemblies.test_sequence_points import SIMPLE, pdb

from dotnetdiag.cli.stack import symbolicate
from dotnetdiag.errors import InputError, OutputExists

TRACE = "Unhandled \x1b[31m\r\n\tat C() in App.dll:token 0x6000001+0x9\n"
MADE = "Unhandled \x1b[31m\n\tat C() in /src/A.cs:line 12\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "App.pdb").write_bytes(pdb((1, SIMPLE)))
    path = tmp_path / "crash.txt"
    path.write_text(TRACE, newline="")
    return path


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(symbolicate, [str(word) for word in words])


def test_it_is_written_beside_the_text_as_dotnet_stack_writes_it(trace: Path) -> None:
    done = run(trace, "-d", trace.parent / "bin")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert Path(f"{trace}.symbolicated").read_text() == MADE
    assert isinstance(run(trace, "-d", trace.parent / "bin").exception, OutputExists)
    assert run(trace, "-d", trace.parent / "bin", "--force").exit_code == 0


def test_it_is_found_below_the_current_folder_and_printed(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trace.parent)
    for words in (["-o", "-"], ["-c", "-o", "x"]):
        assert run("crash.txt", *words).stdout.splitlines() == [
            "Unhandled \\x1b[31m",
            "        at C() in /src/A.cs:line 12",
        ]
    assert Path("x").read_text() == MADE


def test_a_text_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert isinstance(run(tmp_path / "no").exception, InputError)


@pytest.mark.parametrize("words", [["-o", "-"], ["-c"]])
def test_it_is_not_printed_into_the_text_that_is_read(words: list[str], trace: Path) -> None:
    before, verb = trace.read_bytes(), [sys.executable, "-m", "dotnetdiag", "stack", "symbolicate", str(trace)]
    with open(trace, "ab") as file:
        done = subprocess.run([*verb, *words], stdout=file, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    assert b"is what is read" in done.stderr
    assert [path.name for path in trace.parent.iterdir() if path.is_file()] == [trace.name]
    assert trace.read_bytes() == before
