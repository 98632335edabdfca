"""A deadline that is moved on while an operation goes on: each part of a connection's life has its own."""

from __future__ import annotations

from dotnetdiag.transport import Deadline


class Patience(Deadline):
    """Given to the driver of an operation, and moved by the operation itself, between its waits."""

    __slots__ = ()

    def restart(self, timeout_s: float | None) -> None:
        """So long from now."""
        Deadline.__init__(self, timeout_s, clock=self._clock)
