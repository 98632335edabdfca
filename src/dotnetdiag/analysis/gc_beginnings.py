"""Which programs began while they were recorded: what the first collection of such a one finds was allocated since.

The runtime says so (Runtime/Start). That of NativeAOT does not (9.0.14): there the collector makes the first segments of each kind before it ever
collects, which a session that comes later is not told of.
"""

from __future__ import annotations

from collections import defaultdict

from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.analysis.kept_events import having, number_of, whole_numbers
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.process import RUNTIME_INFORMATION
from dotnetdiag.trace.table import EventTable

BEGUN, SEGMENT = RUNTIME_INFORMATION, 5
"""Ids of Runtime/Start and GC/CreateSegment."""
_KINDS = frozenset({0, 1, 3})
"""Of segments: of small, of large and of pinned objects. Those for objects that are never moved come when there are some."""


class Beginnings:
    """Takes windows; :meth:`seen` is whether a process began in what came."""

    def __init__(self) -> None:
        self._begun, self._segments = (OfTypes(having(number)) for number in (BEGUN, SEGMENT))
        self._collecting: set[int] = set()
        self._pids: set[int] = set()
        self._kinds: defaultdict[int, set[int]] = defaultdict(set)

    def feed(self, window: EventTable, starts: OfTypes) -> None:
        """Take the next window; ``starts`` are those of collections."""
        self._pids.update(distinct(self._begun.of(window).numpy("pid")).tolist())
        segments = self._segments.of(window)
        pids, rows = segments.numpy("pid"), self._segments.rows(window)
        begun_by, begun = starts.of(window).numpy("pid"), starts.rows(window)
        for pid in distinct(pids).tolist():
            if pid not in self._collecting:
                first = begun[begun_by == pid][:1]
                own = (pids == pid) & (rows < first[0] if len(first) else True)
                kinds = whole_numbers(number_of(segments.get("payload.Type"), len(segments)))
                self._kinds[pid].update(distinct(kinds[own]).tolist())
        self._collecting.update(distinct(begun_by).tolist())

    def seen(self, pid: int) -> bool:
        """Whether the process began while it was recorded."""
        return pid in self._pids or self._kinds[pid] >= _KINDS
