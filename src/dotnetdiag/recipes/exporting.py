"""Trace files and results in other formats, in files beside the trace or where the caller says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import MissingDependency, OutputError, UsageError
from dotnetdiag.export import FORMATS, find_format, format_of
from dotnetdiag.recipes.outputs import STDOUT, check_outputs, is_stdout, is_stream, replacing, replacing_together
from dotnetdiag.recipes.report_files import is_report, write_report
from dotnetdiag.recipes.trace_files import open_trace

if TYPE_CHECKING:
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.analysis.tracks import Tracks
    from dotnetdiag.export import Result
    from dotnetdiag.recipes.report import ViewOptions
    from dotnetdiag.trace.method_names import Style
    from dotnetdiag.trace.trace import Trace

NETTRACE = "nettrace"


def format_names() -> tuple[str, ...]:
    """What ``convert`` takes."""
    return (*FORMATS, NETTRACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A file that was written. ``damage`` is where the trace was damaged; ``lost`` events, None where it is not known; ``notes`` are
    those of the profile. ``kept``: it is the recording itself, which was left as it is.
    """

    path: Path
    format: str
    size_bytes: int
    damage: str | None = None
    lost: int | None = 0
    notes: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """``view`` is what the profile shows (None: all of it); ``nettrace_version`` is for nettrace alone: without it a recording that is whole
    is copied byte for byte, and another one written anew in its version, at least 5. ``suffixes``: a file has the
    suffix of its format, whatever the one that was named has.
    """

    view: ViewOptions | None = None
    nettrace_version: int | None = None
    force: bool = False
    suffixes: bool = False


def convert_file(
    source: Path, formats: Sequence[str], output: Path | None = None, options: ConvertOptions | None = None
) -> list[Converted]:
    """One file per format, in the order given; the trace is read once. ``output`` names it. None takes its name before all are complete.

    With several formats, and without a suffix in ``output``, that of the format is added.
    """
    options = options or ConvertOptions()
    plan = plan_outputs(source, formats, output, suffixes=options.suffixes)
    copies = options.nettrace_version is None
    kept = {name for name, path in plan.items() if copies and name == NETTRACE and _is_same(path, source)}
    written = {name: path for name, path in plan.items() if name not in kept}
    for replaces in (True, False):
        paths = [path for name, path in written.items() if (name == NETTRACE) is replaces]
        check_outputs(paths, force=options.force, sources=[source], replaces=replaces)
    trace = open_trace(source)
    lost = trace.lost.total if trace.lost.known else None
    made = []
    with replacing_together(force=options.force) as create:
        profile: StackProfile | None = None
        over_time: Tracks | None = None
        for name, path in plan.items():
            if name in kept:
                size = path.stat().st_size
                made.append(
                    Converted(path=path, format=name, size_bytes=size, damage=trace.damage, lost=lost, kept=True)
                )
                continue
            file = create(path)
            notes: tuple[str, ...] = ()
            if name == NETTRACE and copies and trace.complete and trace.format.startswith(NETTRACE):
                file.write(trace.raw.buffer.data)
            elif name == NETTRACE:
                from dotnetdiag.recipes.trace_rewrite import write_nettrace

                _, notes = write_nettrace(trace, file, options.nettrace_version)
            else:
                if profile is None:
                    from dotnetdiag.recipes.report import ViewOptions, view

                    profile = view(trace, options.view or ViewOptions())
                result: Result = profile
                if FORMATS[name].tracks:
                    over_time = over_time or _tracks(trace, profile)
                    result = over_time
                FORMATS[name].write(result, file, style=None if options.view is None else options.view.style)
                notes = profile.notes
            made.append(
                Converted(path=path, format=name, size_bytes=file.tell(), damage=trace.damage, lost=lost, notes=notes)
            )
    return made


def _tracks(trace: Trace, profile: StackProfile) -> Tracks:
    from dotnetdiag.analysis.tracks import tracks

    return tracks(trace, profile)


def plan_outputs(
    source: Path, formats: Sequence[str], output: Path | None = None, *, suffixes: bool = False
) -> dict[str, Path]:
    """Which file each format goes to; ``suffixes``: with that of the format. Raises UsageError for a format that is not there, or for
    two that would share a file, and MissingDependency where a library for one is.
    """
    if not formats:
        raise UsageError(f"no format given; there are: {', '.join(format_names())}")
    names = list(dict.fromkeys(name.lower() for name in formats))
    unknown = next((name for name in names if name not in format_names()), None)
    if unknown is not None:
        raise UsageError(f"no format {unknown!r}; there are: {', '.join(format_names())}")
    _check_libraries(names)
    if output is not None and is_stdout(output):
        if len(names) > 1:
            raise UsageError(f"{len(names)} formats do not go into one stream")
        return {names[0]: STDOUT}
    return {name: _path(source, output, name, suffixes or len(names) > 1) for name in names}


def _check_libraries(names: Sequence[str]) -> None:
    """Of several formats none is written where a library for one is missing: that is said."""
    try:
        for name in names:
            if name in FORMATS:
                FORMATS[name].check()
    except MissingDependency as error:
        if len(names) == 1:
            raise
        purpose = f"nothing is written, for {error.purpose}"
        raise MissingDependency(error.library, extra=error.extra, purpose=purpose) from error


def _path(source: Path, output: Path | None, name: str, with_suffix: bool) -> Path:
    suffix = ".nettrace" if name == NETTRACE else FORMATS[name].suffix
    if output is None:
        return beside(source, suffix, source)
    if with_suffix:
        return _with_suffix(output, suffix)
    return output if output.suffix or name == NETTRACE or is_stream(output) else output.with_name(output.name + suffix)


def beside(path: Path, suffix: str, source: Path) -> Path:
    """The path with another suffix, but never the source itself."""
    made = _with_suffix(path, suffix)
    return _with_suffix(path, f".converted{suffix}") if made == source else made


_SUFFIXES = frozenset(f".{part}" for one in FORMATS.values() for part in one.suffix.split(".")) | {
    *(".etl", ".etlx", ".netperf", ".nettrace", ".perf", ".trace")
}
"""What of a name gives way to the suffix of a format: not what else there is behind a point, as in ``app-3.1``."""


def _with_suffix(path: Path, suffix: str) -> Path:
    bare = path.with_suffix("") if path.suffix in (".xz", ".gz") else path
    return bare.with_suffix(suffix) if bare.suffix.lower() in _SUFFIXES else bare.with_name(bare.name + suffix)


def _is_same(path: Path, source: Path) -> bool:
    try:
        return path.samefile(source)
    except OSError:
        return False


def write(
    result: Result,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    style: Style | None = None,
    force: bool = False,
) -> Path:
    """Write a result in the format that the name ends in (``.speedscope.json``, ``.pb.gz``, ``.csv``), or in the one named: a profile, a
    difference, a heap, or a table or several. Of a report ``.html`` is the page with its totals, its chart and all tables that ``trace report
    --html`` writes; other formats have its tables. A heap goes into ``.gcdump``, ``.html`` (the page of ``gcdump report``), ``.heapsnapshot``,
    ``.graphml`` and ``.sqlite``.

    The file takes its name when it is whole. Raises OutputExists for one that is there already, unless ``force``, UsageError for an
    unknown format, for a result that it cannot show, or for a recording, which ``convert`` writes; OutputError for what the system refuses.
    """
    from dotnetdiag.export.tables import has_tables
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.recipes.heap_convert import write_heap_alone
    from dotnetdiag.trace.trace import Trace

    if isinstance(result, str | os.PathLike | Trace):
        raise UsageError(
            "write takes a result, as dd.cpu and dd.gc give, not a recording: dd.convert writes that in other formats"
        )
    if os.fspath(path).endswith(("/", os.sep)):
        raise OutputError(os.fspath(path), "it is the name of a folder")
    path = Path(path)
    if is_report(result):
        write_report(result, path, format, force=force)
        return path
    if isinstance(result, Heap):
        write_heap_alone(result, path, format, force=force)
        return path
    table = has_tables(result)
    chosen = format_of(str(path), table=table) if format is None else find_format(format, table=table)
    chosen.check()
    with replacing(path, force=force) as file:
        chosen.write(result, file, style=style)
    return path
