"""Which part of the time a recording tells of: shares and rates are of that, and what has not ended lasts until then.

A runtime writes ``ProcessInfo`` when it ends a session, and the rundown behind it, which takes 0.02 to 0.3 s (3.1 to 10): nothing else is recorded
meanwhile. A part of a longer recording says that it is one (``Findings.begins_late``), and which where it was cut out (``Findings.part_ticks``).
Without that it tells of the time from the first to the last of its events but for those that are kept for the names they give. In a recording of
several processes, as merged ones are, each has its own time, where all have said that their sessions end: nothing is known of a process behind that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events.well_known import EVENT_PIPE
from dotnetdiag.trace.distinct import distinct, ranked
from dotnetdiag.trace.process import process_events
from dotnetdiag.trace.source import wanted_of

if TYPE_CHECKING:
    from dotnetdiag.nettrace import TraceInfo
    from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

SESSION = "dotnetdiag.session"
"""The key by which a merged recording has the number of a process, and from when to when it was recorded, in ns since the start; behind these, of a
part of a recording, for how long it was recorded before.
"""
_SAID = re.compile(r"([0-9]{1,10}) ([0-9]{1,18}) ([0-9]{1,18})(?: ([0-9]{1,18}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Recorded:
    """In seconds since the start of the trace. ``by_process``: the time of each process, where they are several and that is told."""

    begin_s: float
    end_s: float
    by_process: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    missing: Mapping[int, float] = field(default_factory=dict)
    """For how long processes were recorded before, where of several some are of parts."""

    def missing_s(self, pid: int) -> float:
        """For how long a process was recorded before: this is a part."""
        return self.missing.get(pid, 0.0) if self.by_process else self.begin_s

    @property
    def span(self) -> tuple[float, float]:
        """From when to when."""
        return self.begin_s, self.end_s

    @property
    def seconds(self) -> float:
        """For how long something was recorded."""
        return length_of(self.by_process.values()) if self.by_process else self.end_s - self.begin_s

    def seconds_of(self, pids: Array) -> float:
        """For how long any of these processes was recorded."""
        spans = [self.by_process[pid] for pid in distinct(pids.astype(np.int64)).tolist() if pid in self.by_process]
        return length_of(spans) if spans else self.seconds

    def of(self, pid: int) -> Recorded:
        """That of one process."""
        return Recorded(*self.by_process.get(pid, self.span))

    def between(self, start_s: float | None, end_s: float | None) -> Recorded:
        """That of the part from one time to another."""
        begin_s, most = (max(self.begin_s, start_s or 0.0), math.inf if end_s is None else end_s)
        return Recorded(begin_s, max(begin_s, min(self.end_s, most)))

    def ends_ms(self, pids: Array) -> Array:
        """When each of these processes was recorded no more."""
        kinds, which = ranked(pids)
        return np.array([1000.0 * self.of(pid).end_s for pid in kinds.tolist()], np.float64)[which]


def sessions(info: TraceInfo | None) -> dict[int, tuple[float, float]]:
    """By process, in seconds, as a merged recording says it under :data:`SESSION`."""
    return {int(one[1]): (int(one[2]) / 1e9, int(one[3]) / 1e9) for one in _said(info)}


def _said(info: TraceInfo | None) -> list[re.Match[str]]:
    found = (_SAID.fullmatch(value) for key, value in (info.key_values if info else ()) if key == SESSION)
    return [one for one in found if one]


def length_of(spans: Iterable[tuple[float, float]]) -> float:
    """How long all are together: what several have counts once."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def recorded_of(trace: Trace) -> Recorded:
    """That of a trace; no pass of its own but of a part, and of processes whose times a merged recording does not say, where one over its events has
    been made.
    """
    raw = trace.raw
    if raw.source.scan.begins_late:
        whole = _of_part(trace)
    else:
        ended = _ended(trace)
        whole = Recorded(0.0, max(0.0, min(raw.duration_ns / 1e9, max(ended.values(), default=math.inf))))
    if not raw.meaning.is_of_several:
        return whole
    spans = sessions(raw.info)
    if not _pids(trace) - {0} <= spans.keys():  # it was merged by others
        spans = _told_by_events(trace)
    begin_s, end_s = whole.begin_s, whole.end_s
    within = {
        pid: (min(max(begin_s, begin), end_s), min(max(begin_s, end), end_s)) for pid, (begin, end) in spans.items()
    }
    missing = {int(one[1]): int(one[4]) / 1e9 for one in _said(raw.info) if one[4]}
    if begin_s:  # a part of what was merged
        missing = {pid: missing.get(pid, 0.0) + max(0.0, begin_s - begin) for pid, (begin, _) in spans.items()}
    return Recorded(begin_s, end_s, within, missing)


def _ended(trace: Trace) -> dict[int, float]:
    """When the sessions of processes ended, in seconds, as they say; nothing where one has not said it."""
    raw = trace.raw
    said = [number for number in process_events(raw) if raw.types.name_of(number).provider == EVENT_PIPE]
    headers = raw.source.collect(wanted_of(said)) if said else None
    if headers is None or not len(headers):
        return {}
    ended = dict[int, float]()
    for pid, ns in zip(
        raw.meaning.pid(headers)[0].tolist(), raw.meaning.info.elapsed_ns(headers.time).tolist(), strict=True
    ):
        ended[pid] = max(ended.get(pid, 0.0), ns / 1e9)
    return ended if _pids(trace) - {0} <= ended.keys() else {}


def _told_by_events(trace: Trace) -> dict[int, tuple[float, float]]:
    """From the first event of each process to the end of its session."""
    raw, ended = trace.raw, _ended(trace)
    began = dict[int, float]()
    for index, tick in raw.totals.thread_began.items() if ended else ():
        row = raw.source.scan.threads.get(index)
        if row is not None and row.process_id is not None:
            ns = int(raw.meaning.info.elapsed_ns(np.array([tick], np.int64))[0])
            began[row.process_id] = min(began.get(row.process_id, math.inf), ns / 1e9)
    return {pid: (begin, max(begin, ended[pid])) for pid, begin in began.items()}


def _pids(trace: Trace) -> set[int]:
    """Those that threads are said to be of; 0 is the kernel's."""
    return {thread.process_id for thread in trace.raw.source.scan.threads.values() if thread.process_id is not None}


def _of_part(trace: Trace) -> Recorded:
    ticks = ticks_of_part(trace)
    if ticks is None:
        return Recorded(0.0, 0.0)
    begin, end = trace.raw.meaning.info.elapsed_ns(np.array(ticks, np.int64)).tolist()
    return Recorded(begin / 1e9, end / 1e9)


def ticks_of_part(trace: Trace) -> tuple[int, int] | None:
    """That of a part of a recording. What it does not say is told by the first and the last of the events that are not there for the names they
    give; None where it has no others.
    """
    begin, end = trace.raw.source.scan.part_ticks or (None, None)
    if begin is not None and end is not None:
        return begin, end
    from dotnetdiag.trace.part import naming_types

    names = naming_types(trace)
    ticks = [
        tick
        for number, row in trace.raw.totals.by_type.items()
        if number not in names
        for tick in (row.first, row.last)
    ]
    if begin is not None:
        return begin, max(ticks, default=begin)
    return (min(ticks), max(ticks)) if ticks else None
