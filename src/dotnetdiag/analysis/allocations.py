"""What a program allocates: by type, by the method that asked, by thread.

Two events tell of it, both of some allocations only. A tick (GC/AllocationTick) comes when a thread's kind of heap has had some 100 KB since the last
one: it stands for the bytes since then, and names the object that it met, so that what is allocated in step with it may be missed. A sample
(AllocationSampling, .NET 10) comes at a byte that was drawn by chance, one of 102,400: an object of s bytes is met with the probability
p = 1 - exp(-s / 102400), and stands for 1/p objects and s/p bytes, which is right on average; the sum of s² (1-p)/p² is the variance. Of a
process that has samples the ticks do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, number, texts, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.groups import Groups, groups
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, having
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import NO_STACKS, StackedEvents
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

TICK, SAMPLE = 10, 303
"""GC/AllocationTick, AllocationSampling."""
MEAN_BYTES = 102_400
"""Of the bytes that are allocated one of so many is a sample's."""
KINDS = ("Small", "Large", "Pinned")
"""AllocationKind."""
LARGE = 1
SAMPLES, TICKS = "samples", "ticks"
NO_EVENTS = (
    "no allocations: the recording has no events of them; record with --profile gc-verbose, or of .NET 10 its samples, "
    "with --clrevents allocationsampling"
)
STATED = {
    TICKS: "each tick stands for some 100 KB that its thread allocated, of whatever types, and is counted as the one it met: "
    "parts that are small, and of small objects, and numbers of objects may be several times off (of .NET 10 --clrevents allocationsampling "
    "draws objects by chance: record it for these)",
    SAMPLES: "estimated of objects that were drawn by chance, about one for each 100 KB: the error is one standard deviation",
}
UNNAMED = "this runtime names no types of allocations: they have the ids that it gives them"
UNKNOWN = "?"
_NAMELESS = ("", "NULL")
"""NativeAOT's word for the name of each type."""


@dataclass(frozen=True, kw_only=True)
class AllocationTotals:
    """``source``: what was counted, ``samples`` or ``ticks`` (empty: nothing; ``samples and ticks`` where processes differ), and ``count`` how many.
    ``objects``: about so many, None where the events have no sizes (.NET Core 3.1). ``error_bytes``: one standard deviation of ``bytes``, None of
    ticks, which have no known one.
    """

    source: str
    count: int
    bytes: int
    objects: int | None
    error_bytes: int | None
    large_bytes: int
    pinned_bytes: int
    bytes_per_second: int | None


@dataclass(frozen=True, kw_only=True)
class AllocationReport(Report):
    """``by_type``, ``by_method``, ``by_thread``, ``by_type_and_method``, ``large`` (large objects alone): those with most bytes first;
    ``by_second``: how many bytes in each second that had some. ``profile``: the stacks, which end in the type, in bytes. ``notes``: how the
    figures came to be, and what the recording lacks.
    """

    KIND = "allocations"
    MAIN = "by_type_and_method"

    by_type: Table
    by_method: Table
    by_thread: Table
    by_type_and_method: Table
    large: Table
    by_second: Table
    profile: StackProfile
    totals: AllocationTotals


def allocations(trace: Trace) -> AllocationReport:
    """What was allocated in a recording."""
    (made,) = fold(trace, AllocationsFold(seconds=seconds_of(trace)))
    return made


_FIELDS = ("type", "kind", "is_sample", "count", "bytes", "objects", "variance")
_NOTHING = Kept(
    np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), dict.fromkeys(_FIELDS, np.zeros(0, np.int64))
)


class AllocationsFold:
    """What :func:`allocations` asks, window by window. ``seconds``: how long was recorded, for the rate.

    Of a window the events that are alike in thread, stack and type are kept as one: what is in memory grows with the program's ways of
    allocating, and not with how much it allocates. ``apart`` tells of threads, by process, id and time, that have had one id after the other:
    events of two are not kept as one.
    """

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None, apart: Callable[[Array, Array, Array], Array] | None = None) -> None:
        self._seconds, self._apart = seconds, apart
        numbers = ("AllocationAmount", "AllocationAmount64", "AllocationKind", "ObjectSize", "TypeID")
        kept = KeptEvents(having(TICK, SAMPLE), numbers, names=("TypeName",))
        self._texts = kept.texts
        self._events = StackedEvents(kept, self._together)
        self._by_second: dict[tuple[int, bool], dict[int, float]] = {}
        """Bytes by second, of each process and kind of event."""

    def wants(self, schema: EventSchema) -> bool:
        """Ticks, samples, and what names the threads of the pool."""
        return self._events.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._events.feed(window)

    def _together(self, kept: Kept, stack: Array) -> tuple[Array, Kept]:
        size = kept["ObjectSize"]
        told = np.where(kept["AllocationAmount64"] >= 0, kept["AllocationAmount64"], kept["AllocationAmount"])
        is_sample = (told < 0) & (size > 0)
        met = -np.expm1(np.where(is_sample, size, MEAN_BYTES) / -MEAN_BYTES)
        count_of = np.where(is_sample, 1 / met, np.where(size > 0, np.maximum(told / np.maximum(size, 1), 1.0), np.nan))
        total = np.where(is_sample, size / met, np.maximum(told, 0))
        error = np.where(is_sample, (1 - met) * (size / met) ** 2, 0.0)
        of_seconds = [kept.pid, is_sample, (kept.ms // 1000).astype(np.int64)]
        first, which = combined(of_seconds, len(kept))
        keys = zip(*(column[first].tolist() for column in of_seconds), strict=True)
        for (pid, sampled, second), amount in zip(keys, np.bincount(which, total).tolist(), strict=True):
            by_second = self._by_second.setdefault((pid, sampled), {})
            by_second[second] = by_second.get(second, 0.0) + amount
        kind, type_name = np.maximum(kept["AllocationKind"], 0), self._named(kept)
        alike = [kept.pid, kept.tid, stack, type_name, kind, is_sample]
        if self._apart is not None:
            alike.append(self._apart(kept.pid, kept.tid, kept.ms))
        first, which = combined(alike, len(kept))
        rows = kept.of(first)
        sums = {"count": np.ones(len(kept)), "bytes": total, "objects": count_of, "variance": error}
        fields: dict[str, Array] = {"type": type_name[first], "kind": kind[first], "is_sample": is_sample[first]}
        fields |= {name: np.bincount(which, values, minlength=len(first)) for name, values in sums.items()}
        return first, Kept(rows.ms, rows.pid, rows.tid, fields)

    def _named(self, kept: Kept) -> Array:
        """The number of the text that each type is called by: its id where it has no name."""
        names = kept["TypeName"].copy()
        nameless = [number for number, text in enumerate(self._texts.names) if text in _NAMELESS]
        rows = np.flatnonzero(np.isin(names, [NONE, *nameless]))
        ids, which = np.unique(kept["TypeID"][rows], return_inverse=True)
        called = [  # of the first versions neither is told
            self._texts.number(UNKNOWN if number == NONE else f"Type(0x{number & (1 << 64) - 1:x})")
            for number in ids.tolist()
        ]
        names[rows] = np.array(called, np.int64)[which.reshape(-1)] if called else names[rows]
        return names

    def result(self) -> AllocationReport:
        """The answer."""
        kept = self._events.kept if self._events.count else _NOTHING
        return _Answer(
            self._events, kept, self._texts.names, self._by_second, in_seconds(self._seconds, kept.pid)
        ).report()


class _Answer:
    """Of each process one kind of events, and what they come to."""

    def __init__(
        self,
        events: StackedEvents,
        kept: Kept,
        types: Sequence[str],
        by_second: Mapping[tuple[int, bool], Mapping[int, float]],
        seconds: float | None,
    ) -> None:
        is_sample = kept["is_sample"].astype(np.bool_)
        of_samples = is_among(kept.pid, distinct(kept.pid[is_sample]))
        kinds = [kind for kind, some in ((SAMPLES, of_samples), (TICKS, ~of_samples)) if some.any()]
        self._source = " and ".join(kinds)
        counted = is_sample == of_samples
        made = events.result("Allocations", "bytes", np.where(counted, kept["bytes"], -1.0))
        own = np.flatnonzero(counted)
        self._kept = kept.of(own)
        self._types, self._seconds = types, seconds
        sampled = {pid for pid, kind in by_second if kind}
        self._by_second: dict[int, float] = {}
        for (pid, kind), amounts in by_second.items():
            for second, amount in amounts.items() if kind == (pid in sampled) else ():
                self._by_second[second] = self._by_second.get(second, 0.0) + amount
        self._method = made.method.take(own)
        self._profile = with_leaves(made.profile, kept["type"][made.row], types)
        self._losses = made.losses
        notes = [STATED[kind] for kind in kinds] or [NO_EVENTS]
        are_named = np.array([not one.startswith("Type(0x") for one in types], np.bool_)
        if len(own):
            notes += Lacking.of(self._kept.pid, are_named[self._kept["type"]]).notes(UNNAMED)
        notes += (*made.unnamed, *made.stackless.notes(NO_STACKS))
        self._notes = (*notes, *(made.profile.notes if len(own) else ()))

    def report(self) -> AllocationReport:
        """The tables."""
        kept = self._kept
        method, is_large = self._method.which, kept["kind"] == LARGE
        return AllocationReport(
            by_type=self._grouped("allocations by type", ("type",), [kept["type"]]),
            by_method=self._grouped("allocations by method", ("method",), [method]),
            by_thread=self._grouped("allocations by thread", ("pid", "tid", "thread"), [kept.pid, kept.tid]),
            by_type_and_method=self._grouped(
                "allocations by type and method", ("type", "method"), [kept["type"], method]
            ),
            large=self._grouped("large objects", ("type", "method"), [kept["type"], method], is_large),
            by_second=self._table(
                "allocations by second",
                {
                    "second": Scalar(np.array(sorted(self._by_second), np.int64), None, Kind.I8),
                    "bytes": whole(np.array([self._by_second[one] for one in sorted(self._by_second)])),
                },
            ),
            profile=self._profile,
            totals=self._totals(kept),
            notes=self._notes,
        )

    def _totals(self, kept: Kept) -> AllocationTotals:
        total, objects = float(kept["bytes"].sum()), kept["objects"]
        of_kind = np.bincount(np.clip(kept["kind"], 0, len(KINDS) - 1), kept["bytes"], minlength=len(KINDS))
        return AllocationTotals(
            source=self._source,
            count=int(kept["count"].sum()),
            bytes=round(total),
            objects=None if np.isnan(objects).any() or not len(objects) else round(float(objects.sum())),
            error_bytes=round(float(np.sqrt(kept["variance"].sum()))) if self._source == SAMPLES else None,
            large_bytes=round(float(of_kind[LARGE])),
            pinned_bytes=round(float(of_kind[2])),
            bytes_per_second=round(total / self._seconds) if self._seconds and len(kept) else None,
        )

    def _grouped(self, title: str, names: Sequence[str], keys: Sequence[Array], rows: Array | None = None) -> Table:
        found = groups(keys, self._kept["bytes"], rows, counts=self._kept["count"])
        shown = {name: self._named(name, found) for name in names}
        objects = np.bincount(
            found.which[found.which >= 0], self._kept["objects"][found.which >= 0], minlength=len(found)
        )
        errors = np.sqrt(found.sums(self._kept["variance"]))
        everything = max(float(self._kept["bytes"].sum()), 1.0)
        return self._table(
            title,
            {
                **shown,
                "count": whole(found.sums(self._kept["count"])),
                "bytes": whole(found.total),
                "percent": number(100.0 * found.total / everything),
                "objects": whole(objects),
                "error_bytes": whole(errors if self._source == SAMPLES else np.full(len(found), np.nan)),
            },
        )

    def _named(self, name: str, found: Groups) -> Column:
        if name == "type":
            return texts(self._types, self._kept["type"][found.first])
        if name == "method":
            return self._method.take(found.first)
        if name == "thread":
            threads = {one.key: one.name or None for one in self._profile.threads}
            either = {one.thread_id: one.name or None for one in self._profile.threads}
            keys = zip(self._kept.pid[found.first].tolist(), self._kept.tid[found.first].tolist(), strict=True)
            return Text.from_pylist([threads.get(key, either.get(key[1])) for key in keys])
        values = self._kept.pid if name == "pid" else self._kept.tid
        return whole(values[found.first])

    def _table(self, title: str, columns: dict[str, Column]) -> Table:
        return answer_table(title, columns, self._notes, self._losses)
