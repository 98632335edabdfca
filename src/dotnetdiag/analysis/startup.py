"""What the first of a program's time went into, by phase: the runtime's own start, until the program's assembly is there, until its first method
runs, and what follows.

Each phase begins with an event: Runtime/Start, the first Loader/AssemblyLoad (that of CoreLib), the Loader/AssemblyLoad of the program, and the
first method of the program that is compiled. What is loaded, compiled and collected in a phase counts for it; several threads may
do that at once, so that the parts need not come to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table
from dotnetdiag.analysis.cpu import CpuFold
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.exceptions import THROWN, ExceptionsFold
from dotnetdiag.analysis.fold import FOLDED_ROWS, LossesToTell, OfTypes, Seconds, fold, recorded_in, seconds_of
from dotnetdiag.analysis.gc_collections import GcFold
from dotnetdiag.analysis.gc_events import START
from dotnetdiag.analysis.jit import JitFold
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, having
from dotnetdiag.analysis.loader import BIND, LoaderFold
from dotnetdiag.analysis.native import NO_LOADER, NO_STATES, RuntimeFacts, are_states_told, facts_of
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.startup_phases import Counted, Phases
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Table
from dotnetdiag.trace.context import Context
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

STARTED, ASSEMBLY, MODULE, JITTED = 187, 154, 152, 145
"""Runtime/Start, Loader/AssemblyLoad and /ModuleLoad, Method/JittingStarted."""
FIRST_S = 5.0
"""So much is looked at where nothing else is said: a program has started by then."""
WAITED_S = 5.0
"""So much longer is waited for the end of what began in that time."""
CORE = "System.Private.CoreLib"
KINDS = {
    "bind": ("binds", "assemblyloader"),
    "compile": ("compiled methods", "jit"),
    "pause": ("collections", "gc"),
    "exceptions": ("exceptions", "exception"),
}
"""Of what is counted what it is, and which keyword of the runtime's has its events."""
_RECORDED_BY = {"bind": (0x4, 4), "compile": (0x10, 5), "pause": (0x1, 4), "exceptions": (0x8000, 2)}
"""Of the same that keyword as a number, and the level of the events."""
_LOADER = 0x8
_TELLS: Mapping[str, Callable[[EventSchema], bool]] = {
    "bind": having(BIND),
    "compile": having(JITTED),
    "pause": having(START),
    "exceptions": having(THROWN),
}
"""Of the same which events these are."""
NO_END = (
    "when this process ended is not told, for the recording is of several: its last phase lasts as long as that does"
)
PART_S = 0.05
PART = "this is a part of a recording, whose events begin at {:.3f} s: what was compiled, collected, thrown and sampled before that is not in it"
"""Said of one whose events begin later than :data:`PART_S`: a start has some before, mostly."""
BEGUN = "this is a part of a recording, whose events begin at {:.3f} s: the program had been loaded by then"
"""Said in the place of the phases: which of the assemblies is the program, and when its first method was compiled, is not told."""
_WHAT = "--profile startup"
NO_START = (
    "the recording does not begin with the program, or has nothing of its loader: record it from its first instruction on: "
    f"trace collect {_WHAT} -- COMMAND"
)
TOO_LATE = "the recording does not begin with the program: record the same from its first instruction on: trace collect … -- COMMAND"
"""Said in its place of one that has events of the loader."""
NO_LOADS = f"the recording has nothing of the program's loader, which tells of its phases (record with {_WHAT})"
"""Said in its place of one that begins with the runtime."""
NO_PROGRAM = "no assembly was loaded but those of .NET: which is the program, and when it began, is not told"
"""Said of one that has both."""
FILTERED = "no {}: there were none, or their events were left out by a filter"
"""Said of those of :data:`KINDS` whose keyword was recorded, as other events of it tell, which do not tell that these were."""
MOST_NAMED = 20
"""Processes that an error lists."""


@dataclass(frozen=True, kw_only=True)
class StartupTotals:
    """``end_ms``: up to where was looked. ``program``: the assembly of the program; ``main_ms``: when its first method ran. ``others``: how many
    processes are left out, where none was asked for. None: not told, or none.
    """

    end_ms: float
    program: str | None
    main_ms: float | None
    cpu_ms: float | None
    others: int | None = None


@dataclass(frozen=True, kw_only=True)
class StartupReport(Report):
    """``phases``: a row for each, in their order; what the process has no events of is None. ``longest``: what took longest, of assemblies,
    methods and collections. ``profile``: the samples of that time. ``notes``: what the recording lacks.
    """

    KIND = "startup"
    MAIN = "phases"

    phases: Table
    longest: Table
    profile: StackProfile
    totals: StartupTotals


def startup(trace: Trace, first_s: float | None = None, process: int | None = None) -> StartupReport:
    """What the first seconds of a process went into (None: :data:`FIRST_S`, and the process that started first). Raises UsageError for a time that
    is none, UnknownName for a process that the recording has nothing of.
    """
    asked = StartupFold(first_s=first_s, process=process, seconds=seconds_of(trace), runtime=facts_of(trace))
    (made,) = fold(trace, asked, rows=FOLDED_ROWS // 2)
    return made


class StartupFold:
    """What :func:`startup` asks, window by window. ``process``: of which; None: of the one that started first. ``seconds``: how long was recorded,
    which bounds what is looked at; ``runtime``: of what runtime, asked in the end.
    """

    needs_activities = False

    def __init__(
        self,
        *,
        first_s: float | None = None,
        process: int | None = None,
        seconds: Seconds = None,
        runtime: Callable[[], RuntimeFacts] = RuntimeFacts,
    ) -> None:
        first_s = FIRST_S if first_s is None else first_s
        if not first_s > 0 or first_s == np.inf:
            raise UsageError(f"the first {first_s} s: give a time above 0")
        self._first_s, self._process, self._seconds, self._runtime = first_s, process, seconds, runtime
        texts = Texts()
        self._texts = texts
        self._started = KeptEvents(having(STARTED))
        self._assemblies = KeptEvents(
            having(ASSEMBLY), ("AssemblyID",), names=("FullyQualifiedAssemblyName",), texts=texts
        )
        self._modules = KeptEvents(having(MODULE), ("AssemblyID", "ModuleID"), names=("ModuleILPath",), texts=texts)
        self._jitted = _FirstOfModules()
        self._loader, self._jit, self._gc = LoaderFold(), JitFold(), GcFold()
        self._exceptions, self._cpu = ExceptionsFold(messages=0), CpuFold()
        self._losses = LossesToTell()
        self._context: Context | None = None

        self._kinds = {name: OfTypes(tells) for name, tells in _TELLS.items()}
        self._recorded = set[tuple[int, str]]()  # of which of KINDS events of a process came, at whatever time
        self._pids = set[int]()
        self._is_fed = False
        self._marking = (self._assemblies, self._started, self._modules, self._jitted)
        self._counting = (self._loader, self._jit, self._gc, self._exceptions, self._cpu)

    def wants(self, schema: EventSchema) -> bool:
        """What is loaded, compiled, collected, thrown, and samples."""
        return any(one.wants(schema) for one in (*self._marking, *self._counting))

    def feed(self, window: EventTable) -> None:
        """Take the next window; what comes :data:`WAITED_S` behind the time that is looked at is passed over, but for what tells of the program: else
        a long recording took as much memory as its collections, samples and exceptions do.
        """
        self._losses.of(window)
        self._context = window.trace
        self._note_processes(window)
        for marking in self._marking:
            marking.feed(window)
        looked_at = self._within_reach(window)
        if looked_at is not None:
            for counting in self._counting:
                counting.feed(looked_at)

    def _note_processes(self, window: EventTable) -> None:
        """Whose events a window has, and of which kinds."""
        pids = window.numpy("pid")
        seen = distinct(pids).tolist()
        self._pids.update(seen)
        for name, types in self._kinds.items():
            missing = [pid for pid in seen if (pid, name) not in self._recorded]
            if missing and len(rows := types.rows(window)):
                self._recorded |= {(pid, name) for pid in distinct(pids[rows]).tolist()}

    def _within_reach(self, window: EventTable) -> EventTable | None:
        """The part of a window that may count, None where it has none. Of the process that is asked for all counts until it has begun."""
        if self._process is not None and len(window):
            window = window.some(np.flatnonzero(window.numpy("pid") == self._process))
        began = self._begin_ms()
        reach_ms = np.inf if began is None else began + 1000.0 * (self._first_s + WAITED_S)
        if not len(window) or float(window.slice(len(window) - 1, len(window)).numpy("ms")[0]) < reach_ms:
            return window
        count = int(np.searchsorted(window.numpy("ms"), reach_ms))
        is_first, self._is_fed = not self._is_fed, True  # there is an answer where nothing came in time, too
        return window.slice(0, count) if count or is_first else None

    def _begin_ms(self) -> float | None:
        """When the process began that is told, as far as is known by now; None: the one that is asked for has not. Where none has begun and tells of
        loads, one that begins may yet.
        """
        first = self._first()
        if first is None:
            return 0.0 if self._process is None else None
        latest = self._started.all().ms[-1:].max(initial=0.0) if self._process is None else 0.0
        return first.ms if first.has_start else max(first.ms, float(latest))

    def _first(self) -> _First | None:
        """The process that started first, as far as is known by now; None: nothing tells it. It is that with the first Runtime/Start of those that
        tell of loads, and where none has one that with the first of the other events.
        """
        kept = self._began()
        assemblies, started, *_ = kept
        starts = started.of(np.flatnonzero(is_among(started.pid, distinct(assemblies.pid))))
        rows = next((one for one in (starts, *kept) if len(one)), None)
        return None if rows is None else _First(int(rows.pid[0]), float(rows.ms[0]), rows is starts)

    def _began(self) -> tuple[Kept, ...]:
        """Events that tell which process started first: of one that only began, and tells of no loads, nothing else is told. Those of the process
        that is asked for, if one is.
        """
        kept = (one.all() for one in self._marking)
        return tuple(kept if self._process is None else (one.of_process(self._process) for one in kept))

    def result(self) -> StartupReport:
        """The answer. Raises UnknownName for a process of which nothing came."""
        pid, program, marks = self._marks()
        counted = self._counted().of_process(pid)
        recorded = recorded_in(self._seconds)
        others = self._pids | (set() if recorded is None else recorded.by_process.keys())
        others -= {pid, 0}  # which is the kernel's
        cpu = self._samples(pid, has_others=bool(others))
        # one that others came before began later than the recording
        begin_ms, end_ms = self._looked_at(pid, recorded, marks[0] if others else 0.0)
        runtime = self._runtime().of(pid)
        has_states = are_states_told(cpu.state, np.ones(len(cpu)), runtime)
        running = cpu.in_states(State.CPU) if len(cpu) and cpu.unit == "ms" and has_states else None
        profile = cpu if running is None else running
        has_start = bool(len(self._started.all().of_process(pid)))
        missing_s = 0.0 if recorded is None else recorded.missing_s(pid)
        has_begun = program is not None and self._has_program(pid, 1000.0 * missing_s)
        is_told = program is not None and has_start and not has_begun
        lacking = self._lacking(pid, counted)
        left_out = len(others) if pid and self._process is None else 0  # of none that started none is left out
        if is_told:
            told_states, is_of_several = has_states or not len(cpu), self._is_of_several(pid, recorded)
            notes = _notes(pid, left_out, lacking, runtime, has_states=told_states, is_of_several=is_of_several)
            notes = (PART.format(missing_s), *notes) if missing_s > PART_S else notes
        elif has_begun:
            notes = (BEGUN.format(missing_s),)
        else:
            notes = (_why_untold(runtime, has_start=has_start),)
        phases = Phases([begin_ms, *marks], end_ms, are_told=is_told)
        cpu_ms, longest = phases.sampled(running), counted.longest(end_ms if is_told else -np.inf)
        losses = self._losses.told
        return StartupReport(
            phases=answer_table("phases of the start", phases.columns(counted, cpu_ms, lacking), notes, losses),
            longest=answer_table("what took longest", longest, notes, losses),
            profile=profile.between(begin_ms / 1000, end_ms / 1000) if len(profile) else profile,
            totals=StartupTotals(
                end_ms=end_ms,
                program=program,
                main_ms=marks[-1] if is_told else None,
                cpu_ms=float(np.nansum(cpu_ms)) if running is not None and len(phases) else None,
                others=left_out or None,
            ),
            notes=notes,
        )

    def _counted(self) -> Counted:
        loader, jit, gc = self._loader.result(), self._jit.result(), self._gc.result()
        return Counted(
            assemblies=loader.assemblies,
            binds=loader.binds,
            methods=jit.methods,
            collections=gc.collections,
            thrown=self._exceptions.result().thrown,
        )

    def _samples(self, pid: int, *, has_others: bool) -> StackProfile:
        """Those of the process."""
        cpu = self._cpu.result()
        if not (has_others and len(cpu)):
            return cpu
        is_own = np.array([one.process_id == pid for one in cpu.threads], np.bool_)
        return cpu.take(is_own[cpu.thread], "is of the process")

    def _looked_at(self, pid: int, recorded: Recorded | None, began_ms: float) -> tuple[float, float]:
        """From when until when in ms: from ``began_ms`` on where nothing says since when the process was recorded."""
        own = None if recorded is None else recorded.by_process.get(pid)
        begin_ms = 1000.0 * own[0] if own is not None else began_ms
        recorded_s = None if recorded is None else recorded.of(pid).end_s
        end_ms = begin_ms + 1000.0 * self._first_s
        return begin_ms, end_ms if recorded_s is None else max(min(end_ms, 1000.0 * recorded_s), begin_ms)

    def _lacking(self, pid: int, counted: Counted) -> list[str]:
        """Of which of :data:`KINDS` nothing came, though nothing says that they were recorded."""
        tables = {
            "bind": counted.binds,
            "compile": counted.methods,
            "pause": counted.collections,
            "exceptions": counted.thrown,
        }
        return [name for name in _RECORDED_BY if not len(tables[name]) and (pid, name) not in self._recorded]

    def _is_of_several(self, pid: int, recorded: Recorded | None) -> bool:
        """Whether the recording is of several processes, and does not tell when this one was recorded."""
        is_of_several = self._context is not None and self._context.meaning.is_of_several
        return is_of_several and (recorded is None or pid not in recorded.by_process)

    def _marks(self) -> tuple[int, str | None, list[float]]:
        """The process that started first, the assembly of its program, and when the phases behind the first begin."""
        began, earliest = self._began(), self._first()
        pid = 0 if earliest is None else earliest.pid
        if self._process is not None:
            pid = self._process
            self._require(pid)
        assemblies, started, modules, jitted = (kept.of_process(pid) for kept in began)
        begun = float(started.ms[0]) if len(started) else 0.0
        names = [self._texts[one].partition(",")[0] for one in assemblies["FullyQualifiedAssemblyName"].tolist()]
        core = next((at for at, name in enumerate(names) if name == CORE), None)
        own = next(
            (
                at
                for at, name in enumerate(names)
                if name != CORE and not self._is_framework(modules, assemblies["AssemblyID"][at])
            ),
            None,
        )
        core_ms = max(begun, float(assemblies.ms[core]) if core is not None else begun)
        if own is None:
            return pid, None, [begun, core_ms, np.inf, np.inf]
        loaded = max(core_ms, float(assemblies.ms[own]))
        of_own = modules["ModuleID"][modules["AssemblyID"] == assemblies["AssemblyID"][own]]
        first = jitted.ms[np.isin(jitted["ModuleID"], of_own)]
        return pid, names[own], [begun, core_ms, loaded, max(loaded, float(first[0]) if len(first) else loaded)]

    def _require(self, pid: int) -> None:
        """Raises UnknownName for a process of which nothing came."""
        if pid in self._pids:
            return
        there = [str(one) for one in sorted(self._pids - {0})]
        more = [] if len(there) <= MOST_NAMED else [f"{len(there) - MOST_NAMED:,} others"]
        listed = ", ".join([*there[:MOST_NAMED], *more]) or "none"
        raise UnknownName(
            "process", str(pid), where=f"in the recording; there {'is' if len(there) < 2 else 'are'} {listed}"
        )

    def _has_program(self, pid: int, before_ms: float) -> bool:
        """Whether a module of a process was loaded before a time that is not of the framework: of a part they are there for the names they give."""
        modules = self._modules.all().of_process(pid)
        paths = distinct(modules["ModuleILPath"][modules.ms < before_ms])
        return any(not self._is_of_framework(self._texts[path]) for path in paths.tolist())

    def _is_framework(self, modules: Kept, assembly: int) -> bool:
        """Whether the assembly with an id lies where the shared framework does."""
        rows = np.flatnonzero(modules["AssemblyID"] == assembly)
        return self._is_of_framework(self._texts[int(modules["ModuleILPath"][rows[0]])] if len(rows) else "")

    @staticmethod
    def _is_of_framework(path: str) -> bool:
        parts = (PureWindowsPath(path) if "\\" in path else PurePath(path)).parts
        return any(
            above.lower() == "shared" and name.startswith("Microsoft.") and name.endswith(".App")
            for above, name in pairwise(parts)
        )


class _First(NamedTuple):
    """The process that started first, and when that is known from. ``has_start``: from its Runtime/Start."""

    pid: int
    ms: float
    has_start: bool


class _FirstOfModules:
    """The first method of each module that is compiled: of a million that a program makes as it runs all took 60 MB."""

    def __init__(self) -> None:
        self._kept = KeptEvents(having(JITTED), ("ModuleID",))
        self._seen = set[tuple[int, int]]()
        self.wants = self._kept.wants

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        events = self._kept.events_of(window)
        if not len(events):
            return
        kept = self._kept.of(events)
        first, _ = combined([kept.pid, kept["ModuleID"]], len(kept))
        modules = zip(kept.pid[first].tolist(), kept["ModuleID"][first].tolist(), strict=True)
        fresh = [row for row, module in zip(first.tolist(), modules, strict=True) if module not in self._seen]
        if fresh:
            self._kept.add(made := kept.of(np.array(fresh)))
            self._seen |= {*zip(made.pid.tolist(), made["ModuleID"].tolist(), strict=True)}

    def all(self) -> Kept:
        """Those that came."""
        return self._kept.all()


def _notes(
    pid: int, others: int, lacking: Sequence[str], runtime: RuntimeFacts, *, has_states: bool, is_of_several: bool
) -> tuple[str, ...]:
    """What is said of a start that is told: of which process it is, and what is missing. No keyword is asked for that was recorded: that does not
    tell which of its events were, for a session and a file may leave out some by their ids.
    """
    made = []
    had = {name for name, (bit, level) in _RECORDED_BY.items() if runtime.keywords & bit and runtime.level >= level}
    filtered, lacking = ([name for name in lacking if (name in had) == is_had] for is_had in (True, False))
    if others:
        made.append(
            f"this is process {pid}, the first that started; the others in the recording ({others}) are left out"
        )
    if is_of_several:
        made.append(NO_END)
    if filtered:
        made.append(FILTERED.format(_listed(filtered)))
    if lacking:
        made.append(no_events(lacking))
    if not has_states:
        made.append(NO_STATES)
    return tuple(made)


def _why_untold(runtime: RuntimeFacts, *, has_start: bool) -> str:
    """What is said in the place of the phases, of a recording of such a runtime. What it has is not asked for."""
    if runtime.is_native:
        return NO_LOADER
    if runtime.keywords & _LOADER:
        return NO_PROGRAM if has_start else TOO_LATE
    return NO_LOADS if has_start else NO_START


def no_events(lacking: Sequence[str]) -> str:
    """What is said of those of :data:`KINDS` of which nothing came."""
    keywords = "+".join(KINDS[name][1] for name in lacking)
    level = " --clreventlevel verbose" if "compile" in lacking else ""
    return f"no {_listed(lacking)}: there were none, or they were not recorded (--clrevents {keywords}{level})"


def _listed(kinds: Sequence[str]) -> str:
    return " or ".join(KINDS[name][0] for name in kinds)


def said_of_all() -> dict[str, str]:
    """What is said in the place of :func:`no_events` where all was asked for."""
    return {
        no_events(lacking): f"no {_listed(lacking)}: there were none"
        for count in range(1, len(KINDS) + 1)
        for lacking in combinations(KINDS, count)
    }
