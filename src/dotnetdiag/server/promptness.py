"""While somebody waits for an answer, threads do not wait long for the interpreter's lock.

Who waits for the lock asks its holder for it after ``sys.getswitchinterval()``, 5 ms, and begins to count anew whenever the lock was given up
meanwhile: beside a thread that computes and makes a short call of the system every millisecond, another has been seen to wait for seconds. So
for the time of a command, and of writing a piece of a session, the interval is short. What the program sets meanwhile stays; what it has read
then and puts back later is found at the next time, and taken back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SOON_S = 0.0001
_waiting: dict[object, None] = {}
"""Those that are waited for. No lock: each step is one call on a dict."""
_usual_s = 0.0
_own_s = 0.0
"""What the interpreter makes of ``SOON_S``; 0 while it is not set."""
_strays: set[float] = set()
"""What it is when a program that has read it puts it back: the interpreter counts in whole microseconds."""


@contextmanager
def prompt() -> Iterator[None]:
    """Within this somebody waits."""
    key = object()
    _waiting[key] = None
    _hurry()
    try:
        yield
    finally:
        _waiting.pop(key, None)
        if not _waiting:
            _calm()


def _hurry() -> None:
    global _usual_s, _own_s  # they are of the process
    now_s = sys.getswitchinterval()
    if _own_s:
        return
    if now_s in _strays:
        now_s = _usual_s
        sys.setswitchinterval(now_s)
    if now_s > SOON_S:
        sys.setswitchinterval(SOON_S)
        _usual_s, _own_s = now_s, sys.getswitchinterval()
        if not _strays:
            sys.setswitchinterval(_own_s)
            _strays.update((_own_s, sys.getswitchinterval()))
            sys.setswitchinterval(SOON_S)


def _calm() -> None:
    global _own_s
    own_s, _own_s = _own_s, 0.0
    if own_s and sys.getswitchinterval() in _strays:
        sys.setswitchinterval(_usual_s)


def take_back() -> None:
    """To be called some time after anybody was waited for: what a program has read of ours, and has put back since, becomes what it was."""
    if not _own_s and sys.getswitchinterval() in _strays:
        sys.setswitchinterval(_usual_s)


LOOKS_S = (0.1, 1.0, 10.0)
"""When that is, after the last that was waited for."""


def _in_child() -> None:
    """Nobody waits for a child."""
    _waiting.clear()
    _calm()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
