"""Where the threads' time went: the samples of the runtime's profiler, or those of the kernel (version 6).

Rule of the runtime's sampler (peers.md §1.2), which is that of the reference tool: a stack is taken to last until the
next sample of its thread, so the last of each thread counts nothing. ``managed`` samples are CPU time; ``external``
ones are in native code, waiting or not. The reference tool counts other events that have stacks as samples too
(:class:`Marks`); we do when asked.

Kernel samples (nettrace.md §12): ``cpu`` counts as often as its value says, for the sampling period each; ``cswitch``
begins when the thread left the processor, and its value is the clock's ticks until it came back.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dotnetdiag.analysis.profile import MILLISECONDS, SAMPLES, Array, State
from dotnetdiag.analysis.rows import profile_of, sample_rows, types_where
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
KERNEL = "Universal.Events"
_THREAD_SAMPLE = 0
_MANAGED = 2
_ALLOCATIONS = frozenset({10, 20, 32})
"""Ids of allocation ticks and of sampled object allocations, high and low."""
_DEFAULT_PERIOD_NS = 1_000_000
_FOREVER_NS = 1 << 62
_NO_EVENT_SOURCES = frozenset(
    {SAMPLER, KERNEL, "Universal.System", "System.Threading.Tasks.TplEventSource"}
    | {f"Microsoft-Windows-DotNETRuntime{kind}" for kind in ("", "Rundown", "Private", "Stress")}
    | {"System.Diagnostics.Eventing.FrameworkEventSource"}
)


class Weight(StrEnum):
    """What a sample counts: the time until the next, or one."""

    TIME = "time"
    SAMPLES = "samples"


class Marks(StrEnum):
    """Which other events count as samples of their threads."""

    NONE = "none"
    ALLOCATIONS = "allocations"
    """Allocation ticks and sampled allocations, as managed samples: the rule of ``dotnet-trace convert``."""
    EVENTS = "events"
    """Those, and events of EventSources as external samples: the rule of ``dotnet-trace report``. The last sample of a
    thread then lasts until its next event, however long."""


MARKED = "events of EventSources and allocations count as samples, as in dotnet-trace's report"


def cpu(trace: Trace, *, weight: str = Weight.TIME, marks: str = Marks.NONE) -> StackProfile:
    """Sampled time of all threads, in ms, or with ``weight="samples"`` the number of samples.

    Takes the kernel's samples where the trace has some. A trace without samples gives an empty profile, with a note.
    ``marks`` are the events that count as samples besides.
    """
    try:
        counted = Weight(weight) is Weight.SAMPLES
    except ValueError as error:
        raise UsageError(f"weight {weight!r}: time or samples") from error
    try:
        marked = _MARKS[Marks(marks)]
    except ValueError as error:
        raise UsageError(f"marks {marks!r}: one of {', '.join(Marks)}") from error
    kernel = types_where(trace, _is_kernel)
    if any(trace.raw.source.counts().get(number, (0, 0))[0] for number in kernel):
        return _kernel(trace, kernel, counted)
    sampler = types_where(trace, _is_sampler)
    if not any(trace.raw.source.counts().get(number, (0, 0))[0] for number in sampler):
        # marks alone would look like CPU time
        note = (
            f"the trace has no CPU samples (events of {SAMPLER}): record it with the profile dotnet-sampled-thread-time"
        )
        return _sampled(trace, {}, {}, counted, (note,))
    others = types_where(trace, lambda schema: any(is_one(schema) for is_one in marked))
    notes = (MARKED,) if any(_is_event_source(schema) for schema in others.values()) else ()
    return _sampled(trace, sampler, others, counted, notes)


def _is_sampler(schema: EventSchema) -> bool:
    return schema.provider == SAMPLER and schema.event_id == _THREAD_SAMPLE


def _is_allocation(schema: EventSchema) -> bool:
    return schema.provider == RUNTIME and schema.event_id in _ALLOCATIONS


def _is_event_source(schema: EventSchema) -> bool:
    return schema.provider not in _NO_EVENT_SOURCES


_MARKS = {
    Marks.NONE: (),
    Marks.ALLOCATIONS: (_is_allocation,),
    Marks.EVENTS: (_is_allocation, _is_event_source),
}


def _is_kernel(schema: EventSchema) -> bool:
    return schema.provider == KERNEL and schema.name in ("cpu", "cswitch")


def _named(counted: bool) -> str:
    return "Thread time samples" if counted else "Thread time"


def _sampled(
    trace: Trace,
    sampler: dict[int, EventSchema],
    others: dict[int, EventSchema],
    counted: bool,
    notes: tuple[str, ...],
) -> StackProfile:
    schemas = {number: trace.raw.schema(number) for number in sampler}
    wanted = wanted_of(sampler)
    marks = wanted_of(number for number, schema in others.items() if _is_event_source(schema))

    def read(table: EventTable) -> tuple[Array, None]:
        headers = table.headers
        state = np.full(len(headers), State.CPU, np.uint8)
        if len(marks):
            state[lookup(marks, headers.metadata_id)] = State.UNMANAGED
        rows = np.flatnonzero(lookup(wanted, headers.metadata_id))
        if len(rows):
            kind = EventTable(trace.raw, schemas, headers[rows]).get("Type")
            if isinstance(kind, Scalar):
                state[rows[kind.values != _MANAGED]] = State.UNMANAGED
        return state, None

    samples = sample_rows(trace, {**sampler, **others}, read)
    time = trace.raw.meaning.info.elapsed_ns(samples.time)
    length = np.zeros(len(time), np.int64)
    np.subtract(time[1:], time[:-1], out=length[:-1])
    np.maximum(length, 0, out=length)  # differences that do not fit 64 bits wrap, in damaged files
    del time
    last = samples.is_last
    length[last] = 0
    if not counted and len(last) and last.all():
        notes = (*notes, "every thread was sampled once, and a stack lasts until the next sample of its thread")
    if not counted:
        samples, length = samples.take(~last), length[~last]
    return profile_of(
        trace,
        samples,
        name=_named(counted),
        unit=SAMPLES if counted else MILLISECONDS,
        length_ns=length,
        weight=samples.values if counted else length / 1e6,
        notes=notes,
    )


def _kernel(trace: Trace, kernel: dict[int, EventSchema], counted: bool) -> StackProfile:
    switches = wanted_of(number for number, schema in kernel.items() if schema.name == "cswitch")

    def read(table: EventTable) -> tuple[Array, Array]:
        value = table.get("Value")
        blocked = lookup(switches, table.headers.metadata_id)
        known = value.values.astype(np.float64) if isinstance(value, Scalar) else np.ones(len(table))
        return np.where(blocked, np.uint8(State.BLOCKED), np.uint8(State.CPU)), known

    samples = sample_rows(trace, kernel, read)
    info = trace.raw.meaning.info
    blocked = samples.state == State.BLOCKED
    own = samples.values * np.where(blocked, 1e9 / info.frequency, float(info.sampling_ns or _DEFAULT_PERIOD_NS))
    start = info.elapsed_ns(samples.time)
    room = np.full(len(start), float(_FOREVER_NS))
    room[:-1] = np.maximum(np.diff(start), 0)
    room[samples.is_last] = _FOREVER_NS
    return profile_of(
        trace,
        samples,
        name=_named(counted),
        unit=SAMPLES if counted else MILLISECONDS,
        length_ns=np.minimum(own, room).astype(np.int64),
        weight=np.where(blocked, 1.0, samples.values) if counted else own / 1e6,
    )
