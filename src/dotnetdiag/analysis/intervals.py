"""Times from begins to ends: how much of the time is in some of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"


def covered_ms(pid: Array, start_ms: Array, stop_ms: Array) -> float:
    """The time that is in at least one interval of its process; what is in several counts once."""
    cover = RunningCover()
    cover.add(pid, start_ms, stop_ms)
    return cover.ms


class RunningCover:
    """What :func:`covered_ms` tells, of intervals that come in the order of their begins, some at a time: ``ms`` is what all come to."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._reached: dict[int, float] = {}

    def add(self, pid: Array, start_ms: Array, stop_ms: Array) -> None:
        """The next."""
        for one in distinct(pid).tolist():
            rows = np.flatnonzero(pid == one)
            rows = rows[np.argsort(start_ms[rows], kind="stable")]
            reached = np.maximum.accumulate(np.append(self._reached.get(one, -np.inf), stop_ms[rows]))
            self.ms += float(np.maximum(stop_ms[rows] - np.maximum(start_ms[rows], reached[:-1]), 0.0).sum())
            self._reached[one] = float(reached[-1])


def clipped(start_ms: Array, stop_ms: Array, low: float, high: float) -> tuple[Array, Array]:
    """The parts of intervals from ``low`` to ``high``; those outside have no length."""
    return np.clip(start_ms, low, high), np.clip(stop_ms, low, high)
