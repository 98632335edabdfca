"""Which threads are of the thread pool."""

from __future__ import annotations

from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable

THREAD_POOL = ".NET ThreadPool"
"""What threads of it are called that have no name of their own."""
_WORKER_EVENTS = frozenset({50, 57})
"""Start and Wait of a pool's worker, which workers send themselves. (The reference tool takes 55, the adjustment, which
few of them send, and the gate thread too.)"""


def is_worker(schema: EventSchema) -> bool:
    """Whether events of this type name the threads of the pool."""
    return schema.provider == RUNTIME and schema.event_id in _WORKER_EVENTS


class PoolThreads:
    """Takes windows; the values of their ``thread`` columns that are of the pool are in it."""

    def __init__(self) -> None:
        self._workers = OfTypes(is_worker)
        self._seen: set[int] = set()

    def look_at(self, window: EventTable) -> None:
        """Take note of those of a window."""
        self._seen.update(window.headers.thread[self._workers.mask(window)].tolist())

    def __contains__(self, number: int) -> bool:
        return number in self._seen
