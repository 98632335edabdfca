"""The samples of a short session, read: which stack each thread had, by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.recipes.thread_stacks import StackReport, ThreadStack
from dotnetdiag.trace.frame import FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

for _module in ("source", "event_types", "table", "process", "symbols"):
    # a trace loads them when it is first asked; these samples are read, and to load this module is to prepare for that
    import_module(f"dotnetdiag.trace.{_module}")

MODES = {1: "native", 2: "managed"}
"""By the type of a sample: which code the thread was in."""
_ROLES = ((2, "finalizer"), (4, "thread pool"), (1, "gc"))


def report_of(data: bytes, *, pid: int | None = None, style: Style = Style.FULL) -> StackReport | None:
    """The last sample of every thread in a trace; None when there are none. Not the first: .NET 3.1 and 9 say ``managed`` there of threads that
    wait, because what they look at is of the stop before (seen in one session of three).
    """
    if not data:
        return None
    trace = Trace(data)
    samples = trace.get("Thread/Sample")
    if samples is None:
        return None
    last = len(samples) - 1 - np.unique(samples.headers.thread[::-1], return_index=True)[1]
    headers = samples.headers[last]
    types = samples.numpy("Type")[last]
    frames, unresolved = _frames(trace, headers, style)
    said = _said(trace)
    threads = []
    for tid, kind, stack in zip(headers.thread.tolist(), types.tolist(), frames, strict=True):
        managed_id, role = said.get(tid, (None, None))
        threads.append(
            ThreadStack(tid=tid, mode=MODES.get(kind, "unknown"), frames=stack, managed_id=managed_id, role=role)
        )
    return StackReport(
        pid=pid,
        utc=trace.raw.meaning.utc_text(samples.headers[-1:])[0],
        threads=tuple(threads),
        unresolved=unresolved,
        lost=trace.lost.total,
    )


def has_rundown(data: bytes) -> bool:
    """Whether a runtime wrote names of methods at the end: NativeAOT does not, nor one that waits at startup."""
    return bool(data) and "Runtime/Start" in Trace(data)


def _frames(trace: Trace, headers: HeaderColumns, style: Style) -> tuple[list[tuple[str, ...]], int]:
    made, unresolved, symbols = [], 0, trace.raw.symbols
    for stack, ticks in zip(headers.stack.tolist(), headers.time.tolist(), strict=True):
        addresses = trace.raw.stacks.frames(stack)
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
