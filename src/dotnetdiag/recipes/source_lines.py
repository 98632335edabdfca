"""Where the time goes by lines of source, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from dotnetdiag.analysis.profile import DIGITS
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.recipes.report import LINE, View, view, view_options
from dotnetdiag.recipes.sources import PathText, opened
from dotnetdiag.table import Table
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


def source_lines(source: PathText | Trace, **arguments: Unpack[View]) -> Table:
    """The sampled time of a recording by lines of source: a row for each line of each kind, the one that took most itself first, with the columns
    ``method file line line_kind exclusive inclusive exclusive_percent inclusive_percent``.

    Lines are those of portable PDBs in the folders of ``symbols`` or below them, beside the modules, or embedded in them; one of another build is
    refused, and ``.notes`` say so. ``line_kind`` is ``exact`` where the runtime's map of the code says the line; ``near`` where none is known,
    and that of code beside is taken (parts of optimised code); ``first`` for the first line of a method of which no more is known (compiled ahead:
    ReadyToRun). Where no PDB is at hand, ``file``, ``line`` and ``line_kind`` are None. The other arguments are those of ``dd.report``.

    Raises what ``dd.report`` raises, and InputError for a folder of ``symbols`` that is none.
    """
    options = view_options(View(**{**arguments, "by": LINE}))
    with opened(source) as trace:
        return line_table(view(trace, options), options.style)


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
            "line_kind": [frame.line_kind.value if frame.line_kind else None for frame in frames],
            **{name: Scalar(np.round(column, DIGITS), None, Kind.F8) for name, column in weights.items()},
        },
        title=f"{profile.name} by line",
        units={name: "%" if name.endswith("percent") else profile.unit for name in weights},
        notes=profile.notes,
        losses=profile.origin.losses,
    )
