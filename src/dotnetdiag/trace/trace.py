"""The trace as people hold it: counts, tables, events in time order, and what was wrong with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dotnetdiag.errors import UsageError
from dotnetdiag.trace.raw import RawTrace

# Counting needs no numpy, and its import would be most of the time: what is imported here must not bring it.
if TYPE_CHECKING:
    from dotnetdiag.events import EventSchema
    from dotnetdiag.nettrace import LossAccount
    from dotnetdiag.nettrace.buffers import Buffer
    from dotnetdiag.nettrace.parallel import Executor
    from dotnetdiag.table import Table
    from dotnetdiag.trace.event import Event
    from dotnetdiag.trace.events import Events
    from dotnetdiag.trace.process import ProcessDetails
    from dotnetdiag.trace.summary import EventSummary
    from dotnetdiag.trace.table import EventTable
    from dotnetdiag.trace.thread import Thread
    from dotnetdiag.trace.where import Where


class Trace:
    """One trace file. Everything is read when it is first asked for; nothing that is wrong with the file raises.

    ``trace["GC/Start"]`` is a table, ``trace.events(...)`` events in time order. What the file is made of (blocks, header columns, ids,
    symbols) is behind ``trace.raw``.
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
        """``buffer`` must not change. ``name`` is for messages; the threads of an ``executor`` share work.

        ``release`` is told (start, end) of bytes of a mapped file that a pass has left behind; ``oddities`` are warnings of how it was got.
        ``path`` is where other processes find the file; None of what came as bytes or through a pipe. Raises FormatError for what is no trace.
        """
        self.raw = RawTrace(buffer, name=name, executor=executor, release=release, oddities=oddities, path=path)
        self._tables: dict[str, EventTable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, and of all that was kept of it. Profiles, data frames and columns that were taken stay good, and may keep the
        file mapped; a table reads its columns when they are asked for.

        Asked for more, a closed trace, and a table of it, raises UsageError. May be called again.
        """
        self._tables.clear()
        self.raw.close()

    if not TYPE_CHECKING:  # where types are checked, this says that every attribute is there

        def __getattr__(self, name: str) -> object:
            """What stood here before, and is behind ``raw`` now, still answers."""
            if name.startswith("_") or not hasattr(RawTrace, name):
                raise AttributeError(f"'Trace' object has no attribute {name!r}")
            from warnings import warn

            text = f"trace.{name}: what the file is made of is behind raw, trace.raw.{name}"
            warn(text, DeprecationWarning, stacklevel=2)
            return getattr(self.raw, name)

    # the file -----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What messages call it: the file's name."""
        return self.raw.name

    @property
    def format(self) -> str:
        """``NetPerf 3``, ``nettrace 4`` (which includes 5), ``nettrace 6.0``."""
        return self.raw.format

    @property
    def start(self) -> datetime | None:
        """When the trace began, UTC, to the millisecond; None when the file has no valid date."""
        return self.raw.start

    @property
    def duration(self) -> timedelta:
        """From the start to the last event, cut to microseconds; 0 without events."""
        return self.raw.duration

    @property
    def complete(self) -> bool:
        """Whether the file was whole: nothing damaged, and the end marker there. Otherwise see ``damage``."""
        return self.raw.complete

    @property
    def damage(self) -> str | None:
        """What was wrong first, in one line with its place; None when nothing was."""
        return self.raw.damage

    @property
    def lost(self) -> LossAccount:
        """Lost events: ``lost.total``, per thread, and in time (``lost.gaps``). NetPerf does not tell (``known``)."""
        return self.raw.lost

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd, a line each: in the framing, blocks that were skipped, layouts that nobody declares."""
        return self.raw.warnings

    # what is in it ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the providers that events are of."""
        return self.raw.providers

    def counts(self) -> dict[str, dict[str, int]]:
        """Events by provider and event, as the file declares them. Quick: no column is made, no payload read; what the runtime carries in
        ``GC/DynamicEvent`` is told apart in ``summary()`` and in tables.
        """
        return self.raw.counts()

    def summary(self) -> tuple[EventSummary, ...]:
        """By provider and event: count, bytes, versions, first and last; most frequent first."""
        return self.raw.summary()

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads that events are of, most events first."""
        return self.raw.threads

    @property
    def processes(self) -> tuple[ProcessDetails, ...]:
        """The processes that the file tells of, as far as it does."""
        return self.raw.processes

    @property
    def process(self) -> ProcessDetails:
        """The process that was traced."""
        return self.raw.process

    def frames(self, stack: int, time_ns: int | None = None, pid: int | None = None) -> tuple[str, ...]:
        """A call stack by its id (``event.stack``), leaf first: as named at a time (UTC since 1970; None: the end), in a process."""
        return self.raw.frames(stack, time_ns, pid)

    # events -------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> EventTable:
        """The events of one name, as TraceEvent prints it or as the manifest has it, with or without ``Provider/``.

        Raises UnknownName, with near names, when the file has no such event.
        """
        if not isinstance(name, str):
            raise UsageError(
                f"trace[{name!r}]: tables have names, as trace['GC/Start']; events by number: trace.events()"
            )
        found = self._tables.get(name)
        if found is None:
            from dotnetdiag.trace.source import wanted_of
            from dotnetdiag.trace.table import EventTable

            numbers = self.raw.types.find(name)
            schemas = {number: self.raw.schema(number) for number in numbers}
            found = self._tables[name] = EventTable(self.raw, schemas, self.raw.source.collect(wanted_of(numbers)))
        return found

    def __iter__(self) -> Iterator[Event]:
        """All events in time order, as ``trace.events()``."""
        return iter(self.events())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.raw.types.has(name)

    def get(self, name: str) -> EventTable | None:
        """As ``trace[name]``, or None when the file has no such event."""
        return self[name] if self.raw.types.has(name) else None

    def events(
        self,
        names: str | Sequence[str] | None = None,
        *,
        providers: str | Sequence[str] | None = None,
        time: tuple[float | str | None, float | str | None] | None = None,
        fields: str | Sequence[str] | None = None,
        where: str | Where | None = None,
        limit: int | None = None,
    ) -> Events:
        """Events in time order: by ``names``, as ``trace[name]`` takes them, of ``providers``, ... All that is given must hold.

        ``time`` is (from, to) in seconds since the start, or as ``"1m30s"``, half-open, None: open; ``fields`` are the payload
        fields to read; ``where`` is a filter, as in ``'Depth > 0 and Reason == Induced'`` or ``'Path ~ "^/api"'`` (the page Filters has
        the language). Raises UnknownName for names that the file does not have, GrammarError for a filter that does not parse,
        UsageError for a negative limit.
        """
        from dotnetdiag.trace.events import Events
        from dotnetdiag.trace.where import Where

        if time is not None and (not isinstance(time, tuple | list) or len(time) != 2):
            raise UsageError(f"time={time!r}: give (from, to), with None where it is open")
        if not isinstance(where, str | Where | None):
            raise UsageError(f"where={where!r}: give a text, such as 'Depth > 1'")
        numbers: list[int] = list(self.raw.type_ids)
        if providers is not None:
            asked = [providers] if isinstance(providers, str) else providers
            allowed = {number for text in asked for number in self.raw.types.find_provider(text)}
            numbers = [number for number in numbers if number in allowed]
        if names is not None:
            asked = [names] if isinstance(names, str) else names
            allowed = {number for text in asked for number in self.raw.types.find(text)}
            numbers = [number for number in numbers if number in allowed]
        if limit is not None and limit < 0:
            raise UsageError(f"a limit of {limit} events")
        return Events(
            self.raw,
            numbers,
            ticks=None if time is None else self.raw.ticks_between(*time),
            where=Where(where) if isinstance(where, str) else where,
            fields=fields,
            limit=limit,
        )

    def windows(self, wanted: Callable[[EventSchema], bool] | None = None, *, size: int = 0) -> Iterator[EventTable]:
        """The events of the types that are ``wanted``, by provider, name and id (None: of all), in tables that follow each other in time, each of
        up to about ``size`` events (0: 16,384).

        All have the same columns. There is always one, which may be empty.
        """
        from dotnetdiag.nettrace import HeaderColumns
        from dotnetdiag.trace.fields import join_fields
        from dotnetdiag.trace.source import wanted_of
        from dotnetdiag.trace.table import EventTable

        raw = self.raw
        numbers = [number for number in raw.type_ids if wanted is None or wanted(raw.types.name_of(number))]
        schemas = {number: raw.schema(number) for number in numbers}
        fields, is_empty = join_fields(schemas), True
        for headers in raw.source.windows(wanted_of(numbers), size=size):
            is_empty = False
            yield EventTable(raw, schemas, headers, fields=fields)
        if is_empty:
            yield EventTable(raw, schemas, HeaderColumns.allocate(0), fields=fields)

    def sql(self, query: str, *, external_access: bool = False) -> Table:
        """What a query of SQL answers: ``trace.sql('select Reason, count(*) from "GC/Start" group by Reason')``; see ``dd.sql``, which asks
        several recordings at once too.

        Raises UsageError for what DuckDB refuses, UnknownName for a table that is not there, MissingDependency without the extra ``sql``.
        """
        from dotnetdiag.query.duckdb_engine import sql
        from dotnetdiag.query.recordings import OpenTrace

        return sql([OpenTrace(self)], query, external_access=external_access)

    def __repr__(self) -> str:
        return f"<Trace {self.raw.said()}>"
