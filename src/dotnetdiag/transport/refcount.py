"""A reference count for a resource that several threads use and any of them may close.

Rule: no lock. ``close`` may come in a signal handler that has interrupted any line of the others, so each step is a single ``append`` or
``pop`` of a list, which is atomic.
"""

from __future__ import annotations

from collections.abc import Callable


class RefCount:
    """Calls ``free`` once: when ``close`` has been called and nobody uses the resource any more."""

    __slots__ = ("_free", "_users", "closed")

    def __init__(self, free: Callable[[], object]) -> None:
        self._free, self._users = [free], list[bool]()
        self.closed = False

    def acquire(self) -> bool:
        """False when it is closed; otherwise ``release`` must follow."""
        self._users.append(True)  # before the look: who closes in between leaves the resource to us
        if self.closed:
            self.release()
            return False
        return True

    def release(self) -> None:
        self._users.pop()
        if self.closed and not self._users:
            try:
                free = self._free.pop()
            except IndexError:
                return
            free()

    def close(self, wake: Callable[[], object]) -> None:
        """From now on ``acquire`` fails; ``wake`` must end the waits of those who use it. Does nothing the second time."""
        if self.closed:
            return
        self._users.append(True)
        self.closed = True
        try:
            wake()
        finally:
            self.release()
