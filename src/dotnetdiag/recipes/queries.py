"""Questions in SQL to recordings, and data sets of many: how a path becomes a recording that can be asked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.query.files import RecordingFile, find_recordings
from dotnetdiag.query.recordings import OpenTrace, Recording
from dotnetdiag.query.unreadable import SKIPPABLE, Unreadable
from dotnetdiag.recipes.outputs import check_outputs
from dotnetdiag.recipes.sources import PathText
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.trace.trace import Trace

if TYPE_CHECKING:
    from dotnetdiag.query.duckdb_engine import Database
    from dotnetdiag.recipes.pdb_files import PdbFiles

Sources: TypeAlias = PathText | Trace | Iterable[PathText | Trace]


def open_alone(path: str, name: str) -> Trace:
    """The trace in a file, decoded by the thread that reads it: engines have threads of their own, and each of ours would hold another window. It is
    one of several, which may have one name in several folders: so its ``name`` is that of its path, or of where it was fetched from.
    """
    return open_trace(path, threads=1, name=name)


def _opener_like(trace: Trace, opener: Callable[[str, str], Trace]) -> Callable[[str, str], Trace]:
    """Opens the file of a trace anew, in another process: with lines of source where it has them."""
    from dotnetdiag.recipes.lines import symbols_of

    symbols = symbols_of(trace)
    return opener if symbols is None else partial(_open_by_lines, symbols)


def _open_by_lines(symbols: tuple[str, ...], path: str, name: str) -> Trace:
    from dotnetdiag.recipes.pdb_files import PdbFiles

    return _open_with_lines(PdbFiles(symbols), path, name)


def _open_with_lines(files: PdbFiles, path: str, name: str) -> Trace:
    from dotnetdiag.recipes.lines import name_by_lines

    return name_by_lines(open_alone(path, name), files)


def recordings_of(
    sources: Sources, options: Mapping[str, Any] | None = None, opener: Callable[[str, str], Trace] = open_alone
) -> Sequence[Recording]:
    """The recordings of a trace, a path, a URL, a pattern, or several of these, each once. Raises UsageError, InputError."""
    if isinstance(sources, bytes | bytearray | memoryview):  # a recording's content, more often than its name
        raise UsageError(f"give paths of files, not {type(sources).__name__}; dd.open takes the content of one")
    given = [sources] if isinstance(sources, str | os.PathLike | Trace) else list(sources)
    found: dict[object, Recording] = {}
    for one in given:
        if isinstance(one, Trace):
            path = one.raw.path
            found[id(one) if path is None else os.path.realpath(path)] = OpenTrace(one, _opener_like(one, opener))
            continue
        for file in find_recordings(one, opener, options):
            found.setdefault(file.name if file.path is None else os.path.realpath(file.path), file)
    return _told_apart(list(found.values())) or find_recordings([], opener)


def _told_apart(recordings: list[Recording]) -> list[Recording]:
    """The same with names that differ: open traces are named without their folders, and what came as bytes may have any name."""
    names = Counter(one.name for one in recordings)
    taken = {one.name for one in recordings if names[one.name] == 1 or not isinstance(one, OpenTrace)}
    made: list[Recording] = []
    for one in recordings:
        if isinstance(one, OpenTrace) and names[one.name] > 1:
            made.append(replace(one, alias=_free_name(one.trace.raw.path or one.name, taken)))
            taken.add(made[-1].name)
        else:
            made.append(one)
    return made


def _free_name(name: str, taken: Container[str]) -> str:
    """It, or with a number behind it."""
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def database(
    sources: Sources,
    *,
    external_access: bool = False,
    output: Path | None = None,
    force: bool = False,
    lines: PdbFiles | None = None,
    skip_unreadable: bool = False,
) -> Database:
    """What answers queries to some recordings, to be closed. ``output`` is where the answer is to be written; ``lines``: frames are told apart by
    lines of source; ``skip_unreadable``: those that cannot be opened are passed over. Raises as ``dd.sql``, and as ``check_outputs`` where that may
    not be.
    """
    from dotnetdiag.query.duckdb_engine import Database

    recordings = recordings_of(sources, opener=open_alone if lines is None else partial(_open_with_lines, lines))
    if output is not None:
        here = [one.path for one in recordings if isinstance(one, RecordingFile)]
        check_outputs([output], force=force, sources=[Path(one) for one in here if one is not None])
    unreadable = Unreadable(len(recordings), skip_unreadable)
    for one in recordings:
        if isinstance(one, RecordingFile):
            with unreadable.told(one.name):
                one.require()  # a query may name no table, or one that others have
    return Database(recordings, external_access=external_access, unreadable=unreadable)


def is_skippable(error: BaseException) -> bool:
    """Whether it is of one recording of several, and would not have ended the query if ``database`` passed over such."""
    return SKIPPABLE in getattr(error, "__notes__", ())
