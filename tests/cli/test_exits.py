"""Every error has an exit code, and the codes are those of README's table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dotnetdiag import errors
from dotnetdiag.cli.exits import exit_code

README = Path(__file__).parents[2] / "README.md"


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
    assert f"\n| {code} |" in README.read_text("utf-8")


def test_an_error_that_nobody_expected_is_unknown_and_tells_all() -> None:
    program = (
        "from dotnetdiag.recipes import processes\n"
        "processes.list_processes = lambda **_: 1 / 0\n"
        "import sys; sys.argv = ['dotnetdiag', 'ps']\n"
        "from dotnetdiag.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert re.search(r"Traceback.*ZeroDivisionError: division by zero\n$", done.stderr, re.DOTALL)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", ["ps", "ps --json", "trace list-profiles", "doctor"])
def test_results_that_cannot_be_written_are_an_error(words: str) -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-m", "dotnetdiag.cli.main", *words.split()]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr
