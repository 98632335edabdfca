"""What all managed threads of a process are doing now: one sample of each, with names, from a short session.

The runtime's sample profiler stops all threads about once a millisecond and writes a stack of each, so that a session
of a few milliseconds has what is wanted; most of the time goes into its end, when the runtime empties its buffers (it
looks at them ten times a second) and writes the names of its methods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.recipes.thread_names import thread_names
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.symbols import FrameKind
from dotnetdiag.trace.trace import Trace

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
STATES = {1: "waiting", 2: "cpu"}
"""By the type of a sample: in native code, where threads wait for the most part, or in managed code."""
_ROLES = ((2, "finalizer"), (4, "thread pool"), (1, "gc"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread. ``tid`` as the target sees it; ``state`` is ``cpu`` (managed code) or ``waiting`` (native code, in which
    threads wait for the most part). ``frames`` leaf first. ``name`` is what the system has (Linux, .NET 6 and newer, 15
    bytes); ``managed_id`` and ``role`` what the runtime says (.NET 9 and newer). None where nobody says.
    """

    tid: int
    state: str
    frames: tuple[str, ...]
    name: str | None = None
    managed_id: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadGroup:
    """Threads with equal stacks."""

    threads: tuple[ThreadStack, ...]

    @property
    def state(self) -> str:
        """Of all of them."""
        return self.threads[0].state

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
        found: dict[tuple[str, tuple[str, ...]], list[ThreadStack]] = {}
        for thread in self.threads:
            found.setdefault((thread.state, thread.frames), []).append(thread)
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
    pid = client.target_pid()
    names: Mapping[int, str] = {}
    for run_s in RUNS_S:
        if pid is not None:
            names = thread_names(pid)  # before: a thread may be gone afterwards
        trace = Trace.from_buffer(_record(client, run_s))
        if "Thread/Sample" in trace:
            return report_of(trace, pid=pid, names=names, style=style)
        if "Runtime/Start" not in trace:
            raise DiagnosticsError(
                "the runtime gave no stacks: it has no sample profiler (NativeAOT has none), or is suspended at startup"
            )
    raise DiagnosticsError("no managed thread was seen: the runtime took no sample in time")


def _record(client: Client, run_s: float) -> bytes:
    kept = bytearray()
    with client.trace(PROVIDER, rundown_keyword=RUNDOWN_KEYWORD, rundown_fallback=RUNDOWN_FALLBACK) as session:
        time.sleep(run_s)
        session.stop()
        for data in session:
            if len(kept) + len(data) > STREAM_LIMIT:
                raise DiagnosticsError(f"the target sent more than {STREAM_LIMIT} bytes")
            kept += data
    return bytes(kept)


def report_of(
    trace: Trace, *, pid: int | None = None, names: Mapping[int, str] | None = None, style: Style = Style.FULL
) -> StackReport:
    """The first sample of every thread in a trace."""
    samples = trace["Thread/Sample"]
    _, first = np.unique(samples.headers.thread, return_index=True)
    headers = samples.headers[first]
    types = samples.numpy("Type")[first]
    frames, unresolved = _frames(trace, headers, style)
    said = _said(trace)
    threads = []
    for tid, kind, stack in zip(headers.thread.tolist(), types.tolist(), frames, strict=True):
        managed_id, role = said.get(tid, (None, None))
        threads.append(
            ThreadStack(
                tid=tid,
                state=STATES.get(kind, "unknown"),
                frames=stack,
                name=(names or {}).get(tid),
                managed_id=managed_id,
                role=role,
            )
        )
    return StackReport(
        pid=pid,
        utc=trace.meaning.utc_text(samples.headers[:1])[0],
        threads=tuple(threads),
        unresolved=unresolved,
        lost=trace.lost.total,
    )


def _frames(trace: Trace, headers: HeaderColumns, style: Style) -> tuple[list[tuple[str, ...]], int]:
    made, unresolved, symbols = [], 0, trace.symbols
    for stack, ticks in zip(headers.stack.tolist(), headers.time.tolist(), strict=True):
        addresses = trace.stacks.frames(stack)
        exact = np.zeros(len(addresses), np.bool_)
        exact[:1] = True
        found = symbols.resolve(addresses, np.full(len(addresses), ticks, np.int64), exact=exact)
        unresolved += sum(symbols.frame(frame).kind is FrameKind.UNRESOLVED for frame in found.tolist())
        made.append(tuple(symbols.frame_name(frame, style) for frame in found.tolist()))
    return made, unresolved


def _said(trace: Trace) -> dict[int, tuple[int | None, str | None]]:
    """(managed thread id, role) by OS thread id, as the rundown of .NET 9 and newer has it."""
    table = trace.get("Loader/ThreadDCStop")
    if table is None or not {"OSThreadID", "ManagedThreadIndex", "Flags"} <= set(table.fields):
        return {}
    columns: Sequence[list[Any]] = [
        table.numpy(name).tolist() for name in ("OSThreadID", "ManagedThreadIndex", "Flags")
    ]
    return {
        tid: (index or None, next((word for flag, word in _ROLES if flags & flag), None))
        for tid, index, flags in zip(*columns, strict=True)
        if tid
    }
