"""A profile of the sampled time whose frames are lines of source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.recipes.pdb_files import PdbFiles
from dotnetdiag.trace.line_symbols import LineSymbols, inexact_notes

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


def cpu_lines(trace: Trace, *, weight: str, marks: str, symbols: Sequence[str] = ()) -> StackProfile:
    """As :func:`analysis.cpu.cpu`, with a frame for each line. Raises InputError for a folder of ``symbols`` that is none."""
    files = PdbFiles(symbols)
    made = cpu(trace, weight=weight, marks=marks, symbols=LineSymbols.build(trace.raw, files))
    inexact = inexact_notes(made.frames[number].line_kind for number in made.used_frames().tolist())
    return replace(made, notes=(*made.notes, *files.notes, *inexact))
