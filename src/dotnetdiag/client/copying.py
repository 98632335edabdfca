"""Bytes from a session's stream into a file, until the stream ends.

Waiting a millisecond after a small piece halves the wake-ups (measured with the figures of ``sink``) and loses no event: the socket holds
208 KB, and no pause follows a piece that is a good part of that.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dotnetdiag.client.sink import FileSink
from dotnetdiag.errors import DiagnosticsError, OutputError, TimedOut
from dotnetdiag.transport import Deadline, Stream

SMALL_PIECE_BYTES = 100_000
PAUSE_S = 0.001
# Rundown can take long in large applications; a target that sends nothing for so long is given up on.
DRAIN_TIMEOUT_S = 600.0
# How often a quiet stream is left to look at the clock and to show progress.
TICK_S = 0.1


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

    All that has arrived is in the file whatever happens. Raises OutputError for a file that takes no more. An interrupt is
    noticed between two pieces and raised when the file is closed. ``is_cancelled`` is asked several times a second: it ends
    the writing where it is. ``tee`` gets all bytes, in a buffer that is used again.
    """
    ends = None if duration_s is None else time.monotonic() + duration_s
    sink = FileSink(path)
    interrupt = _DeferredInterrupt()
    try:
        try:
            last = quiet_since = time.monotonic()
            while not (is_cancelled() or interrupt.came):
                count = _step(stream, sink, tee)
                if count == 0:
                    break
                now = time.monotonic()
                draining = is_stopping()
                if count > 0:
                    if count < SMALL_PIECE_BYTES and now - last < PAUSE_S:  # pieces come fast: let some more gather
                        time.sleep(PAUSE_S)
                        now += PAUSE_S
                    last = quiet_since = now
                elif draining and now - quiet_since > DRAIN_TIMEOUT_S:
                    raise TimedOut("the session's end did not come", address=stream.address, timeout_s=DRAIN_TIMEOUT_S)
                if ends is not None and now >= ends:
                    stop()
                    ends, quiet_since = None, now
                if progress is not None:
                    progress(sink.written)
        finally:
            interrupt.restore()
            sink.close()
    except OSError as error:
        if isinstance(error, DiagnosticsError):
            raise
        raise OutputError(str(path), f"{error.strerror}; {sink.written} bytes are in the file") from error
    if interrupt.came:
        raise KeyboardInterrupt
    return sink.written


def _step(stream: Stream, sink: FileSink, tee: Callable[[memoryview], None] | None) -> int:
    """Receive what is there within one tick; the bytes, 0 at the end, -1 when nothing came."""
    view = sink.view
    try:
        count = stream.receive_into(view, Deadline(TICK_S))
    except TimedOut:
        sink.settle()
        return -1
    if tee is not None and count:
        tee(view[:count])
    sink.take(count)
    return count


class _DeferredInterrupt:
    """Ctrl-C as a flag: Python may raise between the system call that took bytes and the assignment that says how many.

    Only where Ctrl-C would raise KeyboardInterrupt anyhow; a handler of somebody else's stays.
    """

    def __init__(self) -> None:
        self.came = False
        ours = threading.current_thread() is threading.main_thread()
        self._deferred = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._deferred:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self.came = True

    def restore(self) -> None:
        if self._deferred:
            signal.signal(signal.SIGINT, signal.default_int_handler)
