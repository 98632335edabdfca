"""Two traces against each other: what takes more time than before, and whether that is too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.diff import Change, ProfileDiff, diff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import GrammarError, UnknownName, UsageError
from dotnetdiag.recipes.limit import Limit
from dotnetdiag.recipes.report import LINE, ViewOptions, lacking, view
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace


def parse_limit(text: str) -> Limit:
    """``5%`` (of the first trace's total), ``20ms``, ``1.5s``; with counted samples a bare number of them."""
    stripped = text.strip()
    number, percent = stripped.removesuffix("%").strip(), stripped.endswith("%")
    if number.replace(".", "", 1).isdecimal() and number.isascii():
        return Limit(amount=float(number), percent=percent)
    from dotnetdiag.durations import parse_duration

    try:
        if not percent:
            return Limit(amount=parse_duration(stripped) * 1000, percent=False)
        position = 0
    except GrammarError as error:
        position = error.position
    raise GrammarError("limit", stripped, position, "write 5%, or an amount such as 20ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """``view`` applies to both. ``shares``: the second is scaled to the total of the first."""

    number: int = 10
    inclusive: bool = False
    shares: bool = False
    limit: Limit | None = None
    view: ViewOptions = field(default_factory=lambda: ViewOptions(state="cpu"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One method (or group). ``absolute`` is in the unit, ``relative`` in percent of before: None where it was 0."""

    name: str
    before: float
    after: float
    absolute: float
    relative: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that grew by more than the limit: ``above``, among them ``(total)``. Of ``rows`` there are as many as were asked for: those
    above first, then those that changed most.
    """

    before: str
    after: str
    unit: str
    by: str
    inclusive: bool
    scale: float
    total: DiffRow
    rows: tuple[DiffRow, ...]
    limit: float | None
    above: tuple[DiffRow, ...]
    shortcomings: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Its fields by name."""
        from dataclasses import asdict

        return asdict(self)

    def table(self) -> Table:
        """The total, and the rows; those above the limit are marked so."""
        from dataclasses import asdict, fields

        above = {row.name for row in self.above}
        names = [field.name for field in fields(DiffRow)]
        return Table.of_rows(
            [{**asdict(row), "above": row.name in above} for row in (self.total, *self.rows)],
            columns=[*names, "above"],
            title=f"{self.after} against {self.before}, {'inclusive' if self.inclusive else 'exclusive'}",
            units={"before": self.unit, "after": self.unit, "absolute": self.unit, "relative": "%"},
            notes=(*self.shortcomings, *self.notes),
        )


def compare(before: Path, after: Path, options: DiffOptions) -> Compared:
    """The second file against the first. Raises what :func:`profile_to_compare` raises."""
    if options.number < 0:
        raise UsageError(f"{options.number} rows: give 0 or more")
    ungrouped = options.view if options.view.by == LINE else replace(options.view, by="method")
    profiles = [profile_to_compare(open_trace(path), ungrouped) for path in (before, after)]
    said = []
    for path, profile in zip((before, after), profiles, strict=True):
        origin = profile.origin
        parts = lacking(origin.lost, len(profile.used_frames()), profile.unresolved)
        parts += [] if origin.complete else [f"broken: {origin.damage}"]
        if parts:
            said.append(f"{path.name}: {'; '.join(parts)}")
    if options.view.group != "method":
        from dotnetdiag.analysis.filters import group_by

        profiles = [group_by(profile, options.view.group) for profile in profiles]
    made = diff(profiles[0], profiles[1], style=options.view.style, shares=options.shares)
    changed = _rows(made, options.inclusive)
    total = _row("(total)", made.total)
    limit = None if options.limit is None else options.limit.of(profiles[0].total)
    exclusive = _rows(made, inclusive=False) if options.inclusive else changed
    above = [] if limit is None else [row for row in (total, *exclusive) if row.absolute > limit]
    grown = [row.name for row in sorted(above, key=lambda row: -row.absolute)]
    first = {name: place for place, name in enumerate(grown)}
    chosen = sorted(changed, key=lambda row: first.get(row.name, len(first)))[: options.number]
    return Compared(
        before=str(before),
        after=str(after),
        unit=made.unit,
        by=options.view.by,
        inclusive=options.inclusive,
        scale=made.scale,
        total=total,
        rows=tuple(chosen),
        limit=limit,
        above=tuple(sorted(above, key=lambda row: -row.absolute)),
        shortcomings=tuple(said),
        notes=tuple(dict.fromkeys(note for profile in profiles for note in profile.notes)),
    )


def profile_to_compare(trace: Trace, options: ViewOptions) -> StackProfile:
    """The profile that the options ask for. It may be empty because of them, but not because of the recording: raises UsageError where
    that has no samples, and UnknownName where none is in the state, or where the runtime does not tell states.
    """
    made = view(trace, options)
    if not len(made):
        whole = view(trace, ViewOptions(weight=options.weight))
        if not len(whole):
            raise UsageError(f"{trace.name} has no samples: nothing can be said of it")
        if not len(view(trace, ViewOptions(weight=options.weight, state=options.state))):
            raise UnknownName("state", options.state, where=f"in the {len(whole):,} samples of {trace.name}")
    return made


def _rows(made: ProfileDiff, inclusive: bool) -> list[DiffRow]:
    rows = [_row(method.name, method.inclusive if inclusive else method.exclusive) for method in made.methods]
    rows = [row for row in rows if row.before or row.after]
    return sorted(rows, key=lambda row: -abs(row.absolute)) if inclusive else rows


def _row(name: str, change: Change) -> DiffRow:
    return DiffRow(
        name=name, before=change.before, after=change.after, absolute=change.absolute, relative=change.relative
    )
