"""A program on a terminal of its own (a pty), whose output is read as it comes."""

from __future__ import annotations

import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from typing import Any

LIMIT_S = 60.0
ALTERNATE, NORMAL, CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
DOTNETDIAG = "from dotnetdiag.cli.main import main; main()"
_TAKE_TERMINAL = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); del sys.argv[0]; sys.argv[0] = 'dotnetdiag'; "
)


class Terminal:
    """One with a program on it. It is the program's controlling terminal: when it goes, SIGHUP comes."""

    def __init__(self, words: Sequence[str], *, before: str = "", size: tuple[int, int] = (80, 24)) -> None:
        self._leader, follower = pty.openpty()
        self._follower = follower
        """Kept open, so that its settings can be asked for afterwards."""
        ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.settings = termios.tcgetattr(follower)
        self._output = b""
        self._read = threading.Condition()
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
        self._program = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL + before + DOTNETDIAG, "-", *words],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"},
        )
        self._reader = threading.Thread(target=self._take, daemon=True)
        self._reader.start()

    def _take(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 1 << 16)
            except OSError:
                return
            with self._read:
                self._output += data
                self._read.notify_all()
            if not data:
                return

    @property
    def output(self) -> bytes:
        """All so far."""
        with self._read:
            return self._output

    def wait_for(self, text: bytes) -> None:
        """Until it was written."""
        with self._read:
            assert self._read.wait_for(lambda: text in self._output, LIMIT_S), self._output

    def press(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def kill(self, number: signal.Signals) -> None:
        self._program.send_signal(number)

    def stop(self) -> None:
        """It takes nothing any more, as after Ctrl-S."""
        termios.tcflow(self._follower, termios.TCOOFF)

    def ended(self) -> int:
        """The exit code of the program."""
        return self._program.wait(LIMIT_S)

    def settings_now(self) -> list[Any]:
        return termios.tcgetattr(self._follower)

    def hang_up(self) -> None:
        """The terminal goes."""
        os.close(self._follower)
        self._follower = -1
        os.close(self._leader)
        self._leader = -1

    def close(self) -> None:
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait(LIMIT_S)
        for descriptor in (self._follower, self._leader):
            if descriptor >= 0:
                os.close(descriptor)
        self._reader.join(LIMIT_S)


@contextmanager
def on_terminal(*words: str, before: str = "") -> Iterator[Terminal]:
    """Run a verb of ours; ``before`` is Python that runs before it."""
    terminal = Terminal(words, before=before)
    try:
        yield terminal
    finally:
        terminal.close()
