"""What is done when something takes too long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def called_after(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Around what takes time: where it takes longer, there is a call, once, in a thread of its own."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
