"""Who did it: the stacks of any events, counted or weighted by one of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dotnetdiag.analysis.profile import Array, State
from dotnetdiag.analysis.rows import profile_of, sample_rows
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.trace.fields import join_fields
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
    if events is None:
        numbers = list(trace.raw.type_ids)
    else:
        names = [events] if isinstance(events, str) else list(events)
        numbers = list(dict.fromkeys(number for name in names for number in trace.raw.types.find(name)))
    schemas = {number: trace.raw.schema(number) for number in numbers}
    if weight is not None:
        _check(weight, schemas)

    def read(table: EventTable) -> tuple[State, Array | None]:
        column = None if weight is None else table.get(weight)
        if not isinstance(column, Scalar):
            return State.NONE, None
        values = column.values.astype(np.float64)
        return State.NONE, values if column.valid is None else np.where(column.valid, values, 0.0)

    samples = sample_rows(trace, schemas, read)
    return profile_of(
        trace,
        samples,
        name="All events" if events is None else ", ".join(names),
        unit=unit or (EVENTS if weight is None else weight),
        length_ns=np.zeros(len(samples), np.int64),
        weight=samples.values,
        notes=() if len(samples) else ("the trace defines such events, but has none",),
    )


def _check(weight: str, schemas: Mapping[int, EventSchema]) -> None:
    fields = {field.name: field.like for field in join_fields(schemas)}
    if weight not in fields:
        raise UnknownName("field", weight, near(weight, tuple(fields)), where="in these events")
    like = fields[weight]
    if not isinstance(like, Scalar) or like.values.dtype.kind not in "iuf" or like.values.ndim != 1:
        raise UsageError(f"{weight} is no number that could be added up")
