"""Which part of the time a recording tells of: shares and rates are of that, and what has not ended lasts until then.

A runtime writes ``ProcessInfo`` when it ends a session, and the rundown behind it, which takes 0.02 to 0.3 s (3.1 to 10): nothing else is recorded
meanwhile. A part of a longer recording says that it is one (``Findings.begins_late``): it tells of the time from the first to the last of its events
but for those that are kept for the names they give. In a recording of several processes, as merged ones are, each has its own time, where all have
said that their sessions end: nothing is known of a process behind that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dotnetdiag.events.well_known import EVENT_PIPE
from dotnetdiag.trace.process import process_events
from dotnetdiag.trace.source import wanted_of

if TYPE_CHECKING:
    from dotnetdiag.nettrace import TraceInfo
    from dotnetdiag.trace.trace import Trace


SESSION = "dotnetdiag.session"
"""The key by which a merged recording has the number of a process, and from when to when it was recorded, in ns since the start."""
_SAID = re.compile(r"([0-9]{1,10}) ([0-9]{1,18}) ([0-9]{1,18})", re.ASCII)
NOBODY: Mapping[int, tuple[float, float]] = MappingProxyType({})


class Recorded(NamedTuple):
    """In seconds since the start of the trace. ``by_process``: the time of each process, where they are several and that is told."""

    begin_s: float
    end_s: float
    by_process: Mapping[int, tuple[float, float]] = NOBODY

    @property
    def seconds(self) -> float:
        """For how long something was recorded."""
        return length_of(self.by_process.values()) if self.by_process else self.end_s - self.begin_s

    def of(self, pid: int) -> Recorded:
        """That of one process."""
        return Recorded(*self.by_process.get(pid, (self.begin_s, self.end_s)))


def sessions(info: TraceInfo | None) -> dict[int, tuple[float, float]]:
    """By process, in seconds, as a merged recording says it under :data:`SESSION`."""
    found = (_SAID.fullmatch(value) for key, value in (info.key_values if info else ()) if key == SESSION)
    return {int(one[1]): (int(one[2]) / 1e9, int(one[3]) / 1e9) for one in found if one}


def length_of(spans: Iterable[tuple[float, float]]) -> float:
    """How long all are together: what several have counts once."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def recorded_of(trace: Trace) -> Recorded:
    """That of a trace; no pass of its own but of a part, where one over its events has been made."""
    raw = trace.raw
    if raw.source.scan.begins_late:
        whole = _of_part(trace)
        return whole._replace(by_process=_by_process(trace, whole)) if raw.meaning.is_of_several else whole
    end_s = raw.duration_ns / 1e9
    said = [number for number in process_events(raw) if raw.types.name_of(number).provider == EVENT_PIPE]
    if said:
        headers = raw.source.collect(wanted_of(said))
        if len(headers) and _is_of_all(trace, raw.meaning.pid(headers)[0]):
            end_s = min(end_s, int(raw.meaning.info.elapsed_ns(headers.time.max(keepdims=True))[0]) / 1e9)
    whole = Recorded(0.0, max(0.0, end_s))
    return whole._replace(by_process=_by_process(trace, whole)) if raw.meaning.is_of_several else whole


def _by_process(trace: Trace, whole: Recorded) -> Mapping[int, tuple[float, float]]:
    """As the recording says it; else from the first event of each process to the end of its session, and nothing where one has not said that it
    ended.
    """
    raw = trace.raw
    spans = sessions(raw.info)
    if not spans or not _pids(trace) <= spans.keys():
        spans = _told_by_events(trace)
    return {
        pid: (min(max(begin, whole.begin_s), whole.end_s), max(min(max(begin, end), whole.end_s), whole.begin_s))
        for pid, (begin, end) in spans.items()
    }


def _told_by_events(trace: Trace) -> dict[int, tuple[float, float]]:
    raw = trace.raw
    said = [number for number in process_events(raw) if raw.types.name_of(number).provider == EVENT_PIPE]
    headers = raw.source.collect(wanted_of(said)) if said else None
    if headers is None or not len(headers) or not _is_of_all(trace, raw.meaning.pid(headers)[0]):
        return {}
    began, ended = dict[int, int](), dict[int, int]()
    for index, tick in raw.totals.thread_began.items():
        row = raw.source.scan.threads.get(index)
        pid = None if row is None else row.process_id
        if pid is not None:
            began[pid] = min(began.get(pid, tick), tick)
    for pid, tick in zip(raw.meaning.pid(headers)[0].tolist(), headers.time.tolist(), strict=True):
        ended[pid] = max(ended.get(pid, tick), tick)
    pids = sorted(began.keys() & ended.keys())
    ns = raw.meaning.info.elapsed_ns(np.array([[began[pid], ended[pid]] for pid in pids], np.int64).reshape(-1))
    return dict(zip(pids, map(tuple, (ns.reshape(-1, 2) / 1e9).tolist()), strict=True))


def _pids(trace: Trace) -> set[int]:
    """Those that threads are of; 0 is the kernel's."""
    return {thread.process_id for thread in trace.raw.source.scan.threads.values() if thread.process_id}


def _is_of_all(trace: Trace, pids: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> bool:
    """Whether each process of a trace of several has said that its session ends."""
    of_threads = {thread.process_id for thread in trace.raw.source.scan.threads.values()} - {None}
    return of_threads <= set(pids.tolist())


def _of_part(trace: Trace) -> Recorded:
    ticks = ticks_of_part(trace)
    if ticks is None:
        return Recorded(0.0, 0.0)
    begin, end = trace.raw.meaning.info.elapsed_ns(np.array(ticks, np.int64)).tolist()
    return Recorded(begin / 1e9, end / 1e9)


def ticks_of_part(trace: Trace) -> tuple[int, int] | None:
    """From the first to the last of the events of a part of a recording that are not there for the names they give; None where it has no others."""
    from dotnetdiag.trace.part import naming_types

    names = naming_types(trace)
    ticks = [
        tick
        for number, row in trace.raw.totals.by_type.items()
        if number not in names
        for tick in (row.first, row.last)
    ]
    return (min(ticks), max(ticks)) if ticks else None
