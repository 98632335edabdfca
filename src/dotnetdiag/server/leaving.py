"""What has to happen when the process leaves: at its end, on SIGTERM, and in a child that it forks.

Rule 1: a signal handler of the program is not touched (:mod:`~dotnetdiag.server.farewell`). On SIGKILL the socket stays behind: who looks for
it finds nobody there. A child's is removed by its parent (:mod:`~dotnetdiag.server.children`).
Rule 2: a forked child closes its copies of the descriptors, so that nobody waits at a socket for a parent that is gone, and removes
nothing. Nothing here takes a lock: another thread may have held it when the process forked.
"""

from __future__ import annotations

import atexit
import os
import weakref
from contextlib import suppress
from typing import Any, Protocol

from dotnetdiag.server.children import CHILDREN
from dotnetdiag.server.farewell import Farewell


class Leaving(Protocol):
    """Somebody who has sockets."""

    def socket_files(self) -> list[tuple[str, tuple[int, int]]]:
        """The path of each socket, and the file's device and inode."""

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
    _FAREWELL.begin([file for each in tuple(_all) for file in each.socket_files()])


def forget(one: Leaving) -> None:
    """It has no sockets any more. May be called again."""
    _all.discard(one)
    if not _all:
        _FAREWELL.end()


def _at_exit() -> None:
    global _is_ending
    _is_ending = True
    for one in tuple(_all):
        with suppress(Exception):  # the others have sockets too, and nobody reads what is said now
            one.leave()
    with suppress(Exception):
        CHILDREN.leave()
    with suppress(Exception):
        _FAREWELL.end()


def _remove_sockets() -> None:
    for one in tuple(_all):
        with suppress(Exception):
            one.remove_sockets()
    with suppress(Exception):
        CHILDREN.remove_ended()


_FAREWELL = Farewell(_remove_sockets)


def _in_child() -> None:
    CHILDREN.in_child()
    for one in tuple(_all):
        with suppress(Exception):
            one.forked()
    _all.clear()
    _FAREWELL.end()
