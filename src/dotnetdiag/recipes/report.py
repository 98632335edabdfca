"""The methods, modules, namespaces or threads that took the time of a trace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.cpu import Marks, cpu
from dotnetdiag.analysis.native import NO_STATES, have_few_run, untold_processes
from dotnetdiag.analysis.profile import MethodWeight, State
from dotnetdiag.analysis.running import without_idle
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.durations import time_of
from dotnetdiag.errors import GrammarError, UnknownName, UsageError, WrongCombination
from dotnetdiag.recipes.sampler import NO_SAMPLER, is_of_native
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.table import HasTable, Losses, Table
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace

STATES: dict[str, tuple[State, ...]] = {
    "all": (),
    "cpu": (State.CPU,),
    "waiting": (State.UNMANAGED, State.BLOCKED),
}
"""What ``--state`` takes. In native code a thread waits, mostly: the runtime's sampler cannot tell."""
LINE = "line"
"""What ``by`` says for lines of source."""
FEW = 100
"""One of so many samples in a state is odd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Which part of a trace's time is looked at, and as what. Applied in the order of the fields."""

    weight: str = "time"
    marks: str = Marks.NONE
    threads: tuple[str, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    state: str = "all"
    focus: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    style: Style = Style.FULL
    hide_framework: bool = False
    fold_recursion: bool = False
    by: str = "method"
    symbols: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """What frames are taken together by, once they are there: those of lines are so from the begin."""
        return "method" if self.by == LINE else self.by


class View(TypedDict, total=False):
    """Which part of a recording's time is looked at, and as what: keyword arguments of ``dd.report`` and ``dd.diff``, which may all be left out.
    They are applied in this order. UsageError for one that is not there or makes no sense, GrammarError for what is no pattern.
    """

    weight: str
    """``time`` (in ms, the default) or ``samples``, as in ``dd.cpu``."""
    marks: str
    """Other events that count as samples, as in ``dd.cpu``: ``none`` (the default), ``allocations``, ``events``."""
    threads: int | str | Sequence[int | str]
    """Only these: ids, or parts of names; one, or several."""
    start: float | str | None
    """From this time on: seconds since the start, or a text (``"1.5s"``)."""
    end: float | str | None
    """Up to this time."""
    state: str
    """``all`` (the default, but ``cpu`` in ``dd.diff``), ``cpu``, or ``waiting``: in native code, or off the processor. UnknownName where the
    recording is of .NET 9, whose sampler does not tell.
    """
    focus: str | Sequence[str]
    """Only stacks with a frame that matches this pattern; of several patterns, all."""
    ignore: str | Sequence[str]
    """Only stacks without such a frame."""
    style: Style
    """How methods are named; those that print alike are one. ``Style.FULL`` when nothing is said."""
    hide_framework: bool
    """Without frames of .NET and the system: their time goes to the program's methods that called them. Stacks without any method of the
    program keep their weight in the total, and are in no row.
    """
    fold_recursion: bool
    """A method that calls itself at once is one frame."""
    by: str
    """``method`` (the default), ``line``, ``module``, ``namespace`` or ``thread``: what rows are of. Lines are those of portable PDBs beside the
    modules, in them, or in ``symbols``: ``Program.cs:71``, and ``Program.cs:~69`` for one that is not exact (``dd.source_lines`` has the kinds).
    """
    symbols: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """Folders that PDBs are in, or below: one, or several. They come first. For lines alone."""


UNTOLD = f"{NO_STATES}: nearly all is called unmanaged"


def view_options(arguments: View) -> ViewOptions:
    """What the arguments mean. Raises UsageError, GrammarError."""
    unknown = arguments.keys() - View.__annotations__.keys()
    if unknown:
        raise UsageError(f"no such view: {', '.join(sorted(unknown))}; there are {', '.join(View.__annotations__)}")
    made: dict[str, Any] = dict(arguments)
    for name in ("start", "end"):
        if name in made:
            made[f"{name}_s"] = time_of(made.pop(name))
    for name in ("threads", "focus", "ignore", "symbols"):
        if name in made:
            several = isinstance(made[name], Iterable) and not isinstance(made[name], str)
            made[name] = tuple(map(str, made[name] if several else [made[name]]))
    return ViewOptions(**made)


def view(trace: Trace, options: ViewOptions) -> StackProfile:
    """The profile that the options ask for. Raises UsageError for what makes no sense, UnknownName for a state of a process whose
    runtime does not tell states.
    """
    return filters.group_by(_ungrouped(trace, options), options.group)


def _ungrouped(trace: Trace, options: ViewOptions) -> StackProfile:
    if options.state not in STATES:
        raise UsageError(f"state {options.state!r}: one of {', '.join(STATES)}")
    made = _sampled(trace, options)
    if not len(made) and is_of_native(trace):  # which no other profile would help
        made = replace(made, notes=(f"the trace has no CPU samples, and seems to be of NativeAOT: {NO_SAMPLER}",))
    if have_few_run(made.state, np.ones(len(made))) and _are_untold(
        trace, made
    ):  # which runtime it is takes another look at the file
        made = replace(made, notes=(*made.notes, UNTOLD))
    if State.CPU in STATES[options.state]:
        made = without_idle(made)  # while the other threads are there
    if options.threads:
        made = filters.of_threads(made, options.threads)
    if options.start_s is not None or options.end_s is not None:
        made = filters.between(made, options.start_s, options.end_s)
    if STATES[options.state]:
        if _are_untold(trace, made):
            raise untold_state(options.state, trace.name)
        made = _in_state(made, options.state)
    for pattern in options.focus:
        made = filters.focus(made, pattern)
    for pattern in options.ignore:
        made = filters.ignore(made, pattern)
    made = filters.named(made, options.style)
    if options.hide_framework:
        made = filters.hide_framework(made)
    if options.fold_recursion:
        made = filters.fold_recursion(made)
    return made


def _sampled(trace: Trace, options: ViewOptions) -> StackProfile:
    if options.by == LINE:
        from dotnetdiag.recipes.cpu_lines import cpu_lines

        return cpu_lines(trace, weight=options.weight, marks=options.marks, symbols=options.symbols)
    if options.symbols:
        raise WrongCombination("folders of symbols are for lines of source", lacking="lines")
    return cpu(trace, weight=options.weight, marks=options.marks)


def _in_state(profile: StackProfile, state: str) -> StackProfile:
    """Says so where next to nothing is left: a recording of .NET 9 need not say whose it is."""
    made = filters.in_states(profile, *STATES[state])
    if not 0 < FEW * len(made) < len(profile):
        return made
    return replace(
        made, notes=(*made.notes, f"only {len(made):,} of {len(profile):,} samples are in the state {state}")
    )


def _are_untold(trace: Trace, profile: StackProfile) -> bool:
    """Whether samples of .NET 9's own sampler are in the profile (the kernel's are never UNMANAGED)."""
    is_unmanaged = profile.state == State.UNMANAGED
    if not is_unmanaged.any() or not (untold := untold_processes(trace)):
        return False
    sampled = np.unique(profile.thread[is_unmanaged]).tolist()
    return any(profile.threads[index].process_id in untold for index in sampled)


def untold_state(state: str, where: str) -> UnknownName:
    """The error for a state of a process of .NET 9."""
    return UnknownName("state", state, where=f"in {where}: the sampler of .NET 9 does not tell which threads wait")


def parse_time_range(text: str) -> tuple[float | None, float | None]:
    """Seconds of ``1.5-2``, ``500ms-2s``, ``10s-`` or ``-1m``; numbers without a unit are seconds."""
    first, dash, last = text.partition("-")
    if not dash or not (first.strip() or last.strip()):
        raise GrammarError("time", text, 0, "write FROM-TO, as in 1.5-2, 500ms-2s, 10s- or -1m")
    start, end = _seconds(first), _seconds(last)
    if start is not None and end is not None and start > end:
        raise GrammarError("time", text, len(first) + 1, "ends before it begins")
    return start, end


def _seconds(text: str) -> float | None:
    from dotnetdiag.durations import parse_duration

    text = text.strip()
    if not text:
        return None
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    return parse_duration(text, "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """``number`` rows, by exclusive or by ``inclusive`` weight."""

    number: int = 5
    inclusive: bool = False
    view: ViewOptions = field(default_factory=ViewOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One row; weights in the report's unit."""

    name: str
    exclusive: float
    inclusive: float
    exclusive_percent: float
    inclusive_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow(ReportRow):
    """One row by line. ``file`` is the document as the compiler was given it, None where no PDB says the line; ``line_kind`` is ``exact``, ``near``
    or ``first``, as in ``dd.source_lines``.
    """

    method: str
    file: str | None
    line: int | None
    line_kind: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(HasTable):
    """The top rows, and what is missing in the trace. ``total`` and all weights are in ``unit``; ``lost`` events is None where the format does
    not tell.

    ``unresolved`` of ``frames`` different frames are addresses without a name; ``states`` are weights by the name of the state (``cpu``,
    ``unmanaged``, ``blocked``).
    """

    trace: str
    process_id: int | None
    command_line: str
    by: str
    inclusive: bool
    unit: str
    total: float
    samples: int
    threads: int
    states: dict[str, float]
    events: int
    lost: int | None
    complete: bool
    damage: str | None
    frames: int
    unresolved: int
    notes: tuple[str, ...]
    rows: tuple[ReportRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Its fields by name, fractions to :data:`~.answers.DIGITS` places."""
        from dataclasses import asdict

        from dotnetdiag.analysis.report import rounded

        made: dict[str, Any] = rounded(asdict(self))
        return made

    def table(self) -> Table:
        """The rows."""
        from dataclasses import asdict, fields

        from dotnetdiag.analysis.report import rounded

        columns = [field.name for field in fields(LineRow if self.by == LINE else ReportRow)]
        weights = [field.name for field in fields(ReportRow)][1:]
        return Table.of_rows(
            [rounded(asdict(row)) for row in self.rows],
            columns=columns,
            title=f"{self.by}s of {self.trace}",
            units={name: "%" if name.endswith("percent") else self.unit for name in weights},
            notes=self.notes,
            losses=Losses(lost=self.lost, damage=self.damage),
        )

    @property
    def shortcomings(self) -> str:
        """One line: events lost, frames without a name."""
        return f"{_lost(self.lost)}; {_unresolved(self.frames, self.unresolved)}"


def lacking(lost: int | None, frames: int, unresolved: int) -> list[str]:
    """What a result could not take into account; nothing where there is nothing."""
    return [
        *([_lost(lost)] if lost is None or lost else []),
        *([_unresolved(frames, unresolved)] if unresolved else []),
    ]


def _lost(lost: int | None) -> str:
    return "events lost: not known, the format does not tell" if lost is None else f"{lost:,} events lost"


def _unresolved(frames: int, unresolved: int) -> str:
    return f"{unresolved:,} of {frames:,} frames unresolved"


def report(path: Path, options: ReportOptions) -> Report:
    """The top of a trace file."""
    return report_of(open_trace(path), options)


def report_of(trace: Trace, options: ReportOptions) -> Report:
    """The top of a trace. Raises UsageError for options that make no sense."""
    if options.number < 0:
        raise UsageError(f"{options.number} rows: give 0 or more")
    whole = _ungrouped(trace, options.view)  # groups hide what is unresolved in them
    made = filters.group_by(whole, options.view.group)
    style = options.view.style
    rows = made.top(options.number, inclusive=options.inclusive)
    origin = made.origin
    return Report(
        trace=origin.name,
        process_id=origin.process_id,
        command_line=origin.command_line,
        by=options.view.by,
        inclusive=options.inclusive,
        unit=made.unit,
        total=made.total,
        samples=len(made),
        threads=len(made.threads),
        states={state.name.lower(): weight for state, weight in made.state_weights().items() if state},
        events=origin.events,
        lost=origin.lost,
        complete=origin.complete,
        damage=origin.damage,
        frames=len(whole.used_frames()),
        unresolved=whole.unresolved,
        notes=made.notes,
        rows=tuple(_report_row(row, style, options.view.by) for row in rows),
    )


def _report_row(row: MethodWeight, style: Style, by: str) -> ReportRow:
    weights = {
        "exclusive": row.exclusive,
        "inclusive": row.inclusive,
        "exclusive_percent": row.exclusive_percent,
        "inclusive_percent": row.inclusive_percent,
    }
    if by != LINE:
        return ReportRow(name=row.name(style), **weights)
    frame = row.frame
    return LineRow(
        name=row.name(style),
        **weights,
        method=frame.method_name(style),
        file=frame.file or None,
        line=frame.line or None,
        line_kind=frame.line_kind.value if frame.line_kind else None,
    )
