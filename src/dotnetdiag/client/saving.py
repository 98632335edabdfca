"""The bytes of a session, whoever wants them; into a file, until the stream ends.

Waiting a millisecond after a small piece halves the wake-ups (measured with the figures of ``sink``) and loses no event: the socket holds
208 KB, and no pause follows a piece that is a good part of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from dotnetdiag.client.progress import TICK_S, SessionProgress
from dotnetdiag.client.sink import FileSink
from dotnetdiag.errors import DiagnosticsError, OutputError, TimedOut
from dotnetdiag.transport import Deadline, Stream
from dotnetdiag.transport.sockets import fill_into

SMALL_PIECE_BYTES = 100_000
PAUSE_S = 0.001
UNREAD_S = 5.0
"""Once the end was asked for: who reads the pipe that is written to, and takes nothing for so long, will not."""


def receive_into(
    progress: SessionProgress, stream: Stream, view: memoryview, deadline: Deadline, quiet_s: float | None = None
) -> int:
    """The next bytes of a session; 0 when it is over. With ``quiet_s`` also what comes behind them, until ``view`` is full or nothing came for
    so long. Raises TimedOut after ``deadline``, and what broke the session.
    """
    while not progress.is_over:
        try:
            wait = progress.next_wait(deadline)
            if wait is not None:
                size = stream.receive_into(view, wait) if quiet_s is None else fill_into(stream, view, wait, quiet_s)
                return progress.arrived(size)
        except DiagnosticsError as error:
            if progress.is_over:
                raise
            progress.failed(error, deadline)
        finally:
            if progress.is_over:
                stream.close()
    return 0


def save_stream(
    progress: SessionProgress,
    stream: Stream,
    path: str | Path | int,
    *,
    duration_s: float | None,
    stop: Callable[[], None],
    report: Callable[[int], None] | None = None,
    tee: Callable[[memoryview], None] | None = None,
) -> int:
    """Write a session's stream to a file until it ends; ``stop`` is called after ``duration_s``. The bytes written.

    Raises OutputError for a file that takes no more, what broke the session, and what ``report`` and ``tee`` raise; what had arrived
    is in the file then. ``tee`` gets all bytes, in a buffer that is used again; ``report`` the bytes so far, several times a second and at the end.
    """
    ends = None if duration_s is None else time.monotonic() + duration_s
    unread, taken = Deadline(None), 0

    def look_at_the_clock() -> None:
        nonlocal ends
        if ends is not None and time.monotonic() >= ends:
            ends = None
            stop()

    def while_waiting() -> None:
        """The file takes nothing: a pipe whose reader does not read."""
        nonlocal unread, taken
        look_at_the_clock()
        if progress.next_wait(Deadline(None)) is None:
            raise OutputError(sink.path, "the recording was aborted while nobody read this pipe")
        if sink.written != taken or not progress.end_is_wanted:
            unread, taken = Deadline(UNREAD_S), sink.written
        elif unread.is_over:
            raise OutputError(sink.path, f"nobody reads this pipe; {taken} bytes were written")

    with FileSink(path, while_waiting, tee) as sink:
        last = reported = 0.0
        while True:
            view = sink.view
            try:
                count = receive_into(progress, stream, view, Deadline(TICK_S))
            except TimedOut:
                if progress.is_over:
                    raise
                sink.flush()
            else:
                if not count:
                    break
                sink.take(count)
                if count < SMALL_PIECE_BYTES and time.monotonic() - last < PAUSE_S:
                    time.sleep(PAUSE_S)  # they come fast: let some more gather
            last = time.monotonic()
            look_at_the_clock()
            if report is not None and last - reported >= TICK_S:
                reported = last
                report(sink.written)
    if report is not None:
        report(sink.written)
    return sink.written
