"""The events of many sessions as they happen, joined: one window for all, as often as the caller wants one.

To ask fifty windows of sixty events costs fifty times as much as to ask one of three thousand: a window has its price, not its rows. So what all
sessions have sent becomes one window, whose clock counts nanoseconds since 1970, and in which the number of a session stands in the place of a
process id: of two containers both may be 1. Of the headers it has types, times and payloads, no threads, stacks and activities.

Rule 1: there are no threads. What has come waits in the sockets, and in the buffers of the runtimes behind them, until :meth:`LiveFleet.take` asks
each for what is there; it waits for none. (A thread for each session took 1.5 ms of the processor a second.)
Rule 2: a session that ends, fails or lies ends alone: :meth:`LiveFleet.ended` says why.
Rule 3: only the end of all waits, for a moment: one that is left has ended, or is hung up on, in one of the next windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.errors import DiagnosticsError, TimedOut
from dotnetdiag.events import EventSchema, Source, resolve
from dotnetdiag.live.events import BROKEN_BYTES, STOP_TIMEOUT_S, Session
from dotnetdiag.live.windows import LiveContext
from dotnetdiag.nettrace import (
    EventBatch,
    GuidTable,
    HeaderColumns,
    Metadata,
    Reader,
    StackTable,
    ThreadInfo,
    TraceInfo,
)
from dotnetdiag.nettrace.columns import COLUMN_TYPES
from dotnetdiag.table import Losses
from dotnetdiag.trace.fields import FieldSource, join_fields
from dotnetdiag.trace.header import HeaderMeaning
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

PIECE_BYTES = 1 << 16
FEW_ROWS = 200
"""As a session has in a second: to number their types arrays would take ten times as long as Python does."""
MOST_TYPES = 4096
"""Of events that nobody wants, which are remembered for all sessions."""
LEAVE_S, LOOK_S = 0.5, 0.002
"""For sessions to end when they are left, and how often they are asked whether they have where that is waited for."""
HAS_ENDED = "the session has ended"
"""Why a session is over that came to its end by itself."""
TAKE_BYTES = 8 << 20
"""So much is taken of one session at a time; what it has beyond waits for the next."""


class FleetSession(Session, Protocol):
    """What is needed of ``client.TraceSession`` besides."""

    def has_arrived(self) -> bool: ...


@dataclass(slots=True, kw_only=True, eq=False)
class _Member:
    """One session. ``numbers`` are by metadata id: the record, and its number in joined windows (0: not wanted)."""

    number: int
    part: int
    session: FleetSession
    closed_after: ExitStack
    reader: Reader = field(default_factory=Reader)
    numbers: dict[int, tuple[Metadata, int]] = field(default_factory=dict)
    stopped_at: float | None = None
    """When it was told to end, or has sent something last after that."""
    stuck_bytes: int = 0

    def is_broken(self, position: int, size: int) -> bool:
        """Whether what has come behind damage is no stream any more. ``position``: that of the reader before the last ``size`` bytes."""
        self.stuck_bytes = self.stuck_bytes + size if self.reader.position == position else 0
        return self.reader.damage is not None and self.stuck_bytes > BROKEN_BYTES


class _Part(NamedTuple):
    """Rows of one session that are wanted: the number of each one's type, its time since 1970 in ns, and where in the buffer its payload is."""

    buffer: Array
    member: int
    numbers: Array
    time: Array
    offsets: Array
    lengths: Array


class LiveFleet:
    """Sessions that run at once. ``wants`` says which types of events are kept (None: all whose layout is known).

    For one thread. Leaving the ``with`` block ends all sessions.
    """

    def __init__(self, wants: Callable[[EventSchema], bool] | None = None) -> None:
        self._wants = wants
        self._begin_ns = time.time_ns()
        self._members: list[_Member] = []
        self._leaving: list[tuple[_Member, float]] = []
        """Those that are left, and until when they may end."""
        self._over: list[tuple[int, str]] = []
        self._numbers: dict[tuple[Metadata, int], int] = {}
        self._schemas: dict[int, EventSchema] = {}
        self._given = 0
        self._has_left = False
        self._there: list[int] = []
        self._fields: tuple[FieldSource, ...] = ()
        """The types of the last window, and their fields joined: the next has the same types, as a rule."""
        self._lost = 0
        self._lost_is_known = True
        """Of those that have ended."""

    def __enter__(self) -> LiveFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Sessions that run."""
        return len(self._members)

    @property
    def numbers(self) -> frozenset[int]:
        """Those of the sessions that run."""
        return frozenset(member.number for member in self._members)

    def add(self, number: int, session: FleetSession, closed_after: ExitStack | None = None, *, part: int = 0) -> None:
        """Have a session, which is ours from here on: its events have ``number`` for a process id. ``closed_after`` is closed behind it.

        Sessions of one number belong together, each a ``part``: when one of them ends by itself, the others are ended.
        """
        self._members.append(
            _Member(number=number, part=part, session=session, closed_after=closed_after or ExitStack())
        )

    def stop(self, number: int | None = None) -> None:
        """End one session nicely, or all: what it still has comes. One that is not there is not an error."""
        for member in self._members:
            if number in (None, member.number):
                self._stop(member)

    def close(self) -> None:
        """End all sessions, each nicely where it does so soon: a runtime that is only hung up on keeps what it had begun until it notices, which
        was seen to disturb who came next for two seconds.
        """
        self._over += [(number, "") for number in sorted(self.numbers)]
        self._leave(list(self._members))
        while self._leaving:
            self._reap()
            if self._leaving:
                time.sleep(LOOK_S)

    def drop(self, number: int, part: int | None = None) -> None:
        """End the sessions of a number, or one part of them, as :meth:`close` does, without waiting for it; :meth:`ended` does not tell it."""
        self._leave([one for one in self._members if one.number == number and part in (None, one.part)])

    def _stop(self, member: _Member) -> None:
        if member.stopped_at is None:
            member.stopped_at = time.monotonic()
            with suppress(DiagnosticsError):
                member.session.stop()

    def _leave(self, members: list[_Member]) -> None:
        ends = time.monotonic() + LEAVE_S
        for member in members:
            self._stop(member)
            self._members.remove(member)
            self._leaving.append((member, ends))

    def _reap(self) -> None:
        """Let go of those that were left, and have ended or had their time."""
        now = time.monotonic()
        for one in tuple(self._leaving):
            member, ends = one
            if now >= ends or self._has_ended(member):
                self._leaving.remove(one)
                self._end(member)

    def _has_ended(self, member: _Member) -> bool:
        """Whether a session that was stopped has come to its end; what it still says is not kept."""
        size = 0
        try:
            while size < TAKE_BYTES:
                data = member.session.read(PIECE_BYTES, timeout_s=0)
                if not data:
                    return True
                size += len(data)
        except TimedOut:
            return False
        except DiagnosticsError:
            return True
        return False

    def ended(self) -> list[tuple[int, str]]:
        """The numbers whose sessions have ended since the last time, and why, in one line: empty when it was we who ended them."""
        over, self._over = self._over, []
        return over

    @property
    def losses(self) -> Losses:
        """What never came, of all sessions so far."""
        counts = [member.reader.lost for member in (*self._members, *(member for member, _ in self._leaving))]
        known = self._lost_is_known and all(one.known for one in counts)
        return Losses(lost=self._lost + sum(one.total for one in counts) if known else None)

    def take(self) -> EventTable | None:
        """What has come since the last time, of all sessions, in time order; None when nothing has. A window stands by itself."""
        self._reap()
        if self._has_left:
            self._forget_types()
        parts = [
            part
            for member in tuple(self._members)
            if member in self._members  # it may have ended with one before it
            for of, batch in self._arrived(member)
            if (part := self._part(of, batch))
        ]
        return self._joined(parts) if parts else None

    def _arrived(self, member: _Member) -> list[tuple[_Member, EventBatch]]:
        """What a session has sent; one that has ended is left, with those that belong to it."""
        batches: list[EventBatch] = []
        try:
            why = self._read(member, batches)
        except DiagnosticsError as error:
            why = str(error)
        arrived = [(member, batch) for batch in batches]
        if why is None:
            return arrived
        self._members.remove(member)
        others = [one for one in self._members if one.number == member.number]
        if member.stopped_at is None or not others:
            self._over.append((member.number, why if member.stopped_at is None else ""))
        self._end(member)
        for one in others if member.stopped_at is None else ():
            last: list[EventBatch] = []
            with suppress(DiagnosticsError):
                self._read(one, last)
            arrived += [(one, batch) for batch in last]
            self._members.remove(one)
            self._end(one)
        return arrived

    def _read(self, member: _Member, batches: list[EventBatch]) -> str | None:
        """Why it is over; None: it is not."""
        reader, size = member.reader, 0
        while size < TAKE_BYTES:
            try:
                data = member.session.read(PIECE_BYTES, timeout_s=0)
            except TimedOut:
                break
            if not data:
                batches += reader.close()
                return HAS_ENDED if reader.complete else "the stream ended without an end"
            size, position = size + len(data), reader.position
            batches += reader.feed(data)
            if member.is_broken(position, len(data)):
                return str(reader.damage)
            # to read, and be told that there is nothing, costs as much as to read what is there
            if len(data) < PIECE_BYTES and member.stopped_at is None and not member.session.has_arrived():
                break
        if member.stopped_at is not None:
            now = time.monotonic()
            member.stopped_at = now if size else member.stopped_at
            if now - member.stopped_at > STOP_TIMEOUT_S:
                return "the target did not end the session"
        return None

    def _end(self, member: _Member) -> None:
        self._has_left = True
        self._lost += member.reader.lost.total
        self._lost_is_known &= member.reader.lost.known
        member.session.abort()
        with suppress(DiagnosticsError):
            member.session.close()
        with suppress(DiagnosticsError):
            member.closed_after.close()

    def _forget_types(self) -> None:
        """Those that no session has that runs. (Those of one that has just ended are in the window that is made then.)"""
        self._has_left = False
        used = {number for member in self._members for _, number in member.numbers.values()}
        self._schemas = {number: schema for number, schema in self._schemas.items() if number in used}
        self._numbers = {
            key: number for key, number in self._numbers.items() if number in used or (not number and self._members)
        }

    # joining ----------------------------------------------------------------------------------------------------------

    def _part(self, member: _Member, batch: EventBatch) -> _Part | None:
        """The rows of a batch that are wanted."""
        headers, info = batch.headers, member.reader.info
        if info is None:
            return None
        numbers = self._numbers_of(member, batch)
        offsets, lengths, time = headers.payload_offset, headers.payload_length, headers.time
        if not numbers.all():
            wanted = np.flatnonzero(numbers)
            if not len(wanted):
                return None
            numbers, offsets, lengths, time = numbers[wanted], offsets[wanted], lengths[wanted], time[wanted]
        return _Part(batch.buffer, member.number, numbers, info.utc_ns(time), offsets, lengths)

    def _numbers_of(self, member: _Member, batch: EventBatch) -> Array:
        """The type of each row in joined windows."""
        ids = batch.headers.metadata_id
        if len(ids) > FEW_ROWS:
            distinct, which = np.unique(ids, return_inverse=True)
            made: Array = np.array([self._number(member, batch, one) for one in distinct.tolist()], np.uint32)[which]
            return made
        listed = ids.tolist()
        known = {one: self._number(member, batch, one) for one in set(listed)}
        return np.array(list(map(known.__getitem__, listed)), np.uint32)

    def _number(self, member: _Member, batch: EventBatch, metadata_id: int) -> int:
        """What events of a type of a stream have for a metadata id in joined windows, the same for a type of many streams; 0 for none."""
        metadata = batch.metadata.get(metadata_id)
        known = member.numbers.get(metadata_id)
        if metadata is None:
            return 0
        if known is not None and known[0] is metadata:
            return known[1]
        info = member.reader.info
        pointer_size = 8 if info is None else info.pointer_size
        key = replace(metadata, metadata_id=0), pointer_size
        number = self._numbers.get(key)
        if number is None:
            number = self._given + 1
            schema = resolve(metadata, pointer_size)
            if schema.source is Source.NONE or (self._wants is not None and not self._wants(schema)):
                number = 0
            else:
                self._schemas[number], self._given = schema, number
            if number or len(self._numbers) < MOST_TYPES:  # each session knows its own anyway
                self._numbers[key] = number
        member.numbers[metadata_id] = metadata, number
        return number

    def _joined(self, parts: list[_Part]) -> EventTable:
        headers = _headers(parts)
        there = np.unique(headers.metadata_id).tolist()
        numbers = sorted({part.member for part in parts})
        meaning = HeaderMeaning(
            TraceInfo(start_ns=self._begin_ns, sync_ticks=self._begin_ns, frequency=1_000_000_000),
            {number: ThreadInfo(index=number, process_id=number) for number in numbers},
            thread_rows=True,
        )
        context = LiveContext(
            buffer=np.concatenate([part.buffer for part in parts]),
            meaning=meaning,
            guids=GuidTable(),
            overrides={},
            stacks=StackTable(),
            recording=self,
            losses_now=lambda: self.losses,
            keeps_stacks=False,
        )
        schemas = {number: self._schemas[number] for number in there}
        if there != self._there:
            self._there, self._fields = there, join_fields(schemas)
        return EventTable(context, schemas, headers, fields=self._fields)


def _headers(parts: list[_Part]) -> HeaderColumns:
    """Of the rows of all parts, in time order, with payloads in their buffers one behind another."""
    counts = [len(part.time) for part in parts]
    starts = np.cumsum([0, *(len(part.buffer) for part in parts)])[:-1]
    time = np.concatenate([part.time for part in parts])
    order = np.argsort(time, kind="stable")
    none = np.zeros(len(time), np.uint64)  # what a session says of its threads and stacks is not kept
    given: dict[str, Array] = {
        "metadata_id": np.concatenate([part.numbers for part in parts])[order],
        "thread": np.repeat(np.array([part.member for part in parts], np.uint64), counts)[order],
        "time": time[order],
        "payload_offset": (np.concatenate([part.offsets for part in parts]) + np.repeat(starts, counts))[order],
        "payload_length": np.concatenate([part.lengths for part in parts])[order],
    }
    return HeaderColumns(
        **{name: given[name] if name in given else none.astype(kind) for name, kind in COLUMN_TYPES.items()}
    )
