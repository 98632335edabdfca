"""Recordings whose frames are told apart by lines of source, for every question that has frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotnetdiag.recipes.pdb_files import PdbFiles
from dotnetdiag.recipes.sources import PathText, opened
from dotnetdiag.trace.line_symbols import LineSymbols

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


def with_lines(source: PathText | Trace, symbols: PathText | Sequence[PathText] = ()) -> Trace:
    """The recording, whose frames are lines of source from here on, in whatever is asked of it: ``dd.exceptions(dd.with_lines("app.nettrace"))``
    says who threw as ``app!Program.Run() Program.cs:71``, ``dd.gc`` so who induced a collection. ``Program.cs:~69`` is not exact
    (``dd.source_lines`` has the kinds). A trace that is given is changed, and has to be asked first what is to have no lines.

    Lines are those of portable PDBs in the folders of ``symbols`` or below them, beside the modules, or embedded in them; one of another build is
    refused. What was refused, and which modules have none, is in ``trace.raw.symbols.notes`` once something was asked. The runtime's maps of the
    code make lines exact: keyword jittedmethodiltonativemap (0x20000), or the rundown.

    Raises InputError for a folder that is none, and as ``open`` for a path.
    """
    folders = [symbols] if isinstance(symbols, str | os.PathLike) else list(symbols)
    files = PdbFiles([os.fspath(one) for one in folders])
    with opened(source) as trace:
        return name_by_lines(trace, files)


def name_by_lines(trace: Trace, files: PdbFiles) -> Trace:
    """The same, whose frames are named by these PDBs from here on."""
    trace.raw.symbols = LineSymbols.build(trace.raw, files, by_name=True)
    return trace


def symbols_of(trace: Trace) -> tuple[str, ...] | None:
    """The folders whose PDBs name the frames of a trace; None of one without lines."""
    symbols = vars(trace.raw).get("symbols")
    files = symbols.source if isinstance(symbols, LineSymbols) else None
    return files.folders if isinstance(files, PdbFiles) else None
