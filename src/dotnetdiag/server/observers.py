"""Who is to be told that something has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Observers:
    """Functions that are called at each change, from whatever thread makes it. No lock: every step is one call on a dict."""

    __slots__ = ("_observers",)

    def __init__(self) -> None:
        self._observers: dict[object, Callable[[], None]] = {}

    @contextmanager
    def observed(self, tell: Callable[[], None]) -> Iterator[None]:
        """Within this, ``tell`` is called at each change."""
        key = object()
        self._observers[key] = tell
        try:
            yield
        finally:
            self._observers.pop(key, None)

    def tell(self) -> None:
        """Something has changed."""
        for observer in tuple(self._observers.values()):
            observer()
