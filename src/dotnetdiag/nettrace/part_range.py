"""Which part of a longer recording a file tells of, as times of the sequence points ahead of its events: no event says it.

====================  ===========================================================
time                  what the sequence point says
sync_ticks - 1        more was recorded before; its threads are where numbers begin
sync_ticks - 2 - n    n ticks behind the start of the whole the part begins
sync_ticks - 2 - n    the second of these: n ticks behind the start the part ends
====================  ===========================================================

No runtime writes such times, and readers that know nothing of them find an empty list of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

AHEAD_LIMIT = 8
"""Sequence points that are looked at; ours are four at most."""
_MOST = (1 << 62) - 1
"""Ticks; more would not fit into the times of a file."""


def mark(sync_ticks: int) -> int:
    """The time that says: more was recorded before."""
    return sync_ticks - 1


def moment(ticks: int, sync_ticks: int) -> int:
    """The time that says: the part begins, or ends, there."""
    return mark(sync_ticks) - 1 - min(max(0, ticks - sync_ticks), _MOST)


def is_moment(time: int, sync_ticks: int) -> bool:
    """Whether the time is one of these."""
    return time < mark(sync_ticks)


def range_of(times: Iterable[int], sync_ticks: int) -> tuple[int, int | None] | None:
    """In ticks, of the sequence points ahead of all events; None without a beginning. The end may not be told."""
    first, *others = [*times] or [sync_ticks]
    if first != mark(sync_ticks):
        return None
    said = [sync_ticks + mark(sync_ticks) - 1 - time for time in others if is_moment(time, sync_ticks)]
    if not said or (len(said) > 1 and said[1] < said[0]):
        return None
    return said[0], said[1] if len(said) > 1 else None
