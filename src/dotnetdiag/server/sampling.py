"""``Microsoft-DotNETCore-SampleProfiler``: the stacks of all Python threads, a hundred times a second (nettrace.md §10.1).

One thread samples for all sessions that run, each at the interval that it asks for. It leaves out itself and the threads of this package.
A thread that has used the processor since its last sample is ``managed``, one that has waited ``external``: so readers tell work from
waiting. Where nobody can know, all are managed. Under a loop of asyncio the frames of a task stand on one that has its name, so that what
tasks do can be told apart.

At 100 Hz ten threads 30 frames deep cost 0.7 % of a core while they wait, and 1.4 % when each runs between any two samples (measured, Python
3.11: benchmarks/server.py). A third of a per cent is the waking up.
"""

from __future__ import annotations

import re
import struct
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dotnetdiag.server.code_addresses import CODE_ADDRESSES, FRAMES_LIMIT, CodeAddresses, pack_addresses
from dotnetdiag.server.held_events import Write
from dotnetdiag.server.native_events import native_event
from dotnetdiag.server.periodic import OWN_THREADS, Periodic, Turn
from dotnetdiag.server.subscription import Subscription

PROVIDER = "Microsoft-DotNETCore-SampleProfiler"
INTERVAL_MS = 10.0
"""The default of runtimes is 1 ms; here every sample takes the interpreter's lock from the program."""
LEAST_MS, MOST_MS = 1.0, 10_000.0
_THREAD_SAMPLE = native_event(PROVIDER, 0, version=0)
_ERROR, _EXTERNAL, _MANAGED = (struct.pack("<I", number) for number in range(3))
_TASKS = "asyncio"
_DEFAULT_NAME = re.compile(r"Task-\d+")


@dataclass(slots=True, kw_only=True)
class _Sampled(Turn):
    subscription: Subscription
    write: Write


class SampleProfiler:
    """The provider. While no session wants samples there is no thread."""

    name = PROVIDER

    def __init__(self, addresses: CodeAddresses = CODE_ADDRESSES) -> None:
        self._addresses = addresses
        self._sampled: tuple[_Sampled, ...] = ()
        self._sampler: Periodic[_Sampled] | None = None

    def join(self, subscription: Subscription) -> None:
        """Sample for a session, every ``SampleProfilerIntervalMS`` of its arguments."""
        write = subscription.channel(_THREAD_SAMPLE)
        if write is None:
            return
        interval_ms = subscription.number("SampleProfilerIntervalMS", INTERVAL_MS, least=LEAST_MS, most=MOST_MS)
        one = _Sampled(interval_ns=int(interval_ms * 1e6), subscription=subscription, write=write)
        self._change((*self._sampled, one))

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        self._change(tuple(one for one in self._sampled if one.subscription is not subscription))

    def _change(self, sampled: tuple[_Sampled, ...]) -> None:
        self._sampled = sampled
        if self._sampler is not None:
            self._sampler.end()
            self._sampler = None
        if sampled:
            self._sampler = Periodic("sampler", sampled, _Sampler(self._addresses).sample)
            self._sampler.start()


@dataclass(slots=True)
class _Last:
    """A thread at its last sample: the processor time that it had used before its frames were looked at, and its stack."""

    used_ns: int
    stack: bytes


class _Sampler:
    """Takes the stacks of all threads. One that has not used the processor since its last sample has the stack that it had."""

    def __init__(self, addresses: CodeAddresses) -> None:
        self._addresses = addresses
        self._last: dict[int, _Last] = {}
        self._clocks = _clocks_are_fine()
        self._handle: tuple[int, int] | None = None
        """The addresses of what runs the callbacks of a loop, and so the steps of its tasks."""

    def sample(self, due: list[_Sampled]) -> None:
        """All threads, for these sessions."""
        writes = [one.write for one in due]
        used_ns: dict[int, tuple[int, int]] = {}
        for thread in threading.enumerate():
            ident, os_thread = thread.ident, thread.native_id
            if ident is not None and os_thread is not None and not thread.name.startswith(OWN_THREADS):
                used_ns[ident] = os_thread, self._used_ns(os_thread)
        samples = self._samples(used_ns)
        for kind, stack, os_thread in samples:
            for write in writes:
                write(kind, b"", b"", stack, os_thread)

    def _samples(self, used_ns: dict[int, tuple[int, int]]) -> list[tuple[bytes, bytes, int]]:
        """Type, stack and OS thread. Nothing in here waits, so that the other threads stand still: a frame that goes on while it is looked
        at is no longer where it was, and the interpreter has been seen to give wrong values of it (3.11). What fails is an error sample.
        """
        samples: list[tuple[bytes, bytes, int]] = []
        last: dict[int, _Last] = {}
        for ident, frame in sys._current_frames().items():
            os_thread, used = used_ns.get(ident, (0, 0))
            if not os_thread:
                continue
            before = self._last.get(os_thread)
            if before is not None and before.used_ns == used and used:
                last[os_thread] = before
                samples.append((_EXTERNAL, before.stack, os_thread))
                continue
            try:
                stack = pack_addresses(self._stack(frame))
            except Exception:
                samples.append((_ERROR, b"", os_thread))
            else:
                last[os_thread] = _Last(used, stack)
                samples.append((_MANAGED, stack, os_thread))
        self._last = last
        return samples

    def _stack(self, frame: FrameType) -> list[int]:
        """Its addresses, leaf first, with one for the task where a task runs."""
        found = self._addresses.addresses(frame)
        asyncio = sys.modules.get("asyncio")  # a program without it does not get it from us
        if asyncio is None:
            return found
        if self._handle is None:
            self._handle = self._addresses.known(asyncio.Handle._run.__code__)
            if self._handle is None:
                return found
        low, high = self._handle
        for at, address in enumerate(found):
            if low <= address < high:
                task = _task_of(frame, asyncio)
                if task:
                    found.insert(at, self._addresses.named(_TASKS, task))
                break
        return found[:FRAMES_LIMIT]

    def _used_ns(self, os_thread: int) -> int:
        """Processor time so far; 0 where that cannot be known, or the thread has ended."""
        if not self._clocks:
            return 0
        try:
            return time.clock_gettime_ns(_thread_clock(os_thread))
        except OSError:
            return 0


def _clocks_are_fine() -> bool:
    """Whether the clocks of threads tell the shortest turn from none; some sandboxes count in hundredths of a second."""
    if sys.platform != "linux":
        return False
    begin = time.thread_time_ns()
    for _ in range(1000):
        pass
    return time.thread_time_ns() > begin


def _thread_clock(os_thread: int) -> int:
    """The number of a thread's processor clock, as the kernel makes it; for a thread that has ended there is none, and the call says so."""
    return ~os_thread << 3 | 6


def _task_of(frame: FrameType | None, asyncio: Any) -> str:
    """The name of the task that runs on this stack; without a name of its own that of its coroutine. Empty: none does."""
    run_forever = asyncio.BaseEventLoop.run_forever.__code__
    while frame is not None and frame.f_code is not run_forever:
        frame = frame.f_back
    if frame is None:
        return ""
    try:
        task = asyncio.current_task(frame.f_locals.get("self"))
    except (RuntimeError, TypeError):
        return ""
    if task is None:
        return ""
    name = str(task.get_name())
    if _DEFAULT_NAME.fullmatch(name):
        name = str(getattr(task.get_coro(), "__qualname__", name))
    return name
