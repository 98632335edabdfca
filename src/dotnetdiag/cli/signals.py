"""Signals that end what a verb does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ONE_PRESS_S = 0.3
"""Two signals within this time are one: ``timeout`` and shells send to the process and to its group."""
ALL = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


@contextmanager
def handled(names: Sequence[str], handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Within the block ``handler`` gets these signals; what is ignored (under ``nohup``, in a script's ``command &``) stays ignored.
    Outside of the main thread nothing is changed.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has not all
        before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, handling in before.items() if handling is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
