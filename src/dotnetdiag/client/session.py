"""A running trace session: its bytes, and how it ends."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S
from dotnetdiag.client.progress import TICK_S, Followed
from dotnetdiag.client.saving import receive_into, save_stream
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, ServerError, TimedOut, UsageError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.deadline import LONGEST_WAIT_S
from dotnetdiag.transport.streams import receive_buffer

CHUNK = 1 << 20
STOPPER_EXIT_S = 0.5
"""How long ``close`` waits for the answer to StopTracing when the stream has ended; then its connection is closed."""


class StreamedSession(Followed):
    """A session whose stream comes to us: what both shells do with it in the same way."""

    def stop(self) -> None:
        """Ask the runtime to end the session, and return at once; what it still has keeps coming until the stream ends.

        May be called again, from any thread, and from signal handlers, also while it runs.
        """
        if self._progress.claim_stop():
            try:
                self._begin_stop()
            except RuntimeError as error:  # no more threads; a loop that is closed
                with self._progress.outcome_of_stop():
                    raise error

    def abort(self) -> None:
        """Have ``save`` return soon with what is in the file, and ``close`` not wait for the rest. As ``stop``, from anywhere."""
        self._progress.is_aborted = True

    def has_arrived(self) -> bool:
        """Whether bytes, or the end, wait to be read. Never waits; false where the system does not say, and when the session is over."""
        return bool(self._stream.has_arrived())

    def _begin_stop(self) -> None:
        raise NotImplementedError

    def _begin_close(self, timeout_s: float) -> float:
        """Stop, unless nobody wants the rest. How long to wait then for somebody who reads. Raises UsageError, before anything is sent."""
        limit = Deadline(timeout_s)
        if not self._progress.is_over:
            if not self._progress.is_aborted:
                self.stop()
            self._progress.limit_drain(limit)
        return min(timeout_s, LONGEST_WAIT_S) + 2 * TICK_S

    def _not_our_turn(self, timeout_s: float | None) -> TimedOut:
        return TimedOut("somebody else reads this session", address=self._stream.address, timeout_s=timeout_s)


class TraceSession(StreamedSession):
    """The stream of one session. Iterate it for bytes, or :meth:`save` it; leaving the ``with`` block stops and drains it.

    Stop is sent on a second connection, while the first is read to its end: that is when the rundown comes.
    What goes wrong is raised by the call that reads, and stays in ``problem``; the connection is closed then.
    """

    def __init__(self, started: StartedSession, perform: Callable[[Run[None]], None], **options: Any) -> None:
        super().__init__(started, perform, **options)
        self._stop_run: Run[None] | None = None
        # both reentrant: a signal handler may close, too
        self._stopping, self._reading = threading.Condition(), threading.RLock()
        self._reader: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except DiagnosticsError:
            if kind is None:  # what happened in the block matters more
                raise

    def _begin_stop(self) -> None:
        # not threading.Thread: its start takes a lock that the code under a signal handler may hold
        _thread.start_new_thread(self._stop, ())

    def _stop(self) -> None:
        with self._progress.outcome_of_stop():
            self._stop_run = Run(self._end())
            self._perform(self._stop_run)
        with self._stopping:
            self._stopping.notify_all()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """The next 1..size bytes; ``b""`` when the session is over. Raises TimedOut, after which it can be read again, and what
        broke the session.
        """
        view = receive_buffer(size)
        return bytes(view[: self.read_into(view, timeout_s=timeout_s)])

    def read_into(self, view: memoryview, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> int:
        """As :meth:`read`, into the caller's buffer: how many bytes, 0 when the session is over."""
        deadline = Deadline(timeout_s)
        with self._turn(timeout_s):
            return receive_into(self._progress, self._stream, view, deadline)

    def save(
        self,
        path: str | Path | int,
        *,
        duration: float | str | None = None,
        progress: Callable[[int], None] | None = None,
        tee: Callable[[memoryview], None] | None = None,
    ) -> int:
        """Write the stream to a file, or a descriptor, until the session ends; stop it after ``duration`` (seconds, ``"30s"``; without it the
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
        saves meanwhile gets all that comes. In a signal handler that has interrupted a ``read`` or ``save`` it leaves the rest to that.

        Raises ServerError when the runtime refused to stop the session, which goes on there. A target that is gone, or does not get
        to the end in time, is only told in ``problem``: closing the connection ends the session there. In a forked child only the child's
        copy of the connection is closed.
        """
        if self._is_inherited(self._stream):
            return
        turn_s = self._begin_close(timeout_s)
        if self._reader == threading.get_ident():
            return
        try:
            with self._turn(turn_s):
                scratch = memoryview(bytearray(CHUNK))
                while receive_into(self._progress, self._stream, scratch, Deadline(None)):
                    pass
        except DiagnosticsError as error:
            if isinstance(error, ServerError):
                raise  # others are in `problem`
        finally:
            self._release()

    @contextmanager
    def _turn(self, timeout_s: float | None) -> Iterator[None]:
        """Who reads, reads alone. Raises TimedOut when another thread does for so long, UsageError when this one does, and was interrupted."""
        if self._reader == threading.get_ident():
            raise UsageError("this thread reads this session already")
        if not self._reading.acquire(timeout=LONGEST_WAIT_S if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)):
            raise self._not_our_turn(timeout_s)
        try:
            self._reader = threading.get_ident()
            yield
        finally:
            self._reader = None
            self._reading.release()

    def _release(self) -> None:
        """Leave no connection and no thread behind."""
        self._stream.close()
        grace_s = 0 if self._progress.is_aborted else STOPPER_EXIT_S
        if self._progress.is_stopping and not self._stop_ends_within(grace_s):
            for connection in tuple(self._stop_run.open) if self._stop_run is not None else ():
                connection.close()
            self._stop_ends_within(STOPPER_EXIT_S)

    def _stop_ends_within(self, seconds: float) -> bool:
        with self._stopping:
            return self._stopping.wait_for(lambda: self._progress.stop_has_ended, seconds)


def fill_from(session: TraceSession, view: memoryview, *, timeout_s: float, quiet_s: float) -> int:
    """As its ``read_into``, and goes on until the buffer is full, nothing has come for ``quiet_s`` (all waits together), or the session is over,
    which the next call tells: for a thread that wants many bytes with few calls.
    """
    with session._turn(timeout_s):
        return receive_into(session._progress, session._stream, view, Deadline(timeout_s), quiet_s)


def ask_to_end(session: TraceSession, seconds: float) -> None:
    """Have the runtime told to end a session of which nothing more is wanted, and give it so long to answer. It hears that later, too, when the
    session is closed by then. One that has nothing more to send would not notice that nobody reads.
    """
    session.stop()
    session._stop_ends_within(seconds)


def is_stop_on_its_way(session: TraceSession) -> bool:
    """Whether the runtime has a connection for StopTracing, or has answered: it ends the session, whatever becomes of this program."""
    run = session._stop_run
    return session._progress.stop_has_ended or (run is not None and bool(run.open))
