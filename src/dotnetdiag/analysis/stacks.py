"""Who did it: the stacks of any events, counted or weighted by one of their fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dotnetdiag.analysis.profile import StackProfile, State
from dotnetdiag.analysis.rows import profile_of, sample_rows
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import Scalar
from dotnetdiag.trace.event_types import near
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
        numbers = list(trace.type_ids)
    else:
        names = [events] if isinstance(events, str) else list(events)
        numbers = list(dict.fromkeys(number for name in names for number in trace.types.find(name)))
    samples = sample_rows(trace, numbers)
    count = len(samples.rows)
    if weight is None:
        weights = np.ones(count)
    else:
        column = samples.table.get(weight)
        if column is None:
            raise UnknownName("field", weight, near(weight, samples.table.fields), where="in these events")
        if not isinstance(column, Scalar) or column.values.dtype.kind not in "iuf" or column.values.ndim != 1:
            raise UsageError(f"{weight} is no number that could be added up")
        values = column.values.astype(np.float64)
        if column.valid is not None:
            values = np.where(column.valid, values, 0.0)
        weights = values[samples.rows]
    return profile_of(
        trace,
        samples,
        name="All events" if events is None else ", ".join(names),
        unit=unit or (EVENTS if weight is None else weight),
        length_ns=np.zeros(count, np.int64),
        weight=weights,
        state=np.full(count, State.NONE, np.uint8),
    )
