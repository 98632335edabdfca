"""Errors that a signal handler of the program raises while its thread is in our code: a timeout is the program's, and no fault of a value."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import CodeType


def is_of_signal(error: BaseException) -> bool:
    """Whether a handler that is installed now has raised it, in this thread. To be asked where whatever a value's own code raises is caught."""
    if threading.current_thread() is not threading.main_thread():  # no other runs handlers
        return False
    codes = set(_codes())
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


def _codes() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        while handler is not None and not isinstance(handler, int):
            code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
            if isinstance(code, CodeType):
                yield code
            handler = getattr(handler, "__func__", None) or getattr(handler, "func", None)  # of a method, a partial
