"""``Microsoft-DotNETCore-SampleProfiler``: the stacks of all Python threads, a hundred times a second (nettrace.md §10.1).

One thread samples for all sessions that run, each once in every interval of the length that it asks for, at a moment of it that nobody can
foresee: else a program that does something every 10 ms would be seen doing it always, or never. It leaves out itself and the threads of this package.
A thread that uses the processor when a sample is due is ``managed``, one that waits ``external``, for its turn with the interpreter's lock
too: so readers tell work from waiting. Without the kernel it is managed when it has used the processor since its last sample. Where nobody can
know, all are managed. Under a loop of asyncio the frames of a task stand on one that has its name, so that what
tasks do can be told apart.

At 100 Hz ten threads 30 frames deep cost 0.7 to 1.0 % of a core while they wait, and 1.0 to 1.2 when each runs between any two samples; without
the kernel 0.8 to 1.0 and 1.7 to 1.9 (medians, Python 3.11, a virtual machine of two cores: benchmarks/server.py). Of a sample's 0.1 ms the waking
up takes 0.04, the stacks 0.02 to 0.05, writing them 0.025; most of it is memory that has left the caches: with this file compiled as well it is
hardly less.
"""

from __future__ import annotations

import re
import struct
import sys
import time
from random import Random
from types import CodeType, FrameType
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.server.alarm import new_alarm
from dotnetdiag.server.code_addresses import CODE_ADDRESSES, FRAMES_LIMIT, CodeAddresses, pack_addresses
from dotnetdiag.server.native_events import native_event
from dotnetdiag.server.periodic import Periodic, Turn
from dotnetdiag.server.runtime_events import RuntimeEvents
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.thread_names import running_threads
from dotnetdiag.server.writing import Write

PROVIDER = "Microsoft-DotNETCore-SampleProfiler"
INTERVAL_MS = 10.0
"""The default of runtimes is 1 ms; here every sample takes the interpreter's lock from the program."""
LEAST_MS, MOST_MS = 1.0, 10_000.0
_THREAD_SAMPLE = native_event(PROVIDER, 0, version=0)
_ERROR, _EXTERNAL, _MANAGED = (struct.pack("<I", number) for number in range(3))
_TASKS = "asyncio"
_OF_COLLECTIONS = RuntimeEvents._collected.__code__
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
        part = Random().random  # noqa: S311 - an instance of ours: the program keeps its own random numbers
        one = _Sampled(interval_ns=int(interval_ms * 1e6), part=part, subscription=subscription, write=write)
        self._begin((*self._sampled, one))

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        self._sampled = tuple(one for one in self._sampled if one.subscription is not subscription)
        if self._sampler is not None:
            self._sampler.keep(self._sampled)
            self._sampler = self._sampler if self._sampled else None

    def _begin(self, sampled: tuple[_Sampled, ...]) -> None:
        samples = _Sampler(self._addresses)
        sampler = Periodic("sampler", sampled, samples.sample, samples.alarm)
        sampler.start()
        if self._sampler is not None:
            self._sampler.end()
        self._sampler, self._sampled = sampler, sampled


@dataclass(slots=True)
class _Thread:
    """One of the program. At its last sample: the processor time that it had used before its frames were looked at (0: nobody knows), and
    its stack.
    """

    os_thread: int
    at: int = 0
    """The place of its clock among those that are watched."""
    used_ns: int = 0
    stack: bytes = b""


class _Sampler:
    """Takes the stacks of all threads. One that has not used the processor since its last sample has the stack that it had."""

    def __init__(self, addresses: CodeAddresses) -> None:
        self.alarm = new_alarm()
        self._addresses = addresses
        self._clocks = _clocks_are_fine()
        self._threads: dict[int, _Thread | None] = {}
        """By ident; None: one of this package."""
        self._watched: list[_Thread] = []
        """In the order of their clocks."""
        self._loop_code: CodeType | None = None
        if self._clocks:  # else those that wait all the time would run at their first sample
            self._enumerate(self.alarm.frames())
            for thread, used_ns in zip(self._watched, self.alarm.used_now(), strict=True):
                thread.used_ns = max(used_ns, 0)

    def sample(self, due: list[_Sampled]) -> None:
        """All threads, for these sessions."""
        samples = self._samples()
        for one in due:
            write = one.write
            for kind, stack, os_thread in samples:
                write(kind, b"", b"", stack, os_thread)

    def _samples(self) -> list[tuple[bytes, bytes, int]]:
        """Type, stack and OS thread."""
        alarm = self.alarm
        moved, holder, now_ns, frames = alarm.moved_then(), alarm.holder_then(), alarm.used_now(), alarm.frames()
        ran = {
            ident: moved[thread.at] or ident == holder
            for ident, thread in self._threads.items()
            if thread is not None and thread.at < len(moved)
        }
        if not self._clocks or frames.keys() != self._threads.keys() or -1 in now_ns:  # threads have begun, or ended
            self._enumerate(frames)
            now_ns, frames = alarm.used_now(), alarm.frames()
        # From here on nothing waits, so that the other threads stand still: a frame that goes on while it is looked at is no longer where it
        # was, and the interpreter has been seen to give wrong values of it (3.11).
        samples: list[tuple[bytes, bytes, int]] = []
        loop_code = self._code_of_loops()
        for ident, frame in frames.items():
            thread = self._threads.get(ident)
            if thread is None:
                continue
            used = now_ns[thread.at] if thread.at < len(now_ns) else 0
            is_still = used > 0 and used == thread.used_ns
            if is_still and thread.stack:
                samples.append((_EXTERNAL, thread.stack, thread.os_thread))
                continue
            # a thread gives way as a collection calls us, and was collecting
            inner = frame.f_back if frame.f_code is _OF_COLLECTIONS and frame.f_back is not None else frame
            try:
                stack = self._stack(inner, loop_code)
            except Exception:
                thread.used_ns = 0
                samples.append((_ERROR, b"", thread.os_thread))
            else:
                thread.used_ns, thread.stack = used, stack
                is_managed = not is_still and ran.get(ident, True)
                samples.append((_MANAGED if is_managed else _EXTERNAL, stack, thread.os_thread))
        return samples

    def _stack(self, frame: FrameType, loop_code: CodeType | None) -> bytes:
        """Its addresses, leaf first, with one for the task where a task runs."""
        stack, at = self._addresses.walk(frame, loop_code)
        task = _task_of(frame, sys.modules["asyncio"]) if at >= 0 else ""
        if not task:
            return stack
        address = pack_addresses([self._addresses.named(_TASKS, task)])
        return b"".join((stack[: at * 8], address, stack[at * 8 :]))[: FRAMES_LIMIT * 8]

    def _code_of_loops(self) -> CodeType | None:
        """What runs the callbacks of a loop of asyncio, and so the steps of its tasks. A program without asyncio does not get it from us."""
        if self._loop_code is None:
            handle = getattr(sys.modules.get("asyncio"), "Handle", None)  # none while it is being imported
            self._loop_code = None if handle is None else handle._run.__code__
        return self._loop_code

    def _enumerate(self, frames: dict[int, FrameType]) -> None:
        """Know those that are there now; who was there before is what it was. Those that run nothing, or that nobody can name, are left out."""
        own = {ident for ident, _, is_own in running_threads() if is_own}
        threads: dict[int, _Thread | None] = dict.fromkeys(frames)
        clocks: list[int] = []
        self._watched = []
        for ident, os_thread in self.alarm.native_ids().items():
            if ident in own or ident not in frames:
                continue
            thread = self._threads.get(ident)
            if thread is None or thread.os_thread != os_thread:
                thread = _Thread(os_thread)
            threads[ident], thread.at = thread, len(clocks)
            self._watched.append(thread)
            clocks.append(_thread_clock(os_thread))
        self._threads = threads
        self.alarm.watch(clocks if self._clocks else [])


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
