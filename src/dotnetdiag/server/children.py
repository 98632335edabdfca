"""The sockets of forked children that end without a word, as ``os._exit`` lets them: their parent removes them.

A child notes its socket in memory that it shares with its parent. The parent looks there when it forks again, at most once in ``LOOK_S``, and
when it leaves.

Rule 1: a socket of a living process stays. Only a name that no other process can have is noted, that of the default address, which has the
child's number and start in it, and only where both processes count alike (not across PID namespaces). It is removed when no process of
that number and start is there, or a mere zombie, and the file is still the one that the child made.
Rule 2: nothing here fails or waits. Where memory or a place is lacking, a socket stays behind, as it does on SIGKILL.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import threading
import time
from contextlib import suppress

from dotnetdiag.errors import TransportError
from dotnetdiag.transport import processes
from dotnetdiag.transport.socket_names import parse_socket_name
from dotnetdiag.transport.sockets import file_identity

LOOK_S = 1.0
MOST_CHILDREN = 1024
"""Living ones that are known at a time."""
_NOTE = struct.Struct("<QQQQ224p")
"""Process and start in clock ticks, device and inode of the socket, its path."""
_LONGEST_PATH = 223
_NONE = bytes(_NOTE.size)


class Children:
    """Those of this process, and this process as a child of another."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._owner = 0
        self._numbers = itertools.count()
        self._forking: dict[int, int] = {}
        """The place for the child of each thread that forks."""
        self._looked_s = 0.0
        self._place: tuple[int, mmap.mmap, int] | None = None
        """The parent, and where this process notes its socket."""

    def before_fork(self) -> None:
        """Remove what is left of others, and have a place for one more."""
        with suppress(OSError, TransportError):
            if self._memory is None:
                self._memory, self._owner = mmap.mmap(-1, MOST_CHILDREN * _NOTE.size), os.getpid()
            if time.monotonic() - self._looked_s >= LOOK_S:
                self._looked_s = time.monotonic()
                self.remove_ended()
            self._forking[threading.get_ident()] = self._free_place(self._memory)

    def in_parent(self) -> None:
        """The child, if there is one, has its place."""
        self._forking.pop(threading.get_ident(), None)

    def in_child(self) -> None:
        """This process has a parent that looks after it, and no children."""
        place = self._forking.get(threading.get_ident(), -1)
        self._place = None if self._memory is None or place < 0 else (self._owner, self._memory, place)
        self._memory, self._numbers = None, itertools.count()
        self._forking.clear()

    def note(self, path: str) -> None:
        """This process listens there."""
        name, pid, file = parse_socket_name(os.path.basename(path)), os.getpid(), os.fsencode(path)
        if self._place is None or name is None or name.dsrouter or len(file) > _LONGEST_PATH:
            return
        parent, memory, place = self._place
        with suppress(TransportError):
            identity, ticks = file_identity(path), processes.start_time_ticks(pid) or 0
            if identity is not None and (name.pid, name.key) == (pid, ticks) and os.getppid() == parent:
                _NOTE.pack_into(memory, place * _NOTE.size, pid, ticks, *identity, file)

    def remove_ended(self) -> None:
        """Remove the sockets of the children that have ended."""
        memory = self._memory
        if memory is None or os.getpid() != self._owner:
            return
        for at in range(0, len(memory), _NOTE.size):
            pid, ticks, device, inode, path = _NOTE.unpack_from(memory, at)
            if pid and _has_ended(pid, ticks):
                if file_identity(os.fsdecode(path)) == (device, inode):
                    with suppress(OSError):
                        os.unlink(path)
                memory[at : at + _NOTE.size] = _NONE

    def _free_place(self, memory: mmap.mmap) -> int:
        """-1: there is none."""
        for number in itertools.islice(self._numbers, MOST_CHILDREN):
            place = number % MOST_CHILDREN
            if not _NOTE.unpack_from(memory, place * _NOTE.size)[0]:
                return place
        return -1


def _has_ended(pid: int, ticks: int) -> bool:
    if not processes.answers(pid):
        return True
    if processes.is_zombie(pid):
        return len(processes.task_ids(pid)) < 2  # else its main thread alone has ended
    started = processes.start_time_ticks(pid)
    return bool(ticks) and started is not None and started != ticks


CHILDREN = Children()
"""Those of this process."""
