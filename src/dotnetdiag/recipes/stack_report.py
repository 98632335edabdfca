"""What all managed threads of a process are doing now: one sample of each, with names, from a short session.

The runtime's sample profiler stops all threads about once a millisecond and writes a stack of each, so that a session
of a few milliseconds has what is wanted; most of the time goes into its end, when the runtime empties its buffers (it
looks at them ten times a second) and writes the names of its methods. What reads them is loaded in that time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.recipes.system_threads import SystemThread, system_threads
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.client import Client

PROVIDER = "Microsoft-DotNETCore-SampleProfiler:0:4"
RUNDOWN_KEYWORD = 0x10138
"""Loader, Jit, NGen, Threading, EndRundown: names without the maps from code to IL, and a line for each thread (.NET 9).
Older runtimes take no keyword of one's own and get the usual one.
"""
RUNDOWN_FALLBACK = 0x80020139
RUNS_S = (0.02, 0.3, 2.0)
"""How long the sampler runs; the longer ones when a busy machine gave no sample."""
STREAM_LIMIT = 1 << 30
"""More than that no rundown needs: 1 million methods are a tenth of it."""
BUSY = 0.05
"""A thread that had so much of a processor while the session lasted was not waiting, whatever code it was in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread. ``tid`` as the target sees it; ``frames`` leaf first; ``mode`` the code it was in, ``native`` or ``managed``.

    ``cpu`` is its share of a processor during the session, as the system counts it (Linux, our own machine), ``name``
    what the system calls it (.NET 6 and newer, 15 bytes). ``managed_id`` and ``role`` are what the runtime says (.NET 9
    and newer). None where nobody says.
    """

    tid: int
    mode: str
    frames: tuple[str, ...]
    cpu: float | None = None
    name: str | None = None
    managed_id: int | None = None
    role: str | None = None

    @property
    def state(self) -> str:
        """``cpu`` or ``waiting``. In native code threads wait, mostly: the runtime cannot tell, the system can."""
        return "cpu" if self.mode == "managed" or (self.cpu or 0.0) >= BUSY else "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadGroup:
    """Threads with equal stacks, in equal code and state."""

    threads: tuple[ThreadStack, ...]

    @property
    def state(self) -> str:
        """Of all of them."""
        return self.threads[0].state

    @property
    def mode(self) -> str:
        """Of all of them."""
        return self.threads[0].mode

    @property
    def frames(self) -> tuple[str, ...]:
        """Of all of them."""
        return self.threads[0].frames


@dataclass(frozen=True, slots=True, kw_only=True)
class StackReport:
    """All managed threads at ``utc``, by id. ``unresolved`` of the frames have no name; ``lost`` events did not arrive."""

    pid: int | None
    utc: str
    threads: tuple[ThreadStack, ...]
    unresolved: int
    lost: int

    def groups(self) -> tuple[ThreadGroup, ...]:
        """Threads with equal stacks and states together, in the order of their first thread."""
        found: dict[tuple[str, str, tuple[str, ...]], list[ThreadStack]] = {}
        for thread in self.threads:
            found.setdefault((thread.state, thread.mode, thread.frames), []).append(thread)
        return tuple(ThreadGroup(threads=tuple(threads)) for threads in found.values())

    def only(self, wanted: str) -> StackReport:
        """The threads of an id (decimal, or hex with 0x) or a name. UsageError when there is none."""
        number = _number(wanted)
        kept = tuple(one for one in self.threads if one.tid == number or (one.name or "").lower() == wanted.lower())
        if not kept:
            there = ", ".join(f"0x{one.tid:X}" + (f" {one.name}" if one.name else "") for one in self.threads)
            raise UsageError(f"no managed thread {wanted}; there are {there}")
        return replace(self, threads=kept)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        threads = [
            {
                "tid": one.tid,
                "name": one.name,
                "managed_id": one.managed_id,
                "role": one.role,
                "state": one.state,
                "mode": one.mode,
                "cpu": None if one.cpu is None else round(one.cpu, 3),
                "frames": list(one.frames),
            }
            for one in self.threads
        ]
        return {
            "pid": self.pid,
            "utc": self.utc,
            "threads": threads,
            "unresolved": self.unresolved,
            "lost": self.lost,
        }


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def iter_reports(
    client: Client, *, count: int = 1, interval_s: float = 1.0, style: Style = Style.FULL
) -> Iterator[StackReport]:
    """Take stacks ``count`` times, ``interval_s`` from start to start. Each is a session of its own, so that nothing runs
    in the target between them.
    """
    if count < 1:
        raise UsageError(f"{count} samples")
    begin = time.monotonic()
    for turn in range(count):
        wait = begin + turn * interval_s - time.monotonic()
        if turn and wait > 0:
            time.sleep(wait)
        yield take_stacks(client, style=style)


def take_stacks(client: Client, *, style: Style = Style.FULL) -> StackReport:
    """The stacks of all managed threads. Raises DiagnosticsError for a runtime that has no sample profiler."""
    if client.is_suspended():
        raise DiagnosticsError("the runtime is suspended at startup: no managed code runs before it is resumed")
    pid = client.target_pid()
    for run_s in RUNS_S:
        before, begin = {} if pid is None else system_threads(pid), time.monotonic()
        data = _record(client, run_s)
        after, elapsed_s = {} if pid is None else system_threads(pid), time.monotonic() - begin
        from dotnetdiag.recipes.stack_samples import has_rundown, report_of

        found = report_of(data, pid=pid, style=style)
        if found is not None:
            return replace(found, threads=_with_system(found.threads, before, after, elapsed_s))
        if not has_rundown(data):
            raise DiagnosticsError(
                "the runtime gave no stacks: it has no sample profiler (NativeAOT has none), or is suspended at startup"
            )
    raise DiagnosticsError("no managed thread was seen: the runtime took no sample in time")


def _record(client: Client, run_s: float) -> bytes:
    kept = bytearray()
    with client.trace(PROVIDER, rundown_keyword=RUNDOWN_KEYWORD, rundown_fallback=RUNDOWN_FALLBACK) as session:
        time.sleep(run_s)
        session.stop()
        import_module("dotnetdiag.recipes.stack_samples")
        for data in session:
            if len(kept) + len(data) > STREAM_LIMIT:
                raise DiagnosticsError(f"the target sent more than {STREAM_LIMIT} bytes")
            kept += data
    return bytes(kept)


def _with_system(
    threads: Sequence[ThreadStack],
    before: Mapping[int, SystemThread],
    after: Mapping[int, SystemThread],
    elapsed_s: float,
) -> tuple[ThreadStack, ...]:
    """With what the system says: a name, and the processor time used meanwhile."""
    made = []
    for thread in threads:
        one, other = before.get(thread.tid), after.get(thread.tid)
        cpu = None
        if one is not None and other is not None and one.cpu_ns is not None and other.cpu_ns is not None:
            cpu = max(0.0, (other.cpu_ns - one.cpu_ns) / 1e9 / elapsed_s)
        known = other or one
        made.append(replace(thread, name=None if known is None else known.name, cpu=cpu))
    return tuple(made)
