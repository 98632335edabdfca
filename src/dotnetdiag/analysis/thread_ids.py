"""Threads by what they are called: a process and an id. A recording may have several numbers for one."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import first_of_each
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_LOW = (1 << 32) - 1


class ThreadIds:
    """What processes and ids of threads together are, numbered. Of each no more than a few numbers are kept: there may be 200,000."""

    def __init__(self) -> None:
        self._processes, self._ids, self._both = Numbering(), Numbering(), Numbering()

    def of(self, events: EventTable, kept: Kept) -> Array:
        """Of each event its number."""
        different, which = ranked(events.headers.thread)
        return self.of_rows(first_of_each(which, len(different)), kept)[which]

    def of_rows(self, rows: Array, kept: Kept) -> Array:
        """Of some events."""
        process, thread = (
            self._processes.of(kept.pid[rows].astype(np.int64, copy=False)),
            self._ids.of(kept.tid[rows].astype(np.int64, copy=False)),
        )
        return self._both.of(process << 32 | thread)

    def told(self, which: Array) -> tuple[Array, Array]:
        """The processes and the ids that these numbers stand for."""
        both = self._both.keys()[which]
        return self._processes.keys()[both >> 32], self._ids.keys()[both & _LOW]
