"""Connections to a port of ours that have not said yet who they are: one thread listens to all of them (on Windows one each)."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterable

from dotnetdiag.transport import Stream
from dotnetdiag.transport.waiting import start

TICK_S = 0.005
"""How late a connection is listened to that was made while others were."""


class Hearing:
    """Gives each connection to ``admit`` once ``size`` bytes of it are there or it has ended, and closes those that say less within
    ``limit_s``: then ``heard``, which it came with, is set here; otherwise ``admit`` sets it.
    """

    def __init__(self, admit: Callable[[threading.Event, Stream], None], *, size: int, limit_s: float) -> None:
        self._admit, self._size, self._limit_s = admit, size, limit_s
        self._lock = threading.Lock()
        self._silent: dict[Stream, tuple[float, threading.Event]] = {}
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._silent)

    def add(self, heard: threading.Event, stream: Stream) -> None:
        """Listen to it. Raises TransportError, and has closed it, when no thread can be started."""
        with self._lock:
            self._silent[stream] = time.monotonic() + self._limit_s, heard
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._listen, name="dotnetdiag hearing", daemon=True)
            try:
                start(self._thread)
            except BaseException:
                self._thread = None
                del self._silent[stream]
                stream.close()
                raise

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            left, self._silent = list(self._silent), {}
        for stream in left:
            stream.close()

    def _listen(self) -> None:
        while True:
            with self._lock:
                if not self._silent:
                    self._thread = None
                    return
                silent = dict(self._silent)
            ready = self._ready(silent)
            now = time.monotonic()
            for stream, (ends, heard) in silent.items():
                if stream not in ready and now < ends:
                    continue
                with self._lock:
                    is_ours = self._silent.pop(stream, None) is not None
                if is_ours and stream in ready:
                    self._admit(heard, stream)
                elif is_ours:
                    stream.close()
                    heard.set()
            if not ready:
                time.sleep(TICK_S)  # of what has come in part a poll would tell again and again

    def _ready(self, silent: Iterable[Stream]) -> set[Stream]:
        by_descriptor = {stream.fileno(): stream for stream in silent}
        poll = select.poll()
        for descriptor in by_descriptor:
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        said = [by_descriptor[descriptor] for descriptor, _ in poll.poll(TICK_S * 1000)]
        return {stream for stream in said if stream.has_arrived(self._size)}
