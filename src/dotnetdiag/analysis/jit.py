"""What the just-in-time compiler did: each method that it compiled, how long that took, in which tier, and whether somebody waited for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.fold import OfTypes, fold
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text, numbers_of
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


class _Kept:
    """Numbers of events of one type, window by window."""

    def __init__(self, *fields: str) -> None:
        self._fields = fields
        self._parts: list[Array] = []

    def add(self, events: EventTable) -> None:
        """Time, process and thread, and the fields; 0 where a version of the event has none."""
        if not len(events):
            return
        columns = [events.numpy("pid").astype(np.int64), events.numpy("tid").astype(np.int64)]
        for name in self._fields:
            column = events.get(f"payload.{name}")
            plain = None if column is None else numbers_of(column)
            columns.append(
                plain.values.astype(np.int64) if isinstance(plain, Scalar) else np.zeros(len(events), np.int64)
            )
        part = np.zeros(len(events), [("ms", np.float64), ("numbers", np.int64, (len(columns),))])
        part["ms"], part["numbers"] = events.numpy("ms"), np.stack(columns, axis=1)
        self._parts.append(part)

    def all(self) -> tuple[Array, Array]:
        """Times, and a row of numbers for each."""
        if not self._parts:
            return np.zeros(0), np.zeros((0, 2 + len(self._fields)), np.int64)
        joined = np.concatenate(self._parts)
        return joined["ms"], joined["numbers"]


class JitFold:
    """What :func:`jit` asks, window by window."""

    def __init__(self) -> None:
        self._jitting, self._loaded = OfTypes(_having(JITTING)), OfTypes(_having(LOADED))
        self._background = [OfTypes(_named(name)) for name in _BACKGROUND]
        self._starts, self._ends = _Kept("MethodID", "MethodILSize"), _Kept("MethodID", "MethodSize", "MethodFlags")
        self._in_background = [_Kept(), _Kept()]
        self._names: list[str | None] = []
        self._losses: Losses | None = None

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of compilations, and of the work in the background."""
        return schema.provider == RUNTIME and (schema.event_id in (JITTING, LOADED) or schema.name in _BACKGROUND)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses = window.trace.losses
        begun = self._jitting.of(window)
        self._starts.add(begun)
        self._names += _method_names(begun)
        self._ends.add(self._loaded.of(window))
        for of_type, kept in zip(self._background, self._in_background, strict=True):
            kept.add(of_type.of(window))

    def result(self) -> JitReport:
        """The answer."""
        start_ms, starts = self._starts.all()
        end_ms, ends = self._ends.all()
        end = _ends_of(start_ms, starts[:, :3], end_ms, ends[:, :3])
        known = end >= 0
        flags = np.where(known, _at(ends[:, 4], end), 0)
        tier = (flags >> _TIER_SHIFT) & _TIER_MASK
        compile_ms = np.where(known, _at(end_ms, end) - start_ms, 0.0)
        native = np.where(known, _at(ends[:, 3], end), 0)
        waited = ~self._is_background(start_ms, starts)
        valid = None if known.all() else known
        notes = () if len(start_ms) else (NO_EVENTS,)
        methods = Table(
            {
                "method": Text.from_pylist(self._names),
                "tier": Coded.naming(Scalar(tier, valid, Kind.I8), lambda number: TIERS[number]),
                "kind": Coded.naming(
                    Scalar(waited.astype(np.int64), None, Kind.I8), lambda one: (TIERED, FOREGROUND)[one]
                ),
                "start_ms": Scalar(start_ms, None, Kind.F8),
                "compile_ms": Scalar(compile_ms, valid, Kind.F8),
                "il_bytes": Scalar(starts[:, 3], None, Kind.I8),
                "native_bytes": Scalar(native, valid, Kind.I8),
                "pid": Scalar(starts[:, 0], None, Kind.I8),
                "tid": Scalar(starts[:, 1], None, Kind.I8),
            },
            title="methods that were compiled",
            units={"start_ms": "ms", "compile_ms": "ms", "il_bytes": "bytes", "native_bytes": "bytes"},
            notes=notes,
            **({} if self._losses is None else {"losses": self._losses}),
        )
        counts = np.bincount(tier[known], minlength=len(TIERS)).tolist()
        totals = JitTotals(
            count=len(start_ms),
            compile_ms=float(compile_ms.sum()),
            foreground=int(waited.sum()),
            foreground_ms=float(compile_ms[waited].sum()),
            unfinished=int((~known).sum()),
            il_bytes=int(starts[:, 3].sum()),
            native_bytes=int(native.sum()),
            by_tier={name: count for name, count in zip(TIERS, counts, strict=True) if count},
        )
        return JitReport(methods=methods, totals=totals, notes=notes)

    def _is_background(self, start_ms: Array, starts: Array) -> Array:
        """Whether a thread of the tiers compiled it, between the begin and the end of such work."""
        made = np.zeros(len(start_ms), np.bool_)
        (began_ms, began), (ended_ms, ended) = (kept.all() for kept in self._in_background)
        for pid, tid in np.unique(began, axis=0).tolist():
            rows = np.flatnonzero((starts[:, 0] == pid) & (starts[:, 1] == tid))
            own, over = (ms[(of[:, 0] == pid) & (of[:, 1] == tid)] for ms, of in ((began_ms, began), (ended_ms, ended)))
            at = start_ms[rows]
            made[rows] = np.searchsorted(own, at, "right") > np.searchsorted(over, at, "right")
        return made


def _having(number: int) -> Any:
    return lambda schema: schema.provider == RUNTIME and schema.event_id == number


def _named(name: str) -> Any:
    return lambda schema: schema.provider == RUNTIME and schema.name == name


def _at(values: Array, rows: Array) -> Array:
    """Values by rows, some other one where there is no row."""
    return values[rows] if len(values) else np.zeros(len(rows), values.dtype)


def _ends_of(start_ms: Array, starts: Array, end_ms: Array, ends: Array) -> Array:
    """Of each start the row of the end that follows it, of the same method in the same thread, before the next start of these; -1: none."""
    made = np.full(len(start_ms), -1)
    if not len(start_ms) or not len(end_ms):
        return made
    _, code = np.unique(np.concatenate([starts, ends]), axis=0, return_inverse=True)
    is_end = np.arange(len(code)) >= len(start_ms)
    order = np.lexsort((is_end, np.concatenate([start_ms, end_ms]), code.reshape(-1)))
    sorted_code, sorted_end = code.reshape(-1)[order], is_end[order]
    at = np.flatnonzero(~sorted_end[:-1] & sorted_end[1:] & (sorted_code[:-1] == sorted_code[1:]))
    made[order[at]] = order[at + 1] - len(start_ms)
    return made


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
