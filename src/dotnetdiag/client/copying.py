"""Bytes from a stream into a file, without Python touching them where the system can move them itself.

On Linux ``splice`` moves pages from the socket through a pipe into the file; elsewhere, and where the file system refuses,
one large buffer is received into and written out. Either way a step returns only when what it took is in the file.
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress

from dotnetdiag.errors import TimedOut
from dotnetdiag.transport import Deadline, Stream

BUFFER_BYTES = 1 << 20
# What a pipe is asked to hold: the usual limit for unprivileged users (/proc/sys/fs/pipe-max-size).
PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class FileCopier:
    """Copies from ``stream`` to the descriptor ``target``; ``written`` counts what is in the file."""

    def __init__(self, stream: Stream, target: int) -> None:
        self.written = 0
        self._stream, self._target = stream, target
        self._pipe: tuple[int, int] | None = None
        self._buffer: memoryview | None = None
        if hasattr(os, "splice"):
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
        return count

    def _drop_pipe(self) -> None:
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def close(self) -> None:
        """Release the pipe. The stream and the file stay the caller's."""
        self._drop_pipe()
