"""Types that were loaded, and how long that took: begins and ends, of which a start of a large program has a million, in rows that are spilled."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import number, texts, whole
from dotnetdiag.analysis.changing_rows import Change, ChangingRows
from dotnetdiag.analysis.followed import Followed
from dotnetdiag.analysis.intervals import RunningCover
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, having, whole_numbers
from dotnetdiag.analysis.running_groups import KeyedGroups, Numbering
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

BEGIN, END = 73, 74
"""TypeLoad/Start and /Stop."""
_ID, _NAME = "TypeLoadStartID", "TypeName"
_ROW = np.dtype([("ms", "f8"), ("loaded_ms", "f8"), ("pid", "i8"), ("type", "i4")])
"""``loaded_ms`` is NaN, and ``type`` -1, where no end was recorded."""


class TypeLoads:
    """Takes windows; :meth:`settle` says what came until now, which the others tell."""

    def __init__(self) -> None:
        self.texts = Texts()
        self._begins = KeptEvents(having(BEGIN), (_ID,))
        ends = KeptEvents(having(END), (_ID,), names=(_NAME,), texts=self.texts)
        self._rows, processes = ChangingRows(_ROW), Numbering()
        self._followed = Followed(
            self._rows,
            ends,
            key=lambda kept: whole_numbers(kept[_ID]),
            owner=lambda kept: processes.of(kept.pid.astype(np.int64)).astype(np.int32),
            change=_loaded,
        )
        self.count, self.total_ms = 0, 0.0
        """Of those that were loaded to their ends; the time in which some thread did that."""
        self._groups = KeyedGroups(2)

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends."""
        return having(BEGIN, END)(schema)

    def __len__(self) -> int:
        """How many began."""
        return len(self._rows)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        begins = self._begins.events_of(window)
        if len(begins):
            kept = self._begins.of(begins)
            rows = np.zeros(len(kept), _ROW)
            rows["ms"], rows["loaded_ms"], rows["pid"], rows["type"] = kept.ms, np.nan, kept.pid, -1
            self._followed.began(kept, self._rows.append(rows))
        self._followed.feed(window)

    def settle(self) -> None:
        """More may come."""
        self._followed.conclude()
        self.count, self._groups, covered = 0, KeyedGroups(2), RunningCover()
        for first, some in self._rows.given().slices():
            known = np.flatnonzero(~np.isnan(some["loaded_ms"]))
            own = some[known]
            self.count += len(own)
            covered.add(own["pid"], own["ms"], own["ms"] + own["loaded_ms"])
            self._groups.add([own["pid"], own["type"].astype(np.int64)], first + known, own["loaded_ms"])
        self.total_ms = covered.ms

    def columns(self) -> dict[str, Column]:
        """Of the table of types, those that took longest first."""
        (pid, name), found, order = self._groups.told()
        return {
            "type": texts(self.texts.names, name[order]),
            "count": whole(found.count[order]),
            "total_ms": number(found.total[order]),
            "max_ms": number(found.most[order]),
            "pid": whole(pid[order]),
        }


def _loaded(begins: Array, ends: Kept) -> Change:
    values = {"loaded_ms": ends.ms - begins["ms"], "type": ends[_NAME]}
    return Change(rows=begins["row"].astype(np.int64), values=values)
