"""Who did it: the stacks of any events, counted or weighted by one of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dotnetdiag.analysis.fold import OfTypes, fold
from dotnetdiag.analysis.pool_threads import is_worker
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.rows import SampleColumns, profile_of
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.well_known import SAMPLERS
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

EVENTS = "events"


def stacks(
    trace: Trace, events: str | Sequence[str] | None = None, *, weight: str | None = None, unit: str = ""
) -> StackProfile:
    """The stacks of events by name (as ``trace[name]`` takes it; None: of all events), each counting one.

    ``weight`` is the name of a field to add up instead, as in ``stacks(trace, "GC/AllocationTick",
    weight="AllocationAmount64", unit="bytes")``; events without the field count 0. Raises UnknownName for names that
    are not there, UsageError for a field that is no number.
    """
    asked = StacksFold(events, weight=weight, unit=unit)
    trace.events(names=asked.names)  # a name that is not there is told
    (made,) = fold(trace, asked)
    return made


class StacksFold:
    """What :func:`stacks` asks, window by window: names that nothing has count nothing, and an event without the field that is added up."""

    needs_activities = False

    def __init__(self, events: str | Iterable[str] | None = None, *, weight: str | None = None, unit: str = "") -> None:
        self.names = None if events is None else (events,) if isinstance(events, str) else tuple(events)
        self._weight = weight
        self._unit = unit or (EVENTS if weight is None else weight)
        self._events = OfTypes(self._is_one)
        self._columns = SampleColumns()
        self._fields: dict[str, None] | None = None  # of the events that came
        self._missing = list(self.names or ())
        self._sampled = False

    def _is_one(self, schema: EventSchema) -> bool:
        return self.names is None or any(map(schema.matches, self.names))

    def wants(self, schema: EventSchema) -> bool:
        """The events by name, and the starts of workers."""
        return self._is_one(schema) or is_worker(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window. Raises UsageError where the weight is no number."""
        self._columns.look_at(window)
        events = self._events.of(window)
        if events.schemas:
            there = events.schemas.values()
            self._missing = [name for name in self._missing if not any(one.matches(name) for one in there)]
            self._sampled |= any(one.provider in SAMPLERS for one in there)
            self._fields = {**(self._fields or {}), **dict.fromkeys(events.fields)}
        column = events.get(self._weight) if self._weight is not None and self._weight in events.fields else None
        if self._weight is None or column is None:
            self._columns.add(events, State.NONE, None if self._weight is None else np.zeros(len(events)))
            return
        number = _number(self._weight, column)
        values = number.values.astype(np.float64)
        self._columns.add(events, State.NONE, values if number.valid is None else np.where(number.valid, values, 0.0))

    def take(self) -> StackProfile:
        """The profile of what was fed since the last time, for a session that has no end."""
        made = self._made()
        self._columns.forget()
        return made

    def _notes(self, has_some: bool) -> tuple[str, ...]:
        missing = tuple(f"no event {name} is defined" for name in self._missing)
        if has_some or (missing and len(missing) == len(self.names or ())):
            return missing
        return (*missing, "such events are defined, but there are none")

    def result(self) -> StackProfile:
        """The profile of all that was fed. Raises UnknownName where no event has the field that is added up, UsageError when it was given
        already.
        """
        self._columns.end()
        return self._made()

    def _made(self) -> StackProfile:
        if self._weight is not None and self._fields is not None and self._weight not in self._fields:
            raise UnknownName("field", self._weight, near(self._weight, tuple(self._fields)), where="in these events")
        samples = self._columns.take()
        return profile_of(
            self._columns,
            samples,
            name="All events" if self.names is None else ", ".join(self.names),
            unit=self._unit,
            length_ns=np.zeros(len(samples), np.int64),
            weight=samples.values,
            notes=self._notes(len(samples) > 0),
            sampled=self._sampled,
        )


def _number(name: str, column: Column) -> Scalar:
    if not isinstance(column, Scalar) or column.values.dtype.kind not in "iuf" or column.values.ndim != 1:
        raise UsageError(f"{name} is no number that could be added up")
    return column
