"""Threads of version 6, which have an index and rows of their own (nettrace.md §6.6, §6.7)."""

from __future__ import annotations

from collections import deque

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.records import pack_string8, string8
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """One thread row. ``index`` is what the ``thread`` column of events holds."""

    index: int
    name: str = ""
    process_id: int | None = None
    os_thread_id: int | None = None
    key_values: tuple[tuple[str, str], ...] = ()


_ALL = -1


class ThreadMoves:
    """Thread indices that a version 6 file uses again, for other threads: those get other numbers.

    What changes is noted when the block that says so is read, and takes effect for the events that follow it, which may be
    decoded much later: ``position`` says how much was noted, and :meth:`advance` wants to know where they stand.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[int, int | None]] = deque()
        self._done = 0
        self._now: dict[int, int] = {}

    @property
    def position(self) -> int:
        """Of what comes next."""
        return self._done + len(self._notes)

    def note(self, index: int, number: int | None) -> None:
        """From here on the index means the thread with that number; None: the one with its own."""
        self._notes.append((index, number))

    def reset(self) -> None:
        """From here on all indices mean the threads with their own numbers."""
        self._notes.append((_ALL, None))

    def advance(self, position: int) -> None:
        """Let take effect what was noted before; positions must not go back."""
        while self._done < position:
            index, number = self._notes.popleft()
            self._done += 1
            if index == _ALL:
                self._now.clear()
            elif number is None:
                self._now.pop(index, None)
            else:
                self._now[index] = number

    def apply(self, headers: HeaderColumns) -> None:
        """Put numbers into the columns of events that stand there."""
        if not self._now:
            return
        for column in (headers.thread, headers.capture_thread):
            changes = np.flatnonzero(np.diff(column)) + 1
            starts = np.concatenate([np.zeros(min(1, len(column)), np.int64), changes])
            indices = column[starts].tolist()
            numbers = np.array([self._now.get(index, index) for index in indices], np.uint64)
            column[:] = np.repeat(numbers, np.diff(np.append(starts, len(column))))


def parse_thread(cursor: Cursor) -> ThreadInfo:
    """One row behind its size. An unknown kind of item ends it: its length is not known."""
    index = cursor.varuint(64, "thread index")
    name = ""
    process_id = os_thread_id = None
    pairs = []
    while cursor.left:
        kind = cursor.u8("item kind")
        if kind == 1:
            name = string8(cursor)
        elif kind == 2:
            process_id = cursor.varuint(64, "process id")
        elif kind == 3:
            os_thread_id = cursor.varuint(64, "thread id")
        elif kind == 4:
            pairs.append((string8(cursor), string8(cursor)))
        else:
            break
    return ThreadInfo(index=index, name=name, process_id=process_id, os_thread_id=os_thread_id, key_values=tuple(pairs))


def pack_thread(thread: ThreadInfo) -> bytes:
    """One row with its size."""
    out = Packer().varuint(thread.index)
    if thread.name:
        out.u8(1)
        pack_string8(out, thread.name)
    if thread.process_id is not None:
        out.u8(2).varuint(thread.process_id)
    if thread.os_thread_id is not None:
        out.u8(3).varuint(thread.os_thread_id)
    for key, value in thread.key_values:
        out.u8(4)
        pack_string8(out, key)
        pack_string8(out, value)
    return bytes(Packer().u16(len(out)).raw(out.buffer))
