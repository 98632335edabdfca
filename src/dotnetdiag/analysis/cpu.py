"""Where the threads' time went: the samples of the runtime's profiler, or those of the kernel (version 6).

Rule of the runtime's sampler (dotnet-tools.md §1.2), which is that of the reference tool: a stack is taken to last until the
next sample of its thread, so the last of each thread counts nothing. ``managed`` samples are CPU time; ``external``
ones are in native code, waiting or not. The reference tool counts other events that have stacks as samples too
(:class:`Marks`); we do when asked.

Kernel samples (nettrace.md §12) take the place of the runtime's in processes that have some: ``cpu`` counts as often as its
value says, for the sampling period each; ``cswitch`` begins when the thread left the processor, and its value is the clock's
ticks until it came back.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.fold import OfTypes, fold
from dotnetdiag.analysis.pool_threads import is_worker
from dotnetdiag.analysis.profile import MILLISECONDS, SAMPLES, Array, State
from dotnetdiag.analysis.rows import SampleColumns, SampleRows, profile_of
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.symbols import Symbols
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
KERNEL = "Universal.Events"
_THREAD_SAMPLE = 0
_MANAGED = 2
_ALLOCATIONS = frozenset({10, 20, 32})
"""Ids of allocation ticks and of sampled object allocations, high and low."""
_NO_SAMPLES = f"the trace has no CPU samples (events of {SAMPLER})"
NO_SAMPLES = f"{_NO_SAMPLES}: record with --profile dotnet-sampled-thread-time"
_DEFAULT_PERIOD_NS = 1_000_000
_FOREVER_NS = 1 << 62
FROM_KERNEL = 0x80
"""Of the state of a sample, until there is a profile."""
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
    """Those, and events of EventSources as external samples whose leaf is the name of the event: the rule of ``dotnet-trace
    report``, without the time of tasks that it adds where it sees one waiting. The last sample of a thread then lasts until its
    next event, however long."""


MARKED = "events of EventSources and allocations count as samples, as in dotnet-trace's report"


def cpu(
    trace: Trace, *, weight: str = Weight.TIME, marks: str = Marks.NONE, symbols: Symbols | None = None
) -> StackProfile:
    """Sampled time of all threads, in ms, or with ``weight="samples"`` the number of samples.

    Of a process that has samples of the kernel, these are taken. A trace without samples gives an empty profile, with a note.
    ``marks`` are the events that count as samples besides; ``symbols`` name the frames, None: those of the trace.
    """
    (made,) = fold(trace, CpuFold(weight=weight, marks=marks, symbols=symbols))
    return made


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


def left_out(count: int) -> str:
    """The note on samples of the runtime beside the kernel's."""
    return f"{count:,} samples of the runtime are left out: their processes have samples of the kernel"


class CpuFold:
    """What :func:`cpu` asks, window by window."""

    needs_activities = False

    def __init__(self, *, weight: str = Weight.TIME, marks: str = Marks.NONE, symbols: Symbols | None = None) -> None:
        self._symbols = symbols
        try:
            self._counted = Weight(weight) is Weight.SAMPLES
        except ValueError as error:
            raise UsageError(f"weight {weight!r}: time or samples") from error
        try:
            self._marks = Marks(marks)
        except ValueError as error:
            raise UsageError(f"marks {marks!r}: one of {', '.join(Marks)}") from error
        self._sampler, self._kernel = OfTypes(_is_sampler), OfTypes(_is_kernel)
        self._switches = OfTypes(lambda schema: _is_kernel(schema) and schema.name == "cswitch")
        marked = _MARKS[self._marks]
        self._sampled = OfTypes(lambda schema: _is_sampler(schema) or any(is_one(schema) for is_one in marked))
        self._sources = OfTypes(lambda schema: _is_event_source(schema) and self._sampled.wants(schema))
        self._columns = SampleColumns()
        self._has_samples = self._has_kernel = self._has_sources = False
        self._event_names: dict[str, int] = {}

    def wants(self, schema: EventSchema) -> bool:
        """Samples of the runtime and of the kernel, what counts as one, and the starts of workers."""
        return self._sampled.wants(schema) or _is_kernel(schema) or is_worker(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._columns.look_at(window)
        self._has_sources |= any(map(self._sources.wants, window.schemas.values()))
        kernel, sampled = self._kernel.of(window), self._sampled.of(window)
        if len(kernel):
            self._has_kernel = True
            self._add_kernel(kernel)
        if len(sampled) or not len(kernel):
            self._add_sampled(sampled)

    def _add_sampled(self, window: EventTable) -> None:
        state = np.full(len(window), State.CPU, np.uint8)
        sources = self._sources.mask(window)
        state[sources] = State.UNMANAGED
        rows = np.flatnonzero(self._sampler.mask(window))
        if len(rows):
            self._has_samples = True
            kind = self._sampler.of(window).get("Type")
            if isinstance(kind, Scalar):
                state[rows[kind.values != _MANAGED]] = State.UNMANAGED
        self._columns.add(window, state, self._named_events(window, sources) if self._has_sources else None)

    def _named_events(self, window: EventTable, sources: Array) -> Array:
        """The number of each event's name: 1 and more, but no more than 1 for what is sampled."""
        numbers = np.ones(len(window))
        for number in distinct(window.headers.metadata_id[sources]).tolist():
            schema = window.schemas[number]
            name = self._event_names.setdefault(
                f"EventName: {schema.provider}/{schema.name}", len(self._event_names) + 2
            )
            numbers[window.headers.metadata_id == number] = name
        return numbers

    def _add_kernel(self, window: EventTable) -> None:
        value = window.get("Value")
        known = value.values.astype(np.float64) if isinstance(value, Scalar) else np.ones(len(window))
        state = np.where(self._switches.mask(window), np.uint8(State.BLOCKED), np.uint8(State.CPU))
        self._columns.add(window, state | FROM_KERNEL, known)

    def result(self) -> StackProfile:
        """The profile of all that was fed. Raises UsageError when it was given already."""
        self._columns.end()
        return self._made()

    def _made(self) -> StackProfile:
        return (self._of_both if self._has_kernel else self._of_sampler)(self._columns.take())

    def take(self) -> StackProfile:
        """The profile of what was fed since the last time, for a session that has no end: what is kept does not grow.

        The last sample of each thread waits for the next time, which tells how long it lasted: all profiles together weigh what the
        whole would, but for threads without a sample from one time to the next.
        """
        if self._counted or self._has_kernel:  # no sample needs the next
            made = self._made()
            self._columns.forget()
        else:
            samples = self._columns.take()
            made = self._of_sampler(samples)
            self._columns.keep_last(samples)
        return made

    def _of_sampler(self, samples: SampleRows) -> StackProfile:
        notes = self.notes
        if not self._has_samples:
            notes = (NO_SAMPLES,) if self._marks is Marks.NONE else (*notes, _NO_SAMPLES)
        time = self._columns.context.meaning.info.elapsed_ns(samples.time)
        length = np.zeros(len(time), np.int64)
        np.subtract(time[1:], time[:-1], out=length[:-1])
        np.maximum(length, 0, out=length)  # differences that do not fit 64 bits wrap, in damaged files
        del time
        last = samples.is_last
        length[last] = 0
        if not self._counted and len(last) and last.all():
            notes = (*notes, "every thread was sampled once, and a stack lasts until the next sample of its thread")
        if not self._counted:
            samples, length = samples.take(~last), length[~last]
        weight = np.ones(len(samples)) if self._counted else length / 1e6
        made = self._profile(samples, length, weight, samples.values, notes)
        return replace(made, is_ticked=self._marks is Marks.NONE and not self._counted)

    def _of_both(self, samples: SampleRows) -> StackProfile:
        """Of the processes with samples of the kernel those, of the others the runtime's."""
        kernel = samples.state >= FROM_KERNEL
        seen = {samples.threads[index].process_id for index in distinct(samples.thread[kernel]).tolist()}
        is_seen = np.array([thread.process_id in seen for thread in samples.threads], np.bool_)[samples.thread]
        notes = self.notes
        if (count := int(np.count_nonzero(is_seen & ~kernel))) > 0:
            notes = (*notes, left_out(count))
        info = self._columns.context.meaning.info
        if count:
            kept = kernel | ~is_seen
            samples, kernel = samples.take(kept), kernel[kept]
        start, last = info.elapsed_ns(samples.time), samples.is_last
        room = np.full(len(start), float(_FOREVER_NS))
        room[:-1] = np.maximum(np.diff(start), 0)
        room[last] = np.where(kernel[last], _FOREVER_NS, 0)
        if not self._counted:  # the last sample of the runtime's counts nothing
            kept = kernel | ~last
            samples, kernel, room = samples.take(kept), kernel[kept], room[kept]
        samples = replace(samples, state=samples.state & ~np.uint8(FROM_KERNEL))
        blocked = samples.state == State.BLOCKED
        own = np.where(kernel, self.kernel_lengths(samples.state, samples.values), room)
        values = np.where(kernel & ~blocked, samples.values, 1.0)
        return self._profile(
            samples,
            np.minimum(own, room).astype(np.int64),
            values if self._counted else own / 1e6,
            np.where(kernel, 1.0, samples.values),
            notes,
        )

    def kernel_lengths(self, state: Array, values: Array) -> Array:
        """How long samples of the kernel say that they lasted (ns)."""
        info = self._columns.context.meaning.info
        is_blocked = state & (FROM_KERNEL - 1) == State.BLOCKED
        made: Array = values * np.where(is_blocked, 1e9 / info.frequency, float(info.sampling_ns or _DEFAULT_PERIOD_NS))
        return made

    def _profile(
        self, samples: SampleRows, length_ns: Array, weight: Array, event: Array, notes: tuple[str, ...]
    ) -> StackProfile:
        """``event`` are the numbers of :meth:`_named_events`."""
        made = profile_of(
            self._columns,
            samples,
            name="Thread time samples" if self._counted else "Thread time",
            unit=SAMPLES if self._counted else MILLISECONDS,
            length_ns=length_ns,
            weight=weight,
            notes=notes,
            symbols=self._symbols,
        )
        if not self._event_names:
            return made
        return filters.with_leaves(made, list(self._event_names), event.astype(np.int64) - 2)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of what was counted."""
        return (MARKED,) if self._has_sources else ()
