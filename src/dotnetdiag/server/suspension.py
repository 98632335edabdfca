"""Whether the program waits at its start for somebody who lets it go on (ipc-protocol.md §11).

Rule 1: it waits while any port that suspends has not been resumed. ResumeRuntime resumes the port that it came through, and no other.
Rule 2: a port that is given up (nobody could reach it) does not hold the program up.
Rule 3: what has gone on never waits again: ports that suspend and come later are too late.
"""

from __future__ import annotations

from collections.abc import Callable

from dotnetdiag.server.observers import Observers


class Suspension(Observers):
    """``resumed`` is called once, when the last port has been resumed, by whatever thread does it, and ``changed`` at each port that comes or
    goes. Without ports nothing waits.
    """

    __slots__ = ("_changed", "_ports", "_resumed")

    def __init__(
        self, resumed: Callable[[], None] | None = None, *, changed: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._changed = changed
        self._ports: dict[str, None] = {}
        self._resumed = [resumed] if resumed is not None else []

    @property
    def is_suspended(self) -> bool:
        return bool(self._ports)

    @property
    def ports(self) -> tuple[str, ...]:
        """Those that have not been resumed."""
        return tuple(self._ports)

    def add(self, port: str) -> None:
        """The port suspends."""
        self._ports[port] = None
        self._changed()

    def resume(self, port: str) -> None:
        """Somebody at the port lets the program go on, or the port is given up. No effect on a port that does not suspend."""
        waited = self._ports.pop(port, self) is None
        if waited:
            self._changed()
        if waited and not self._ports:
            try:
                callback = self._resumed.pop()
            except IndexError:  # it has been called
                pass
            else:
                callback()
            self.tell()
