"""Which part of the time a recording tells of: shares and rates are of that, and what has not ended lasts until then.

A runtime writes ``ProcessInfo`` when it ends a session, and the rundown behind it, which takes 0.02 to 0.3 s (3.1 to 10): nothing else is recorded
meanwhile. A part of a longer recording says that it is one (``Findings.begins_late``): it tells of the time from the first to the last of its events
but for those that are kept for the names they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dotnetdiag.events.well_known import EVENT_PIPE
from dotnetdiag.trace.process import process_events
from dotnetdiag.trace.source import wanted_of

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


class Recorded(NamedTuple):
    """In seconds since the start of the trace."""

    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long that is."""
        return self.end_s - self.begin_s


def recorded_of(trace: Trace) -> Recorded:
    """That of a trace; no pass of its own but of a part, where one over its events has been made."""
    raw = trace.raw
    if raw.source.scan.begins_late:
        return _of_part(trace)
    end_s = raw.duration_ns / 1e9
    said = [number for number in process_events(raw) if raw.types.name_of(number).provider == EVENT_PIPE]
    if said:
        headers = raw.source.collect(wanted_of(said))
        if len(headers) and _is_of_all(trace, raw.meaning.pid(headers)[0]):
            end_s = min(end_s, int(raw.meaning.info.elapsed_ns(headers.time.max(keepdims=True))[0]) / 1e9)
    return Recorded(0.0, max(0.0, end_s))


def _is_of_all(trace: Trace, pids: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> bool:
    """Whether each process of a trace of several has said that its session ends."""
    of_threads = {thread.process_id for thread in trace.raw.source.scan.threads.values()} - {None}
    return of_threads <= set(pids.tolist())


def _of_part(trace: Trace) -> Recorded:
    from dotnetdiag.trace.part import naming_types

    names = naming_types(trace)
    ticks = [
        tick
        for number, row in trace.raw.totals.by_type.items()
        if number not in names
        for tick in (row.first, row.last)
    ]
    if not ticks:
        return Recorded(0.0, 0.0)
    begin, end = trace.raw.meaning.info.elapsed_ns(np.array([min(ticks), max(ticks)], np.int64)).tolist()
    return Recorded(begin / 1e9, end / 1e9)
