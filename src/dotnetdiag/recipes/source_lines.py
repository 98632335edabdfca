"""Where the time goes by lines of source: a profile whose frames are lines, and a table of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.profile import DIGITS
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.recipes.pdb_files import PdbFiles
from dotnetdiag.table import Table
from dotnetdiag.trace.line_symbols import LineSymbols
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace

EXACT, FIRST = "exact", "first"
"""What ``line_kind`` says of a line."""


def cpu_lines(trace: Trace, *, weight: str, marks: str, symbols: Sequence[str | Path] = ()) -> StackProfile:
    """As :func:`analysis.cpu.cpu`, with a frame for each line. Raises InputError for a folder of ``symbols`` that is none."""
    files = PdbFiles(symbols)
    made = cpu(trace, weight=weight, marks=marks, symbols=LineSymbols.build(trace.raw, files))
    firsts = sum(made.frames[number].is_first_line for number in made.used_frames().tolist())
    notes = [*made.notes, *files.notes]
    if firsts:
        notes.append(
            f"{firsts:,} lines with ~ are the first of their methods: the recording has no map of that code (compiled ahead, for one)"
        )
    return replace(made, notes=tuple(notes))


def line_table(profile: StackProfile, style: Style = Style.FULL) -> Table:
    """A row for each line, the one that took most itself first."""
    found = profile.by_method()
    frames = [profile.frames[number] for number in found.frame.tolist()]
    share = 100 / profile.total if profile.total else 0.0
    weights = {"exclusive": found.exclusive, "inclusive": found.inclusive}
    weights |= {f"{name}_percent": share * column for name, column in weights.items()}
    return Table(
        {
            "method": [frame.method_name(style) for frame in frames],
            "file": [frame.file if frame.line else None for frame in frames],
            "line": Scalar(
                np.array([frame.line for frame in frames], np.int64),
                np.array([frame.line > 0 for frame in frames], np.bool_),
                Kind.I8,
            ),
            "line_kind": [line_kind(frame.line, frame.is_first_line) for frame in frames],
            **{name: Scalar(np.round(column, DIGITS), None, Kind.F8) for name, column in weights.items()},
        },
        title=f"{profile.name} by line",
        units={name: "%" if name.endswith("percent") else profile.unit for name in weights},
        notes=profile.notes,
        losses=profile.origin.losses,
    )


def line_kind(line: int, is_first_line: bool) -> str | None:
    """``exact``; ``first`` for the first line of a method of which no more is known; None without a line."""
    if not line:
        return None
    return FIRST if is_first_line else EXACT
