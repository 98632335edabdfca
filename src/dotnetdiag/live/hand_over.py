"""Windows on their way from the thread that reads to the one that looks: a queue that is never long."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

from dotnetdiag.errors import TimedOut

T = TypeVar("T")


class HandOver(Generic[T]):
    """Holds at most ``limit_bytes`` (and always one thing, however large)."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._held = limit_bytes, 0
        self._things: deque[tuple[T, int]] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None

    def put(self, thing: T, size_bytes: int) -> bool:
        """Hand something over; False, and it is not taken, when too much waits already."""
        with self._changed:
            if self._ended or (self._things and self._held + size_bytes > self._limit):
                return False
            self._things.append((thing, size_bytes))
            self._held += size_bytes
            self._changed.notify()
            return True

    @property
    def ended(self) -> bool:
        """Whether :meth:`end` was called."""
        return self._ended

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes; ``error`` is raised to the taker once he has all that came before."""
        with self._changed:
            if not self._ended:
                self._ended, self._error = True, error
                self._changed.notify()

    def clear(self) -> list[T]:
        """Take everything that waits, at once."""
        with self._changed:
            found = [thing for thing, _ in self._things]
            self._things.clear()
            self._held = 0
            return found

    def take(self, wait_s: float | None = None) -> T | None:
        """The next thing, waited for; None when there will be none. Raises TimedOut when none has come for ``wait_s``."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._things or self._ended, wait_s):
                raise TimedOut("nothing came", timeout_s=wait_s)
            if self._things:
                thing, size = self._things.popleft()
                self._held -= size
                return thing
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return None
