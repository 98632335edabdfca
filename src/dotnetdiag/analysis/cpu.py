"""Where the threads' time went: the samples of the runtime's profiler, or those of the kernel (version 6).

Rule of the runtime's sampler (peers.md §1.2), which is that of the reference tool: a stack is taken to last until the
next sample of its thread, so the last of each thread counts nothing. ``managed`` samples are CPU time; ``external``
ones are in native code, waiting or not. Allocation ticks and sampled allocations have stacks as well, and prove that
the thread ran: they count as managed samples.

Kernel samples (nettrace.md §12): ``cpu`` counts as often as its value says, for the sampling period each; ``cswitch``
begins when the thread left the processor, and its value is the clock's ticks until it came back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.profile import MILLISECONDS, SAMPLES, Array, StackProfile, State
from dotnetdiag.analysis.rows import SampleRows, profile_of, sample_rows, types_where
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.trace.symbols import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
KERNEL = "Universal.Events"
_THREAD_SAMPLE = 0
_MANAGED = 2
_ALLOCATIONS = frozenset({10, 20, 32})
"""Ids of allocation ticks and of sampled object allocations, high and low."""
_DEFAULT_PERIOD_NS = 1_000_000
_NO_EVENT_SOURCES = frozenset(
    {SAMPLER, KERNEL, "Universal.System", "System.Threading.Tasks.TplEventSource"}
    | {f"Microsoft-Windows-DotNETRuntime{kind}" for kind in ("", "Rundown", "Private", "Stress")}
    | {"System.Diagnostics.Eventing.FrameworkEventSource"}
)

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Weight(StrEnum):
    """What a sample counts: the time until the next, or one."""

    TIME = "time"
    SAMPLES = "samples"


def cpu(trace: Trace, *, weight: str = Weight.TIME, event_marks: bool = False) -> StackProfile:
    """Sampled time of all threads, in ms, or with ``weight="samples"`` the number of samples.

    Takes the kernel's samples where the trace has some. A trace without samples gives an empty profile, with a note.
    With ``event_marks`` events of EventSources count as external samples of their threads, as they do in
    ``dotnet-trace report`` (not in ``convert``): the last sample of a thread then lasts until an event, however long.
    """
    try:
        counted = Weight(weight) is Weight.SAMPLES
    except ValueError as error:
        raise UsageError(f"weight {weight!r}: time or samples") from error
    kernel = types_where(trace, _is_kernel)
    if any(trace.source.counts().get(number, (0, 0))[0] for number in kernel):
        return _kernel(trace, kernel, counted)
    sampler = types_where(trace, _is_sampler)
    if not any(trace.source.counts().get(number, (0, 0))[0] for number in sampler):
        # allocations alone would look like CPU time
        note = "the trace has no CPU samples: record it with the profile dotnet-sampled-thread-time"
        return _sampled(trace, {}, {}, counted, (note,))
    others = types_where(trace, lambda schema: _is_allocation(schema) or (event_marks and _is_event_source(schema)))
    return _sampled(trace, sampler, others, counted, ())


def _is_sampler(schema: EventSchema) -> bool:
    return schema.provider == SAMPLER and schema.event_id == _THREAD_SAMPLE


def _is_allocation(schema: EventSchema) -> bool:
    return schema.provider == RUNTIME and schema.event_id in _ALLOCATIONS


def _is_event_source(schema: EventSchema) -> bool:
    return schema.provider not in _NO_EVENT_SOURCES


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
    samples = sample_rows(trace, [*sampler, *others])
    state = _states(trace, samples, sampler)[samples.rows]
    time = trace.meaning.elapsed_ns(samples.table.headers)[samples.rows]
    length = np.zeros(len(time), np.int64)
    last = np.ones(len(time), np.bool_)
    np.subtract(time[1:], time[:-1], out=length[:-1])
    last[:-1] = samples.thread[1:] != samples.thread[:-1]
    length[last] = 0
    return profile_of(
        trace,
        samples,
        name=_named(counted),
        unit=SAMPLES if counted else MILLISECONDS,
        length_ns=length,
        weight=np.ones(len(time)) if counted else length / 1e6,
        state=state,
        keep=None if counted else ~last,
        notes=notes,
    )


def _states(trace: Trace, samples: SampleRows, sampler: dict[int, EventSchema]) -> Array:
    headers = samples.table.headers
    state = np.full(len(headers), State.CPU, np.uint8)
    marks = [number for number, schema in samples.table.schemas.items() if _is_event_source(schema)]
    state[np.isin(headers.metadata_id, np.array(marks, np.uint32))] = State.UNMANAGED
    rows = np.flatnonzero(np.isin(headers.metadata_id, np.array(list(sampler), np.uint32)))
    if len(rows):
        table = EventTable(trace, {number: samples.table.schemas[number] for number in sampler}, headers[rows])
        kind = table.get("Type")
        managed = kind.values == _MANAGED if isinstance(kind, Scalar) else np.ones(len(rows), np.bool_)
        state[rows[~managed]] = State.UNMANAGED
    return state


def _kernel(trace: Trace, kernel: dict[int, EventSchema], counted: bool) -> StackProfile:
    samples = sample_rows(trace, kernel)
    headers = samples.table.headers
    value = samples.table.get("Value")
    values = value.values.astype(np.int64) if isinstance(value, Scalar) else np.ones(len(headers), np.int64)
    values = values[samples.rows]
    switches = [number for number, schema in kernel.items() if schema.name == "cswitch"]
    blocked = np.isin(headers.metadata_id, np.array(switches, np.uint32))[samples.rows]
    info = trace.meaning.info
    period = info.sampling_ns or _DEFAULT_PERIOD_NS
    own = np.where(blocked, values * (1e9 / info.frequency), values * float(period))
    state = np.where(blocked, np.uint8(State.BLOCKED), np.uint8(State.CPU))
    if counted:
        weight = np.where(blocked, 1.0, values)
    else:
        weight = own / 1e6
    start = trace.meaning.elapsed_ns(headers)[samples.rows]
    room = np.full(len(start), np.iinfo(np.int64).max)
    same = samples.thread[1:] == samples.thread[:-1]
    room[:-1][same] = np.maximum(np.diff(start)[same], 0)
    return profile_of(
        trace,
        samples,
        name=_named(counted),
        unit=SAMPLES if counted else MILLISECONDS,
        length_ns=np.minimum(own.astype(np.int64), room),
        weight=weight.astype(np.float64),
        state=state.astype(np.uint8),
    )
