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
import threading
import time
from contextlib import suppress

from dotnetdiag.errors import TransportError
from dotnetdiag.server.kernels import KERNELS
from dotnetdiag.server.socket_notes import NOTE_BYTES, SocketNote, read_note
from dotnetdiag.transport import processes
from dotnetdiag.transport.socket_names import parse_socket_name
from dotnetdiag.transport.sockets import file_identity

LOOK_S = 1.0
MOST_CHILDREN = 1024
"""Living ones that are known at a time."""
_NONE = bytes(NOTE_BYTES)


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
                self._memory, self._owner = mmap.mmap(-1, MOST_CHILDREN * NOTE_BYTES), os.getpid()
                if KERNELS is not None:
                    KERNELS.note_children(self._memory)
            if time.monotonic() - self._looked_s >= LOOK_S:
                self._looked_s = time.monotonic()
                self.remove_ended()
            self._forking[threading.get_ident()] = self._free_place(self._memory)

    def in_parent(self) -> None:
        """The child, if there is one, has its place."""
        self._forking.pop(threading.get_ident(), None)

    def in_child(self) -> None:
        """This process has a parent that looks after it, and no children."""
        if KERNELS is not None:
            KERNELS.note_children(None)
        place = self._forking.get(threading.get_ident(), -1)
        self._place = None if self._memory is None or place < 0 else (self._owner, self._memory, place)
        self._memory, self._numbers = None, itertools.count()
        self._forking.clear()

    def note(self, path: str) -> None:
        """This process listens there."""
        name, pid = parse_socket_name(os.path.basename(path)), os.getpid()
        if self._place is None or name is None or name.dsrouter:
            return
        parent, memory, place = self._place
        with suppress(TransportError):
            identity, ticks = file_identity(path), processes.start_time_ticks(pid) or 0
            if identity is not None and (name.pid, name.key) == (pid, ticks) and os.getppid() == parent:
                note = SocketNote(pid=pid, ticks=ticks, identity=identity, path=path).pack()
                memory[place * NOTE_BYTES : (place + 1) * NOTE_BYTES] = note or _NONE

    def remove_ended(self) -> None:
        """Remove the sockets of the children that have ended."""
        memory = self._memory
        if memory is None or os.getpid() != self._owner:
            return
        for at in range(0, len(memory), NOTE_BYTES):
            note = read_note(memory, at)
            if note is not None and _has_ended(note.pid, note.ticks):
                if file_identity(note.path) == note.identity:
                    with suppress(OSError):
                        os.unlink(note.path)
                memory[at : at + NOTE_BYTES] = _NONE

    def leave(self) -> None:
        """The process ends."""
        if KERNELS is not None:
            KERNELS.note_children(None)
        self.remove_ended()

    def _free_place(self, memory: mmap.mmap) -> int:
        """-1: there is none."""
        for number in itertools.islice(self._numbers, MOST_CHILDREN):
            place = number % MOST_CHILDREN
            if read_note(memory, place * NOTE_BYTES) is None:
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
