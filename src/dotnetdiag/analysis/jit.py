"""What the just-in-time compiler did: each method that it compiled, how long that took, in which tier, and whether somebody waited for it.

A method may be compiled several times, once for each tier. Before one of a module that was compiled ahead (ReadyToRun) is compiled, its code there is
looked for: Method/R2RGetEntryPoint tells of each look, with the entry point 0 where there was none or it was rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, mask, number, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.inlining import InliningEvents, InliningTotals
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, PooledTexts, having, named
from dotnetdiag.analysis.native import NO_COMPILER, native_of
from dotnetdiag.analysis.pairs import latest_rows, pairs, picked
from dotnetdiag.analysis.report import Report
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text, concat
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

JITTING, LOADED, ENTRY = 145, 143, 159
"""Method/JittingStarted and Method/LoadVerbose, the begin and the end of a compilation; Method/R2RGetEntryPoint."""
_BACKGROUND = ("TieredCompilation/BackgroundJitStart", "TieredCompilation/BackgroundJitStop")
_TIER_SHIFT, _TIER_MASK = 7, 7
TIERS = (
    "Unknown",
    "MinOptJitted",
    "Optimized",
    "QuickJitted",
    "OptimizedTier1",
    "OptimizedTier1OSR",
    "QuickJittedInstrumented",
    "OptimizedTier1Instrumented",
)
"""As TraceEvent writes them, by bits 7 to 9 of a method's flags (.NET Core 3 and later)."""
_OF_TIERS = [TIERS.index(name) for name in ("OptimizedTier1", "QuickJittedInstrumented", "OptimizedTier1Instrumented")]
"""What is compiled in the background, where the method had code before: its end has a ReJITID then (3.1 to 10), and none where it is called."""
_NAME = ("MethodNamespace", "MethodName", "MethodSignature")
_NAMED_ROWS = 1 << 14
"""Methods whose names are Python's texts at once."""
FOREGROUND, TIERED = "Foreground", "TieredCompilationBackground"
NO_EVENTS = "no methods: none was compiled, or the recording lacks their events (record with --clrevents jit+compilation --clreventlevel verbose)"


@dataclass(frozen=True, kw_only=True)
class JitTotals:
    """Of all methods. ``foreground`` are those that a thread waited for, ``unfinished`` those whose end was not recorded, ``again`` those that had
    been compiled before. ``precompiled``: methods whose code was found compiled ahead; ``rejected``: looked for there, compiled all the same. Both
    None where the recording does not tell, as is ``inlining``.
    """

    count: int
    compile_ms: float
    foreground: int
    foreground_ms: float
    unfinished: int
    il_bytes: int
    native_bytes: int
    by_tier: Mapping[str, int]
    again: int
    precompiled: int | None
    rejected: int | None
    inlining: InliningTotals | None


@dataclass(frozen=True, kw_only=True)
class JitReport(Report):
    """``methods``: a row for each compilation, in the order of their begins; ``by_method``: a row for each method, the one that took longest first;
    ``inlining``: why calls were not inlined, the most frequent first. ``notes``: what the recording lacks.
    """

    KIND = "jit"
    MAIN = "methods"

    methods: Table
    by_method: Table
    inlining: Table
    totals: JitTotals


def jit(trace: Trace) -> JitReport:
    """Every method that was compiled in a recording."""
    (made,) = fold(trace, JitFold(is_native=native_of(trace)))
    return made


class JitFold:
    """What :func:`jit` asks, window by window. ``is_native``: whether the recording is of NativeAOT, asked at the end."""

    needs_activities = False

    def __init__(self, *, is_native: Callable[[], bool] = lambda: False) -> None:
        self._is_native = is_native
        self._parts = PooledTexts()
        self._starts = KeptEvents(
            having(JITTING), ("MethodID", "MethodILSize"), names=dict.fromkeys(_NAME, self._parts)
        )
        self._ends = KeptEvents(having(LOADED), ("MethodID", "MethodSize", "MethodFlags", "ReJITID"))
        self._entries = KeptEvents(having(ENTRY), ("MethodID", "EntryPoint"))
        self._in_background = [KeptEvents(named(name)) for name in _BACKGROUND]
        self._inlining = InliningEvents()
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of compilations, and of the work in the background; what was inlined; looks for code that was compiled ahead."""
        return (
            schema.provider == RUNTIME and (schema.event_id in (JITTING, LOADED, ENTRY) or schema.name in _BACKGROUND)
        ) or self._inlining.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for kept in (self._starts, self._ends, self._entries, *self._in_background):
            kept.feed(window)
        self._inlining.feed(window)

    def result(self) -> JitReport:
        """The answer."""
        starts, ends, entries = self._starts.all(), self._ends.all(), self._entries.all()
        end = pairs(starts.ms, _keys(starts), ends.ms, _keys(ends))
        known = end >= 0
        flags = picked(ends["MethodFlags"], end, 0)
        tier = (np.maximum(flags, 0) >> _TIER_SHIFT) & _TIER_MASK
        compile_ms = np.where(known, picked(ends.ms, end, 0.0) - starts.ms, 0.0)
        native = np.maximum(picked(ends["MethodSize"], end, 0), 0)
        il = np.maximum(starts["MethodILSize"], 0)
        is_of_tiers = np.isin(tier, _OF_TIERS) & (picked(ends["ReJITID"], end, 0) > 0)
        waited = ~self._is_background(starts, is_of_tiers)
        looked = latest_rows(
            [entries.pid, entries["MethodID"]], entries.ms, [starts.pid, starts["MethodID"]], starts.ms
        )
        rejected = picked(entries["EntryPoint"], looked, -1) == 0
        valid = None if known.all() else known
        methods = self._methods(starts)  # an id is used again when what had it is gone
        columns: dict[str, Column] = {
            "method": methods,
            "tier": Coded.naming(Scalar(tier, valid, Kind.I8), lambda one: TIERS[one]),
            "kind": Coded.naming(Scalar(waited.astype(np.int64), None, Kind.I8), lambda one: (TIERED, FOREGROUND)[one]),
            "start_ms": Scalar(starts.ms, None, Kind.F8),
            "compile_ms": number(compile_ms, known),
            "il_bytes": whole(il),
            "native_bytes": whole(native, known),
            "pid": whole(starts.pid),
            "tid": whole(starts.tid),
            "rejected": Scalar(rejected.astype(np.int64), mask(is_among(starts.pid, distinct(entries.pid))), Kind.I8),
        }
        found = groups([starts.pid, starts["MethodID"], methods.which], compile_ms)
        reasons, inlining = self._inlining.result()
        counts = np.bincount(tier[known], minlength=len(TIERS)).tolist()
        notes = () if len(starts) else (NO_COMPILER if self._is_native() else NO_EVENTS,)
        first = np.zeros(len(starts), np.bool_)
        first[found.first] = True
        return JitReport(
            methods=self._table("methods that were compiled", columns, notes),
            by_method=self._table(
                "methods that were compiled, together",
                {
                    "method": columns["method"].take(found.first),
                    "count": whole(found.count),
                    "compile_ms": number(found.total),
                    "il_bytes": whole(il[found.first]),
                    "native_bytes": whole(found.sums(native)),
                    "pid": whole(starts.pid[found.first]),
                },
                notes,
            ),
            inlining=self._table("why calls were not inlined", reasons, notes),
            totals=JitTotals(
                count=len(starts),
                compile_ms=float(compile_ms.sum()),
                foreground=int(waited.sum()),
                foreground_ms=float(compile_ms[waited].sum()),
                unfinished=int((~known).sum()),
                il_bytes=int(il.sum()),
                native_bytes=int(native.sum()),
                by_tier={name: count for name, count in zip(TIERS, counts, strict=True) if count},
                again=int((~first).sum()),
                precompiled=int((entries["EntryPoint"] != 0).sum()) if len(entries) else None,
                rejected=int(rejected[first].sum()) if len(entries) else None,
                inlining=inlining,
            ),
            notes=notes,
        )

    def _table(self, title: str, columns: Mapping[str, Column], notes: tuple[str, ...]) -> Table:
        return answer_table(title, columns, notes, self._losses.told)

    def _methods(self, starts: Kept) -> Coded:
        """``Namespace.Type.Method(parameters)``, as TraceEvent writes them: one text for each method."""
        first, which = combined([starts[name] for name in _NAME], len(starts))
        parts = [first[at : at + _NAMED_ROWS] for at in range(0, max(len(first), 1), _NAMED_ROWS)]
        return Coded(cast("Text", concat([self._named(starts, rows) for rows in parts])), which)

    def _named(self, starts: Kept, rows: Array) -> Text:
        names = []
        for space, name, signature in zip(*(starts[one][rows].tolist() for one in _NAME), strict=True):
            said = self._parts[signature]
            names.append(f"{self._parts[space]}.{self._parts[name]}{said[max(said.find('('), 0) :]}")
        return Text.from_pylist(names)

    def _is_background(self, starts: Kept, is_of_tiers: Array) -> Array:
        """Whether a thread of the tiers compiled it, between the begin and the end of such work; where a process tells of none, what is of the
        tiers by its end.
        """
        began, ended = (kept.all() for kept in self._in_background)
        made = is_of_tiers & ~np.isin(starts.pid, began.pid)
        for first in began.threads().tolist():
            pid, tid = began.pid[first], began.tid[first]
            rows = np.flatnonzero((starts.pid == pid) & (starts.tid == tid))
            own, over = (kept.ms[(kept.pid == pid) & (kept.tid == tid)] for kept in (began, ended))
            at = starts.ms[rows]
            made[rows] = np.searchsorted(own, at, "right") > np.searchsorted(over, at, "right")
        return made


def _keys(events: Kept) -> tuple[Array, Array, Array]:
    return events.pid, events.tid, events["MethodID"]
