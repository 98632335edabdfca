"""A session's source that a test fills, and commands that stream it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing2, CollectTracing6
from dotnetdiag.server.commands import Caller, Commands, Streaming

REQUEST = CollectTracing2(providers=(Provider(name="A"),), buffer_mb=1, format=TraceFormat.NETTRACE)


class FakeSource:
    """``said`` is what was asked of it. ``rundown`` comes after ``stop``; None: it refuses to end."""

    def __init__(self, data: bytes = b"", rundown: bytes | None = b"the end") -> None:
        self.said: list[str] = []
        self.changed = threading.Condition()
        self._data, self._rundown, self._is_ending = bytearray(data), rundown, False
        self._wake: Callable[[], None] = lambda: None

    def give(self, data: bytes) -> None:
        with self.changed:
            self._data += data
        self._wake()

    def finish(self) -> None:
        """Without being asked to."""
        self._is_ending = True
        self._wake()

    def until(self, word: str) -> None:
        """Until it was asked so."""
        with self.changed:
            assert self.changed.wait_for(lambda: word in self.said, 20), self.said

    def _say(self, word: str) -> None:
        with self.changed:
            self.said.append(word)
            self.changed.notify_all()

    # -- a Source

    def on_ready(self, wake: Callable[[], None]) -> None:
        self._say("on_ready")
        self._wake = wake

    def take(self, limit: int) -> bytes | None:
        with self.changed:
            data = bytes(self._data[:limit])
            del self._data[:limit]
        if not data and self._is_ending:
            self._say("None")
            return None
        return data

    def stop(self) -> None:
        self._say("stop")
        if self._rundown is not None:
            self.give(self._rundown)
            self.finish()

    def hang_up(self) -> None:
        self._say("hang_up")


class Streamer(Commands):
    """Every session streams from a source that ``make`` gives."""

    def __init__(self, make: Callable[[], FakeSource] = FakeSource) -> None:
        super().__init__()
        self.sources: list[FakeSource] = []
        self.asked: list[CollectTracing6] = []
        self._make = make

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:
        self.asked.append(request)
        self.sources.append(self._make())
        return Streaming(source=self.sources[-1])
