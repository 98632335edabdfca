"""Signals that end what a verb does.

``interrupted`` is around every verb: a signal raises, and all that was begun is cleaned up on its way out. A verb that has something
better to do takes them for a while (``handled``).
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

ONE_PRESS_S = 0.3
"""Two signals within this time are one: ``timeout`` and shells send to the process and to its group."""
ALL = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")

_pressed_at = float("-inf")
_end_wanted: tuple[float, int] | None = None
"""When a signal has first asked for an end, and which has done so last."""
_swallowed: KeyboardInterrupt | None = None
"""What a signal has raised where nothing takes an error, and nobody has taken otherwise."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, SIGHUP or SIGQUIT: as Ctrl-C, but for the exit code, which is that of a program that such a signal ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Pressed(KeyboardInterrupt):
    """SIGINT, where a handler of ours took it: a library, and who passes on what has ended a run, says KeyboardInterrupt of any signal."""


def end_wanted_for_s() -> float | None:
    """Seconds since a signal has asked this process to end; None: none has."""
    return None if _end_wanted is None else time.monotonic() - _end_wanted[0]


def ending(number: int | None) -> KeyboardInterrupt:
    """What ends a verb for a signal; None: somebody has pressed a key."""
    return Pressed() if number in (None, signal.SIGINT) else Terminated(number)


@contextmanager
def interrupted() -> Iterator[None]:
    """Within the block SIGINT raises KeyboardInterrupt, SIGTERM and SIGHUP raise Terminated: one press raises once, so that what is
    cleaned up after it is left in peace, unless somebody insists. After the block they end the process: nothing is left to clean up.

    One that raises where nothing takes an error (in what is called while an object is let go) raises when the block has ended.
    """
    global _end_wanted, _swallowed  # one that has ended a verb before is not for this one
    _end_wanted = _swallowed = None
    is_over = False
    said = sys.unraisablehook

    def on_swallowed(error: Any) -> None:
        global _swallowed
        if isinstance(error.exc_value, KeyboardInterrupt):
            _swallowed = error.exc_value
        else:
            said(error)

    def on_signal(number: int, _: Any) -> None:
        _want_end(number)
        if not _begins_press():
            return
        if is_over:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise ending(number)

    try:
        sys.unraisablehook = on_swallowed
        for number in _taken(("SIGINT", "SIGTERM", "SIGHUP")):
            signal.signal(number, on_signal)
        yield
        if _swallowed is not None:
            raise _swallowed
    except KeyboardInterrupt as error:
        if isinstance(error, (Pressed, Terminated)) or _end_wanted is None:
            raise
        raise ending(_end_wanted[1]) from error
    finally:
        is_over = True
        sys.unraisablehook = said


@contextmanager
def handled(names: Sequence[str], handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Within the block ``handler`` gets these signals, each of them; what is ignored (under ``nohup``, in a script's ``command &``)
    stays ignored. Outside of the main thread nothing is changed.
    """

    def on_signal(number: int, frame: Any) -> None:
        _begins_press()  # its second signal may come when the block was left
        handler(number, frame)

    before = _taken(names)
    try:
        for number in before:
            signal.signal(number, on_signal)
        yield
    finally:
        for number, handling in before.items():
            signal.signal(number, handling)


class OnPress(Protocol):
    """What is done for a signal, and for one that comes ``again``."""

    def __call__(self, number: int, *, again: bool) -> None: ...


@contextmanager
def pressed(on_press: OnPress) -> Iterator[None]:
    """Within the block a signal that ends programs is one press: ``on_press`` is called for the first, and for every one after it that is
    not of the same press. One that came before the block, and raised where nothing takes an error (while an object was let go), counts.
    """
    global _swallowed
    first: float | None = None

    def on_signal(number: int, _: Any) -> None:
        nonlocal first
        _want_end(number)
        now = time.monotonic()
        if first is None:
            first = now
            on_press(number, again=False)
        elif now - first > ONE_PRESS_S:
            on_press(number, again=True)

    with handled(ALL, on_signal):
        if _end_wanted is not None and threading.current_thread() is threading.main_thread():
            _swallowed = None
            on_signal(_end_wanted[1], None)
        yield


@contextmanager
def stopping(stop: Callable[[int], Any]) -> Iterator[None]:
    """Within the block the first press has ``stop`` end the verb nicely; one after it ends it at once, also out of a write that nobody reads."""

    def on_press(number: int, *, again: bool) -> None:
        if again:
            raise ending(number)
        stop(number)

    with pressed(on_press):
        yield


def _want_end(number: int) -> None:
    global _end_wanted  # as signals are: of the process
    _end_wanted = time.monotonic() if _end_wanted is None else _end_wanted[0], number


def _begins_press() -> bool:
    """Whether the signal that has come is not one more of the press before."""
    global _pressed_at  # as signals are: of the process
    now = time.monotonic()
    if now - _pressed_at <= ONE_PRESS_S:
        return False
    _pressed_at = now
    return True


def _taken(names: Sequence[str]) -> dict[int, Any]:
    """Those of the signals that are ours to handle, and how they are handled now."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has not all
    before = {number: signal.getsignal(number) for number in numbers}
    # None: by something that is not Python's
    return {number: handling for number, handling in before.items() if handling not in (signal.SIG_IGN, None)}
