"""What a trace file is made of: its index, passes over its events, ids and what they mean. ``Trace.raw`` is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace.buffers import flat_view
from dotnetdiag.nettrace.loss_count import is_usual
from dotnetdiag.nettrace.type_count import SHARED_BYTES, TypeCounts, count_types

# Counting needs no numpy, and its import would be most of the time: what is imported here must not bring it.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dotnetdiag.events import Column, EventSchema
    from dotnetdiag.nettrace import (
        Block,
        Contents,
        GuidTable,
        HeaderColumns,
        LabelList,
        LossAccount,
        Metadata,
        StackTable,
        TraceInfo,
    )
    from dotnetdiag.nettrace.buffers import Buffer
    from dotnetdiag.nettrace.parallel import Executor
    from dotnetdiag.table import Losses
    from dotnetdiag.trace.event_types import EventTypes
    from dotnetdiag.trace.gaps import Gaps
    from dotnetdiag.trace.header import HeaderMeaning
    from dotnetdiag.trace.process import ProcessDetails
    from dotnetdiag.trace.source import Source, Wanted
    from dotnetdiag.trace.stack_names import StackNames
    from dotnetdiag.trace.summary import EventSummary, Totals
    from dotnetdiag.trace.symbol_events import SymbolHeaders
    from dotnetdiag.trace.symbols import Symbols
    from dotnetdiag.trace.thread import Thread

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REPR_BYTES = 64 << 20
_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1
"""Of the clock."""


class RawTrace:
    """One trace file. Everything is read when it is first asked for; nothing that is wrong with the file raises.

    ``buffer`` must not change.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        name: str = "",
        executor: Executor | None = None,
        release: Callable[[int, int], None] | None = None,
        oddities: Sequence[str] = (),
        path: str | None = None,
    ) -> None:
        """``name`` is for messages; the threads of an ``executor`` share work (see ``nettrace.read``).

        ``release`` is told (start, end) of bytes of a mapped file that a pass has left behind; ``oddities`` are warnings of how it was got.
        ``path`` is where other processes find the file; None of what came as bytes or through a pipe.
        """
        self.name, self.path = name, path
        self._oddities = tuple(oddities)
        self._executor, self._release = executor, release
        self._data: memoryview | None = flat_view(buffer)
        if not is_usual(self._view) and not (scan := self.source.scan).format:
            raise FormatError(scan.damage or "not a trace: no format is recognised", where=name)

    def close(self) -> None:
        """Let go of the file, and of all that was kept of it. Profiles, data frames and columns that were taken stay good, and may keep the
        file mapped; a table reads its columns when they are asked for.

        Asked for more, a closed trace, and a table of it, raises UsageError. May be called again.
        """
        self._data = None
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            delattr(self, name)

    # the file -----------------------------------------------------------------------------------------------------

    @property
    def _view(self) -> memoryview:
        if self._data is None:
            raise UsageError(f"{self.name or 'the trace'} was closed")
        return self._data

    @cached_property
    def source(self) -> Source:
        """The file's index, and passes over its events."""
        from dotnetdiag.trace.source import Source

        return Source(self._view, executor=self._executor, release=self._release)

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The bytes of the file; payload offsets are positions in it."""
        return self.source.buffer

    @property
    def format(self) -> str:
        """``NetPerf 3``, ``nettrace 4`` (which includes 5), ``nettrace 6.0``."""
        return self.source.scan.format

    @property
    def info(self) -> TraceInfo | None:
        """The Trace object of the file: clock, machine, process."""
        return self.source.scan.info

    @property
    def blocks(self) -> Sequence[Block]:
        """Every block in file order."""
        return self.source.scan.blocks

    @property
    def contents(self) -> Contents:
        """All header columns in file order."""
        return self.source.contents

    @cached_property
    def meaning(self) -> HeaderMeaning:
        """What header columns mean in this trace."""
        from dotnetdiag.trace.header import HeaderMeaning

        return HeaderMeaning(
            self.info,
            self.source.scan.threads,
            thread_rows=self.format.startswith("nettrace 6"),
        )

    @property
    def start(self) -> datetime | None:
        """When the trace began, UTC, to the millisecond; None when the file has no valid date."""
        info = self.info
        if info is None or info.start_ns is None:
            return None
        return _EPOCH + timedelta(microseconds=info.start_ns // 1000)

    @property
    def duration_ns(self) -> int:
        """From the start to the last event; 0 without events."""
        if self.source.has_totals or self.source.last_tick is None:
            return max(0, max((row.last_ns for row in self.summary()), default=0))
        import numpy as np

        return max(0, int(self.meaning.info.elapsed_ns(np.array([self.source.last_tick], np.int64))[0]))

    @property
    def duration(self) -> timedelta:
        """As ``duration_ns``, cut to microseconds."""
        return timedelta(microseconds=self.duration_ns // 1000)

    @property
    def complete(self) -> bool:
        """Whether the file was whole: nothing damaged, and the end marker there. Otherwise see ``damage``."""
        return self.source.passed().complete

    @property
    def damage(self) -> str | None:
        """What was wrong first, in one line with its place; None when nothing was."""
        return self.source.passed().damage

    @property
    def damage_offset(self) -> int | None:
        """The place in bytes from the start of the file."""
        return self.source.passed().damage_offset

    @property
    def lost(self) -> LossAccount:
        """Lost events: ``lost.total``, per thread, and in time (``lost.gaps``). NetPerf does not tell (``known``)."""
        return self.source.passed().lost

    @property
    def gaps(self) -> Gaps:
        """Where they were lost, for :class:`~.lost_between.LostBetween`."""
        from dotnetdiag.trace.gaps import Gaps

        return Gaps(account=self.lost)

    @property
    def losses(self) -> Losses:
        """Lost events and damage, as every table of the trace has them."""
        from dotnetdiag.table import Losses

        counted = self.source.counted
        if counted is not None:
            return Losses(lost=counted.lost)
        return Losses(lost=self.lost.total if self.lost.known else None, damage=self.damage)

    @property
    def recording(self) -> object:
        """Itself: what all its windows are of."""
        return self

    @property
    def keeps_stacks(self) -> bool:
        """Always."""
        return True

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd, a line each: in the framing, blocks that were skipped, layouts that nobody declares."""
        from dotnetdiag.events import Source as SchemaSource

        scan = self.source.passed()
        found = [*self._oddities, *scan.warnings]
        found += [f"{count} blocks of unknown kind {kind!r} skipped" for kind, count in scan.skipped.items()]
        if self.lost.at_least:
            found.append("more threads than are followed: more events than are counted may be lost")
        for number, (events, _) in self.source.counts().items():
            name = self.types.name_of(number)
            if name.source == SchemaSource.NONE and not name.fields:
                schema = self.schema(number)
                if schema.source == SchemaSource.INFERRED:
                    found.append(f"{name.provider}/{name.name}: layout inferred from the payloads of {events} events")
                elif self._has_payload(number):
                    found.append(f"{name.provider}/{name.name}: nothing describes the payloads of {events} events")
        return tuple(found)

    def _has_payload(self, number: int) -> bool:
        return self.source.count_of(number)[1] > 0

    def undecodable(self) -> dict[str, int]:
        """Events whose payload is damaged, by ``provider/event``: reads every payload."""
        from dotnetdiag.events import decode

        found: dict[str, int] = {}
        for number, (offsets, lengths) in self.source.payloads():
            schema = self.schema(number)
            table = decode(schema, self.buffer, offsets, lengths, lazy_text=True, infer_layout=False)
            if table.undecodable_count:
                name = f"{schema.provider}/{schema.name}"
                found[name] = found.get(name, 0) + table.undecodable_count
        return found

    # what is in it ------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        """The event types that the file defines, by id, and those that its events were found to carry."""
        if self.source.in_file_order:
            self.source.counts()  # NetPerf defines them among the events
        return self.source.metadata

    @cached_property
    def types(self) -> EventTypes:
        """What the event types mean, found by name."""
        from dotnetdiag.trace.event_types import EventTypes

        pointer_size = 8 if self.info is None else self.info.pointer_size
        return EventTypes(self.metadata, lambda: self.type_ids, pointer_size, self._infer)

    @cached_property
    def type_ids(self) -> tuple[int, ...]:
        """Metadata ids: those that are defined, and in a damaged file those that events have and nothing defines."""
        counts, known = self.source.counts(), self.metadata
        return (*known, *(number for number in counts if number not in known))

    def schema(self, metadata_id: int) -> EventSchema:
        """The names and fields of an event type."""
        return self.types.schema(metadata_id)

    def _infer(self, number: int, schema: EventSchema) -> EventSchema:
        if not self._has_payload(number):
            return schema
        from dotnetdiag.events import as_bytes, infer

        offsets, lengths = self.source.first_payloads(number, self._undeclared)
        return infer(schema, self.buffer, offsets, lengths.astype("int64")) or as_bytes(schema)

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the providers that events are of."""
        return tuple(self.counts())

    def __len__(self) -> int:
        counted = self._counted
        if counted is None and self.source.events is not None:
            return self.source.events
        by_type = self.source.counts_as_declared() if counted is None else counted.by_type
        return sum(count for count, _ in by_type.values())  # what events carry is counted as its carrier is

    @cached_property
    def _counted(self) -> TypeCounts | None:
        """All events by type; None where that takes the index, or the index is there already."""
        if "source" in vars(self) or len(self._view) >= SHARED_BYTES:
            return None
        return count_types(self._view, self._release)

    def _by_event(self, column: int) -> dict[str, dict[str, int]]:
        from dotnetdiag.events.titles import title

        found: dict[str, dict[str, int]] = {}
        counted = self._counted
        for number, row in (self.source.counts_as_declared() if counted is None else counted.by_type).items():
            titled = self.types.title_of(number) if counted is None else title(counted.records[number])
            events = found.setdefault(titled[0], {})
            events[titled[1]] = events.get(titled[1], 0) + row[column]
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        """Events by provider and event, as the file declares them. Quick: no column is made, no payload read; what the runtime carries in
        ``GC/DynamicEvent`` is told apart in ``summary()`` and in tables.
        """
        return self._by_event(0)

    def sizes(self) -> dict[str, dict[str, int]]:
        """Bytes of payload by provider and event."""
        return self._by_event(1)

    def summary(self) -> tuple[EventSummary, ...]:
        """By provider and event: count, bytes, versions, first and last; most frequent first."""
        import numpy as np

        from dotnetdiag.trace.summary import summarize

        totals = self.totals
        ticks = sorted({tick for row in totals.by_type.values() for tick in (row.first, row.last)})
        elapsed = self.meaning.info.elapsed_ns(np.array(ticks, np.int64)).tolist()
        return summarize(totals, self.types, dict(zip(ticks, elapsed, strict=True)))

    @property
    def totals(self) -> Totals:
        """By type and thread, in one pass."""
        from dotnetdiag.trace.process import process_events

        known = self.source.has_totals or self.source.in_file_order  # NetPerf defines types among the events
        return self.source.totals(self._undeclared, () if known else process_events(self))

    @cached_property
    def _undeclared(self) -> frozenset[int]:
        """The event types whose layout nobody declares: it is inferred from their first events."""
        from dotnetdiag.events import Source as SchemaSource

        names = {number: self.types.name_of(number) for number in self.metadata}
        return frozenset(
            number for number, name in names.items() if name.source == SchemaSource.NONE and not name.fields
        )

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads that events are of, most events first."""
        from dotnetdiag.trace.thread import Thread

        rows = self.source.scan.threads if self.format.startswith("nettrace 6") else {}
        own = None if self.info is None else self.info.process_id
        found: dict[tuple[int, int | None], Thread] = {}
        for index, events in self.totals.by_thread.items():
            row = rows.get(index)
            tid = index if row is None else row.os_thread_id or 0
            pid = own if row is None or row.process_id is None else row.process_id
            name = None if row is None else row.name or None
            before = found.get((tid, pid))
            found[tid, pid] = Thread(
                tid=tid,
                pid=pid,
                name=name or (before.name if before else None),
                events=events + (before.events if before else 0),
            )
        return tuple(sorted(found.values(), key=lambda thread: (-thread.events, thread.tid)))

    @cached_property
    def processes(self) -> tuple[ProcessDetails, ...]:
        """Every process the trace tells of."""
        from dotnetdiag.trace.process import processes

        return processes(self)

    @property
    def process(self) -> ProcessDetails:
        """The process that was traced."""
        return self.processes[0]

    # events -------------------------------------------------------------------------------------------------------

    def ticks_between(self, start: float | str | None, end: float | str | None) -> tuple[int, int]:
        """The half-open range of the clock for times since the start, as ``events`` takes them; None: open."""
        from dotnetdiag.durations import parse_duration

        start, end = (parse_duration(given) if isinstance(given, str) else given for given in (start, end))
        first = self._tick_at(-math.inf if start is None else start)
        last = self._tick_at(math.inf if end is None else end)
        if first > last:
            said = ["open" if seconds is None else f"{seconds:g} s" for seconds in (start, end)]
            raise UsageError(f"a time from {said[0]} to {said[1]}")
        return first, last

    def require_within(self, ticks: tuple[int, int]) -> None:
        """Raises UsageError for a range of the clock after the last event. Reads all of the trace."""
        import numpy as np

        from dotnetdiag.trace.header import nothing_after

        last = max((row.last for row in self.totals.by_type.values()), default=ticks[0])
        if ticks[0] > last:
            start_ns, end_ns = self.meaning.info.elapsed_ns(np.array([ticks[0], last])).tolist()
            raise nothing_after(start_ns, f"{self.name or 'the trace'} ends", end_ns)

    def _tick_at(self, seconds: float) -> int:
        """The clock at a time since the start, at most the limit of 64 bits."""
        ns = seconds * 1e9
        if math.isnan(ns):
            raise UsageError("a time that is no number")
        if math.isinf(ns):
            return _LATEST if ns > 0 else _EARLIEST
        return int(min(max(self.meaning.ticks_at(ns), _EARLIEST), _LATEST))

    # stacks -------------------------------------------------------------------------------------------------------

    @property
    def stacks(self) -> StackTable:
        """Call stacks by the ids in ``stack`` columns: addresses, leaf first."""
        return self.source.stacks

    @property
    def stacks_read(self) -> StackTable:
        """Those of the events that a pass has given until now."""
        return self.source.stacks_read

    @property
    def guids(self) -> GuidTable:
        """Activity ids by the indices in header columns."""
        return self.source.guids

    @property
    def labels(self) -> Sequence[LabelList]:
        """Label lists of version 6."""
        return self.source.labels

    @cached_property
    def overrides(self) -> Mapping[int, LabelList]:
        """Label lists that change level, opcode, keywords or version of their events."""
        from dotnetdiag.trace import header

        return header.overrides(self.labels) if self.format.startswith("nettrace 6") else {}

    @cached_property
    def symbols(self) -> Symbols:
        """What addresses stand for, at a time and in a process."""
        from dotnetdiag.trace.symbols import build_symbols

        return build_symbols(self.symbol_headers(), self.buffer)

    def symbol_headers(self) -> SymbolHeaders:
        """What symbols are built from, in one pass over the file."""
        from dotnetdiag.nettrace import HeaderColumns
        from dotnetdiag.trace.source import lookup
        from dotnetdiag.trace.symbol_events import SymbolHeaders

        both, about = self._tells_of_symbols()
        headers = self._symbol_rows(both) if len(both) else HeaderColumns.allocate(0)
        self.source.about_processes = headers[lookup(about, headers.metadata_id)]
        rows = self.source.scan.threads if self.format.startswith("nettrace 6") else {}
        return SymbolHeaders(headers=headers, metadata=self.metadata, threads=rows, info=self.info)

    def _symbol_rows(self, wanted: Wanted) -> HeaderColumns:
        """The events of these types; of very many methods those that are in a call stack."""
        from dotnetdiag.nettrace import HeaderColumns
        from dotnetdiag.trace.source import NOTED_ROWS

        if self.source.has_noted(wanted):
            return self.source.collect(wanted)
        parts, rows = list[HeaderColumns](), 0
        for window in self.source.windows(wanted):
            parts.append(window)
            rows += len(window)
            if rows > NOTED_ROWS:
                break
        else:
            return HeaderColumns.concatenate(parts)
        del parts
        from dotnetdiag.trace.used_code import UsedCode

        used = UsedCode.of(self.metadata, self.meaning.info.pointer_size, self.source.stacks, self.buffer)
        if used is None:
            return self.source.collect(wanted)
        for window in self.source.windows(wanted):
            used.look_at(window)
            self.source.let_go()
        parts = []
        for window in self.source.windows(wanted):
            parts.append(used.among(window))
            self.source.let_go()
        return HeaderColumns.concatenate(parts)

    def note_symbols(self) -> None:
        """Let the next pass over the file find what symbols are built from, too."""
        if "symbols" not in vars(self):
            self.source.note(self._tells_of_symbols()[0])

    def _tells_of_symbols(self) -> tuple[Wanted, Wanted]:
        """The types that tell of symbols and of processes, and those of processes alone. One pass over the file for both: who wants the one asks
        for the other.
        """
        from dotnetdiag.trace.process import process_events
        from dotnetdiag.trace.source import wanted_of
        from dotnetdiag.trace.symbol_events import symbol_events

        about = process_events(self)
        return wanted_of({*symbol_events(self.metadata), *about}), wanted_of(about)

    @cached_property
    def stack_names(self) -> StackNames:
        """Call stacks with names in place of addresses."""
        from dotnetdiag.trace.stack_names import StackNames

        return StackNames(self)

    def frames(self, stack: int, time_ns: int | None = None, pid: int | None = None) -> tuple[str, ...]:
        """A call stack, leaf first, each frame as ``module!method(signature)``.

        ``time_ns`` is UTC since 1970 (None: the end of the trace), for code that moved; ``pid`` for files of several
        processes.
        """
        return self.stack_names.frames(stack, time_ns, pid)

    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]:
        """The call stacks of events, as :meth:`frames` gives them; each at the time of its event."""
        return self.stack_names.frames_of(headers)

    def frames_column(self, headers: HeaderColumns) -> Column:
        """The same as a column of lists of texts."""
        return self.stack_names.column(headers)

    def leaves_of(self, headers: HeaderColumns) -> Column:
        """The method of each event that it happened in, the first of its call stack."""
        return self.stack_names.leaves(headers)

    def said(self) -> str:
        """What it is, in a line."""
        name = f"{self.name}: " if self.name else ""
        if self._data is None:
            return f"{name}closed"
        parts = [self.format, f"{len(self):,} events of {len(self.providers)} providers"]
        if self.source.has_totals or len(self.buffer) <= _REPR_BYTES:
            parts.append(f"{self.duration_ns / 1e9:.3f} s")
            lost = self.lost
            parts.append(f"{lost.total:,} lost" if lost.known else "losses not known")
            parts.append("complete" if self.complete else f"broken: {self.damage}")
        else:
            parts.append("not yet read")
        return f"{name}{', '.join(parts)}"

    def __repr__(self) -> str:
        return f"<RawTrace {self.said()}>"
