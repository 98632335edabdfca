"""Amounts of very many events added up in passing, between marks that others of them set: no row is made of them.

Of the recording of a program that allocates nine events in ten are allocation ticks, of which the report on collections needs how many bytes they
tell of from one collection to the next. As rows of windows (their columns made, brought into the order of time and decoded) they were two fifths of
its time over five million events; read while their headers are passed over (``nettrace.sieve``) they are a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import EventSchema
from dotnetdiag.events.layout import Kind, fixed_size
from dotnetdiag.nettrace.batch import Passed
from dotnetdiag.nettrace.sieve import AMOUNT, MARK, MOST_ID
from dotnetdiag.trace import kernels
from dotnetdiag.trace.settling import EVER, NEVER
from dotnetdiag.trace.spilled import SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

HELD = 1 << 17
"""Amounts, of 24 bytes, that wait for what may be older before all that are settled by then are added up."""
_RANKS = 1 << 22
"""Capture threads that are told apart; those behind them are alike."""
_WIDE, _NARROW = (Kind.U8, Kind.I8), (Kind.U4,)


class SumsBetween:
    """Sums before the first mark, between it and the next, and so on, of which there may be millions: they are spilled."""

    def __init__(self) -> None:
        self._before = SpilledRows(np.int64)
        self._last = 0
        self.is_any = False
        """Whether any is more than 0."""

    def __len__(self) -> int:
        """One more than marks."""
        return len(self._before) + 1

    def mark(self, until: int) -> None:
        """Nothing came between the marks up to this one, of which it is told by their number."""
        if until >= len(self):
            self.add(np.zeros(until - len(self) + 2, np.int64))

    def add(self, sums: Array) -> None:
        """What came before the next mark, and of the marks that came then what came behind each."""
        self._last = min(self._last + int(sums[0]), EVER)
        self.is_any |= bool(sums.any())
        if len(sums) > 1:
            self._before.append(np.append(np.int64(self._last), sums[1:-1]))
            self._last = int(sums[-1])

    def at(self, places: Array) -> Array:
        """Some of them (i64), by how many marks are before each; 0 where there are not so many."""
        made = np.where(places == len(self._before), self._last, 0)
        before = np.flatnonzero(places < len(self._before))
        made[before] = self._before.gather(None, places[before])
        return made


class Tally:
    """What the numbers of events of some types come to between marks, of which there are as many sums and one more.

    ``amounts``: which types have one; ``fields``: what it is called where it has 8 bytes, which counts, and where it has 4; ``marks``:
    which types are a mark, whose rows windows have too. What comes first is what would come first in a window.
    """

    def __init__(
        self, amounts: Callable[[EventSchema], bool], fields: Sequence[str], marks: Callable[[EventSchema], bool]
    ) -> None:
        self.wants, self._fields, self._is_mark = amounts, fields, marks
        self._places: dict[int, tuple[int, int]] = {}
        self._marked: list[int] = []
        self._held = np.zeros((3, 0), np.int64)
        self._marks: list[Array] = []
        self._waiting = 0
        self._rows, self._count, self._enough = 0, 0, HELD
        self.sums = SumsBetween()
        """They, once all events were seen."""

    def know(self, schemas: Mapping[int, EventSchema], light: Callable[[EventSchema], bool]) -> frozenset[int]:
        """Learn the types that there are by now, by id. Those that are ``light``, for nobody needs rows of them, and whose amounts can be added up
        in passing are given back.
        """
        self._places, self._marked = {}, [number for number, schema in schemas.items() if self._is_mark(schema)]
        if max(self._marked, default=0) >= MOST_ID:  # a sieve does not know it
            self._marked = []
            return frozenset()
        for number, schema in schemas.items():
            is_ours = number < MOST_ID and number not in self._marked and self.wants(schema) and light(schema)
            if is_ours and (places := self._places_of(schema)) is not None:
                self._places[number] = places
        return frozenset(self._places)

    def put(self, actions: Array, places: Array) -> None:
        """Say what becomes of the events, as of a ``Sieve``."""
        actions[self._marked] = MARK
        for number, both in self._places.items():
            actions[number] = AMOUNT
            places[:, number] = both

    def _places_of(self, schema: EventSchema) -> tuple[int, int] | None:
        """Where in the payload the number stands, of 8 bytes and of 4; None where it may be anywhere, or is no such number."""
        kinds = dict(zip(self._fields, (_WIDE, _NARROW), strict=False))
        names = [field.name for field in schema.fields]
        left = kinds.keys() & {*names}
        if any(names.count(name) > 1 for name in left):
            return None
        at, places = 0, dict.fromkeys(kinds, -1)
        for field in schema.fields:
            size = fixed_size(field.layout, schema.pointer_size)
            if not left or size is None:
                break
            if field.name in left:
                if field.layout.kind not in kinds[field.name]:
                    return None
                places[field.name] = at
                left.remove(field.name)
            at += size
        wide, narrow = (*places.values(), -1, -1)[:2]
        return None if left or max(wide, narrow) < 0 else (wide, narrow)

    def add(self, passed: Passed, ranks: Array, until: int) -> None:
        """Take what a batch has, of whose runs of threads the ``ranks`` are given. Nothing that is older than ``until`` follows."""
        before, self._rows = self._rows, self._rows + passed.events
        new = passed.amounts.shape[1]
        if not new and not passed.marks.shape[1]:
            return
        of_runs = np.minimum(ranks + 1, _RANKS)
        if passed.marks.shape[1]:
            marks = np.empty((2, passed.marks.shape[1]), np.int64)
            kernels.rank(passed.marks, of_runs, passed.before, before, marks, 0)
            self._marks.append(marks)
            self._waiting += marks.shape[1]
        end = self._count + new
        if end > self._held.shape[1]:
            held, self._held = self._held, np.empty((3, max(end, HELD + HELD // 2, 2 * self._held.shape[1])), np.int64)
            self._held[:, : self._count] = held[:, : self._count]
        # marks are sorted each time, and what is held gone through: for no fewer amounts than there are of them
        if until == NEVER or new < max(self._waiting, self._count):
            kernels.rank(passed.amounts, of_runs, passed.before, before, self._held, self._count)
            self._count = end
            self.settle(until)
            return
        early, sums = self._early(until)
        self._count = kernels.add_between(self._held, self._count, early, until, sums)
        self._count += kernels.rank_between(
            passed.amounts,
            passed.sums,
            of_runs,
            passed.before,
            before,
            early,
            until,
            sums,
            self._held,
            self._count,
        )
        self.sums.add(sums)

    def _early(self, until: int) -> tuple[Array, Array]:
        """The marks before a time in order, which are no longer kept, and a sum for each and one more."""
        marks = np.concatenate([*self._marks, np.zeros((2, 0), np.int64)], axis=1)
        early = np.ascontiguousarray(marks[:, np.lexsort((marks[1], marks[0]))][:, : int((marks[0] < until).sum())])
        self._marks = [marks[:, marks[0] >= until]]
        self._waiting = self._marks[0].shape[1]
        return early, np.zeros(early.shape[1] + 1, np.int64)

    def settle(self, until: int | None, *, all_of_it: bool = False) -> None:
        """Add up what is older than a time (None: all), when there is much of it or ``all_of_it`` is wanted, for nothing older follows."""
        if not all_of_it and (self._count < max(self._enough, self._waiting) or until == NEVER):
            return
        until = EVER if until is None else until
        early, sums = self._early(until)
        self._count = kernels.add_between(self._held, self._count, early, until, sums)
        self._enough = max(HELD, 2 * self._count)
        self.sums.add(sums)
