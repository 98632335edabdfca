"""Noticing that something comes to a folder: inotify on Linux. Other systems tell nothing here, and are looked at again and again."""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from dotnetdiag.transport.streams import Closing

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
IN_NONBLOCK = os.O_NONBLOCK if hasattr(os, "O_NONBLOCK") else 0
IN_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
READ_BYTES = 1 << 16
LOOK_S = 0.1
"""How often somebody looks who is told nothing."""


class Arrivals(Closing):
    """Watches folders, as far as the system lets it, from the moment that it is made."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._descriptor = -1
        library = _library()
        if library is None:
            return
        self._descriptor = library.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        if self._descriptor < 0:  # no more of them for this user
            return
        watched = [
            library.inotify_add_watch(self._descriptor, os.fsencode(folder), IN_CREATE | IN_MOVED_TO)
            for folder in dict.fromkeys(folders)
        ]
        if max(watched, default=-1) < 0:
            self.close()

    @property
    def is_told(self) -> bool:
        """Whether the system tells of arrivals, in one of the folders at least."""
        return self._descriptor >= 0

    def wait(self, timeout_s: float) -> bool:
        """Whether something has come, within that time, since the last call. Where nothing is told: False, after a short while."""
        if not self.is_told:
            time.sleep(min(timeout_s, LOOK_S))
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return False
        with suppress(BlockingIOError):
            while os.read(self._descriptor, READ_BYTES):
                pass
        return True

    def close(self) -> None:
        """End the watch. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@cache
def _library() -> Any:
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "inotify_init1"):
            return library
    return None
