"""Which keywords of the runtime's provider a recording had. No file says what its session asked for, but its events do: one that has a single
keyword comes only where that was asked for. So a recording with segments of the collector's heap, and without collections, had the keyword gc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.trace.part import RUNTIME
from dotnetdiag.trace.recorded import sessions

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


def recorded_keywords(trace: Trace) -> tuple[int, int]:
    """Those that are known to have been recorded, as bits, and up to which level; there may have been more. Nothing of what was merged, whose
    sessions are several. No pass over the events.
    """
    raw = trace.raw
    if sessions(raw.info):
        return 0, 0
    types = [one for one in map(raw.types.name_of, raw.metadata) if one.provider == RUNTIME]
    keywords = 0
    for one in types:
        if one.keywords.bit_count() == 1:
            keywords |= one.keywords
    return keywords, max((one.level for one in types), default=0)
