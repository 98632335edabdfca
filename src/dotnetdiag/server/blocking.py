"""Who waits for room in a session of :attr:`~dotnetdiag.ipc.constants.BufferingMode.BLOCK`, and who never does.

Rule 1: a thread that serves readers never waits, nor does one that takes from a session: the reader would wait for itself, or others for it.
Rule 2: nobody waits who holds a lock of this package. A collection or a signal handler can write an event anywhere, also where such a lock is
held; who serves the reader may need it next.
"""

from __future__ import annotations

import os
import threading
import weakref

_locks: dict[int, weakref.ref[threading.RLock]] = {}


class _Caller(threading.local):
    """The calling thread."""

    serves = False


_caller = _Caller()


def never_wait() -> None:
    """The calling thread waits in no session, from now on."""
    _caller.serves = True


def may_wait() -> bool:
    """Whether the calling thread may wait for a reader now."""
    if _caller.serves:
        return False
    held = (lock() for lock in _locks.copy().values())
    return not any(lock._is_owned() for lock in held if lock is not None)  # type: ignore[attr-defined]


def own_lock() -> threading.RLock:
    """A lock that no reader is waited for with."""
    lock = threading.RLock()
    key = id(lock)
    _locks[key] = weakref.ref(lock, lambda _: _locks.pop(key, None))
    return lock


def _in_child() -> None:
    """Nothing is served by the thread that forked."""
    _caller.serves = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
