"""What all managed threads of a process are doing now: one sample of each, with names, from a short session.

The runtime's sample profiler stops all threads about once a millisecond and writes a stack of each, so that a session
of a few milliseconds has what is wanted; most of the time goes into its end, when the runtime empties its buffers (it
looks at them ten times a second) and writes the names of its methods. What reads them is loaded meanwhile, in a thread
that begins before the session: to load numpy and ours takes about as long as the session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import DiagnosticsError, NotPossible, UsageError
from dotnetdiag.recipes.live_names import end_of, short_session
from dotnetdiag.recipes.sampler import NO_SAMPLER, has_no_sampler
from dotnetdiag.recipes.system_threads import SystemThread, system_threads
from dotnetdiag.recipes.thread_stacks import StackReport, ThreadStack
from dotnetdiag.trace.method_names import Style
from dotnetdiag.transport.waiting import start

if TYPE_CHECKING:
    from dotnetdiag.client import Client

PROVIDER = "Microsoft-DotNETCore-SampleProfiler:0:4"
RUNDOWN_KEYWORD = 0x10138
"""Loader, Jit, NGen, Threading, EndRundown: names without the maps from code to IL, and a line for each thread (.NET 9).
Older runtimes take no keyword of one's own and get the usual one.
"""
RUNS_S = (0.02, 0.3, 2.0)
"""How long the sampler runs; the longer ones when a busy machine gave no sample."""
LONGEST_INTERVAL_S = 366 * 86400.0
"""The system waits for no more than some hundred years."""
READER = "dotnetdiag.recipes.stack_samples"


def iter_reports(
    client: Client, *, count: int = 1, interval_s: float = 1.0, style: Style = Style.FULL
) -> Iterator[StackReport]:
    """Take stacks ``count`` times, ``interval_s`` from start to start. Each is a session of its own, so that nothing runs
    in the target between them.
    """
    if count < 1:
        raise UsageError(f"{count} samples")
    require_interval(interval_s)
    begin = time.monotonic()
    for turn in range(count):
        wait = begin + turn * interval_s - time.monotonic()
        if turn and wait > 0:
            time.sleep(wait)
        yield take_stacks(client, style=style)


def require_interval(interval_s: float) -> None:
    """Raise UsageError for what cannot be waited for."""
    if not 0 <= interval_s <= LONGEST_INTERVAL_S:
        raise UsageError(f"an interval of {interval_s:g} s: must be at most a year")


def take_stacks(client: Client, *, style: Style = Style.FULL) -> StackReport:
    """The stacks of all managed threads. Raises NotPossible for NativeAOT, which has no sample profiler, and TimedOut or DiagnosticsError for a
    target that does not end its session: see :func:`live_names.end_of`.
    """
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
            if has_no_sampler(pid):
                raise NotPossible("stack report", NO_SAMPLER)
            raise DiagnosticsError(
                "the runtime gave no stacks: it has no sample profiler (NativeAOT has none), or is suspended at startup"
            )
    raise DiagnosticsError("no managed thread was seen: the runtime took no sample in time")


def _record(client: Client, run_s: float) -> bytes:
    loading = threading.Thread(target=import_module, args=(READER,), daemon=True, name="dotnetdiag reader")
    start(loading)
    with short_session(client, PROVIDER, rundown_keyword=RUNDOWN_KEYWORD) as session:
        time.sleep(run_s)
        data = end_of(session)
    loading.join()
    return data


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
        cpu = runnable = None
        if one is not None and other is not None:
            cpu = _share(one.cpu_ns, other.cpu_ns, elapsed_s)
            queued = _share(one.queued_ns, other.queued_ns, elapsed_s)
            runnable = None if cpu is None or queued is None else cpu + queued
        known = other or one
        made.append(replace(thread, name=None if known is None else known.name, cpu=cpu, runnable=runnable))
    return tuple(made)


def _share(before_ns: int | None, after_ns: int | None, elapsed_s: float) -> float | None:
    return None if before_ns is None or after_ns is None else max(0.0, (after_ns - before_ns) / 1e9 / elapsed_s)
