"""A reference count for a resource that several threads use and any of them may close."""

from __future__ import annotations

import threading
from collections.abc import Callable


class RefCount:
    """Calls ``free`` once: when ``close`` has been called and nobody uses the resource any more."""

    __slots__ = ("_count", "_free", "_lock", "closed")

    def __init__(self, free: Callable[[], object]) -> None:
        self._free, self._lock, self._count = free, threading.Lock(), 0
        self.closed = False

    def acquire(self) -> bool:
        """False when it is closed; otherwise ``release`` must follow."""
        with self._lock:
            if not self.closed:
                self._count += 1
            return not self.closed

    def release(self) -> None:
        with self._lock:
            self._count -= 1
            last = self.closed and self._count == 0
        if last:
            self._free()

    def close(self, wake: Callable[[], object]) -> None:
        """From now on ``acquire`` fails; ``wake`` must end the waits of those who use it. Does nothing the second time."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._count += 1
        try:
            wake()
        finally:
            self.release()
