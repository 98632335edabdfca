"""A running trace session: its bytes, and how it ends."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S
from dotnetdiag.client.progress import TICK_S, Followed
from dotnetdiag.client.receiving import receive_into
from dotnetdiag.client.saving import save_stream
from dotnetdiag.errors import DiagnosticsError, ServerError, TimedOut, TransportError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.providers.durations import seconds_of
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.deadline import LONGEST_WAIT_S
from dotnetdiag.transport.streams import receive_buffer

CHUNK = 1 << 20
STOPPER_EXIT_S = 0.5
"""How long ``close`` waits for the answer to StopTracing when the stream has ended; then its connection is closed."""


class TraceSession(Followed):
    """The stream of one session. Iterate it for bytes, or :meth:`save` it; leaving the ``with`` block stops and drains it.

    Stop is sent on a second connection, while the first is read to its end: that is when the rundown comes (ipc-protocol.md §5.5).
    What goes wrong is raised by the call that reads, and stays in ``problem``; the connection is closed then.
    """

    def __init__(
        self,
        started: StartedSession,
        perform: Callable[[Run[None]], None],
        *,
        duration_s: float | None = None,
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
    ) -> None:
        self._follow(started, drain_timeout_s)
        self.command, self.duration_s, self._perform = started.command, duration_s, perform
        self._stop_run: Run[None] | None = None
        self._stop_has_ended = threading.Event()
        self._reading = threading.RLock()  # of a signal handler that closes while it is interrupted in save, too

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except DiagnosticsError:
            if kind is None:  # what happened in the block matters more
                raise

    def stop(self) -> None:
        """Ask the runtime to end the session, and return at once; what it still has keeps coming until the stream ends.

        May be called again, from any thread, and from signal handlers, also while it runs.
        """
        if not self._progress.is_over and self._progress.claim_stop():
            try:
                # not threading.Thread: its start takes a lock that the code under a signal handler may hold
                _thread.start_new_thread(self._stop, ())
            except RuntimeError as error:
                self._progress.stop_ended(TransportError(f"StopTracing was not sent: {error}"))
                self._stop_has_ended.set()

    def abort(self) -> None:
        """Have ``save`` return soon with what is in the file, and ``close`` not wait for the rest. As ``stop``, from anywhere."""
        self._progress.abort()

    def _stop(self) -> None:
        try:
            self._stop_run = Run(self._end())
            self._perform(self._stop_run)
        except DiagnosticsError as error:
            self._progress.stop_ended(error)
        else:
            self._progress.stop_ended(None)
        finally:
            self._stop_has_ended.set()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """The next 1..size bytes; ``b""`` when the session is over. Raises TimedOut, after which it can be read again, and what
        broke the session.
        """
        view, deadline = receive_buffer(size), Deadline(timeout_s)
        with self._turn(timeout_s):
            return bytes(view[: receive_into(self._progress, self._stream, view, deadline)])

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

        Raises OutputError for a file that cannot be made, that another recording writes into, or that takes no more; what ``tee`` and
        ``progress`` raise; what broke the session. The file then holds what had arrived.
        """
        duration_s = seconds_of(duration) if duration is not None else self.duration_s
        with self._turn(CLOSE_TIMEOUT_S):
            return save_stream(
                self._progress, self._stream, path, duration_s=duration_s, stop=self.stop, report=progress, tee=tee
            )

    def close(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop, read to the end without keeping it, for at most ``timeout_s``, and close. May be called again, from any thread: one that
        saves meanwhile gets all that comes.

        Raises ServerError when the runtime refused to stop the session, which goes on there. A target that is gone, or does not get
        to the end in time, is only told in ``problem``: closing the connection ends the session there.
        """
        if not self._progress.is_over:
            if not self._progress.is_aborted:
                self.stop()
            self._progress.limit_drain(timeout_s)
            try:
                self._drain(timeout_s)
            except ServerError:
                raise
            except DiagnosticsError:
                pass  # it is in `problem`
            finally:
                self._release()
        self._release()

    @contextmanager
    def _turn(self, timeout_s: float | None) -> Iterator[None]:
        """Who reads, reads alone. Raises TimedOut when another thread does for so long."""
        if not self._reading.acquire(timeout=LONGEST_WAIT_S if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)):
            raise TimedOut("another thread reads this session", address=self._stream.address, timeout_s=timeout_s)
        try:
            yield
        finally:
            self._reading.release()

    def _drain(self, timeout_s: float) -> None:
        """Read to the end; or have somebody who reads already come to it, within the same time."""
        scratch = memoryview(bytearray(CHUNK))
        if self._reading.acquire(timeout=min(timeout_s, LONGEST_WAIT_S) + 2 * TICK_S):
            try:
                while receive_into(self._progress, self._stream, scratch, Deadline(None)):
                    pass
            finally:
                self._reading.release()

    def _release(self) -> None:
        """Leave no connection and no thread behind."""
        self._stream.close()
        if self._progress.is_stopping and not self._stop_has_ended.wait(
            0 if self._progress.is_aborted else STOPPER_EXIT_S
        ):
            for connection in tuple(self._stop_run.open) if self._stop_run is not None else ():
                connection.close()
            self._stop_has_ended.wait(STOPPER_EXIT_S)
