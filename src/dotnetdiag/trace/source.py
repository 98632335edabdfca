"""The bytes behind a trace: indexed once, event headers read in passes.

Rule 1: a pass goes through all event blocks in file order and keeps only the rows asked for.
Rule 2: it gives them in windows in time order; a window ends where the format says that nothing older can follow
(a sequence point, or an event marked *sorted*; nettrace.md §8), so memory stays bounded at any file size. Where a file
says neither, as many rows are held as are asked for.
Rule 3: ids of stacks and GUIDs are the same in every pass, and so are those of types that events carry
(``events.carried``), which stand in the place of the carrier's everywhere but in ``contents``.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.events import kernels
from dotnetdiag.events.carried import CarriedTypes
from dotnetdiag.nettrace import (
    Contents,
    EventBatch,
    GuidTable,
    HeaderColumns,
    LabelList,
    Metadata,
    Scan,
    StackTable,
    scan,
)
from dotnetdiag.nettrace.buffers import Buffer
from dotnetdiag.nettrace.parallel import Executor
from dotnetdiag.nettrace.sieve import AMOUNT, KEEP, MARK, MOST_ID, Sieve
from dotnetdiag.nettrace.type_count import KEPT_BYTES, SHARED_BYTES, TypeCounts, count_types
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.payloads import FirstPayloads, Payloads
from dotnetdiag.trace.settling import EVER, NEVER, Ranks, Rows, Settling

if TYPE_CHECKING:
    from dotnetdiag.trace.summary import Totals
    from dotnetdiag.trace.tally import Tally

Wanted: TypeAlias = "npt.NDArray[np.uint32]"
"""Metadata ids, ascending."""
Wants: TypeAlias = "Wanted | Callable[[], Wanted] | None"
"""Which types: these, or those that a function tells, which is asked again for each batch, or all."""
Mask: TypeAlias = "npt.NDArray[np.bool_]"

WINDOW_ROWS = 1 << 14
"""Rows of a window, when there are so many: enough that a decode call per event type pays. Printing four times as many
is a tenth faster and takes twice the memory (110 to 227 MB on 4 million events).
"""
GROUPED_ROWS = 1 << 20
"""Events that are sorted by their types together, which takes 40 MB: a call for each type has to pay."""
_DENSE_IDS = 1 << 20
RELEASE_BYTES = 8 << 20
SPAN_BYTES = 8 << 20
"""The part of a file that a window made in passing comes from. Its payloads are read when all of it is there, and with each the system shows the
process the 64 KB of the file around it: a few events of each MB are nearly the whole file. And what is decoded of texts is as large: with 32 MB the
windows of 290,000 messages took 164 MB at their peak (150 of them before anything was kept), with 8 it is 30 less, in the same time.
"""
SIFTED_SPAN_BYTES = 16 << 20
"""The same where columns are made of few events: of half as many windows a report on 80 MB is a twentieth quicker, for 13 MB. With 32 MB it would be
a fiftieth, but one on 109 MB with 32,000 collections has its peak at 141 MB then, and not at 126.
"""
NOTED_ROWS = 1 << 17
"""Rows that a pass keeps beside what it is for: 7 MB."""
KEEP_BYTES, KEEP_ROWS = 32 << 20, 1 << 20
"""Header columns of files up to this size, with so many events at most (55 bytes each), are kept after the first pass."""


class Source:
    """One file in memory or mapped. An ``executor`` shares the work of a pass (see ``nettrace.read``).

    ``release`` is told (start, end) of bytes that a pass has left behind: a mapped file need not stay in memory.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        executor: Executor | None = None,
        release: Callable[[int, int], None] | None = None,
    ) -> None:
        self.scan: Scan = scan(buffer, release=release)
        self.buffer: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)
        self._executor, self._release = executor, release
        self._carried = CarriedTypes(self._first_free_id)
        self._defined: Mapping[int, tuple[int, int]] | None = None
        self._counted: TypeCounts | None = None
        self._counts: Mapping[int, tuple[int, int]] | None = None
        self._totals: Totals | None = None
        self._firsts: FirstPayloads | None = None
        self._contents: Contents | None = None
        self._kept: HeaderColumns | None = None
        self._grouped: tuple[Rows, npt.NDArray[np.uint32], Rows] | None = None
        self._passed: Scan | None = None
        self._stacks_read = StackTable()
        self._has_activities = False
        """Whether that pass looked at the ids of activities."""
        self._passes = 0
        self._to_note: Wanted | None = None
        self._noted: tuple[Wanted, HeaderColumns] | None = None
        self.last_tick: int | None = None
        """The time of the last event, once somebody has passed over all of them."""
        self.events: int | None = None
        """How many there are, then too."""
        self.about_processes: HeaderColumns | None = None
        """The events that tell of processes, when somebody has met them."""

    def _first_free_id(self) -> int:
        """The first that no type of the file has. NetPerf defines them among the events."""
        known: list[int] = [*self.scan.metadata, *(self.counts_as_declared() if self.in_file_order else ())]
        return max(known, default=0) + 1

    @property
    def in_file_order(self) -> bool:
        """NetPerf files are in time order as they are."""
        return self.scan.format.startswith("NetPerf")

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        """The event types by id: those that the file defines, and those that its events were found to carry."""
        return ChainMap(self._carried.records, self.scan.metadata)  # type: ignore[arg-type]  # nobody writes to it

    def typed(self, headers: HeaderColumns) -> HeaderColumns:
        """The headers of ``contents`` with the types that events carry."""
        return self._carried.typed(headers, self.buffer, self.scan.metadata)

    def counts(self) -> Mapping[int, tuple[int, int]]:
        """(events, payload bytes) by metadata id. Quick, for no column is made, unless events carry others."""
        if self._counts is None:
            counts = dict(self.counts_as_declared())
            carriers = self._carried.carriers(self.scan.metadata) & counts.keys()
            if carriers:
                own = wanted_of(counts.keys() - carriers)
                counts = {number: counts[number] for number in own.tolist()}
                for headers in self._everything():
                    some = headers[~lookup(own, headers.metadata_id)]
                    for number in distinct(some.metadata_id).tolist():
                        lengths = some.payload_length[some.metadata_id == number]
                        events, size = counts.get(number, (0, 0))
                        counts[number] = events + len(lengths), size + int(lengths.sum(dtype=np.int64))
            self._counts = counts
        return self._counts

    def count_of(self, number: int) -> tuple[int, int]:
        """(events, payload bytes) of one type. Of a type that the file defines and whose events carry no others it is known without a pass over all
        of them, which took a third of the time of a report on a file with both kinds, and a table of its activity ids.
        """
        if (
            self._counts is None
            and number in self.scan.metadata
            and number not in self._carried.carriers(self.scan.metadata)
        ):
            return self.counts_as_declared().get(number, (0, 0))
        return self.counts().get(number, (0, 0))

    def counts_as_declared(self) -> Mapping[int, tuple[int, int]]:
        """By the types that the file defines."""
        if self._defined is None and len(self.buffer) > KEEP_BYTES:  # gives pages back on its way
            self._counted = count_types(self.buffer.data, self._release)
            self._defined = None if self._counted is None else self._counted.by_type
        if self._defined is None:
            executor = self._executor if len(self.buffer) >= SHARED_BYTES else None
            self._defined = self.scan.counts(executor=executor)
            if len(self.buffer) >= KEPT_BYTES:
                self._let_go(0, len(self.buffer))
        return self._defined

    def _everything(self) -> Iterable[HeaderColumns]:
        if self._keeps:
            next(self.windows(limit=1), None)
        return (batch.headers for batch in self.batches()) if self._kept is None else [self._kept]

    @property
    def _keeps(self) -> bool:
        """Whether header columns are kept."""
        if self._kept is None and len(self.buffer) > KEEP_BYTES:
            return False
        return self._kept is not None or sum(events for events, _ in self.counts_as_declared().values()) <= KEEP_ROWS

    @property
    def has_totals(self) -> bool:
        """Whether :meth:`totals` costs nothing any more."""
        return self._totals is not None

    def totals(self, keep: Iterable[int] = (), about_processes: Iterable[int] = ()) -> Totals:
        """Totals by type and thread, in one pass that also finds out losses, counts, the first payloads of the types of
        ``keep``, and the events of those types that tell of processes.
        """
        if self._totals is None:
            from dotnetdiag.trace.summary import total

            firsts, found, wanted = FirstPayloads(keep), list[EventBatch](), wanted_of(about_processes)
            self._totals = total(_noting(self.batches(), wanted, found) if len(wanted) else self.batches(), firsts)
            self._firsts = firsts
            if len(wanted):
                self.about_processes = self._ordered(found)
            self._counts = {number: (row.count, row.bytes) for number, row in self._totals.by_type.items()}
        return self._totals

    def batches(self, *, activities: bool = True, sieve: Sieve | None = None, behind: int = 0) -> Iterator[EventBatch]:
        """All events in file order. ``activities`` and ``sieve`` as for ``Scan.iter_batches``. So many bytes ``behind`` what was read last
        somebody reads once more.
        """
        self._passes += 1
        left = rows = events = 0
        last = NEVER
        noting, noted, ranks = self._to_note, list[EventBatch](), Ranks()
        self._to_note = None
        ended = self._end_pass if activities else self._end_pass_without_activities
        for batch in self.scan.iter_batches(executor=self._executor, ended=ended, activities=activities, sieve=sieve):
            last = max(last, batch.latest)
            events += batch.events
            if len(batch.stacks) > len(self._stacks_read):  # another pass may be farther
                self._stacks_read = batch.stacks
            typed = self._carried.typed_batch(batch)
            if noting is not None:
                ranks.see(batch)
                rows += _note(typed, noting, noted)
                if rows > NOTED_ROWS:
                    noting, noted = None, []
            yield typed
            here = batch.start - behind
            if here - left >= RELEASE_BYTES:
                self._let_go(left, here)
                left = here
        self._let_go(left, len(self.buffer))
        self.last_tick, self.events = None if last == NEVER else last, events
        if noting is not None:
            self._noted = noting, self._ordered(noted, ranks)

    def _end_pass(self, seen: Scan) -> None:
        """Keep what was found: the next pass finds it anew, and may be left."""
        if self._passed is None or not self._has_activities:
            self._passed, self._has_activities = seen, True

    def _end_pass_without_activities(self, seen: Scan) -> None:
        if self._passed is None:
            self._passed = seen

    def payloads(self, wanted: Wanted | None = None) -> Iterator[tuple[int, Payloads]]:
        """(metadata id, where its payloads are) of all events, or of some types; in no order that counts.

        So many are sorted by their types together that what is done for each type pays (``GROUPED_ROWS``), and no more than
        ``WINDOW_ROWS`` are given at once.
        """
        if wanted is not None and not len(wanted):
            return
        parts: list[tuple[npt.NDArray[np.uint32], Payloads]] = []
        rows = 0
        for headers in (batch.headers for batch in self.batches()) if self._kept is None else [self._kept]:
            some = slice(None) if wanted is None else lookup(wanted, headers.metadata_id)
            ids = headers.metadata_id[some].copy()  # columns that are held keep the memory of a whole batch
            parts.append((ids, Payloads(headers.payload_offset[some].copy(), headers.payload_length[some].copy())))
            rows += len(ids)
            if rows >= GROUPED_ROWS:
                yield from _by_type(parts)
                parts, rows = [], 0
        yield from _by_type(parts)

    def let_go(self) -> None:
        """What was looked at of a mapped file goes from memory: for who has read here and there."""
        self._let_go(0, len(self.buffer))

    def _let_go(self, start: int, end: int) -> None:
        if self._release is not None:
            self._release(start, end)

    @property
    def counted(self) -> TypeCounts | None:
        """What counting found of a file that is whole, before the first pass over it; None where nobody has counted, or it was too odd."""
        return self._counted if self._passed is None else None

    def passed(self) -> Scan:
        """The scan after at least one whole pass: its losses and findings are final."""
        if self._passed is None:
            for _ in self.batches():
                pass
            assert self._passed is not None
        return self._passed

    @property
    def stacks(self) -> StackTable:
        """Those of the whole file."""
        return self.passed().stacks

    @property
    def stacks_read(self) -> StackTable:
        """Those of the events that a pass has given until now, by the same ids: it costs no pass by itself."""
        return self._stacks_read if self._passed is None else self._passed.stacks

    @property
    def labels(self) -> Sequence[LabelList]:
        """Those of the whole file."""
        return self.passed().labels

    @property
    def guids(self) -> GuidTable:
        """Ids of activities of the whole file."""
        if not self._has_activities:
            for _ in self.batches():
                pass
        return self.passed().guids

    @property
    def contents(self) -> Contents:
        """All header columns in file order, kept: for what writes the trace again or reads all of it."""
        if self._contents is None:
            self._passes += 1
            self._contents = self.scan.decode(executor=self._executor, ended=self._end_pass)
        return self._contents

    def windows(
        self,
        wanted: Wants = None,
        ticks: tuple[int, int] | None = None,
        *,
        limit: int | None = None,
        size: int = 0,
    ) -> Iterator[HeaderColumns]:
        """Rows in time order, in windows of up to about ``size`` (0: ``WINDOW_ROWS``). ``wanted`` selects event types, ``ticks`` a half-open range
        of time. Who does not know all types yet gives a function: those that events carry are met on the way.

        After ``limit`` rows no more are looked for.
        """
        given = 0
        size = size or WINDOW_ROWS
        for window in (
            self._selected(wanted, ticks, size)
            if self._keeps
            else _in_time_order(self.batches(), wanted, ticks, self.in_file_order, limit, size)
        ):
            rows = window if limit is None else window[: limit - given]
            given += len(rows)
            if len(rows):
                yield rows
            if limit is not None and given >= limit:
                return

    def windows_once(
        self,
        wanted: Wants,
        *,
        size: int,
        activities: bool = True,
        tally: Tally | None = None,
        keeps: bool = True,
    ) -> Iterator[HeaderColumns]:
        """As :meth:`windows`, for who makes one pass and needs few of the columns, each made when it is first asked for: of a window until the next,
        and of the next nothing is made before that. Without ``activities`` their ids may be 0. A ``tally`` adds up what it knows on the way, where it
        :attr:`tallies`. Nothing is kept for passes to come unless it ``keeps``.

        The first pass over a small file keeps nothing for those to come (60 of the 230 MB of reports), and windows go on over sequence points, of
        which there may be one for each 40,000 events: a report on a million spent a third of its time on what each window costs.
        """
        if self._kept is not None or (keeps and self._is_kept):
            yield from self._selected(wanted, None, size)
            return
        sieve = None if activities or wanted is None or not self.scan.sifts else self._sieve(wanted, tally)
        span = SPAN_BYTES if sieve is None else SIFTED_SPAN_BYTES
        assert tally is None or sieve is not None
        held: list[HeaderColumns] = []
        rows = left = place = begun = 0

        def placed() -> Iterator[EventBatch]:
            nonlocal place
            for batch in self.batches(activities=activities, sieve=sieve, behind=span + RELEASE_BYTES):
                place = batch.start
                yield batch

        for window in _in_time_order(
            placed(), wanted, None, self.in_file_order, size=size, later=True, tally=tally, span=span // 2
        ):
            if held and (rows + len(window) > size or place - begun > span):
                made, held, rows, begun = HeaderColumns.joined(held), [], 0, place
                yield made
                del made
                here = int(window.column("payload_offset").min())
                self._let_go(left, here)  # again: who took the window has read its payloads
                left = max(left, here)
            held.append(window)
            rows += len(window)
            del window
        if held:
            made, held = HeaderColumns.joined(held), []
            yield made
            del made
        self._let_go(left, len(self.buffer))

    @property
    def _is_kept(self) -> bool:
        """Whether the next windows are made of columns that are kept."""
        return self._kept is not None or (self._passes > 0 and self._keeps)

    @property
    def tallies(self) -> bool:
        """Whether :meth:`windows_once` can add up a tally, without activities and of selected types."""
        return not self._is_kept and self.scan.sifts

    def _sieve(self, wanted: Wants, tally: Tally | None) -> Sieve:
        """What lets pass the types that are wanted by now, those that are to be noted, and those whose events carry others."""
        known = wanted() if callable(wanted) else wanted
        noted = np.zeros(0, np.uint32) if self._to_note is None else self._to_note
        carriers = np.fromiter(self._carried.carriers(self.scan.metadata), np.uint32)
        kept = np.concatenate([np.zeros(1, np.uint32), *([] if known is None else [known]), noted, carriers])
        kept = kept[kept < MOST_ID]
        ids = np.fromiter((number for number in self.scan.metadata if number < MOST_ID), np.uint32)
        actions = np.zeros(1 + max(int(kept.max()), int(ids.max(initial=0))), np.uint8)
        places = np.full((2, len(actions)), -1, np.int64)
        if tally is not None:
            tally.put(actions, places)
            assert not (actions[kept] == AMOUNT).any(), "who wants rows of what is tallied"
        actions[kept[actions[kept] != MARK]] = KEEP
        return Sieve(actions, places)

    def _selected(self, wanted: Wants, ticks: tuple[int, int] | None, size: int) -> Iterator[HeaderColumns]:
        """Of the columns that are kept."""
        kept, wanted = self._all_kept(), wanted() if callable(wanted) else wanted
        if ticks is not None:
            inside = (kept.time >= ticks[0]) & (kept.time < ticks[1])
            if wanted is None:
                yield from _pieces(kept[inside], size)
                return
            rows = self._rows_of(wanted)
            yield from _pieces(kept[rows[inside[rows]]], size)
            return
        if wanted is None:
            yield from _pieces(kept, size)
            return
        yield from _pieces(kept[self._rows_of(wanted)], size)

    def _all_kept(self) -> HeaderColumns:
        """The columns that are kept."""
        if self._kept is None:
            parts = list(_in_time_order(self.batches(), None, None, self.in_file_order))
            self._kept = HeaderColumns.concatenate(parts)
        return self._kept

    def _rows_of(self, wanted: Wanted) -> Rows:
        """Rows of the kept headers that have a metadata id asked for, ascending."""
        assert self._kept is not None
        if self._grouped is None:
            order = np.argsort(self._kept.metadata_id, kind="stable")
            ids, firsts = np.unique(self._kept.metadata_id[order], return_index=True)
            self._grouped = order, ids, np.append(firsts, len(order))
        order, ids, bounds = self._grouped
        chosen = np.flatnonzero(lookup(wanted, ids))
        parts = [order[bounds[at] : bounds[at + 1]] for at in chosen.tolist()]
        if not parts:
            return np.zeros(0, np.int64)
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def note(self, wanted: Wanted) -> None:
        """Keep the rows of these types in the next whole pass, if there are no more than ``NOTED_ROWS``: a :meth:`collect` of them
        needs no pass of its own then.
        """
        if self._kept is None:
            self._to_note = wanted

    def has_noted(self, wanted: Wanted) -> bool:
        """Whether :meth:`collect` of these types needs no pass any more."""
        return self._noted is not None and bool(np.isin(wanted, self._noted[0]).all())

    def _ordered(self, batches: list[EventBatch], ranks: Ranks | None = None) -> HeaderColumns:
        rows = list(_in_time_order(iter(batches), None, None, self.in_file_order, ranks=ranks))
        return HeaderColumns.concatenate(rows) if rows else HeaderColumns.allocate(0)

    def collect(self, wanted: Wanted | None = None, ticks: tuple[int, int] | None = None) -> HeaderColumns:
        """All rows of a selection in time order."""
        if self._noted is not None and wanted is not None and ticks is None:
            noted, headers = self._noted
            if np.array_equal(noted, wanted):
                return headers
            if np.isin(wanted, noted).all():
                return headers[lookup(wanted, headers.metadata_id)]
        return HeaderColumns.concatenate(list(self.windows(wanted, ticks)))

    def first_payloads(self, metadata_id: int, among: Iterable[int] = ()) -> Payloads:
        """Those of the first events of one type, in no order that counts.

        One pass finds those of all types ``among`` which somebody will ask for them.
        """
        found = None if self._firsts is None else self._firsts.of(metadata_id)
        if found is None:
            asked = {*among, metadata_id}
            firsts = self._firsts = FirstPayloads(asked)
            if self._keeps:
                next(self.windows(limit=1), None)
            for number, payloads in self.payloads(wanted_of(asked)):
                firsts.add(number, payloads)
                if firsts.full:
                    break
            found = firsts.of(metadata_id)
            assert found is not None
        return found


def wanted_of(metadata_ids: Iterable[int]) -> Wanted:
    """A selection of event types."""
    return distinct(np.fromiter(metadata_ids, np.uint32))


def lookup(wanted: Wanted, ids: npt.NDArray[np.uint32]) -> Mask:
    """Which of the ids are wanted."""
    if not len(wanted):
        return np.zeros(len(ids), np.bool_)
    top = max(int(wanted[-1]), int(ids.max()) if len(ids) else 0)
    if top >= _DENSE_IDS:
        return np.isin(ids, wanted)
    mask = np.zeros(top + 1, np.bool_)
    mask[wanted] = True
    return mask[ids]


def rows_of(wanted: Wanted, ids: npt.NDArray[np.uint32]) -> Rows:
    """The rows whose id is wanted, ascending."""
    if not len(wanted):
        return np.zeros(0, np.int64)
    if int(wanted[-1]) >= _DENSE_IDS:
        return np.flatnonzero(np.isin(ids, wanted))
    mask = np.zeros(int(wanted[-1]) + 1, np.bool_)
    mask[wanted] = True
    return kernels.select(ids, mask)


def _by_type(parts: Sequence[tuple[npt.NDArray[np.uint32], Payloads]]) -> Iterator[tuple[int, Payloads]]:
    if not parts:
        return
    ids, payloads = np.concatenate([ids for ids, _ in parts]), Payloads.concatenate([found for _, found in parts])
    ends, offsets, lengths = kernels.bucket(ids, *payloads)
    first = 0
    for number, last in ends:
        for start in range(first, last, WINDOW_ROWS):
            rows = slice(start, min(start + WINDOW_ROWS, last))
            yield number, Payloads(offsets[rows], lengths[rows])
        first = last


def _pieces(headers: HeaderColumns, size: int) -> Iterator[HeaderColumns]:
    for first in range(0, len(headers), size):
        yield headers[first : first + size]


def _noting(batches: Iterator[EventBatch], wanted: Wanted, found: list[EventBatch]) -> Iterator[EventBatch]:
    """The same batches; what of them is ``wanted`` is kept."""
    for batch in batches:
        _note(batch, wanted, found)
        yield batch


def _note(batch: EventBatch, wanted: Wanted, found: list[EventBatch]) -> int:
    """Keep what is wanted of a batch; how many rows that is."""
    rows = rows_of(wanted, batch.headers.metadata_id)
    if len(rows):
        found.append(replace(batch, headers=batch.headers[rows], passed=None))
    return len(rows)


def _in_time_order(
    batches: Iterator[EventBatch],
    wanted: Wants,
    ticks: tuple[int, int] | None,
    in_file_order: bool,
    limit: int | None = None,
    size: int = WINDOW_ROWS,
    ranks: Ranks | None = None,
    later: bool = False,
    tally: Tally | None = None,
    span: int = 1 << 62,
) -> Iterator[HeaderColumns]:
    """The rule of ``nettrace.order``, applied while batches come. Of more rows than ``limit`` the last may be missing. ``later``: columns are
    made when they are first asked for. ``tally``: what adds up amounts of batches that were sifted. What is settled is not held for more bytes of
    the file than ``span``.
    """
    settling = Settling(ranks)
    held: list[HeaderColumns] = []
    count, enough, begun = 0, size, 0

    def release(until: int | None) -> Iterator[HeaderColumns]:
        """Held rows before a time (None: all) in order; the others stay held."""
        nonlocal held, count
        rows = HeaderColumns.joined(held) if later else HeaderColumns.concatenate(held)
        held = []
        if until is not None:
            early = rows.time < until
            if not early.all():
                held = [rows[~early]]
                rows = rows.later(np.flatnonzero(early)) if later else rows[early]
            if (
                limit is not None and sum(map(len, held)) > limit
            ):  # sorted before their time: what follows is no earlier
                held = [held[0][settling.order(held[0])[:limit]]]
        count = sum(map(len, held))
        order = settling.order(rows)
        for first in range(0, len(rows), size):
            some = order[first : first + size]
            yield rows.later(some) if later else rows[some]

    for batch in batches:
        headers = batch.headers
        if not in_file_order and (first := settling.see(batch)) is not None:
            before = None if first == EVER else first + 1
            if held:
                yield from release(before)
            if tally is not None:
                tally.settle(before, all_of_it=True)
            enough = size
        asked = wanted() if callable(wanted) else wanted
        if tally is not None and batch.passed is not None:
            tally.add(batch.passed, settling.runs, settling.until)
        some = None if asked is None else rows_of(asked, headers.metadata_id)
        if ticks is not None:
            some = np.arange(len(headers)) if some is None else some
            some = some[(headers.time[some] >= ticks[0]) & (headers.time[some] < ticks[1])]
        if some is not None:
            if not len(some):
                continue
            # of few rows a copy, for columns that are made later hold what they are made of
            headers = headers.later(some) if later and 2 * len(some) > batch.events else headers[some]
        if in_file_order:
            yield from _pieces(headers, size)
            continue
        held.append(headers)
        count += len(headers)
        if count >= enough or (batch.points and batch.start - begun > span):
            yield from release(settling.until)
            enough, begun = max(size, 2 * count), batch.start
    if tally is not None:
        tally.settle(None, all_of_it=True)
    if held:
        yield from release(None)
