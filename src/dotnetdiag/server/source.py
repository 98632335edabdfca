"""What a session streams from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Source(Protocol):
    """The bytes of one session, as they come to be. Every method may be called from any thread.

    Life: ``on_ready`` once, before anything else; then ``take`` again and again, from one thread at a time; ``stop`` at most once, after
    which ``take`` goes on until it gives None; ``hang_up`` at any time, also while ``stop`` is at work. A source that has given None is not
    hung up. A session that could not be started is hung up without ``on_ready``.
    """

    def on_ready(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` from now on whenever ``take`` may give more than it did, or the end. It is cheap, and may be called from any
        thread, from within ``take`` too, and too often.
        """

    def take(self, limit: int) -> bytes | None:
        """1 to ``limit`` bytes that are there; ``b""``: none now; None: the end was given before. Must not wait, nor work for long:
        it is called where all sessions are served.
        """

    def stop(self) -> None:
        """StopTracing was asked, or the server ends: finish, rundown included. May take its time; ``take`` goes on meanwhile."""

    def hang_up(self) -> None:
        """The reader has gone: drop everything at once."""
