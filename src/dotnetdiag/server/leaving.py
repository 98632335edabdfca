"""What has to happen when the process leaves: at its end, on SIGTERM, and in a child that it forks.

Rule 1: a signal handler of the program is not touched. Where SIGTERM has its default action, ours removes the sockets and then dies of
the signal as before; it is taken back with the last server. Outside of the main thread none can be installed, and the socket stays
behind, as it does on SIGKILL: who looks for it finds nobody there. A child's is removed by its parent (:mod:`~dotnetdiag.server.children`).
Rule 2: a forked child closes its copies of the descriptors, so that nobody waits at a socket for a parent that is gone, and removes
nothing. Nothing here takes a lock: another thread may have held it when the process forked.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol

from dotnetdiag.server.children import CHILDREN


class Leaving(Protocol):
    """Somebody who has sockets."""

    def remove_sockets(self) -> None:
        """Stop listening, at once."""

    def leave(self) -> None:
        """The interpreter ends."""

    def forked(self) -> None:
        """This is a child; the parent goes on."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()
_is_registered = _is_ending = False


def is_ending() -> bool:
    """Whether the interpreter ends. From Python 3.12 on no thread can be started then."""
    return _is_ending


def register(one: Leaving) -> None:
    """From now on, until ``forget``."""
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=CHILDREN.before_fork, after_in_parent=CHILDREN.in_parent, after_in_child=_in_child
            )
    _all.add(one)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def forget(one: Leaving) -> None:
    """It has no sockets any more. May be called again."""
    _all.discard(one)
    is_ours = signal.getsignal(signal.SIGTERM) is _on_sigterm
    if not _all and is_ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at_exit() -> None:
    global _is_ending
    _is_ending = True
    for one in tuple(_all):
        with suppress(Exception):  # the others have sockets too, and nobody reads what is said now
            one.leave()
    with suppress(Exception):
        CHILDREN.remove_ended()


def _on_sigterm(signum: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's arguments
    for one in tuple(_all):
        with suppress(Exception):
            one.remove_sockets()
    with suppress(Exception):
        CHILDREN.remove_ended()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def _in_child() -> None:
    CHILDREN.in_child()
    for one in tuple(_all):
        with suppress(Exception):
            one.forked()
    _all.clear()
