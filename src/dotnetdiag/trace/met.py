"""Windows of a recording whose event types are met on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.nettrace.arena import let_go_of_idle
from dotnetdiag.trace.fields import join_fields
from dotnetdiag.trace.source import Wanted, wanted_of
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.events import EventSchema
    from dotnetdiag.trace.trace import Trace


def windows_as_met(trace: Trace, wants: Callable[[EventSchema], bool], *, size: int) -> Iterator[EventTable]:
    """As ``trace.windows``, in one pass over the file: a window has more types than the one before when events were met that carry them, and
    what symbols are built from is found beside.

    Finding the types first was a quarter of the time of a report, and finding the symbols afterwards another.
    """
    raw, types = trace.raw, _TypesMet(trace, wants)
    raw.note_symbols()
    is_empty = True
    for headers in raw.source.windows(types.ids, size=size, keep=False):
        is_empty = False
        yield EventTable(raw, types.schemas, headers, fields=types.fields)
    let_go_of_idle()  # 60 MB
    if is_empty:
        yield EventTable(raw, types.schemas, HeaderColumns.allocate(0), fields=types.fields)


class _TypesMet:
    """The types that are wanted, of those that are known by now."""

    def __init__(self, trace: Trace, wants: Callable[[EventSchema], bool]) -> None:
        self._raw, self._wants = trace.raw, wants
        self._known = self._raw.metadata  # which grows
        self._undefined = [number for number in self._raw.source.counts_as_declared() if number not in self._known]
        self._seen = -1
        self.ids()

    def ids(self) -> Wanted:
        """Their metadata ids."""
        if len(self._known) != self._seen:
            self._seen = len(self._known)
            numbers = [one for one in (*self._known, *self._undefined) if self._wants(self._raw.types.name_of(one))]
            self.schemas = {number: self._raw.schema(number) for number in numbers}
            self.fields = join_fields(self.schemas)
            self._ids = wanted_of(numbers)
        return self._ids
