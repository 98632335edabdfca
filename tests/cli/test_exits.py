"""Every error has an exit code, and the codes are those that the start page has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nettrace.traces import small_trace

from dotnetdiag import errors
from dotnetdiag.cli.exits import exit_code

EXIT_CODES = Path(__file__).parents[2] / "docs" / "index.md"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        # not possible on this platform or runtime
        (4, errors.UnsupportedCommand("ProcessEnvironment", 0x80131385)),  # env on 3.1
        (4, errors.RuntimeTooOld("CollectTracing3", "a session without stacks", needs=".NET 9", has="8.0")),
        (4, errors.NotSupported("EnablePerfMap", 0x80131515)),  # NativeAOT
        (4, errors.NotPossible("CollectTracing5", "this kernel offers no user_events")),
        (4, errors.MissingDependency("pyarrow", extra="parquet", purpose="parquet")),
        # wrong arguments, or no such process
        (3, errors.UsageError("no")),
        (3, errors.RequestRefused("SetEnvironmentVariable", "the name is empty")),
        (3, errors.DangerousRequest("ApplyStartupHook", "x is no startup hook")),
        (3, errors.ProcessNotFound("no")),
        (1, errors.TargetStopped("no")),
        (1, errors.NoDiagnostics("no")),
        # no session, or the runtime refused
        (1, errors.ServerError("GenerateCoreDump3", 0x80004005)),
        (1, errors.BadEncoding("StartupProfiler", 0x80131384)),
        (1, errors.ProfilerAlreadyActive("AttachProfiler", 0x8013136A)),
        (1, errors.TimedOut("no")),
        (1, errors.ConnectionEnded("no")),
        # recording or reading failed, or was cancelled
        (2, errors.OutputError("x", "no")),
        (2, errors.InputError("x", "no")),
        (2, errors.FormatError("no")),
        (2, errors.DiagnosticsError("no")),
        (2, OSError(28, "No space left on device")),
        (2, KeyboardInterrupt()),
        # unknown
        (5, ZeroDivisionError()),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors_have_the_codes_of_the_table(code: int, error: BaseException) -> None:
    assert exit_code(error) == code
    if isinstance(error, errors.UnsupportedCommand):
        assert exit_code(error, compatible=True) == 1
    assert f"\n| {code} |" in EXIT_CODES.read_text("utf-8")


BROKEN = """
from dotnetdiag.recipes import processes
processes.list_processes = lambda **_: 1 / 0
import sys; sys.argv = ['dotnetdiag', *sys.argv[1:]]
from dotnetdiag.cli.main import main; main()
"""


def broken(*words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", BROKEN, *words]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


def test_an_error_that_nobody_expected_is_unknown_and_one_line_that_says_how_to_learn_more() -> None:
    done = broken("ps")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 1)
    assert "ZeroDivisionError: division by zero (<string>:3); --traceback" in done.stderr


@pytest.mark.parametrize("words", [["ps", "--traceback"], ["--traceback", "ps"], ["trace", "ps", "--traceback"]])
def test_the_traceback_is_shown_where_it_is_asked_for(words: list[str]) -> None:
    done = broken(*words)
    assert done.returncode == 5
    assert re.match(r"Traceback .*\nZeroDivisionError: division by zero\nerror: .*\n$", done.stderr, re.DOTALL)


def test_an_expected_error_has_a_traceback_too() -> None:
    program = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", "info", "/no/such", "--traceback"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert re.match(r"Traceback .*\nerror: /no/such: No such file or directory\n$", done.stderr, re.DOTALL)


@pytest.mark.parametrize(
    ("words", "usual", "compatible"),
    [
        (["trace", "collect", "-p", "x"], 3, 1),
        (["trace", "nosuch"], 3, 1),
        (["trace", "collect", "-p", "1", "--duration", "soon"], 3, 1),
        (["trace"], 0, 1),
        (["trace", "collect", "-p", "999999999"], 3, 2),
        (["trace", "collect", "-n", "no such process"], 3, 3),
        (["trace", "convert", "no such file", "--format", "speedscope"], 2, 1),
        (["trace", "convert", __file__, "--format", "speedscope"], 2, 3),
        (["trace", "convert", __file__, "--format", "nosuch"], 3, 1),
        (["trace", "convert", __file__, "--format", ","], 3, 1),
        (["trace", "convert", "head.nettrace", "--format", "speedscope"], 2, 1),
        (["trace", "report", "head.nettrace", "topN"], 2, 1),
        (["trace", "report", __file__, "topN"], 2, 1),
        (["trace", "report", "cut.nettrace", "topN"], 0, 1),
        (["trace", "report", "whole.nettrace", "topN"], 0, 0),
        (["trace", "report", "whole.nettrace"], 0, 255),
    ],
)
def test_codes_are_those_of_dotnet_trace_where_it_is_asked_for(
    words: list[str], usual: int, compatible: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = small_trace(5)
    for name, size in (("head", 20), ("cut", len(data) - 5), ("whole", len(data))):
        Path(f"{name}.nettrace").write_bytes(data[:size])
    program = [sys.executable, "-m", "dotnetdiag.cli.main"]
    codes = [
        subprocess.call([*program, *more, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        for more in ([], ["--compat"])
    ]
    assert codes == [usual, compatible]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", ["ps", "ps --json", "trace list-profiles", "doctor"])
def test_results_that_cannot_be_written_are_an_error(words: str) -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-m", "dotnetdiag.cli.main", *words.split()]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr
