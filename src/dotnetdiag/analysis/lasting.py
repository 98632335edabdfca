"""What begins with an event that has a stack and ends with another: waits, awaits, work in a queue. Rows, and a profile weighted by how long.

Ends are looked for while windows come, and rows are spilled: of a million waits some megabytes are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.changing_rows import Change
from dotnetdiag.analysis.followed import Followed
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, whole_numbers
from dotnetdiag.analysis.kind_rows import KindRows, KindStacks
from dotnetdiag.analysis.pool_threads import is_worker
from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import EventSchema
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Losses
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.spilled import SpilledRows
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_APART = "apart_ms"
"""How far its events are apart, of what itself says how long it took."""
SLACK_MS = 1.0
"""By so much what an event says of how long something took may be more than what is between its events; what says more is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lasting:
    """A row for each start, in the order in which they came: ``ms``, ``kind`` and ``time`` (for ``stacks``), ``duration_ms`` (NaN: no end was
    recorded), and fields of starts and of stops. ``pid`` and ``tid`` are of kinds.
    """

    name: str
    rows: SpilledRows
    stacks: KindStacks
    pid: Array
    tid: Array
    losses: Losses
    state: State
    in_turn: bool
    """Whether what one thread has begun is over before it begins more: then it is drawn along time."""

    def __len__(self) -> int:
        return len(self.rows)

    def slices(self) -> Iterator[tuple[int, Array]]:
        """All rows in parts: the number of the first, and they."""
        return self.rows.slices()

    def column(self, name: str) -> Array:
        """A field of all rows, or ``pid`` and ``tid``."""
        of_kinds = {"pid": self.pid, "tid": self.tid}.get(name)
        if of_kinds is not None:
            return of_kinds[self.rows.column("kind", 0, len(self))]
        return self.rows.column(name, 0, len(self))

    def which_stack(self) -> Array:
        """Of all rows, as ``stacks`` numbers them."""
        return self.stacks.of(self.column("kind"), self.column("time"))

    def methods(self) -> Coded:
        """The first method of the program in the stack of each row."""
        return self.stacks.methods(self.which_stack())

    def profile(self) -> StackProfile:
        """The stacks, in ms."""
        return self.stacks.profile(self.name, MILLISECONDS, weight="duration_ms", lasts=self.in_turn, state=self.state)


class LastingEvents:
    """Takes windows; :meth:`result` is what came. A stop is of its start's process, and has the same ``by``: a field of both, or the thread.
    ``lasted`` says of stops how long it took, in ms, NaN for those that do not tell; without it the times of the events do. A row has the fields of
    its start, those that are ``more``, and of its stop what is ``told`` (fields, ``ms`` and ``tid``, as ``stop_…``; NaN and -1 without one).
    ``are_meant`` tells which starts count, of fields that a row does not have: those that are ``asked``.
    """

    def __init__(
        self,
        starts: KeptEvents,
        stops: KeptEvents,
        *,
        by: str | None = None,
        lasted: Callable[[Kept], Array] | None = None,
        told: Sequence[str] = (),
        more: Sequence[str] = (),
        comes_again: bool = False,
        asked: Sequence[str] = (),
        are_meant: Callable[[Kept], Array] | None = None,
    ) -> None:
        """``comes_again``: something else may have the same ``by`` later."""
        self._starts, self._stops, self._by, self._comes_again = starts, stops, by, comes_again
        self._lasted, self._told, self._more = lasted, tuple(told), tuple(more)
        self._asked, self._are_meant = frozenset(asked), are_meant
        whole = [
            *(name for name in starts.names if name not in self._asked),
            *more,
            *(f"stop_{name}" for name in self._told if name != "ms"),
        ]
        self._fractions = (
            "duration_ms",
            *(("stop_ms",) if "ms" in self._told else ()),
            *((_APART,) if lasted is not None else ()),
        )
        self._rows = KindRows([*((name, "f8") for name in self._fractions), *((name, "i8") for name in whole)])
        self._processes = Numbering()
        self._followed = Followed(self._rows, stops, key=self._key, owner=self._process, change=self._change)

    @property
    def rows(self) -> KindRows:
        """Those of the starts: who keeps more than this of events of the same windows has the stacks of one tree by ``kind_of``."""
        return self._rows

    def wants(self, schema: EventSchema) -> bool:
        """Starts, stops, and what names the threads of the pool."""
        return self._starts.wants(schema) or self._stops.wants(schema) or is_worker(schema)

    def feed(self, window: EventTable, more: Callable[[Kept], Mapping[str, Array]] | None = None) -> None:
        """Take the next window. ``more`` gives these fields of starts."""
        self._rows.columns.look_at(window)
        found = self._starts.events_of(window)
        if len(found):
            self._add(found, more)
        self._followed.feed(window)

    def _add(self, found: EventTable, more: Callable[[Kept], Mapping[str, Array]] | None) -> None:
        kept = self._starts.of(found)
        if self._are_meant is not None:
            meant = np.flatnonzero(self._are_meant(kept))
            found, kept = EventTable(found.trace, found.schemas, found.headers[meant], fields=()), kept.of(meant)
        numbers, rows = self._rows.add(found, kept, self._rows.threads.of(found, kept))
        for name in self._fractions:
            rows[name] = np.nan
        for name in self._told:
            if name != "ms":
                rows[f"stop_{name}"] = NONE
        for name, values in {**kept.fields, **(more(kept) if more else {})}.items():
            if name not in self._asked:
                rows[name] = whole_numbers(values)
        self._followed.began(kept, numbers)

    def _key(self, kept: Kept) -> Array:
        return kept.tid if self._by is None else whole_numbers(kept[self._by])

    def _process(self, kept: Kept) -> Array:
        return self._processes.of(kept.pid.astype(np.int64, copy=False))

    def _change(self, starts: Array, stops: Kept) -> Change:
        duration = np.maximum(stops.ms - starts["ms"], 0.0)
        if self._lasted is not None:
            told = self._lasted(stops)
            is_damaged = np.isnan(told) | (told > duration + SLACK_MS)
            duration = np.where(is_damaged, duration, told)
        values = {"duration_ms": duration}
        if self._lasted is not None:
            values[_APART] = np.where(is_damaged, np.nan, stops.ms - starts["ms"])
        for name in self._told:
            is_own = name in ("ms", "tid")
            values[f"stop_{name}"] = getattr(stops, name) if is_own else whole_numbers(stops[name])
        return Change(rows=starts["row"].astype(np.int64), values=values)

    def result(self, name: str, *, state: State = State.BLOCKED, of_program: bool = True) -> Lasting:
        """What came until now; more may come, and another be asked for. ``of_program`` as of ``own_frames``. Raises UsageError before the first
        window.
        """
        self._followed.conclude()
        pid, tid = self._rows.threads.told()
        thread, _, _ = self._rows.kinds.told()
        pid, tid = pid[thread], tid[thread]
        self._forget_doubtful(pid, tid)
        return Lasting(
            name=name,
            rows=self._rows.given(),
            stacks=KindStacks(self._rows, of_program=of_program),
            pid=pid,
            tid=tid,
            losses=self._rows.columns.context.losses,
            state=state,
            in_turn=self._by is None,
        )

    def _forget_doubtful(self, pid: Array, tid: Array) -> None:
        """Rows lose ends that may be those of something else that their thread began, or that had the same ``by``: it, or any thread of the process,
        has lost events meanwhile. But for those that say themselves how long it took, which is as long as their events are apart.
        """
        lost = LostBetween(self._rows.columns.context)
        if not lost or (self._by is not None and not self._comes_again):
            return

        def are_doubtful(some: Array) -> Array:
            begin, kind, lasted = some["ms"], some["kind"], some["duration_ms"]
            said_apart = some[_APART] if self._lasted is not None else np.full(len(some), np.nan)
            apart = np.where(np.isnan(said_apart), lasted, said_apart)
            if self._by is None:
                made = lost.of(pid[kind], tid[kind], begin, begin + apart)
            else:
                made = np.zeros(len(some), np.bool_)
                for process in distinct(pid[kind]).tolist():
                    rows = np.flatnonzero(pid[kind] == process)
                    made[rows] = lost.of_process(process).overlap(begin[rows], (begin + lasted)[rows])
            made &= ~np.isnan(lasted) & (np.isnan(said_apart) | (np.abs(apart - lasted) > SLACK_MS))
            return made

        nothing: dict[str, float] = dict.fromkeys(self._fractions, np.nan)
        nothing |= {f"stop_{name}": NONE for name in self._told if name != "ms"}
        self._rows.forget(are_doubtful, nothing)
