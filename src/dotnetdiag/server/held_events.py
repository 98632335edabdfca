"""Events that threads have written and a session's worker has not taken yet: rows and payloads, bounded.

Rule 1: writing may be interrupted by itself: a signal handler or a collection's callback can write an event while its thread is writing one,
also on the worker's thread. So the lock is reentrant, the worker is woken by an alarm whose ``ring`` is, and no call stands between the
two halves of an event.
Rule 2: what is dropped was attempted after every event that is held: from the first that does not fit until the next :meth:`HeldEvents.take`
nothing is held. So the numbers of events say where some are lacking.
Rule 3: who waits for room holds no lock, nor does an event that interrupts another one wait (:mod:`~dotnetdiag.server.blocking`).
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from time import monotonic, monotonic_ns

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import GuidTable
from dotnetdiag.nettrace.writer import PAYLOAD_LIMIT
from dotnetdiag.server.blocking import may_wait, own_lock
from dotnetdiag.server.writing import Write

ROW = np.dtype(
    [
        ("time", "<i8"),
        ("thread", "<u8"),
        ("capture_thread", "<u8"),
        ("metadata_id", "<u4"),
        ("stack", "<u4"),
        ("activity", "<u4"),
        ("related", "<u4"),
        ("size", "<u4"),
    ]
)
"""One event. ``metadata_id`` 0: it was attempted, and is not written. ``stack`` counts from 1 in :attr:`Batch.stacks`; 0 is
none. ``activity`` and ``related`` index :attr:`Batch.guids`.
"""
_pack_row = struct.Struct("<qQQIIIII").pack
URGENT_BYTES = 4 << 20
"""More than this is encoded at once, though 100 ms are not over: a thread that floods writes it in a tenth of a second."""
_GUID_BYTES = 200
"""What a table takes for one."""
_NEVER = 1 << 62
BLOCK_S = 10.0
"""A thread that waits for room in a session of :attr:`~dotnetdiag.ipc.constants.BufferingMode.BLOCK` does so no longer than this without
anything being read: then nobody waits, and events are dropped, until something is. A program waits once for a tool that has gone.
"""


class _Self(threading.local):
    """The calling thread, once it was met (:func:`os_thread_id`). To ask the system for each event takes three times as long.

    Nothing is done when a thread is met for the first time that an event could interrupt.
    """

    os_thread_id = 0


_self = _Self()


def _forget_threads() -> None:
    global _self  # the thread that forked has another id in the child
    _self = _Self()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def os_thread_id() -> int:
    """That of the calling thread."""
    found = _self.os_thread_id
    if not found:
        found = _self.os_thread_id = threading.get_native_id()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was held. ``dropped``: by OS thread id, how many events it attempted after its last in ``rows``."""

    rows: npt.NDArray[np.void]
    payloads: bytearray
    stacks: tuple[bytes, ...]
    guids: GuidTable
    dropped: dict[int, int]
    size_bytes: int
    """As :attr:`HeldEvents.room` counted them."""


class HeldEvents:
    """The buffer between the threads of a process and the worker of one session.

    ``capacity_bytes`` bounds what is held together with what :meth:`take` has given out and :meth:`give_back` has not returned.
    ``wake`` is called when there is something after there was nothing, and when there is much.
    ``block``: threads that may wait do so for room (:data:`BLOCK_S`) before they drop.
    """

    def __init__(self, capacity_bytes: int, wake: Callable[[], object], *, block: bool = False) -> None:
        self.room = capacity_bytes
        self._wake = wake
        self._lock = own_lock()
        self._room_came = threading.Condition(self._lock)
        self._block = block
        self._urgent = min(URGENT_BYTES, capacity_bytes // 4)
        self._closed = self._is_reader_away = False
        self._reads = 0
        """How often the reader has taken something."""
        self._rows, self._payloads = bytearray(), bytearray()
        self._stacks: dict[bytes, int] = {}
        self._guids = GuidTable()
        self._dropped: dict[int, int] = {}
        self._size = 0
        self._mark = 1
        """As many bytes as there must be for the worker to be woken."""

    def _empty(self) -> Batch:
        """What was held; now nothing is. An event that interrupts this is in the old or in the new, whole and counted."""
        rows, payloads, stacks, guids, dropped = (
            bytearray(),
            bytearray(),
            dict[bytes, int](),
            GuidTable(),
            dict[int, int](),
        )
        old = self._rows, self._payloads, self._stacks, self._guids, self._dropped
        size = self._size  # from here to the last no call and nothing new: nothing can interrupt
        self._rows = rows
        self._payloads = payloads
        self._stacks = stacks
        self._guids = guids
        self._dropped = dropped
        self._size = 0
        self._mark = 1
        rows, payloads, stacks, guids, dropped = old
        return Batch(
            rows=np.frombuffer(rows, ROW),
            payloads=payloads,
            stacks=tuple(stacks),
            guids=guids,
            dropped=dropped,
            size_bytes=size,
        )

    @property
    def is_urgent(self) -> bool:
        """Whether so much is held that it should be taken before its time."""
        return self._size >= self._urgent

    def channel(self, metadata_id: int) -> Write:
        """What writes events of this type."""
        lock, now, row_size, block = self._lock, monotonic_ns, ROW.itemsize, self._block

        def write(
            payload: bytes, activity: bytes = b"", related: bytes = b"", stack: bytes = b"", thread: int = 0, /
        ) -> None:
            capture = _self.os_thread_id or os_thread_id()
            length = len(payload)
            if length > PAYLOAD_LIMIT:
                self.skip()
                return
            size = row_size + length
            waits = block
            while True:
                with lock:
                    # a stack may be held already: then it needs no room, but it had to be there
                    if size + len(stack) <= self.room and not self._dropped:
                        stack_index = activity_index = related_index = 0
                        if stack or activity or related:
                            stack_index, activity_index, related_index, more = self._references(
                                stack, activity, related
                            )
                            size += more
                        row = _pack_row(
                            now(),
                            thread or capture,
                            capture,
                            metadata_id,
                            stack_index,
                            activity_index,
                            related_index,
                            length,
                        )
                        self._rows += row
                        self._payloads += payload
                        self.room -= size
                        self._size += size
                        if self._size >= self._mark:
                            self._call_worker()
                        return
                    if not waits:
                        self._drop(capture)
                        return
                waits = self._room_comes(size + len(stack))

        return write

    def skip(self) -> None:
        """Count an event of the calling thread that cannot be written: too large, or its values do not fit."""
        capture = os_thread_id()
        with self._lock:
            if ROW.itemsize > self.room or self._dropped:
                self._drop(capture)
                return
            self._rows += _pack_row(monotonic_ns(), capture, capture, 0, 0, 0, 0, 0)
            self.room -= ROW.itemsize
            self._size += ROW.itemsize
            if self._size >= self._mark:
                self._call_worker()

    def _drop(self, capture: int) -> None:
        self._dropped[capture] = self._dropped.get(capture, 0) + 1
        if self._mark == 1:
            self._call_worker()

    def _call_worker(self) -> None:
        self._mark = self._urgent if self._size < self._urgent and self._mark == 1 else _NEVER
        self._wake()

    def _references(self, stack: bytes, activity: bytes, related: bytes) -> tuple[int, int, int, int]:
        """Indices of what is held once, and the bytes that are new."""
        index = more = 0
        if stack:
            index = self._stacks.get(stack, 0)
            if not index:
                index = self._stacks[stack] = len(self._stacks) + 1
                more = len(stack)
        if not activity and not related:
            return index, 0, 0, more
        guids = self._guids
        known = len(guids)
        activity_index = guids.intern(activity) if activity else 0
        related_index = guids.intern(related) if related else 0
        return index, activity_index, related_index, more + _GUID_BYTES * (len(guids) - known)

    def _room_comes(self, size: int) -> bool:
        """Wait until there is room, which another thread may take first. False: this one may not wait, or there is nobody to wait for."""
        if not may_wait():
            return False
        with self._lock:
            reads, ends = self._reads, monotonic() + BLOCK_S
            while size > self.room or self._dropped:
                if self._closed or self._is_reader_away:
                    return False
                if reads != self._reads:
                    reads, ends = self._reads, monotonic() + BLOCK_S
                left_s = ends - monotonic()
                if left_s <= 0:
                    self._is_reader_away = True
                    self._room_came.notify_all()
                    return False
                if self._mark != _NEVER and (self._size or self._dropped):
                    self._mark = _NEVER
                    self._wake()
                self._room_came.wait(left_s)
            return not self._closed

    def take(self) -> Batch | None:
        """All that is held, in the order of writing; None when nothing is. Its bytes are the caller's to give back."""
        with self._lock:
            if not self._rows and not self._dropped:
                self._mark = 1
                return None
            batch = self._empty()
            self._room_came.notify_all()
            return batch

    def give_back(self, count: int, *, is_read: bool = False) -> None:
        """Room for as many bytes more; a negative count takes it. ``is_read``: because the reader has taken them."""
        with self._lock:
            self.room += count
            if is_read:
                self._reads += 1
                self._is_reader_away = False
            self._room_came.notify_all()

    def close(self) -> None:
        """Hold nothing, take nothing more; whoever waits for room goes on."""
        with self._lock:
            self._closed = True
            self.room = -_NEVER
            self._empty()
            self._room_came.notify_all()
