"""Weighted stacks: what ``cpu`` and ``stacks`` answer with, what filters change, and what every exporter reads.

A profile is a table of samples, sorted by thread and then by time, whose stacks are nodes of one tree:

=============  =====  ==============================================================================================
column         dtype  of each sample
=============  =====  ==============================================================================================
``thread``     i32    index into ``threads``; the samples of thread ``i`` are the rows ``threads[i].rows``
``start_ns``   i64    since the start of the trace; ascending within a thread
``length_ns``  i64    how long the stack was seen, 0 for what has no length; samples of a thread do not overlap, so
                      that they can be drawn; the ``weight`` of kernel samples may be more
``weight``     f64    in the unit of the profile
``node``       i32    the leaf in ``tree``; 0 for a sample without a stack
``state``      u8     a :class:`State`
=============  =====  ==============================================================================================

Everything else (per node, method, thread) is sums over this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.quantiles import quantiles
from dotnetdiag.errors import UsageError
from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import HasTable, Table
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.frame import Frame
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import StackTree

Array: TypeAlias = "np.ndarray[Any, Any]"


class State(IntEnum):
    """What a thread did while a stack was seen. Its name in lower case (``"cpu"``) may be given instead of a member."""

    NONE = 0
    """The samples do not say, or it makes no sense to ask (allocations)."""
    CPU = 1
    """It ran managed code, or was on a processor."""
    UNMANAGED = 2
    """It was in native code: the runtime's sampler cannot tell waiting from running there."""
    BLOCKED = 3
    """It was off the processor (context switches of version 6)."""


STATE_FRAMES = {State.CPU: "CPU_TIME", State.UNMANAGED: "UNMANAGED_CODE_TIME", State.BLOCKED: "BLOCKED_TIME"}
"""The leaves that the reference tool adds to stacks (dotnet-tools.md §1.2); ``filters.with_states`` adds them."""

DIGITS = 6
"""Behind the point, in tables: of milliseconds these are the nanoseconds that traces count in."""
MILLISECONDS = "ms"
SAMPLES = "samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileThread:
    """A thread of a profile: its samples are ``rows`` of the table. ``name`` is empty where the trace has none."""

    thread_id: int
    process_id: int | None
    name: str = ""
    rows: range
    tells_process: bool = False
    """Whether the profile has threads of several processes."""

    @property
    def key(self) -> tuple[int, int]:
        """The ids of the process and the thread as columns of reports have them, of 64 bits with a sign: no system has larger ones, a damaged file
        may.
        """
        return _signed(self.process_id or 0), _signed(self.thread_id)

    @property
    def label(self) -> str:
        """``Thread (10620)``, as the reference tool prints it, and the name when there is one; of several processes with theirs."""
        process = f"Process {self.process_id} " if self.tells_process else ""
        return f"{process}Thread ({self.thread_id})" + (f" ({self.name})" if self.name else "")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodTable:
    """Weights per frame id, in the unit of the profile; frames that nothing was seen in have none.

    ``frame`` (i32) is sorted by ``exclusive`` or whatever was asked for, most first; equal ones by ``inclusive`` and
    then by id.
    """

    frame: Array
    exclusive: Array
    inclusive: Array

    def __len__(self) -> int:
        return len(self.frame)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MethodWeight:
    """A frame, and what was seen in it. ``exclusive`` is the weight of the samples in which it is the leaf, ``inclusive`` of those in which it is
    anywhere in the stack, each counted once, in the profile's unit; percentages are of the profile's total (of the threads asked for), 0 when
    that is 0. ``frame_id`` is its place in the profile's ``frames``.
    """

    frame_id: int
    frame: Frame
    exclusive: float
    inclusive: float
    exclusive_percent: float
    inclusive_percent: float

    def __repr__(self) -> str:
        own = f"{self.exclusive:,.2f} ({self.exclusive_percent:.2f} %)"
        return f"<{self.name()}: {own}, with callees {self.inclusive:,.2f} ({self.inclusive_percent:.2f} %)>"

    def name(self, style: Style = Style.FULL) -> str:
        """The printed name."""
        return self.frame.name(style)


class MethodWeights(HasTable, tuple[MethodWeight, ...]):
    """What ``top()`` gives: a tuple of ``MethodWeight``, and a table of them. When there are none because the profile has no samples, the repr
    says why.
    """

    _nothing: str

    def __new__(cls, rows: Iterable[MethodWeight], nothing: str = "") -> Self:
        made = super().__new__(cls, rows)
        made._nothing = nothing
        return made

    def __repr__(self) -> str:
        return f"<{self._nothing}>" if self._nothing else f"({', '.join(map(repr, self))})"

    def table(self) -> Table:
        """The same rows, with the columns ``method exclusive inclusive exclusive_percent inclusive_percent``."""
        names = ("exclusive", "inclusive", "exclusive_percent", "inclusive_percent")
        values = {name: np.array([getattr(row, name) for row in self], np.float64) for name in names}
        columns = {
            name: Scalar(column, None, Kind.F8) for name, column in values.items()
        }  # numbers, also where there is no row
        return Table(
            {"method": [row.name() for row in self], **columns},
            title="methods",
            notes=[self._nothing] if self._nothing else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Weighted stacks of threads; ``StackProfile`` is this with the filters as methods. Nobody changes its columns.

    ``name`` says what the weights are (``Thread time``), ``unit`` in what (``ms``, ``samples``, ``bytes``, ...).
    ``from_ns``, ``to_ns`` bound the time that was looked at; ``notes`` are lines on what was done or is odd.
    """

    name: str
    unit: str
    tree: StackTree
    frames: Frames
    threads: tuple[ProfileThread, ...]
    thread: Array
    start_ns: Array
    length_ns: Array
    weight: Array
    node: Array
    state: Array
    origin: Origin = field(default_factory=Origin)
    from_ns: int = 0
    to_ns: int = 0
    notes: tuple[str, ...] = ()
    is_ticked: bool = False
    """Whether all samples are of a sampler that takes the threads tick by tick, and last until the next of their thread."""
    samples: int | None = None
    """How many there were, where a row stands for several; None: a row is one."""

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.weight)

    def __repr__(self) -> str:
        if not len(self):
            return f"<{type(self).__name__} {self.name}: {self._nothing}>"
        facts = f"{self.sampled:,} samples of {len(self.threads)} threads, {self.total:,.1f} {self.unit}"
        return f"<{type(self).__name__} {self.name}: {facts}>"

    @property
    def sampled(self) -> int:
        """How many samples there were."""
        return len(self) if self.samples is None else self.samples

    @property
    def _nothing(self) -> str:
        """Why there are no samples."""
        return ": ".join(["no samples", "; ".join(self.notes)] if self.notes else ["no samples"])

    # sums -------------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weight.sum())

    def rows(self, threads: Iterable[int] | None = None) -> Any:
        """What selects the samples of some threads (indices into ``threads``) from a column; None: all."""
        if threads is None:
            return slice(None)
        wanted = [self.threads[index].rows for index in threads]
        if len(wanted) == 1:
            return slice(wanted[0].start, wanted[0].stop)
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(rows.start, rows.stop) for rows in wanted)])

    def node_weights(self, threads: Iterable[int] | None = None, state: State | None = None) -> Array:
        """What was seen at each node itself (f64 per node of ``tree``)."""
        rows = self.rows(threads)
        node, weight = self.node[rows], self.weight[rows]
        if state is not None:
            some = self.state[rows] == state
            node, weight = node[some], weight[some]
        return self.tree.exclusive(node, weight)

    def thread_weights(self) -> Array:
        """The weight of each thread (f64 per thread)."""
        made: Array = np.bincount(self.thread, self.weight, minlength=len(self.threads)).astype(np.float64)
        return made

    def state_weights(self) -> dict[State, float]:
        """The weight in each state that occurs."""
        sums = np.bincount(self.state, self.weight, minlength=len(State))
        counts = np.bincount(self.state, minlength=len(State))
        return {state: float(sums[state]) for state in State if counts[state]}

    def by_method(self, threads: Iterable[int] | None = None, *, inclusive: bool = False) -> MethodTable:
        """Weights per frame, as columns. A frame that calls itself, at once or through others, is counted once per sample.

        Sorted by the exclusive weight, or with ``inclusive`` by that.
        """
        own, entered = self.tree.by_frame(self.node_weights(threads))
        seen = np.flatnonzero(entered > 0)
        keys = (own[seen], entered[seen])
        first, second = reversed(keys) if inclusive else keys
        order = np.lexsort((seen, -second, -first))
        rows = seen[order]
        return MethodTable(frame=rows.astype(np.int32), exclusive=own[rows], inclusive=entered[rows])

    def top(self, number: int = 10, *, inclusive: bool = False, threads: Iterable[int] | None = None) -> MethodWeights:
        """The ``number`` frames with the most weight, by the exclusive or the ``inclusive`` one, of all threads or some (indices into
        ``threads``). UsageError for a negative number.
        """
        if number < 0:
            raise UsageError(f"the top {number}")
        threads = None if threads is None else tuple(threads)
        total = float(self.weight[self.rows(threads)].sum()) if threads is not None else self.total
        table = self.by_method(threads, inclusive=inclusive)
        columns = (column[:number].tolist() for column in (table.frame, table.exclusive, table.inclusive))
        rows = (
            MethodWeight(
                frame_id=frame_id,
                frame=self.frames[frame_id],
                exclusive=own,
                inclusive=entered,
                exclusive_percent=_percent(own, total),
                inclusive_percent=_percent(entered, total),
            )
            for frame_id, own, entered in zip(*columns, strict=True)
        )
        return MethodWeights(rows, nothing="" if len(self) else self._nothing)

    def methods(self, style: Style = Style.FULL) -> Table:
        """A row per frame, in the order of :meth:`by_method`, with the columns ``method module exclusive inclusive exclusive_percent
        inclusive_percent``; weights are in the profile's unit.
        """
        found = self.by_method()
        share = 100 / self.total if self.total else 0.0
        weights = {"exclusive": found.exclusive, "inclusive": found.inclusive}
        weights |= {f"{name}_percent": share * column for name, column in weights.items()}
        ids = found.frame.tolist()
        return Table(
            {
                "method": self.frames.names(ids, style),
                "module": [self.frames[number].module for number in ids],
                **{name: Scalar(np.round(column, DIGITS), None, Kind.F8) for name, column in weights.items()},
            },
            title=self.name,
            units={name: "%" if name.endswith("percent") else self.unit for name in weights},
            notes=self.notes,
            losses=self.origin.losses,
        )

    # what is in it ----------------------------------------------------------------------------------------------------

    def used_nodes(self) -> Array:
        """A mask of the nodes that a sample is at or below; without the root."""
        mark = self.tree.exclusive(self.node)
        used: Array = self.tree.inclusive(mark) > 0
        used[0] = False
        return used

    def used_frames(self) -> Array:
        """Ids (i32, ascending) of the frames that samples have in their stacks."""
        return distinct(self.tree.frame[self.used_nodes()])

    @property
    def unresolved(self) -> int:
        """How many frames of the stacks are addresses without a name."""
        return int(self.frames.unresolved()[self.used_frames()].sum())

    @property
    def period_ns(self) -> int | None:
        """The usual length of a sample (their median), None when none has a length."""
        lengths = self.length_ns[self.length_ns > 0]
        return int(quantiles(lengths, [0.5])[0]) if len(lengths) else None

    def frame_names(self, style: Style = Style.FULL, frame_ids: Sequence[int] | Array | None = None) -> list[str]:
        """Printed names of frames, by default of all, by id."""
        return self.frames.names(frame_ids, style)

    # other profiles ---------------------------------------------------------------------------------------------------

    def take(self, rows: Array, said: str = "", **changes: Any) -> Self:
        """The profile of some samples (a mask, or ascending rows); ``changes`` are fields to replace.

        Threads that are left without samples are left out. ``said`` is what the samples have in common, for a note when
        there are none.
        """
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        columns.update((name, changes.pop(name)) for name in COLUMNS if name in changes)
        changes.setdefault("samples", None)
        if said and len(self) and not len(columns["node"]):
            changes["notes"] = (*self.notes, f"none of {len(self):,} samples {said}")
        return _with_rows(self, columns, changes)


P = TypeVar("P", bound=Profile)
COLUMNS = ("thread", "start_ns", "length_ns", "weight", "node", "state")


def _with_rows(profile: P, columns: dict[str, Array], changes: dict[str, Any]) -> P:
    thread = columns["thread"]
    counts = np.bincount(thread, minlength=len(profile.threads))
    kept = np.flatnonzero(counts)
    ends = np.cumsum(counts[kept])
    threads = tuple(
        replace(profile.threads[index], rows=range(end - count, end))
        for index, end, count in zip(kept.tolist(), ends.tolist(), counts[kept].tolist(), strict=True)
    )
    number = np.zeros(len(counts), np.int32)
    number[kept] = np.arange(len(kept))
    changes = {**changes, **columns, "thread": number[thread]}
    return replace(profile, threads=threads, **changes)


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
