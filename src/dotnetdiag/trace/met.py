"""Windows of a recording whose event types are met on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.nettrace.arena import let_go_of_idle
from dotnetdiag.trace.fields import join_fields
from dotnetdiag.trace.freed import give_back_freed
from dotnetdiag.trace.part import COUNTED_IDS, RUNTIME
from dotnetdiag.trace.recorded import sessions, ticks_of_part
from dotnetdiag.trace.source import Wanted, lookup, wanted_of
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.events import EventSchema
    from dotnetdiag.trace.tally import Tally
    from dotnetdiag.trace.trace import Trace


def windows_as_met(
    trace: Trace,
    wants: Callable[[EventSchema], bool],
    *,
    size: int,
    activities: bool = True,
    tally: Tally | None = None,
    light: Callable[[EventSchema], bool] | None = None,
) -> Iterator[EventTable]:
    """As ``trace.windows``, in one pass over the file: a window has more types than the one before when events were met that carry them, and
    what symbols are built from is found beside. Without ``activities`` their ids may be 0. Of a part of a recording, what is counted and is there
    for the names it gives alone (``part.COUNTED_IDS``) is left out, and so it is of one of several that were merged.

    A ``tally`` adds up the amounts of the types that are ``light``, of which then no rows are made where it can.

    Finding the types first was a quarter of the time of a report, and finding the symbols afterwards another.
    """
    raw = trace.raw
    # a pass of its own, behind which nothing is added up
    part = ticks_of_part(trace) if raw.source.scan.begins_late else None
    if activities or not raw.source.tallies:
        tally = None
    types = _TypesMet(trace, wants, tally, light, part)
    raw.note_symbols()
    is_empty = True
    for headers in raw.source.windows_once(types.ids, size=size, activities=activities, tally=tally):
        is_empty = False
        window = types.table(headers)
        del headers  # who takes the window lets go of it before the next is made
        yield window
        del window
    let_go_of_idle()  # 60 MB
    give_back_freed()
    if is_empty:
        yield types.table(HeaderColumns.allocate(0))


_SLACK_S = 1e-6
"""Of times that are told in ns, of clocks that tick more slowly."""
UNDEFINED = 0
"""The type of events whose type the file does not define."""


class _TypesMet:
    """The types that are wanted, of those that are known by now."""

    def __init__(
        self,
        trace: Trace,
        wants: Callable[[EventSchema], bool],
        tally: Tally | None,
        light: Callable[[EventSchema], bool] | None,
        part: tuple[int, int] | None,
    ) -> None:
        self._raw, self._wants = trace.raw, wants
        self._tally, self._light = tally, light
        self._known = self._raw.metadata  # which grows
        self._seen = -1
        self._has_undefined = False
        self._part, self._sessions = part, sessions(trace.raw.info)
        self.ids()

    def ids(self) -> Wanted:
        """Their metadata ids."""
        if len(self._known) != self._seen:
            self._seen = len(self._known)
            self._look()
            self._ids = wanted_of([*self.schemas, UNDEFINED])
        return self._ids

    def table(self, headers: HeaderColumns) -> EventTable:
        """Events of these types. In a damaged file some have none."""
        if not self._has_undefined and not headers.metadata_id.all():
            self._has_undefined = True
            self._look()
        if self._has_undefined and UNDEFINED not in self.schemas:
            headers = headers[headers.metadata_id != UNDEFINED]
        if (self._part is not None or self._sessions) and len(headers):
            headers = self._without_outside(headers)
        return EventTable(self._raw, self.schemas, headers, fields=self.fields)

    def _without_outside(self, headers: HeaderColumns) -> HeaderColumns:
        """Without what is counted and is of another time than the part, or than the session of its process."""
        rows = np.flatnonzero(lookup(self._counted, headers.metadata_id))
        time = headers.time[rows]
        is_outside = np.zeros(len(rows), np.bool_)
        if self._part is not None:
            first, last = self._part
            is_outside = (time < first) | (time > last)
        if self._sessions and len(rows):
            meaning = self._raw.meaning
            pid, s = meaning.pid(headers[rows])[0], meaning.info.elapsed_ns(time) / 1e9
            for process, (begin, end) in self._sessions.items():
                is_outside |= (pid == process) & ((s < begin - _SLACK_S) | (s > end + _SLACK_S))
        if not is_outside.any():
            return headers
        keep = np.ones(len(headers), np.bool_)
        keep[rows[is_outside]] = False
        return headers[keep]

    def _look(self) -> None:
        numbers = (*self._known, *((UNDEFINED,) if self._has_undefined else ()))
        wanted = [one for one in numbers if self._wants(self._raw.types.name_of(one))]
        self.schemas = {number: self._raw.schema(number) for number in wanted}
        if self._tally is not None and self._light is not None:
            tallied = self._tally.know(self.schemas, self._light)
            self.schemas = {number: schema for number, schema in self.schemas.items() if number not in tallied}
        self.fields = join_fields(self.schemas)
        self._counted = wanted_of(
            number for number, one in self.schemas.items() if one.provider == RUNTIME and one.event_id in COUNTED_IDS
        )
