"""A running trace session: its bytes, and how it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from dotnetdiag.client.copying import FileCopier
from dotnetdiag.errors import DiagnosticsError, OutputError, TimedOut
from dotnetdiag.transport import Deadline, Stream

CHUNK = 1 << 20
# Rundown can take long in large applications; a target that sends nothing for so long is given up on.
DRAIN_TIMEOUT_S = 600.0
# How often a quiet stream is left to look at the clock and to show progress.
TICK_S = 0.1


class TraceSession:
    """The stream of one session. Iterate it for bytes, or :meth:`save` it; leaving the ``with`` block stops and drains it.

    Stop is sent on a second connection, while the first is read to its end: that is when the rundown comes (ipc-protocol.md §5.5).
    """

    def __init__(self, session_id: int, command: str, stream: Stream, stop: Callable[[], None]) -> None:
        self.session_id, self.command = session_id, command
        self.received_bytes = 0
        self._stream, self._send_stop = stream, stop
        self._stopper: threading.Thread | None = None
        self._stop_error: DiagnosticsError | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """Ask the runtime to end the session, and return at once; what it still has keeps coming until the stream ends."""
        with self._lock:
            if self._stopper is None:
                self._stopper = threading.Thread(target=self._stop, name="dotnetdiag stop", daemon=True)
                self._stopper.start()

    def _stop(self) -> None:
        try:
            self._send_stop()
        except DiagnosticsError as error:  # the target may be gone; the stream's end tells the same
            self._stop_error = error

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """The next 1..size bytes; ``b""`` when the session has ended. Raises TimedOut."""
        data = self._stream.receive(size, Deadline(timeout_s))
        self.received_bytes += len(data)
        return data

    def save(
        self, path: str | Path, *, duration_s: float | None = None, progress: Callable[[int], None] | None = None
    ) -> int:
        """Write the stream to a file until the session ends; stop it after ``duration_s``. Returns the bytes written.

        What has arrived is in the file whatever happens: the target's exit ends it, a full disk raises OutputError,
        Ctrl-C passes through after the session was stopped and closed by the caller.
        """
        ends = None if duration_s is None else time.monotonic() + duration_s
        try:
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise OutputError(str(path), error.strerror or str(error)) from error
        copier = FileCopier(self._stream, target)
        try:
            while True:
                draining = self._stopper is not None
                if ends is not None and time.monotonic() >= ends:
                    self.stop()
                    ends = None
                try:
                    count = copier.step(DRAIN_TIMEOUT_S if draining else TICK_S)
                except TimedOut:
                    if draining:
                        raise
                    count = -1
                if count == 0:
                    return copier.written
                if progress is not None:
                    progress(copier.written)
        except OSError as error:
            if isinstance(error, DiagnosticsError):
                raise
            raise OutputError(str(path), f"{error.strerror}; {copier.written} bytes are in the file") from error
        finally:
            self.received_bytes += copier.written
            copier.close()
            os.close(target)

    def close(self) -> None:
        """Stop, read to the end without keeping it, and close. Never raises for a target that is gone."""
        self.stop()
        try:
            while self._stream.receive(CHUNK, Deadline(5.0)):
                pass
        except DiagnosticsError:
            pass  # the target stopped answering: closing the connection ends the session there
        self._stream.close()
        if self._stopper is not None:
            self._stopper.join(5.0)
