"""A recording as the stream of a session: what is there when, and what StopTracing does to it.

Rule 1: a block is there when its last event had happened, as it was in the session that was recorded.
Rule 2: after StopTracing what is left comes at once, and the stream ends with the file; or it ends with the block that is under way, and the
format's end marker.
Rule 3: a session of a suspended runtime begins when that is resumed; stopped before, it is empty (ipc-protocol.md §21.3).
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from dotnetdiag.testing.misbehaviour import GOOD, Misbehaviour

if TYPE_CHECKING:
    from dotnetdiag.server.source import Source
    from dotnetdiag.testing.recording import Recording


class Replay:
    """The sans-IO part; times are seconds of any clock that does not go back.

    ``speed``: 1 is real time, 10 ten times as fast, None as fast as it is read. ``cuts``: StopTracing cuts the recording. ``waits``: its end
    is held back until StopTracing comes.
    """

    def __init__(
        self, recording: Recording, *, speed: float | None = None, cuts: bool = False, waits: bool = False
    ) -> None:
        self._recording, self._speed, self._cuts, self._waits = recording, speed, cuts, waits
        self._dues = [] if speed is None else [mark.due_ns / 1e9 / speed for mark in recording.marks]
        self._began: float | None = None
        self._position = 0
        self._end: int | None = None
        self._tail = b""

    @property
    def is_timed(self) -> bool:
        return self._speed is not None

    @property
    def is_stopped(self) -> bool:
        return self._end is not None

    def begin(self, now: float) -> None:
        """The first event happens now."""
        if self._began is None:
            self._began = now

    def stop(self) -> None:
        """StopTracing."""
        if self.is_stopped:
            return
        if self._began is None:
            self._end = 0
        elif self._cuts:
            self._end = self._recording.block_end(self._position)
            is_cut = self._end < len(self._recording.data) - len(self._recording.end_marker)
            self._tail = self._recording.end_marker if is_cut else self._recording.data[self._end :]
        else:
            self._end = len(self._recording.data)

    def take(self, limit: int, now: float) -> bytes | None:
        """As ``Source.take``."""
        there = self._there(now)
        if self._position < there:
            data = self._recording.data[self._position : min(self._position + limit, there)]
            self._position += len(data)
            return data
        if self.is_stopped:
            data, self._tail = self._tail[:limit], self._tail[limit:]
            return data or None
        is_over = self._began is not None and not self._waits and self._position == len(self._recording.data)
        return None if is_over else b""

    def wait_s(self, now: float) -> float | None:
        """Until more is there; None: when something is done to it."""
        if self._began is None or self.is_stopped:
            return None
        passed = now - self._began
        at = bisect_right(self._dues, passed)
        return self._dues[at] - passed if at < len(self._dues) else None

    def _there(self, now: float) -> int:
        if self._end is not None:
            return self._end
        if self._began is None:
            return 0
        ends = self._recording.ends
        count = len(ends) if self._speed is None else bisect_right(self._dues, now - self._began)
        if count == len(ends):
            return ends[-1] if self._waits else len(self._recording.data)
        return ends[count - 1] if count else 0


class ReplaySource:
    """A ``Source`` of a replay. ``held``: it begins with ``begin``."""

    def __init__(self, replay: Replay, *, held: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._replay, self._held, self._clock = replay, held, clock
        self._changed = threading.Condition()
        self._is_over = False
        self._wake: Callable[[], None] = lambda: None

    def on_ready(self, wake: Callable[[], None]) -> None:
        """From now on."""
        self._wake = wake
        if self._replay.is_timed:
            threading.Thread(target=self._pace, daemon=True, name="dotnetdiag replay").start()
        if not self._held:
            self.begin()

    def begin(self) -> None:
        """The runtime was resumed."""
        with self._changed:
            self._replay.begin(self._clock())
            self._changed.notify_all()
        self._wake()

    def take(self, limit: int) -> bytes | None:
        """What is there."""
        with self._changed:
            data = self._replay.take(limit, self._clock())
            if data is None:
                self._is_over = True
                self._changed.notify_all()
            return data

    def stop(self) -> None:
        """StopTracing."""
        with self._changed:
            self._replay.stop()
            self._changed.notify_all()
        self._wake()

    def hang_up(self) -> None:
        """The reader has gone."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _pace(self) -> None:
        while True:
            with self._changed:
                if self._is_over:
                    return
                self._changed.wait(self._replay.wait_s(self._clock()))
            self._wake()


class SpoiledSource:
    """A source behind which somebody misbehaves. ``sent``: bytes of the answer before the stream."""

    def __init__(self, source: Source, misbehaviour: Misbehaviour = GOOD, *, sent: int = 0) -> None:
        self._source, self._misbehaviour, self._sent = source, misbehaviour, sent

    def on_ready(self, wake: Callable[[], None]) -> None:
        """As the source's own."""
        self._source.on_ready(wake)

    def take(self, limit: int) -> bytes | None:
        """What the source has, spoiled."""
        close_at = self._misbehaviour.close_at
        if close_at is not None and self._sent >= close_at:
            self._source.hang_up()
            return None
        data = self._source.take(limit)
        if data:
            at, self._sent = self._sent, self._sent + len(data)
            data = self._misbehaviour.spoil(data, at)
        return data

    def stop(self) -> None:
        """As the source's own."""
        self._source.stop()

    def hang_up(self) -> None:
        """As the source's own."""
        self._source.hang_up()
