"""Many operations in one thread: the driver for whoever holds connections by the hundred (``waiting.run`` and ``aio.drive`` are the others).

Rule 1: nothing runs in the thread but the operations themselves, between two waits. What blocks has a thread of its own for as long.
Rule 2: an operation is closed in this thread, whoever ends it: it never runs in two threads at the same time.
Rule 3: after a fork there is no thread in the child, and nothing here works there; what the operations hold is left alone.
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, TypeAlias

from dotnetdiag.errors import TransportError
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.streams import Closing
from dotnetdiag.transport.waiting import Blocking, Change, Outcome, Pause, Ready, Steps, result_of, start, start_thread

CLOSE_S = 5.0
"""How long ``close`` waits for the thread, which ends at once unless an operation computes."""
SETTLE_S = 1.0
CALLING = "dotnetdiag call"
"""The name of a thread for what blocks, as the system has it."""
MOST_STALE = 64
"""Timers of waits that are over, beside as many as there are operations."""
Select: TypeAlias = "Callable[[selectors.BaseSelector, float | None], list[tuple[selectors.SelectorKey, int]]]"
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class _Task:
    """An operation under way. ``waits`` counts its waits: what belongs to an earlier one is too late."""

    __slots__ = ("deadline", "fd", "mask", "observing", "step", "steps", "waits")

    def __init__(self, steps: Steps[Any], deadline: Deadline) -> None:
        self.steps, self.deadline, self.waits = steps, deadline, 0
        self.fd = self.mask = -1
        self.step: Ready | Pause | Blocking | Change | None = None
        self.observing: AbstractContextManager[None] | None = None


class Multiplexer(Closing):
    """``begin`` hands an operation over, from any thread. The thread is a daemon, and is started with the first operation.

    An operation ends with its result, which nobody gets, or its error: ``failed`` is told of it, in the thread. TimedOut closes the
    operation, as in the other drivers.
    """

    def __init__(
        self,
        name: str,
        failed: Callable[[BaseException], None],
        *,
        select: Select = lambda one, s: one.select(s),
        busy: Callable[[bool], AbstractContextManager[object]] = lambda _: nullcontext(),
    ) -> None:
        """``select``: how the thread waits with its selector, for so many seconds; ``busy`` is around what it does between two waits, and told
        whether anything has come from outside.
        """
        self._name, self._failed, self._pid, self._select, self._busy = name, failed, os.getpid(), select, busy
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, _READ, {})
        self._calls: deque[Callable[[], None]] = deque()
        self._turns: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, _Task, int]] = []
        self._numbers = itertools.count()
        self._tasks: dict[_Task, None] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_closed = False
        self._is_settled = threading.Event()
        self._is_settled.set()

    def begin(self, steps: Steps[Any], deadline: Deadline) -> None:
        """Drive it. Raises TransportError when the thread cannot be started; after ``close`` it is closed at once."""
        self._call(partial(self._begin, steps, deadline))
        with self._starting:
            if self._thread is None and not self._is_closed:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                start(thread)
                self._thread = thread

    def rename(self, name: str) -> None:
        """Give the thread another name, from any thread: before anything that is handed over later. In a forked child nothing."""
        if os.getpid() == self._pid and name != self._name:
            self._name = name
            self._call(partial(_tell_name, name))

    def close(self) -> None:
        """Close all operations. In a forked child: only the child's copies of what the thread waits with."""
        if os.getpid() != self._pid:
            self._close_descriptors()
            return
        with self._starting:
            self._is_closed = True
            thread = self._thread
        if thread is None:
            self._end()
            return
        self._ring()
        if thread is not threading.current_thread():
            thread.join(CLOSE_S)

    # -- any thread

    def settle(self, timeout_s: float = SETTLE_S) -> None:
        """Wait until the thread waits, as long as it takes at most."""
        if threading.current_thread() is not self._thread and os.getpid() == self._pid:
            self._is_settled.wait(timeout_s)

    def _call(self, call: Callable[[], None]) -> None:
        self._is_settled.clear()
        self._calls.append(call)
        self._ring()

    def _ring(self) -> None:
        with suppress(OSError):  # full: it will be heard; closed: nobody listens any more
            self._bell.send(b"\0")

    # -- the thread

    def _run(self) -> None:
        _tell_name(self._name)
        while not self._is_closed:
            wait_s = self._wait_s()
            if wait_s != 0:
                self._is_settled.set()
                if self._calls:  # one that came meanwhile
                    self._is_settled.clear()
            found = self._select(self._selector, wait_s)
            with self._busy(any(key.fileobj is not self._ear for key, _ in found)):
                self._serve(found)
        self._end()
        self._is_settled.set()

    def _serve(self, found: list[tuple[selectors.SelectorKey, int]]) -> None:
        """What has come, until the next wait."""
        for key, events in found:
            if key.fileobj is self._ear:
                with suppress(OSError):
                    self._ear.recv(4096)
                continue
            for mask in (_READ, _WRITE):
                task = key.data.get(mask) if events & mask else None
                if task is not None:
                    self._forget_wait(task)
                    self._advance(task)
        for queue in (self._calls, self._turns):
            for _ in range(len(queue)):
                queue.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, task, waits = heapq.heappop(self._timers)
            if task in self._tasks and task.waits == waits:
                self._over(task)

    def _wait_s(self) -> float | None:
        if self._calls or self._turns or self._is_closed:
            return 0
        while self._timers and not self._is_current(self._timers[0]):
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _is_current(self, timer: tuple[float, int, _Task, int]) -> bool:
        return timer[2] in self._tasks and timer[2].waits == timer[3]

    def _begin(self, steps: Steps[Any], deadline: Deadline) -> None:
        if self._is_closed:
            steps.close()
            return
        task = _Task(steps, deadline)
        self._tasks[task] = None
        self._advance(task)

    def _advance(self, task: _Task, answer: Any = None, error: BaseException | None = None) -> None:
        """Run the operation to its next wait."""
        if task not in self._tasks:
            return
        try:
            step = task.steps.send(answer) if error is None else task.steps.throw(error)
            self._wait(task, step)
        except StopIteration:
            del self._tasks[task]
        except BaseException as exc:
            self._close(task)
            self._failed(exc)

    def _wait(self, task: _Task, step: Ready | Pause | Blocking | Change) -> None:
        task.waits += 1
        task.step = step
        if isinstance(step, Blocking):
            answered = partial(self._answered, task, task.waits)
            try:
                start_thread(partial(_call, step.call, task.deadline), answered)
            except TransportError as exc:
                answered((None, exc))
            return
        limit_s = task.deadline.wait_s(step.problem, address=step.address)
        if isinstance(step, Pause):
            if step.seconds <= 0:
                self._turns.append(partial(self._turn, task, task.waits))
                return
            limit_s = min(step.seconds, limit_s)
        elif isinstance(step, Ready):
            task.fd, task.mask = step.socket.fileno(), _WRITE if step.write else _READ
            self._watch(task.fd, task.mask, task)
        else:
            task.observing = step.observed(partial(self._call, partial(self._changed, task, task.waits)))
            task.observing.__enter__()
            self._turns.append(partial(self._changed, task, task.waits))
        heapq.heappush(self._timers, (time.monotonic() + limit_s, next(self._numbers), task, task.waits))
        if len(self._timers) > 2 * len(self._tasks) + MOST_STALE:
            self._timers = [timer for timer in self._timers if self._is_current(timer)]
            heapq.heapify(self._timers)

    def _turn(self, task: _Task, waits: int) -> None:
        if task.waits == waits:
            self._advance(task)

    def _answered(self, task: _Task, waits: int, outcome: Outcome[Any]) -> None:
        """From the thread that made the call."""

        def go_on() -> None:
            if task not in self._tasks or task.waits != waits:
                _discard(outcome)
                return
            try:
                value = result_of(outcome)
            except BaseException as exc:
                self._advance(task, error=exc)
            else:
                self._advance(task, value)

        if self._is_closed:
            _discard(outcome)
        else:
            self._call(go_on)

    def _changed(self, task: _Task, waits: int) -> None:
        if task.waits != waits or not isinstance(task.step, Change):
            return
        try:
            found = task.step.look()
        except Exception as exc:
            self._forget_wait(task)
            self._advance(task, error=exc)
            return
        if found is not None:
            self._forget_wait(task)
            self._advance(task, found)

    def _over(self, task: _Task) -> None:
        """The time of a wait is over: that of a pause, that of the operation, or what a system call may take."""
        step = task.step
        self._forget_wait(task)
        if isinstance(step, Pause):
            self._advance(task)
            return
        assert step is not None
        try:
            self._wait(task, step)
        except TransportError as exc:
            if isinstance(step, Change):
                self._advance(task, error=exc)
            else:
                self._close(task)
                self._failed(exc)

    def _forget_wait(self, task: _Task) -> None:
        task.waits += 1
        if task.fd >= 0:
            self._unwatch(task.fd, task.mask)
            task.fd = task.mask = -1
        task.step = None
        if task.observing is not None:
            observing, task.observing = task.observing, None
            observing.__exit__(None, None, None)

    def _close(self, task: _Task) -> None:
        self._tasks.pop(task, None)
        self._forget_wait(task)
        try:
            task.steps.close()
        except BaseException as exc:
            self._failed(exc)

    def _watch(self, fd: int, mask: int, task: _Task) -> None:
        known = self._selector.get_map().get(fd)
        if known is None:
            self._selector.register(fd, mask, {mask: task})
        else:
            known.data[mask] = task
            self._selector.modify(fd, known.events | mask, known.data)

    def _unwatch(self, fd: int, mask: int) -> None:
        with suppress(KeyError, ValueError, OSError):
            known = self._selector.get_key(fd)
            known.data.pop(mask, None)
            if known.data:
                self._selector.modify(fd, known.events & ~mask, known.data)
            else:
                self._selector.unregister(fd)

    def _end(self) -> None:
        for task in tuple(self._tasks):
            self._close(task)
        while self._calls:  # what was begun meanwhile is closed, and what was answered is let go of
            self._calls.popleft()()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        self._selector.close()
        self._bell.close()
        self._ear.close()


def _tell_name(name: str) -> None:
    """Give the thread its name for the system too, where Python does not (before 3.14). A process of two threads that have one name looks
    like a NativeAOT program that waits at its start (``suspension``).
    """
    with suppress(OSError), open("/proc/thread-self/comm", "wb", buffering=0) as file:
        file.write(name.encode()[:15])


def _call(call: Callable[[Deadline], Any], deadline: Deadline) -> Any:
    """In a thread of its own, which the system has given the name of ours."""
    _tell_name(CALLING)
    return call(deadline)


def _discard(outcome: Outcome[Any]) -> None:
    """What nobody waits for any more."""
    value, _ = outcome
    if isinstance(value, Closing):
        value.close()
