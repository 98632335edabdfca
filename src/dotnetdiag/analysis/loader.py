"""What was loaded: assemblies, the binds that looked for them and how long that took, those that failed and why, types.

A bind is from AssemblyLoader/Start to /Stop of its thread (.NET 5 and later, keyword assemblyloader), and may hold others; each way that it tried
is an AssemblyLoader/ResolutionAttempted. An assembly that is there is told by Loader/AssemblyLoad, its file by Loader/ModuleLoad (keyword loader).
Types are loaded from TypeLoad/Start to /Stop (keyword typediagnostic), those that they need meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, mask, number, texts, told_number, whole
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.intervals import covered_ms
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, Texts, having, others_told, words_of
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.pairs import first_rows, latest_rows, picked
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.type_loads import TypeLoads
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

BIND, BOUND, ATTEMPT, ASSEMBLY, MODULE = 290, 291, 292, 154, 152
"""AssemblyLoader/Start, /Stop and /ResolutionAttempted, Loader/AssemblyLoad and /ModuleLoad."""
_SUCCESS = 0
"""Of ResolutionAttempted's Result."""
NO_EVENTS = (
    "no assemblies: none was loaded, or the recording lacks their events (record with --profile loader); "
    "most are loaded at the start"
)
NO_BINDS = "how long binds took and which failed is not told: record with --profile loader (.NET 5 and later)"


@dataclass(frozen=True, kw_only=True)
class LoaderTotals:
    """``types`` were loaded to their ends. ``bind_ms`` and ``type_ms``: time in which some thread did that, binds within binds once; None where the
    recording does not tell.
    """

    assemblies: int
    binds: int
    failed: int
    bind_ms: float | None
    types: int
    type_ms: float | None


@dataclass(frozen=True, kw_only=True)
class LoaderReport(Report):
    """``assemblies``: a row for each that was loaded; ``binds``: for each look for one; both in their order. ``types``: by name, those that took
    longest first. ``profile``: the stacks of binds, in ms. ``notes``: what the recording lacks.
    """

    KIND = "loader"
    MAIN = "assemblies"

    assemblies: Table
    binds: Table
    types: Table
    profile: StackProfile
    totals: LoaderTotals


def loader(trace: Trace) -> LoaderReport:
    """What was loaded in a recording."""
    (made,) = fold(trace, LoaderFold())
    return made


class LoaderFold:
    """What :func:`loader` asks, window by window."""

    needs_activities = False

    def __init__(self) -> None:
        self._texts = Texts()
        names = ("AssemblyName", "RequestingAssembly", "AssemblyLoadContext")
        ends = ("ResultAssemblyName", "ResultAssemblyPath")
        self._binds = LastingEvents(
            KeptEvents(having(BIND), names=names, texts=self._texts),
            KeptEvents(having(BOUND), ("Success", "Cached"), names=ends, texts=self._texts),
            told=("ms", "Success", "Cached", "ResultAssemblyPath"),
        )
        self._attempts = KeptEvents(having(ATTEMPT), ("Stage", "Result"), names=("ErrorMessage",), texts=self._texts)
        self._assemblies = KeptEvents(
            having(ASSEMBLY), ("AssemblyID",), names=("FullyQualifiedAssemblyName",), texts=self._texts
        )
        self._modules = KeptEvents(having(MODULE), ("AssemblyID",), names=("ModuleILPath",), texts=self._texts)
        self._types = TypeLoads()
        self._stage: Callable[[int], str] = str
        self._losses = LossesToTell()

    @property
    def _plain(self) -> tuple[KeptEvents | TypeLoads, ...]:
        return (self._attempts, self._assemblies, self._modules, self._types)

    def wants(self, schema: EventSchema) -> bool:
        """Binds, assemblies, modules, types."""
        return self._binds.wants(schema) or any(one.wants(schema) for one in self._plain)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._stage = words_of(window, having(ATTEMPT), "Stage") or self._stage
        self._binds.feed(window)
        for one in self._plain:
            one.feed(window)

    def result(self) -> LoaderReport:
        """The answer."""
        made = self._binds.result("Binds", state=State.NONE)
        assemblies = self._assemblies.all()
        self._types.settle()
        notes = [] if len(assemblies) or len(made) else [NO_EVENTS]
        told_of = {*assemblies.pid.tolist()}
        notes += Lacking.among(told_of, told_of - {*made.pid.tolist()}).notes(NO_BINDS)
        notes += others_told("modules, assemblies and types", [self._texts, self._types.texts])
        self._notes = tuple(notes)
        binds = self._bind_columns(made)
        failed = int((made.column("stop_Success") == 0).sum())
        ms = made.column("ms")
        bind_ms = covered_ms(made.column("pid"), ms, ms + np.nan_to_num(made.column("duration_ms")))
        return LoaderReport(
            assemblies=self._table("assemblies that were loaded", self._assembly_columns(assemblies)),
            binds=self._table("binds", binds),
            types=self._table("types that were loaded", self._types.columns()),
            profile=made.profile(),
            totals=LoaderTotals(
                assemblies=len(assemblies),
                binds=len(made),
                failed=failed,
                bind_ms=bind_ms if len(made) else None,
                types=self._types.count,
                type_ms=self._types.total_ms if len(self._types) else None,
            ),
            notes=self._notes,
        )

    def _bind_columns(self, made: Lasting) -> dict[str, Column]:
        attempts = self._attempts.all()
        ms, pid, tid, duration = (made.column(name) for name in ("ms", "pid", "tid", "duration_ms"))
        known = ~np.isnan(duration)
        # the last way that was tried before the end, if it failed, tells why
        until = np.where(known, made.column("stop_ms"), ms)
        last = latest_rows([attempts.pid, attempts.tid], attempts.ms, [pid, tid], until)
        last = np.where(picked(attempts.ms, last, -np.inf) >= ms, last, -1)
        success = made.column("stop_Success")
        wrong = known & (success == 0) & (picked(attempts["Result"], last, _SUCCESS) != _SUCCESS)
        stage = picked(attempts["Stage"], last, -1)
        return {
            "start_ms": number(ms),
            "duration_ms": number(duration),
            "pid": whole(pid),
            "tid": whole(tid),
            "assembly": self._coded(made.column("AssemblyName")),
            "requested_by": self._coded(made.column("RequestingAssembly")),
            "context": self._coded(made.column("AssemblyLoadContext")),
            "success": told_number(np.where(known, success, NONE)),
            "cached": told_number(np.where(known, made.column("stop_Cached"), NONE)),
            "path": self._coded(made.column("stop_ResultAssemblyPath")),
            "stage": Coded.naming(Scalar(stage, mask(last >= 0), Kind.I8), self._stage),
            "error": self._coded(np.where(wrong, picked(attempts["ErrorMessage"], last, -1), -1)),
            "method": made.methods(),
        }

    def _assembly_columns(self, assemblies: Kept) -> dict[str, Column]:
        modules = self._modules.all()
        of = first_rows(modules.pid, modules["AssemblyID"], assemblies.pid, assemblies["AssemblyID"])
        return {
            "start_ms": number(assemblies.ms),
            "pid": whole(assemblies.pid),
            "tid": whole(assemblies.tid),
            "assembly": self._coded(assemblies["FullyQualifiedAssemblyName"]),
            "path": self._coded(picked(modules["ModuleILPath"], of, -1)),
        }

    def _coded(self, which: Array) -> Coded:
        return texts(self._texts.names, which)

    def _table(self, title: str, columns: Mapping[str, Column]) -> Table:
        return answer_table(title, columns, self._notes, self._losses.told)
