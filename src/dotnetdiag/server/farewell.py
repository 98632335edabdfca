"""What SIGTERM does in a process that serves, where it has its default action: the sockets are removed, and then that.

A handler of the system's kind does it (``_kernels.pyx``): at once, whatever the interpreter does, and Python's ``signal`` knows nothing of it, so
that a handler that the program sets takes its place. Without a compiler it is one of Python's: only in the main thread, and not before a
long call of C code is over. Process 1 of a container has none, for there the default action is to go on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence

from dotnetdiag.server.kernels import KERNELS
from dotnetdiag.server.socket_notes import SocketNote

INIT = 1
"""Signals that would end it do nothing, but for SIGKILL from outside."""


class Farewell:
    """``remove``: what a handler of Python's calls."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove = remove

    def begin(self, files: Sequence[tuple[str, tuple[int, int]]]) -> None:
        """From now on these, by path, device and inode, until :meth:`end`. Not where the program has a handler."""
        pid = os.getpid()
        if pid == INIT:
            return
        if KERNELS is not None and os.name == "posix":
            notes = [
                SocketNote(pid=pid, ticks=0, identity=identity, path=os.path.abspath(path)).pack()
                for path, identity in files
            ]
            KERNELS.note_sockets(b"".join(note for note in notes if note))
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                KERNELS.on_sigterm(True)
        elif _is_main() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def end(self) -> None:
        """The default action alone. May be called again."""
        if KERNELS is not None and os.name == "posix":
            KERNELS.note_sockets(b"")
            KERNELS.on_sigterm(False)
        elif _is_main() and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_sigterm(self, signum: int, frame: object) -> None:  # noqa: ARG002 - a signal handler's arguments
        self._remove()
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
