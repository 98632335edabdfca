"""What the just-in-time compiler did: each method that it compiled, how long that took, in which tier, and whether somebody waited for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, having, named
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

JITTING, LOADED = 145, 143
"""Method/JittingStarted and Method/LoadVerbose: the begin and the end of a compilation."""
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
FOREGROUND, TIERED = "Foreground", "TieredCompilationBackground"
NO_EVENTS = (
    "no methods: none was compiled, or the recording lacks their events (keyword jit of the runtime at level verbose)"
)


@dataclass(frozen=True, kw_only=True)
class JitTotals:
    """Of all methods. ``foreground`` are those that a thread waited for, ``unfinished`` those whose end was not recorded."""

    count: int
    compile_ms: float
    foreground: int
    foreground_ms: float
    unfinished: int
    il_bytes: int
    native_bytes: int
    by_tier: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class JitReport:
    """``methods``: a row for each compilation, in the order of their begins. ``notes``: what the recording lacks."""

    methods: Table
    totals: JitTotals
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """``methods``, a row for each, and ``totals``."""
        return {"methods": self.methods.to_pylist(), "totals": asdict(self.totals), "notes": list(self.notes)}


def jit(trace: Trace) -> JitReport:
    """Every method that was compiled in a recording."""
    (made,) = fold(trace, JitFold())
    return made


class JitFold:
    """What :func:`jit` asks, window by window."""

    def __init__(self) -> None:
        self._starts = KeptEvents(having(JITTING), ("MethodID", "MethodILSize"))
        self._ends = KeptEvents(having(LOADED), ("MethodID", "MethodSize", "MethodFlags"))
        self._in_background = [KeptEvents(named(name)) for name in _BACKGROUND]
        self._names: list[str | None] = []
        self._losses: Losses | None = None

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of compilations, and of the work in the background."""
        return schema.provider == RUNTIME and (schema.event_id in (JITTING, LOADED) or schema.name in _BACKGROUND)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses = window.trace.losses
        self._names += _method_names(self._starts.feed(window))
        for kept in (self._ends, *self._in_background):
            kept.feed(window)

    def result(self) -> JitReport:
        """The answer."""
        starts, ends = self._starts.all(), self._ends.all()
        end = pairs(starts.ms, _keys(starts), ends.ms, _keys(ends))
        known = end >= 0
        flags = np.where(known, _at(ends["MethodFlags"], end), 0)
        tier = (np.maximum(flags, 0) >> _TIER_SHIFT) & _TIER_MASK
        compile_ms = np.where(known, _at(ends.ms, end) - starts.ms, 0.0)
        native = np.where(known, np.maximum(_at(ends["MethodSize"], end), 0), 0)
        il = np.maximum(starts["MethodILSize"], 0)
        waited = ~self._is_background(starts)
        valid = None if known.all() else known
        notes = () if len(starts) else (NO_EVENTS,)
        methods = Table(
            {
                "method": Text.from_pylist(self._names),
                "tier": Coded.naming(Scalar(tier, valid, Kind.I8), lambda number: TIERS[number]),
                "kind": Coded.naming(
                    Scalar(waited.astype(np.int64), None, Kind.I8), lambda one: (TIERED, FOREGROUND)[one]
                ),
                "start_ms": Scalar(starts.ms, None, Kind.F8),
                "compile_ms": Scalar(compile_ms, valid, Kind.F8),
                "il_bytes": Scalar(il, None, Kind.I8),
                "native_bytes": Scalar(native, valid, Kind.I8),
                "pid": Scalar(starts.pid, None, Kind.I8),
                "tid": Scalar(starts.tid, None, Kind.I8),
            },
            title="methods that were compiled",
            units={"start_ms": "ms", "compile_ms": "ms", "il_bytes": "bytes", "native_bytes": "bytes"},
            notes=notes,
            **({} if self._losses is None else {"losses": self._losses}),
        )
        counts = np.bincount(tier[known], minlength=len(TIERS)).tolist()
        totals = JitTotals(
            count=len(starts),
            compile_ms=float(compile_ms.sum()),
            foreground=int(waited.sum()),
            foreground_ms=float(compile_ms[waited].sum()),
            unfinished=int((~known).sum()),
            il_bytes=int(il.sum()),
            native_bytes=int(native.sum()),
            by_tier={name: count for name, count in zip(TIERS, counts, strict=True) if count},
        )
        return JitReport(methods=methods, totals=totals, notes=notes)

    def _is_background(self, starts: Kept) -> Array:
        """Whether a thread of the tiers compiled it, between the begin and the end of such work."""
        made = np.zeros(len(starts), np.bool_)
        began, ended = (kept.all() for kept in self._in_background)
        for pid, tid in np.unique(np.stack([began.pid, began.tid], axis=1), axis=0).tolist():
            rows = np.flatnonzero((starts.pid == pid) & (starts.tid == tid))
            own, over = (kept.ms[(kept.pid == pid) & (kept.tid == tid)] for kept in (began, ended))
            at = starts.ms[rows]
            made[rows] = np.searchsorted(own, at, "right") > np.searchsorted(over, at, "right")
        return made


def _keys(events: Kept) -> tuple[Array, Array, Array]:
    return events.pid, events.tid, events["MethodID"]


def _at(values: Array, rows: Array) -> Array:
    """Values by rows, some other one where there is no row."""
    return values[rows] if len(values) else np.zeros(len(rows), values.dtype)


def _method_names(events: EventTable) -> Sequence[str | None]:
    """``Namespace.Type.Method(parameters)``, as TraceEvent writes them."""
    if not len(events):
        return ()
    parts = []
    for name in ("MethodNamespace", "MethodName", "MethodSignature"):
        column = events.get(f"payload.{name}")
        parts.append([""] * len(events) if column is None else column.to_pylist())
    return [
        f"{space}.{name}{str(signature or '')[max(str(signature or '').find('('), 0) :]}"
        for space, name, signature in zip(*parts, strict=True)
    ]
