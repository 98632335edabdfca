"""Standard streams that are closed, or whose reader takes nothing: a full pipe, a stopped terminal (Ctrl-S).

Rule 1: nothing ends otherwise because stderr cannot take a line (its disk is full, its terminal gone): the exit code tells.
Rule 2: who waits for a reader goes on waiting, until a signal asks for an end. Then the reader has ``LAST_LINES_S`` left; what it
does not take of stderr by then is dropped, and what it does not take of stdout is an error.
Rule 3: verbs that have results need a stdout from the start; of others the first line that they say there after all is an error.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from typing import Any

from dotnetdiag.cli.signals import end_wanted_for_s

LAST_LINES_S = 1.0
"""For the reader to go on, once the verb is to end."""
_LOOK_MS = 50


def prepare() -> bool:
    """Make the streams of this process as the rules say; whether there is a stdout. To be called before anything is opened: a closed one
    gives its number away.
    """
    closed = [number for number, name in enumerate(("stdin", "stdout", "stderr")) if getattr(sys, name) is None]
    for number in closed:
        # of stdout not to be written: what writes to its number is told, and so is a program that we start
        nowhere = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)
    if 0 in closed:  # closefd: its number must not become that of the next socket or file
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if 1 in closed:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), "utf-8")
    elif _is_plain(sys.stdout, 1):
        sys.stdout = _over(_Patient(1, "w", closefd=False), sys.stdout)
    if 2 in closed:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    elif _is_plain(sys.stderr, 2):
        sys.stderr = _over(_Stderr(2, "w", closefd=False), sys.stderr, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # any text can be said in any encoding
    return 1 not in closed


def lead_stdout_nowhere() -> None:
    """What is left in the buffer of a pipe that takes nothing must not fail at the interpreter's end."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def takes_at_once(descriptor: int) -> bool:
    """Whether a line can be written without waiting for a reader."""
    return os.name != "posix" or bool(_poll(descriptor, 0))


def _is_plain(stream: Any, number: int) -> bool:
    return os.name == "posix" and isinstance(stream, io.TextIOWrapper) and stream.fileno() == number


def _over(raw: io.RawIOBase, stream: Any, *, line_buffering: bool = False) -> io.TextIOWrapper:
    is_by_line = line_buffering or stream.line_buffering
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=is_by_line)


def _poll(descriptor: int, timeout_ms: int) -> int:
    """The events, 0 for none."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    found = poll.poll(timeout_ms)
    return found[0][1] if found else 0


class _Patient(io.FileIO):
    """Writes without ever being held up for longer than the rules allow."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        mode = os.fstat(self.fileno()).st_mode
        self._may_wait = not (stat.S_ISREG(mode) or stat.S_ISBLK(mode))

    def write(self, data: Any) -> int:
        """Raises OSError when nobody reads, and an end is wanted."""
        if not self._may_wait:
            return super().write(data)
        while not _poll(self.fileno(), _LOOK_MS):
            over_s = end_wanted_for_s()
            if over_s is not None and over_s > LAST_LINES_S:
                raise OSError(errno.ETIMEDOUT, "nobody reads it")
        # so much fits into a pipe that takes anything: the write does not wait
        return super().write(memoryview(data)[: select.PIPE_BUF])


class _Stderr(_Patient):
    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)  # None: it does not block, and is full
        except OSError:
            return len(data)


class _Closed(io.RawIOBase):
    """Stdout that was closed by who started us."""

    def fileno(self) -> int:
        return 1

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ARG002
        raise OSError(errno.EBADF, "it is closed; results go there")
