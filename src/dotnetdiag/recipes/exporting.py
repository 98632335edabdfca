"""Trace files and results in other formats, in files beside the trace or where the caller says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag.errors import UsageError
from dotnetdiag.export import FORMATS, Format, find_format, format_of
from dotnetdiag.recipes.trace_files import open_trace, replacing

if TYPE_CHECKING:
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.profile import StackProfile
    from dotnetdiag.recipes.report import ViewOptions
    from dotnetdiag.trace.method_names import Style

NETTRACE = "nettrace"


def format_names() -> tuple[str, ...]:
    """What ``convert`` takes."""
    return (*FORMATS, NETTRACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A file that was written. ``damage`` is where the trace was damaged; ``notes`` are those of the profile."""

    path: Path
    format: str
    size_bytes: int
    damage: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """``view`` is what the profile shows (None: all of it); ``nettrace_version`` is for nettrace alone."""

    view: ViewOptions | None = None
    nettrace_version: int | None = None
    force: bool = False


def convert(source: str | os.PathLike[str], formats: Sequence[str]) -> list[Path]:
    """Write a trace file's profile in some formats, beside it: ``app.speedscope.json`` of ``app.nettrace``.

    Raises UsageError for an unknown format, InputError, FormatError, and OutputError where a file is there already.
    """
    return [one.path for one in convert_file(Path(source), formats)]


def convert_file(
    source: Path, formats: Sequence[str], output: Path | None = None, options: ConvertOptions | None = None
) -> list[Converted]:
    """One file per format, in the order given; the trace is read once. ``output`` names it.

    With several formats, and without a suffix in ``output``, that of the format is added.
    """
    options = options or ConvertOptions()
    chosen = _chosen(formats)
    trace = open_trace(source)
    profile: StackProfile | None = None
    made = []
    for name, one in chosen.items():
        path = _path(source, output, one, len(chosen) > 1)
        if one is None:
            from dotnetdiag.recipes import trace_rewrite

            rewriting = trace_rewrite.ConvertOptions(nettrace_version=options.nettrace_version)
            done = trace_rewrite.convert(source, [name], path, rewriting, force=options.force)[0]
            made.append(Converted(path=done.path, format=name, size_bytes=done.size_bytes, damage=trace.damage))
            continue
        if profile is None:
            from dotnetdiag.recipes.report import ViewOptions, view

            profile = view(trace, options.view or ViewOptions())
        style = None if options.view is None else options.view.style
        size = _write(profile, path, one, style, options.force)
        made.append(Converted(path=path, format=name, size_bytes=size, damage=trace.damage, notes=profile.notes))
    return made


def _chosen(formats: Sequence[str]) -> dict[str, Format | None]:
    """Formats by name, None for nettrace."""
    if not formats:
        raise UsageError(f"no format given; there are: {', '.join(format_names())}")
    chosen: dict[str, Format | None] = {}
    for name in formats:
        lower = name.lower()
        if lower not in format_names():
            raise UsageError(f"no format {name!r}; there are: {', '.join(format_names())}")
        chosen[lower] = None if lower == NETTRACE else FORMATS[lower]
    return chosen


def _path(source: Path, output: Path | None, chosen: Format | None, several: bool) -> Path:
    if chosen is None:
        if output is not None and not several:
            return output
        return beside(output or source, ".nettrace", source)
    if output is not None and not several:
        return output if output.suffix else output.with_name(output.name + chosen.suffix)
    return beside(output or source, chosen.suffix, source)


def beside(path: Path, suffix: str, source: Path) -> Path:
    """The path with another suffix, but never the source itself."""
    bare = path.with_suffix("") if path.suffix in (".xz", ".gz") else path
    made = bare.with_suffix(suffix)
    return bare.with_suffix(f".converted{suffix}") if made == source else made


def _write(result: StackProfile | ProfileDiff, path: Path, chosen: Format, style: Style | None, force: bool) -> int:
    with replacing(path, force=force) as file:
        chosen.write(result, file, style=style)
        return file.tell()


def write(
    result: StackProfile | ProfileDiff,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    style: Style | None = None,
    force: bool = True,
) -> Path:
    """Write a result in the format that the name ends in (``.speedscope.json``, ``.pb.gz``), or in the one named.

    A file that is there already is replaced when the new one is whole. Raises UsageError for an unknown format or for a
    result that it cannot show, OutputError for what the system refuses.
    """
    path = Path(path)
    chosen = format_of(path.name) if format is None else find_format(format)
    _write(result, path, chosen, style, force)
    return path
