"""Events of a running session: one thread reads, the caller looks.

Rule 1: the reading thread never waits for the caller. It decodes headers, drops what is not asked for by name, and
hands over windows; when too much waits, it drops the window and counts its events.
Rule 2: every event is counted once: shown, filtered, missed here, or missed in the target (:class:`Account`).
Rule 3: a window is handed over as soon as the stream is quiet, which it is for most of every tenth of a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import (
    DiagnosticsError,
    FormatError,
    TargetStopped,
    TimedOut,
    TransportError,
    UnknownName,
    UsageError,
)
from dotnetdiag.events import EventSchema, Source, resolve
from dotnetdiag.events.carried import CarriedTypes
from dotnetdiag.live.account import Account
from dotnetdiag.live.dropped import Dropped
from dotnetdiag.live.hand_over import HandOver
from dotnetdiag.live.symbols import LiveSymbols, tells_of_methods
from dotnetdiag.live.windows import Names, WindowMaker, no_symbols, selection, with_inferred
from dotnetdiag.nettrace import EventBatch, HeaderColumns, Metadata, Reader
from dotnetdiag.table import Losses
from dotnetdiag.trace.event import Event
from dotnetdiag.trace.events import passing
from dotnetdiag.trace.gaps import Gaps
from dotnetdiag.trace.header import PAYLOAD, key_meant
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.where import Where

Array: TypeAlias = "np.ndarray[Any, Any]"

READ_BYTES = 1 << 18
QUEUE_BYTES = 16 << 20
"""What may wait for the caller: some 100,000 events."""
QUIET_S = 0.004
"""No byte for so long: the runtime has emptied its buffers, and what came is a window."""
TICK_S = 0.1
STOP_TIMEOUT_S = 10.0
"""A target that was told to stop, and sends nothing for so long, is left."""
SOON_S = 0.05
"""A target that is told to stop sends what it has within 20 ms; one that floods would go on for seconds."""
FLUSH_S = 0.05
"""How long ``close`` lets a target send what it still has: one that is quiet ends its stream within 20 ms."""
BROKEN_BYTES = 64 << 20
"""So many bytes without the end of a block, behind damage: the stream is not one any more."""
OWN_PROVIDERS = frozenset({"microsoft-windows-dotnetruntimerundown", "microsoft-dotnetcore-eventpipe"})
"""Runtimes write events of these to every session, asked or not."""


def check_limit(limit: int | None) -> None:
    """Raises UsageError for a number that is none of events."""
    if limit is not None and limit < 0:
        raise UsageError(f"a limit of {limit} events: give 0 or more")


NO_STACKS = "in a watch without call stacks"
_OF_STACKS = ("leaf", "stack_id", "header.frames", "header.stack")
"""``frames`` and ``stack`` may be fields of a payload."""


def require_stacks(where: Where | None, *, kept: bool) -> None:
    """Raises UnknownName for a filter by call stacks, unless these are kept."""
    for name in () if where is None or kept else where.names:
        if name.lower() in _OF_STACKS or name.lower().removeprefix("header.") in _OF_STACKS:
            raise UnknownName("field", name, where=NO_STACKS)


class Session(Protocol):
    """What is needed of ``client.TraceSession``."""

    def read(self, size: int = ..., *, timeout_s: float | None = ...) -> bytes: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class LiveEvents:
    """The events of a session as they happen: iterate it for :class:`Event` objects, or take :meth:`windows` of columns.

    The end of the iteration is the end of the session: by ``stop``, the target's exit, the ``duration`` or the limit.
    ``account`` says where every event went. Leaving the ``with`` block, or the ``for`` loop, closes the session.
    """

    def __init__(
        self,
        session: Session,
        *,
        names: Sequence[str] = (),
        where: str | Where | None = None,
        fields: Sequence[str] = (),
        limit: int | None = None,
        duration_s: float | None = None,
        providers: Iterable[str] = (),
        stacks: bool = False,
        frame_names: Names | None = None,
        symbols: LiveSymbols | None = None,
        queue_bytes: int = QUEUE_BYTES,
        settled: bool = False,
    ) -> None:
        """``names`` of events in any spelling, ``where`` a filter, as of ``Trace.events``; ``fields`` are those that the caller looks at:
        ``notes`` tell which no event had. ``providers`` are those asked for,
        which matters for the few that are written unasked. ``stacks`` keeps call stacks, ``frame_names`` names them; ``symbols`` get the
        events that tell of methods, also of windows that are dropped. ``settled``: for questions; windows follow each other in time, and come
        when nothing older can follow, and ids of activities mean the same in all. The session is ours from here on: after an error it is closed.
        Raises UsageError, GrammarError, and TransportError for want of a thread.
        """
        self._session = session
        self._closed_after = ExitStack()
        with ExitStack() as on_error:
            on_error.callback(session.close)
            check_limit(limit)
            self._names = tuple(name.strip() for name in names if name.strip())
            self._where = Where(where) if isinstance(where, str) else where
            require_stacks(self._where, kept=stacks)
            self._looked_at = tuple(fields)
            self._limit = limit
            self._unasked = OWN_PROVIDERS - {name.lower() for name in providers}
            self._reader = Reader()
            self._symbols = symbols
            self._for_symbols: list[int] = []  # types that nobody asked for by name
            self._maker = WindowMaker(
                stacks=stacks,
                names=frame_names,
                symbols_now=no_symbols if symbols is None else symbols.now,
                losses_now=self._losses,
                gaps_now=lambda: Gaps(account=self._reader.lost, dropped=self._dropped.gaps()),
                settled=settled,
            )
            self._queue: HandOver[EventTable] = HandOver(queue_bytes)
            self._numbers: dict[Metadata, int] = {}
            self._carried = CarriedTypes(lambda: 1 << 31)
            self._schemas: dict[int, EventSchema | None] = {}
            self._named: set[str] = set()
            self._fields: set[str] = set()
            self._filtered = self._unwanted = self._naming = 0  # of the reading thread
            self._dropped = Dropped()
            self._named_at: float | None = None
            self._shown = self._failed = self._left = 0  # of the caller
            self._ends = None if duration_s is None else time.monotonic() + duration_s
            self._stopping: float | None = None
            self._gives_until: float | None = None
            self._asked_at: float | None = None
            self._aborted = self._is_cut = False
            self.ended: str | None = None
            """What ended the stream before its time, in one line; None while it runs and when it ended as it should."""
            self._thread = threading.Thread(target=self._read, name="dotnetdiag live", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                raise TransportError(f"the system gives this program no more threads: {error}") from error
            on_error.pop_all()

    # the caller -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        try:
            for window in self.windows():
                yield from window
        finally:
            self.close()

    def windows(self) -> Iterator[EventTable]:
        """Tables of events that came together, in time order; each is complete in itself, and may be kept."""
        return (window for window in self.windows_or_none(None) if window is not None)

    def windows_or_none(self, wait_s: float | None) -> Iterator[EventTable | None]:
        """The same, and None whenever nothing has come for ``wait_s``."""
        while not self._aborted and (self._limit is None or self._shown < self._limit):
            try:
                window = self._queue.take(wait_s)
            except TimedOut:
                yield None
                continue
            if window is None:
                return
            if self._is_late():
                self._left += len(window)
                break
            window = self._chosen(window)
            if len(window):
                self._shown += len(window)
                yield window
        self.stop()
        self._queue.end()

    def nothing(self) -> EventTable:
        """A window without events, for a question that none came for; after :meth:`windows` has ended."""
        return self._maker.nothing()

    def _chosen(self, window: EventTable) -> EventTable:
        if self._where is not None:
            kept = passing(window, self._where)
            count = int(np.count_nonzero(kept))
            self._failed += len(window) - count
            if count < len(window):
                window = selection(window, kept)
        if self._limit is not None and len(window) > self._limit - self._shown:
            self._left += len(window) - (self._limit - self._shown)
            window = selection(window, slice(self._limit - self._shown))
        return window

    def stop(self) -> None:
        """End the session nicely: what the target still has comes, then the iteration ends. Any thread may call it."""
        if self._stopping is None:
            self._asked_at = self._stopping = time.monotonic()
            self._session.stop()

    def stop_soon(self) -> None:
        """As ``stop``, but nothing is given out after ``SOON_S``: who presses Ctrl-C wants to see the end. For signal handlers too."""
        self._gives_until = time.monotonic() + SOON_S
        self.stop()

    @property
    def over_for_s(self) -> float:
        """Seconds since its end was asked for, by ``stop``, the duration or the limit; 0 while it runs."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    @property
    def rundown_since(self) -> float | None:
        """When the runtime began to tell of all its methods, which is behind all other events, by ``time.monotonic``; None: it has not."""
        return self._named_at

    @property
    def has_named(self) -> bool:
        """Whether the session told of all methods: its rundown came, and the end behind that. Final when the iteration has ended."""
        is_whole = self.ended is None and self._reader.complete and self._reader.damage is None
        return is_whole and self._named_at is not None and self._symbols is not None and not self._symbols.forgotten

    def _is_late(self) -> bool:
        return self._gives_until is not None and time.monotonic() >= self._gives_until

    def finish(self) -> None:
        """Give out nothing more, and end the session. What waits counts as left."""
        self.stop()
        self._queue.end()
        self._left += sum(len(window) for window in self._queue.clear())

    def abort(self) -> None:
        """End it at once; ``close`` does not wait. May be called from a signal handler."""
        self._aborted = True
        self._session.abort()

    def close_after(self, resources: ExitStack) -> None:
        """These are closed when the session is: what it was opened over."""
        self._closed_after.enter_context(resources)

    def close(self) -> None:
        """Stop the session and leave it. What nobody took counts as left; what a target still sends after a moment is not read:
        one that floods would go on for long. Raises nothing: what went wrong is in ``ended``.
        """
        self.finish()
        self._thread.join(0 if self._aborted or self._is_late() else FLUSH_S)
        self._is_cut = self._thread.is_alive()
        self._session.abort()
        self._thread.join(STOP_TIMEOUT_S)
        try:
            self._session.close()
            self._closed_after.close()
        except DiagnosticsError as error:
            self.ended = self.ended or str(error)

    @property
    def account(self) -> Account:
        """Where the events went, so far; final when the iteration has ended."""
        lost = self._reader.lost
        return Account(
            shown=self._shown,
            filtered=self._filtered + self._failed,
            missed_here=self._dropped.total,
            missed_in_target=lost.total if lost.known else None,
            left=self._left + self._unwanted,
            naming=self._naming,
        )

    def _losses(self) -> Losses:
        """What never came or was dropped, so far."""
        lost = self._reader.lost
        return Losses(lost=lost.total + self._dropped.total if lost.known else None, damage=self._reader.damage)

    @property
    def aborted(self) -> bool:
        """Whether :meth:`abort` was called."""
        return self._aborted

    @property
    def damage(self) -> str | None:
        """What was damaged in the stream, in one line."""
        return self._reader.damage

    @property
    def notes(self) -> tuple[str, ...]:
        """What was asked for and did not come, one line each: names of events, fields of the filter."""
        made = [f"no event named {name} came" for name in self._names if name not in self._named]
        filtered = (
            () if self._where is None else [one for one in self._where.names if one not in self._where.values_met]
        )
        for name in dict.fromkeys((*filtered, *self._looked_at)):
            bare = name.lower().removeprefix(PAYLOAD)
            is_key = key_meant(name.lower(), is_field=False) is not None
            if not is_key and bare not in self._fields and bare.partition(".")[0] not in self._fields:
                made.append(f"no event had the field {name}")
        return tuple(made)

    # the reading thread -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            self._read_all()
        except (TransportError, TargetStopped) as gone:
            self.ended = str(gone)
        except BaseException as found:
            error = found
        finally:
            try:
                if error is None:
                    for batch in self._reader.close():
                        self._take(batch)
                    self._release(self._maker.make())
            except DiagnosticsError as found:
                error = found
            self._queue.end(error)

    def _read_all(self) -> None:
        position, stuck = 0, 0
        while not self._aborted:
            now = time.monotonic()
            if self._ends is not None and now >= self._ends:
                self.stop()
            if self._is_late():
                self._queue.end()
            try:
                data = self._session.read(READ_BYTES, timeout_s=QUIET_S if self._maker.has_new else TICK_S)
            except TimedOut:
                self._release(self._maker.make_settled())
                if self._stopping is not None and now - self._stopping > STOP_TIMEOUT_S:
                    self.ended = "the target did not end the session"
                    return
                continue
            if not data:
                if not self._reader.complete and not self._is_cut:
                    self.ended = "the stream ended without an end"
                return
            if self._stopping is not None:
                self._stopping = now
            for batch in self._reader.feed(data):
                self._take(batch)
            if self._reader.damage is not None:
                stuck = stuck + len(data) if self._reader.position == position else 0
                position = self._reader.position
                if stuck > BROKEN_BYTES:
                    raise FormatError(self._reader.damage)

    def _take(self, batch: EventBatch) -> None:
        """Rows of the types asked for, under numbers that stay the same for the whole session."""
        batch = self._carried.typed_batch(batch)
        if self._maker.see(batch):
            self._release(self._maker.make())
        distinct, which = np.unique(batch.headers.metadata_id, return_inverse=True)
        numbers, schemas = [], {}
        for at, metadata_id in enumerate(distinct.tolist()):
            known = batch.metadata.get(metadata_id)
            if known is None:  # a damaged stream: events of a record that is gone
                known = Metadata(metadata_id=metadata_id, provider="", event_id=0, name=f"metadata {metadata_id}")
            number = self._numbers.setdefault(known, len(self._numbers) + 1)
            schema = self._schema(number, known)
            if schema is not None and schema.source is Source.NONE:
                better = with_inferred(schema, batch, batch.headers[which == at])
                schema = self._schemas[number] = better or schema
                self._fields |= {field.name.lower() for field in schema.fields}
            numbers.append(0 if schema is None else number)
            if schema is not None:
                schemas[number] = schema
        own = np.array(numbers, np.uint32)[which]
        wanted = own != 0
        count = int(np.count_nonzero(wanted))
        self._filtered += len(own) - count
        if not count:
            return
        rows = batch.headers if count == len(own) else batch.headers[wanted]
        rows = _with_ids(rows, own if count == len(own) else own[wanted])
        version_6 = self._reader.format.startswith("nettrace 6")
        self._maker.add(batch, rows, schemas, self._reader.info, self._reader.threads if version_6 else None)
        if self._maker.full:
            self._release(self._maker.make_settled())

    def _schema(self, number: int, known: Metadata) -> EventSchema | None:
        """The type of a number; None for one that nobody asked for."""
        if number not in self._schemas:
            info = self._reader.info
            schema = resolve(known, 8 if info is None else info.pointer_size)
            hits = {name for name in self._names if schema.matches(name)}
            self._named |= hits
            wanted = bool(hits) if self._names else schema.provider.lower() not in self._unasked
            if not wanted and self._symbols is not None and tells_of_methods(schema):
                self._for_symbols.append(number)
                self._named_at = self._named_at or time.monotonic()
                self._schemas[number] = schema
                return schema
            self._schemas[number] = schema if wanted else None
            if wanted:
                self._fields |= {field.name.lower() for field in schema.fields}
                if schema.self_describing:
                    self._fields |= {field.name.lower() for field in schema.fields[0].layout.fields}
        return self._schemas[number]

    def _release(self, windows: Iterable[tuple[EventTable, int]]) -> None:
        for window, size in windows:
            if self._symbols is not None:
                self._symbols.add(window)
                if self._for_symbols:
                    kept = ~np.isin(window.headers.metadata_id, self._for_symbols)
                    self._naming += len(window) - int(np.count_nonzero(kept))
                    window = selection(window, kept)
                    if not len(window):
                        continue
            if self._queue.put(window, size):
                self._dropped.took()
            elif self._queue.ended:
                self._unwanted += len(window)
            else:
                self._dropped.drop(window)


def _with_ids(rows: HeaderColumns, ids: Array) -> HeaderColumns:
    return replace(rows, metadata_id=ids)
