"""The file that a session's stream is written to: bytes are received into its buffer, and are in the file soon after.

Rule: a quiet stream goes through the page cache, at once. One that brings ``FAST_BYTES_S`` goes past it (``O_DIRECT``) in megabytes, as
long as the disk takes them without making the target wait; this also leaves the page cache to the machine's own work.

What that is worth, of the whole ``trace collect`` (Linux 6.18, a flood of 316 MB with a buffer of 256 MB, medians of five alternating
pairs): 0.29 s of processor time against 0.33 through the page cache alone; of 90 MB with 16 MB: 0.21 both. ``splice`` through a pipe took
more than either.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from dotnetdiag.errors import DiagnosticsError, OutputError
from dotnetdiag.transport.waiting import is_ready

if sys.platform == "linux":
    import fcntl


def _lock(fd: int, path: str) -> None:
    """On Linux two recordings into one file are told apart, where its file system has locks."""
    try:
        if sys.platform == "linux":
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(fd), os.stat(path)):
                raise BlockingIOError  # somebody has just begun it anew
    except BlockingIOError as error:
        raise OutputError(path, "another recording writes into this file") from error
    except OSError:
        pass


def _set_direct(fd: int, on: bool) -> bool:
    if sys.platform == "linux":
        with suppress(OSError):  # this file system has no such thing
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
            return True
    return False


BUFFER_BYTES = 1 << 20
TICK_S = 0.1
# What is received at a time on the way through the page cache: more would not stay in the processor's cache.
PIECE_BYTES = 1 << 18
ALIGNMENT = 4096
FAST_BYTES_S = 20e6
# The first megabytes tell how fast a stream is; most traces end before.
WARM_UP_BYTES = 8 << 20
# Megabytes that take longer than this, on average or one of them, make the target wait: then the page cache is the better place.
# The socket and the smallest buffer of a runtime hold more than 10 ms of the fastest stream seen.
SLOW_AVERAGE_S, SLOW_WRITE_S = 0.005, 0.05


class FileSink:
    """Receive into ``view``, then call ``take`` with the number of bytes. ``written`` counts what is in the file.

    Raises OutputError when the file cannot be made, when another recording writes into it, or when it takes no more. A pipe that nobody
    reads now is waited for; ``while_waiting`` is called several times a second then, and may raise to end that. ``tee`` gets all bytes
    before they are written, in a buffer that is used again: of a fast stream in megabytes, which halves what a call for each piece costs.
    """

    def __init__(
        self,
        path: str | Path | int,
        while_waiting: Callable[[], None] = lambda: None,
        tee: Callable[[memoryview], None] | None = None,
    ) -> None:
        self.path, self._while_waiting, self._tee = str(path), while_waiting, tee
        self._may_be_direct = sys.platform == "linux"
        self._at_a_time = BUFFER_BYTES
        self._fd = self._take_over(path) if isinstance(path, int) else self._open(self.path)
        try:
            if not isinstance(path, int):
                self._claim()
        except BaseException:
            os.close(self._fd)
            raise
        self._buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))  # aligned, as O_DIRECT wants it
        self.written = 0
        self._held = self._told = 0
        self._direct = False
        self._window = (time.monotonic(), 0)
        self._average_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        self._while_waiting = self._give_up
        with suppress(OutputError):  # what happened before matters more
            self.close()

    def _give_up(self) -> None:
        """Something else has gone wrong: a pipe that is full is not waited for."""
        raise OutputError(self.path, "what was left is not written: nobody reads this pipe")

    def _open(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            return os.open(path, flags, 0o600)
        except OSError as error:
            reason = "nobody reads this pipe" if error.errno == errno.ENXIO else error.strerror or str(error)
            raise OutputError(self.path, reason) from error
        except ValueError as error:  # a NUL, or what does not encode
            raise OutputError(ascii(self.path), f"no file can have this name: {error}") from error

    def _take_over(self, descriptor: int) -> int:
        """One that others have too: it stays as they know it. Where it blocks, so much is written as it takes at once."""
        try:
            self.path, self._may_be_direct = f"descriptor {descriptor}", False
            if sys.platform != "win32" and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                with suppress(OSError):  # a socket, or made by another user
                    return os.open(f"/dev/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
                self._at_a_time = select.PIPE_BUF
            return os.dup(descriptor)
        except OSError as error:
            raise OutputError(f"descriptor {descriptor}", error.strerror or str(error)) from error

    def _claim(self) -> None:
        """Begin anew, unless somebody else records into the file: both recordings would be lost. What was there stays for those who have it
        open: a file that is mapped into memory and then cut kills its reader (SIGBUS).
        """
        status, old = os.fstat(self._fd), self._fd
        if not stat.S_ISREG(status.st_mode):
            return  # a pipe or a device has no beginning
        _lock(old, self.path)
        if status.st_size:
            try:
                os.unlink(os.path.realpath(self.path))
            except OSError:  # nothing may be removed in this folder
                os.ftruncate(old, 0)
            else:
                self._fd = self._open(self.path)
                os.close(old)
                _lock(self._fd, self.path)

    @property
    def view(self) -> memoryview:
        """Where the next bytes are to be received."""
        end = BUFFER_BYTES if self._direct else min(self._held + PIECE_BYTES, BUFFER_BYTES)
        return self._buffer[self._held : end]

    def take(self, count: int) -> None:
        """So many bytes of ``view`` hold data now."""
        self._held += count
        if self._direct and self._held < BUFFER_BYTES:
            return
        self._tell()
        with self._blamed_on_the_file():
            if self._direct:
                self._write_direct()
            elif self._may_be_direct and self._is_fast():
                self._become_direct()
            else:
                self._write(self._held)

    def flush(self) -> None:
        """Bring what is held into the file: the stream is quiet."""
        self._tell()
        with self._blamed_on_the_file():
            if self._direct:
                _set_direct(self._fd, False)
                self._direct = False
            if self._held:
                self._write(self._held)
            self._window = (time.monotonic(), self.written)

    def close(self) -> None:
        """Bring all into the file and close it. May be called again."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            descriptor, self._fd = self._fd, -1
            os.close(descriptor)

    def _tell(self) -> None:
        fresh, self._told = self._buffer[self._told : self._held], self._held
        if self._tee is not None and fresh:
            self._tee(fresh)

    @contextmanager
    def _blamed_on_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, DiagnosticsError):
                raise
            problem = f"{error.strerror or error}; {self.written} bytes were written"
            raise OutputError(self.path, problem) from error

    def _write(self, size: int) -> None:
        """The first ``size`` bytes of the buffer; what is behind them moves to its start."""
        done = 0
        try:
            while done < size:
                try:
                    if self._at_a_time < BUFFER_BYTES and not is_ready(self._fd, True, 0):
                        raise BlockingIOError
                    part = os.write(self._fd, self._buffer[done : min(size, done + self._at_a_time)])
                except BlockingIOError:
                    self._while_waiting()
                    is_ready(self._fd, True, TICK_S)
                    continue
                done += part
                self.written += part
        finally:
            rest = self._held - done
            if rest and done:
                self._buffer[:rest] = bytes(self._buffer[done : self._held])
            self._held = self._told = rest

    def _is_fast(self) -> bool:
        total = self.written + self._held
        if total < WARM_UP_BYTES:
            return False
        since, size = self._window
        now = time.monotonic()
        if now - since < 0.1:
            return False
        self._window = (now, total)
        return (total - size) / (now - since) >= FAST_BYTES_S

    def _become_direct(self) -> None:
        end = self.written + self._held
        aligned = end - end % ALIGNMENT
        if aligned < self.written:  # too small a piece to reach a boundary: another time
            self._write(self._held)
            return
        self._write(aligned - self.written)
        self._direct = self._may_be_direct = _set_direct(self._fd, True)
        if not self._direct:
            self._write(self._held)

    def _write_direct(self) -> None:
        began = time.monotonic()
        try:
            count = os.write(self._fd, self._buffer)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            count = 0
        self.written += count
        if count == BUFFER_BYTES:
            self._held = self._told = 0
            took = time.monotonic() - began
            self._average_s += (took - self._average_s) / 8
            if took <= SLOW_WRITE_S and self._average_s <= SLOW_AVERAGE_S:
                return
        elif count:
            rest = BUFFER_BYTES - count
            self._buffer[:rest] = bytes(self._buffer[count:])
            self._held = self._told = rest
        self._may_be_direct = False
        self.flush()
