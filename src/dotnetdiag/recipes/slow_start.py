"""A runtime that takes its time to begin a session.

Who collects garbage without a pause keeps the thread that answers us waiting: runtimes 8 to 10 that call ``GC.Collect`` in a loop took 15 to 60 s
(the reference tool waits as long, without a word).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from dotnetdiag.recipes.timed import called_after

START_TIMEOUT_S = 180.0
"""For the answer to a request that begins a session."""
LATE_S = 5.0
"""Answers of runtimes that run come in milliseconds, on a busy machine within a second or two."""

Late = Callable[[float, float], None]
"""Told once, in a thread of its own, that no answer came for so many seconds, and for how many it is waited."""


def say_nothing(waited_s: float, limit_s: float) -> None:
    """A :data:`Late` that nobody hears."""


def told_when_late(late: Late) -> AbstractContextManager[None]:
    """Around a request that begins a session."""
    return called_after(LATE_S, partial(late, LATE_S, START_TIMEOUT_S))
