"""Standard streams whose reader takes nothing: a verb waits for it, but not once it is to end."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.cli.test_strange_sockets import environment
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import ScriptedRuntime, obeys, streams

from dotnetdiag.cli import signals, standard_streams
from dotnetdiag.cli.standard_streams import _Patient, _Stderr, takes_at_once
from dotnetdiag.ipc.commands import Command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX")
PROGRAM = [sys.executable, "-m", "dotnetdiag.cli.main"]
PATIENCE_S = 30.0


class Pipe:
    """Full from the start."""

    def __init__(self, stack: ExitStack) -> None:
        self.reader, self.writer = os.pipe()
        stack.callback(os.close, self.reader)
        stack.callback(os.close, self.writer)
        os.set_blocking(self.writer, False)
        self.held = 0
        try:
            while True:
                self.held += os.write(self.writer, b"x" * 512)
        except BlockingIOError:
            os.set_blocking(self.writer, True)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def pipe(stack: ExitStack) -> Pipe:
    return Pipe(stack)


def wanted(monkeypatch: pytest.MonkeyPatch, for_s: float | None) -> None:
    monkeypatch.setattr(standard_streams, "end_wanted_for_s", lambda: for_s)


def test_what_nobody_reads_is_waited_for_while_no_end_is_wanted(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(monkeypatch, None)
    file = io.BufferedWriter(_Patient(pipe.writer, "w", closefd=False))
    data = os.urandom(100_000)

    def write() -> None:
        file.write(data)
        file.flush()

    thread = threading.Thread(target=write)
    thread.start()
    got = b""
    while len(got) < pipe.held + len(data):
        got += os.read(pipe.reader, 1 << 16)
    thread.join(PATIENCE_S)
    assert got[pipe.held :] == data


def test_what_nobody_reads_of_stdout_is_an_error_once_an_end_is_wanted(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted(monkeypatch, standard_streams.LAST_LINES_S + 0.1)
    with pytest.raises(OSError, match="nobody reads it") as caught:
        _Patient(pipe.writer, "w", closefd=False).write(b"x")
    assert caught.value.errno == errno.ETIMEDOUT


def test_what_nobody_reads_of_stderr_is_dropped_once_an_end_is_wanted(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted(monkeypatch, standard_streams.LAST_LINES_S + 0.1)
    assert _Stderr(pipe.writer, "w", closefd=False).write(b"xyz") == 3


def test_a_full_pipe_takes_nothing_at_once(pipe: Pipe) -> None:
    assert not takes_at_once(pipe.writer)
    os.read(pipe.reader, 1 << 16)
    assert takes_at_once(pipe.writer)


def test_a_stopped_terminal_takes_nothing_at_once(stack: ExitStack) -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    stack.callback(os.close, ours)
    stack.callback(os.close, theirs)
    assert takes_at_once(theirs)
    termios.tcflow(theirs, termios.TCOOFF)
    assert not takes_at_once(theirs)
    termios.tcflow(theirs, termios.TCOON)
    assert takes_at_once(theirs)


def test_a_regular_file_takes_all_of_a_write(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        assert _Patient(file.fileno(), "w", closefd=False).write(bytes(100_000)) == 100_000


def test_a_signal_wants_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_end_wanted", None)
    assert signals.end_wanted_for_s() is None
    with signals.pressed(lambda *_, **__: None):
        os.kill(os.getpid(), signal.SIGTERM)
    waited = signals.end_wanted_for_s()
    assert waited is not None
    assert waited >= 0


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dd-") as made:
        yield Path(made)


CASES = {
    "router": (["router", "server-server", "--tools", "{0}/t", "--runtimes", "{0}/r", "--json"], 0),
    "ports": (["ports", "{0}/r"], 0),
    "collect": (["trace", "collect", "--diagnostic-port", "{0}/one,connect", "--providers", "A", "-o", "{0}/x"], 2),
    "ring": (
        ["trace", "collect", "--diagnostic-port", "{0}/one,connect", "--providers", "A", "-o", "{0}/x", "--ring", "5s"],
        2,
    ),
}


@pytest.mark.parametrize("with_stderr", [False, True], ids=["stdout", "both"])
@pytest.mark.parametrize("verb", CASES)
def test_one_signal_ends_a_verb_whose_output_nobody_reads(
    verb: str, with_stderr: bool, folder: Path, pipe: Pipe, stack: ExitStack
) -> None:
    """``both``: what it says to begin with is not read either."""
    words, code = CASES[verb]
    runtime = ScriptedRuntime(folder / "one", {Command.CollectTracing2: streams(0.05), Command.StopTracing: obeys})
    stack.callback(runtime.close)
    process = subprocess.Popen(
        [*PROGRAM, *(word.format(folder) for word in words)],
        stdin=subprocess.DEVNULL,
        stdout=pipe.writer,
        stderr=pipe.writer if with_stderr else subprocess.PIPE,
        env=environment(),
    )
    try:
        if with_stderr:
            _wait_until_it_handles_signals(process.pid)
        elif verb in ("router", "ports"):
            assert process.stderr is not None
            process.stderr.readline()
            dialling = DiallingRuntime(folder / "r")
            dialling.start()
            stack.callback(dialling.stop)
        else:
            runtime.wait_for(Command.CollectTracing2)
        process.send_signal(signal.SIGTERM)
        ended = process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    # 143: it had not begun, or the signal that a verb passes on as its code came before its end was told
    assert ended in (code, 0, 2, 143)


def _wait_until_it_handles_signals(pid: int) -> None:
    """Which is so from before its first line."""
    mask = 1 << (signal.SIGTERM - 1)
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) & mask:
            return
