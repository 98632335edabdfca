"""What the just-in-time compiler did: each method that it compiled, how long that took, in which tier, and whether somebody waited for it.

A method may be compiled several times, once for each tier. Before one of a module that was compiled ahead (ReadyToRun) is compiled, its code there is
looked for: Method/R2RGetEntryPoint tells of each look, with the entry point 0 where there was none or it was rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, whole
from dotnetdiag.analysis.compilations import MOST_METHODS, NO_METHOD, Compilations, CompiledMethods, MethodNames
from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.inlining import InliningEvents, InliningTotals
from dotnetdiag.analysis.kept_events import OTHERS, Kept, KeptEvents, having, named, others_told
from dotnetdiag.analysis.native import NO_COMPILER, native_of
from dotnetdiag.analysis.pairs import latest_rows, picked
from dotnetdiag.analysis.report import Report
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.spilled import SpilledRows
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

ENTRY = 159
"""Method/R2RGetEntryPoint."""
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
_OF_TIERS = np.array(
    sorted(TIERS.index(name) for name in ("OptimizedTier1", "QuickJittedInstrumented", "OptimizedTier1Instrumented"))
)
"""What is compiled in the background, where the method had code before: its end has a ReJITID then (3.1 to 10), and none where it is called."""
OF_NO_MODULE = "dynamicClass."
"""What names of methods begin with that were made as the program ran, and are of no module (3.1 to 10)."""
FOREGROUND, TIERED = "Foreground", "TieredCompilationBackground"
NO_EVENTS = "no methods: none was compiled, or the recording lacks their events (record with --profile jit)"


TOO_MANY = f"of the methods that were compiled {MOST_METHODS:,} are told apart; compilations behind them are together as {OTHERS}"
_COLUMNS = (
    "method", "tier", "kind", "start_ms", "compile_ms", "il_bytes", "native_bytes", "pid", "tid", "rejected", "dynamic",
)  # fmt: skip
_OF_METHODS = ("method", "count", "compile_ms", "il_bytes", "native_bytes", "pid")


@dataclass(frozen=True, kw_only=True)
class JitTotals:
    """Of all methods. ``foreground`` are those that a thread waited for (where any has an end, of those that have one), ``unfinished`` those
    whose end was not recorded, or which were given up, as of code that is not valid; ``again`` those that had
    been compiled before. ``precompiled``: methods whose code was found compiled ahead; ``rejected``: looked for there, compiled all the same. None
    is what the recording does not tell: where nothing ended how long that took and how much code there is.
    """

    count: int
    compile_ms: float | None
    foreground: int | None
    foreground_ms: float | None
    unfinished: int
    il_bytes: int
    native_bytes: int | None
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
        self._compilations = Compilations()
        self._entries = KeptEvents(having(ENTRY), ("MethodID", "EntryPoint"))
        self._in_background = [KeptEvents(named(name)) for name in _BACKGROUND]
        self._inlining = InliningEvents()
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of compilations, and of the work in the background; what was inlined; looks for code that was compiled ahead."""
        return (
            self._compilations.wants(schema)
            or (schema.provider == RUNTIME and (schema.event_id == ENTRY or schema.name in _BACKGROUND))
            or self._inlining.wants(schema)
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._compilations.feed(window)
        for kept in (self._entries, *self._in_background):
            kept.feed(window)
        self._inlining.feed(window)

    def result(self) -> JitReport:
        """The answer, of what came until now; more may come."""
        reasons, inlining = self._inlining.result()
        rows, entries = self._compilations.rows(self._losses.between()), self._entries.all()
        notes = others_told("methods", [self._compilations.names.parts])
        if not len(rows):
            notes = (NO_COMPILER if self._is_native() else NO_EVENTS,)
        made = _Answer(rows, self._compilations.names, entries, [kept.all() for kept in self._in_background])
        return made.report(self._losses.told, reasons, inlining, notes)


class _Answer:
    """Compilations, of which there may be a million: what is told of each is reckoned when somebody asks, some at a time."""

    def __init__(self, rows: SpilledRows, names: MethodNames, entries: Kept, in_background: Sequence[Kept]) -> None:
        self._rows, self._names, self._entries = rows, names, entries
        self._looking = distinct(entries.pid)
        """The processes that tell of looks for what was compiled ahead."""
        self._began, self._over = in_background

    def report(
        self, losses: Losses, reasons: Mapping[str, Column], inlining: InliningTotals | None, notes: tuple[str, ...]
    ) -> JitReport:
        """The tables."""
        methods, tiers = CompiledMethods(), np.zeros(len(TIERS), np.int64)
        foreground = awaited = told = unfinished = il_bytes = native_bytes = rejected = 0
        waited_ms = [0.0]
        for _, some in self._rows.slices():
            row = _Told(some)
            is_told = self._is_kind_told(row)
            waited = ~self._is_background(row) & is_told
            is_first = methods.add(some, row.known, row.compile_ms, row.il, row.native)
            tiers += np.bincount(row.tier[row.known], minlength=len(TIERS))
            told += int(is_told.sum())
            foreground += int(waited.sum())
            awaited += int((waited & row.known).sum())
            waited_ms.append(float(row.compile_ms[waited].sum()))
            unfinished += int((~row.known).sum())
            il_bytes += int(row.il.sum())
            native_bytes += int(row.native.sum())
            rejected += int(self._is_rejected(some)[is_first].sum())
        entries, together = self._entries, _Together(methods, self._names)
        has_ends = unfinished < len(self._rows) or not len(self._rows)
        notes = (*notes, TOO_MANY) if methods.has_others else notes
        return JitReport(
            methods=answer_sliced(
                "methods that were compiled",
                _COLUMNS,
                len(self._rows),
                self._some,
                notes,
                losses,
                gathered=self._gathered,
            ),
            by_method=answer_sliced(
                "methods that were compiled, together", _OF_METHODS, len(methods), together.some, notes, losses
            ),
            inlining=answer_table("why calls were not inlined", reasons, notes, losses),
            totals=JitTotals(
                count=len(self._rows),
                compile_ms=methods.total_ms() if has_ends else None,
                foreground=awaited if awaited else foreground if has_ends or told else None,
                foreground_ms=sum(waited_ms) if has_ends and (awaited or not foreground) else None,
                unfinished=unfinished,
                il_bytes=il_bytes,
                native_bytes=native_bytes if has_ends else None,
                by_tier={name: count for name, count in zip(TIERS, tiers.tolist(), strict=True) if count},
                again=methods.again,
                precompiled=int((entries["EntryPoint"] != 0).sum()) if len(entries) else None,
                rejected=rejected if len(entries) else None,
                inlining=inlining,
            ),
            notes=notes,
        )

    def _some(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return self._columns_of(self._rows.read(first, last), names)

    def _gathered(self, names: Sequence[str], rows: Sequence[int]) -> dict[str, Column]:
        return self._columns_of(self._rows.gather(None, np.array(rows, np.int64)), names)

    def _columns_of(self, some: Array, names: Sequence[str]) -> dict[str, Column]:
        row = _Told(some)
        valid = None if row.known.all() else row.known
        made: dict[str, Callable[[], Column]] = {
            "method": lambda: self._names.of(some),
            "tier": lambda: Coded.naming(Scalar(row.tier, valid, Kind.I8), lambda one: TIERS[one]),
            "kind": lambda: Coded.naming(
                Scalar((~self._is_background(row)).astype(np.int64), mask(self._is_kind_told(row)), Kind.I8),
                lambda one: (TIERED, FOREGROUND)[one],
            ),
            "start_ms": lambda: Scalar(row.ms, None, Kind.F8),
            "compile_ms": lambda: number(row.compile_ms, row.known),
            "il_bytes": lambda: whole(row.il),
            "native_bytes": lambda: whole(row.native, row.known),
            "pid": lambda: whole(row.pid),
            "tid": lambda: whole(row.tid),
            "rejected": lambda: Scalar(
                self._is_rejected(some).astype(np.int64), mask(is_among(row.pid, self._looking)), Kind.I8
            ),
            "dynamic": lambda: Scalar(self._is_dynamic(some).astype(np.int64), None, Kind.I8),
        }
        return {name: made[name]() for name in names}

    def _is_dynamic(self, some: Array) -> Array:
        """Whether each was made as the program ran: in a module that was, or in none."""
        found: Array = some["dynamic"] > 0
        return found | rows_with(self._names.of(some), lambda name: name.startswith(OF_NO_MODULE))

    def _is_rejected(self, some: Array) -> Array:
        """Whether the code of each was looked for before, and was not there."""
        entries = self._entries
        if not len(entries):
            return np.zeros(len(some), np.bool_)
        own = entries.of(np.flatnonzero(is_among(entries["MethodID"], distinct(some["MethodID"]))))
        looked = latest_rows([own.pid, own["MethodID"]], own.ms, [some["pid"], some["MethodID"]], some["ms"])
        rejected: Array = picked(own["EntryPoint"], looked, -1) == 0
        return rejected

    def _is_kind_told(self, row: _Told) -> Array:
        """Whether a begin and an end of work in the background, or its own end, say what each is of."""
        told: Array = row.known | is_among(row.pid, distinct(self._began.pid))
        return told

    def _is_background(self, row: _Told) -> Array:
        """Whether a thread of the tiers compiled it, between the begin and the end of such work; where a process tells of none, what is of the
        tiers by its end.
        """
        began, over = self._began, self._over
        made = row.is_of_tiers & ~is_among(row.pid, distinct(began.pid))
        threads, processes = distinct(row.tid), set(distinct(began.pid).tolist())
        working = [
            (int(kept.pid[one]), int(kept.tid[one])) for kept in (began, over) for one in kept.threads().tolist()
        ]
        for pid, tid in dict.fromkeys(working):
            if pid not in processes or not is_among(np.array([tid]), threads)[0]:
                continue
            rows = np.flatnonzero((row.pid == pid) & (row.tid == tid))
            begins, ends = (kept.ms[(kept.pid == pid) & (kept.tid == tid)] for kept in (began, over))
            made[rows] = _are_within(begins, ends, row.ms[rows])
        return made


def _are_within(begins: Array, ends: Array, at: Array) -> Array:
    """Whether each time is behind a begin that has no end yet, or before an end that has no begin: a recording begins in the middle of such work, and
    may have lost one. A count of both went wrong by one then, for good: of a busy program all that was compiled was waited for.
    """
    begun, over = (np.searchsorted(times, at, "right") for times in (begins, ends))
    latest = np.append(begins, -np.inf)[begun - 1] > np.append(ends, -np.inf)[over - 1]
    following = np.append(ends, np.inf)[over] < np.append(begins, np.inf)[begun]
    return np.asarray(latest | following)


class _Together:
    """The table of methods; as the other one made when somebody asks, and in whatever process that is."""

    def __init__(self, methods: CompiledMethods, names: MethodNames) -> None:
        self._methods, self._names, self._order = methods, names, methods.order()

    def some(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        which = self._order[first:last]
        count, has_end, total, il, native = self._methods.some(which)
        own = self._methods.rows(which if {"method", "pid"} & {*names} else which[:0])
        made: dict[str, Callable[[], Column]] = {
            "method": lambda: self._names.of(own),
            "count": lambda: whole(count),
            "compile_ms": lambda: number(total, has_end),
            "il_bytes": lambda: whole(il),
            "native_bytes": lambda: whole(native, has_end),
            "pid": lambda: whole(own["pid"], own["MethodName"] != NO_METHOD),
        }
        return {name: made[name]() for name in names}


class _Told:
    """Columns of some rows."""

    def __init__(self, some: Array) -> None:
        self.ms, self.pid, self.tid = (np.ascontiguousarray(some[name]) for name in ("ms", "pid", "tid"))
        lasted = some["compile_ms"]
        self.known = ~np.isnan(lasted)
        self.compile_ms = np.nan_to_num(lasted)
        self.tier = np.where(self.known, (np.maximum(some["MethodFlags"], 0) >> _TIER_SHIFT) & _TIER_MASK, 0)
        self.native = np.maximum(some["MethodSize"], 0)
        self.il = np.maximum(some["MethodILSize"], 0)
        self.is_of_tiers = is_among(self.tier, _OF_TIERS) & (some["ReJITID"] > 0)
