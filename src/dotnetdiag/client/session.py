"""A running trace session: its bytes, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from dotnetdiag.client.copying import DRAIN_TIMEOUT_S, save_stream
from dotnetdiag.client.duration import seconds_of
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import Deadline, Stream

CHUNK = 1 << 20
# A target that has been told to stop and sends nothing for so long is left.
CLOSE_TIMEOUT_S = 5.0


class TraceSession:
    """The stream of one session. Iterate it for bytes, or :meth:`save` it; leaving the ``with`` block stops and drains it.

    Stop is sent on a second connection, while the first is read to its end: that is when the rundown comes (ipc-protocol.md §5.5).
    """

    def __init__(
        self,
        session_id: int,
        command: str,
        stream: Stream,
        stop: Callable[[], None],
        *,
        duration_s: float | None = None,
    ) -> None:
        self.session_id, self.command, self.duration_s = session_id, command, duration_s
        self.received_bytes = 0
        self._stream, self._send_stop = stream, stop
        self._stopper: threading.Thread | None = None
        self._stop_error: DiagnosticsError | None = None
        self._lock = threading.Lock()
        self._aborted = False

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

    def abort(self) -> None:
        """Have ``save`` return at once with what is in the file, and ``close`` not wait for the rest. May be called from a signal handler."""
        self._aborted = True

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
        self,
        path: str | Path,
        *,
        duration: float | str | None = None,
        progress: Callable[[int], None] | None = None,
        tee: Callable[[memoryview], None] | None = None,
    ) -> int:
        """Write the stream to a file until the session ends; stop it after ``duration`` (seconds, or ``"30s"``; without it the
        one given to ``trace``, without that never). ``progress`` gets the size so far, ``tee`` the bytes
        (in a buffer that is used again). Returns the bytes written.

        What has arrived is in the file whatever happens: the target's exit ends it, a full disk raises OutputError,
        Ctrl-C passes through after the session was stopped and closed by the caller.
        """
        seconds = seconds_of(duration) if duration is not None else self.duration_s
        before, written = self.received_bytes, 0

        def count(size_bytes: int) -> None:
            nonlocal written
            written = size_bytes
            self.received_bytes = before + size_bytes
            if progress is not None:
                progress(size_bytes)

        written = save_stream(
            self._stream,
            path,
            duration_s=seconds,
            stop=self.stop,
            is_stopping=lambda: self._stopper is not None,
            is_cancelled=lambda: self._aborted,
            progress=count,
            tee=tee,
        )
        self.received_bytes = before + written
        return written

    def close(self) -> None:
        """Stop, read to the end without keeping it, and close. Never raises for a target that is gone."""
        if not self._aborted:
            self.stop()
            try:
                while self._stream.receive(CHUNK, Deadline(CLOSE_TIMEOUT_S)):
                    pass
            except DiagnosticsError:
                pass  # the target stopped answering: closing the connection ends the session there
        self._stream.close()
        if self._stopper is not None and not self._aborted:
            self._stopper.join(CLOSE_TIMEOUT_S)
