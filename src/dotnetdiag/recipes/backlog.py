"""What one thread has told and another has not taken yet, within a budget."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """Who puts never waits: what is more than ``budget`` is lost, and counted. What things cost is told with them."""

    def __init__(self, budget: int) -> None:
        self._budget, self._cost, self._lost = budget, 0, 0
        self._things: deque[tuple[T, int]] = deque()
        self._news = threading.Condition()

    def put(self, thing: T, cost: int) -> None:
        """At the end, unless there is no room."""
        with self._news:
            if self._cost + cost > self._budget:
                self._lost += 1
                return
            self._things.append((thing, cost))
            self._cost += cost
            self._news.notify_all()

    def take(self, wait_s: float = 0.0) -> tuple[list[T], int]:
        """All that is there, and how many were lost before and among it; the first is waited for."""
        with self._news:
            if wait_s:
                self._news.wait_for(lambda: bool(self._things), wait_s)
            things, lost = [thing for thing, _ in self._things], self._lost
            self._things.clear()
            self._cost = self._lost = 0
        return things, lost
