"""Bytes from a stream into a file, without Python touching them where the system can move them itself.

On Linux ``splice`` moves pages from the socket through a pipe into the file; elsewhere, and where the file system refuses,
one large buffer is received into and written out. Either way a step returns only when what it took is in the file.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dotnetdiag.errors import DiagnosticsError, OutputError, TimedOut
from dotnetdiag.transport import Deadline, Stream

BUFFER_BYTES = 1 << 20
# Rundown can take long in large applications; a target that sends nothing for so long is given up on.
DRAIN_TIMEOUT_S = 600.0
# How often a quiet stream is left to look at the clock and to show progress.
TICK_S = 0.1
# What a pipe is asked to hold: the usual limit for unprivileged users (/proc/sys/fs/pipe-max-size).
PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class FileCopier:
    """Copies from ``stream`` to the descriptor ``target``; ``written`` counts what is in the file."""

    def __init__(self, stream: Stream, target: int, tee: Callable[[memoryview], None] | None = None) -> None:
        self.written = 0
        self._stream, self._target, self._tee = stream, target, tee
        self._pipe: tuple[int, int] | None = None
        self._buffer: memoryview | None = None
        if hasattr(os, "splice") and tee is None:
            self._pipe = os.pipe()
            with suppress(OSError, ImportError):  # a small pipe only makes more steps
                import fcntl

                fcntl.fcntl(self._pipe[1], _F_SETPIPE_SZ, PIPE_BYTES)

    def step(self, timeout_s: float) -> int:
        """Copy what is there, waiting at most ``timeout_s`` for it; the bytes copied, 0 at the end.

        Raises TimedOut when nothing came, OSError when the file takes no more.
        """
        if self._pipe is not None:
            count = self._splice(timeout_s)
            if count >= 0:
                return count
        return self._copy(timeout_s)

    def _splice(self, timeout_s: float) -> int:
        """As ``step``; -1 where splice is not possible here, and nothing was taken."""
        assert self._pipe is not None
        source, (read_end, write_end) = self._stream.fileno(), self._pipe
        if source < 0:
            return 0
        poll = select.poll()
        poll.register(source, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            raise TimedOut("nothing arrived", address=self._stream.address, timeout_s=timeout_s)
        try:
            count = os.splice(source, write_end, PIPE_BYTES, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            raise TimedOut("nothing arrived", address=self._stream.address, timeout_s=timeout_s) from None
        except ConnectionResetError:
            return 0  # as EOF (ipc-protocol.md §21.3)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOSYS):
                self._drop_pipe()
                return -1
            raise
        left = count
        while left:
            try:
                moved = os.splice(read_end, self._target, left, flags=os.SPLICE_F_MOVE)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                moved = self._write_out(read_end, left)  # this file system takes no pages
            left -= moved
            self.written += moved
        return count

    def _write_out(self, read_end: int, size: int) -> int:
        data = os.read(read_end, size)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._target, rest) :]
        return len(data)

    def _copy(self, timeout_s: float) -> int:
        if self._buffer is None:
            self._buffer = memoryview(bytearray(BUFFER_BYTES))
        count = self._stream.receive_into(self._buffer, Deadline(timeout_s))
        rest = self._buffer[:count]
        while rest:
            done = os.write(self._target, rest)
            self.written += done
            rest = rest[done:]
        if self._tee is not None and count:
            self._tee(self._buffer[:count])
        return count

    def _drop_pipe(self) -> None:
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def close(self) -> None:
        """Bring what an interrupt left in the pipe into the file, and release the pipe. Stream and file stay the caller's."""
        if self._pipe is not None:
            read_end, _ = self._pipe
            with suppress(OSError):
                os.set_blocking(read_end, False)
                while data := os.read(read_end, BUFFER_BYTES):
                    rest = memoryview(data)
                    while rest:
                        done = os.write(self._target, rest)
                        self.written += done
                        rest = rest[done:]
        self._drop_pipe()


def save_stream(
    stream: Stream,
    path: str | Path,
    *,
    duration_s: float | None,
    stop: Callable[[], None],
    is_stopping: Callable[[], bool],
    progress: Callable[[int], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    tee: Callable[[memoryview], None] | None = None,
) -> int:
    """Write a session's stream to a file until it ends; ``stop`` is called after ``duration_s``. The bytes written.

    All that has arrived is in the file whatever happens. Raises OutputError for a file that takes no more; an interrupt passes
    through. ``is_cancelled`` is asked several times a second: it ends the writing where it is. ``tee`` gets all bytes after they
    are in the file, in a buffer that is used again.
    """
    ends = None if duration_s is None else time.monotonic() + duration_s
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error
    copier = FileCopier(stream, target, tee)
    try:
        while not is_cancelled():
            draining = is_stopping()
            if ends is not None and time.monotonic() >= ends:
                stop()
                ends, draining = None, True
            quiet_since = time.monotonic()
            while (count := _step(copier)) < 0 and draining and not is_cancelled():
                if time.monotonic() - quiet_since > DRAIN_TIMEOUT_S:
                    raise TimedOut("the session's end did not come", address=stream.address, timeout_s=DRAIN_TIMEOUT_S)
            if count == 0:
                break
            if progress is not None:
                progress(copier.written)
    except OSError as error:
        if isinstance(error, DiagnosticsError):
            raise
        raise OutputError(str(path), f"{error.strerror}; {copier.written} bytes are in the file") from error
    finally:
        copier.close()
        os.close(target)
    return copier.written


def _step(copier: FileCopier) -> int:
    """As ``FileCopier.step`` for one tick; -1 when nothing came."""
    try:
        return copier.step(TICK_S)
    except TimedOut:
        return -1
