"""Trace files made from trace files: converted, trimmed, filtered, merged, redacted.

Every output is written under another name and takes its own when it is whole. What was damaged in an input is not in the
output, which is a whole file then: ``Rewritten.damage`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import Writer, rewrite
from dotnetdiag.recipes.trace_files import open_trace, replacing
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.part import in_time_order, part_of
from dotnetdiag.trace.redact import redact
from dotnetdiag.trace.trace import Trace

NETTRACE_VERSIONS = (4, 5, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What came out. ``damage`` are the findings of damaged inputs; ``replaced`` counts redacted texts by field."""

    path: Path
    size_bytes: int
    events: int | None = None
    damage: tuple[str, ...] = ()
    replaced: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """``nettrace_version`` None: that of the input, and 5 for what is older."""

    nettrace_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format to convert to: the suffix of its files, and the function (trace, file, options)."""

    suffix: str
    write: Callable[[Trace, IO[bytes], ConvertOptions], None]


def _write_nettrace(trace: Trace, file: IO[bytes], options: ConvertOptions) -> None:
    _rewrite(trace, file, options.nettrace_version, None)


FORMATS: dict[str, Format] = {"nettrace": Format(suffix=".nettrace", write=_write_nettrace)}
"""By the name for ``--format``, lower case."""


def _rewrite(trace: Trace, file: IO[bytes], version: int | None, keep: npt.NDArray[np.bool_] | None) -> None:
    info = trace.info
    if info is None:
        raise FormatError(trace.damage or "there is no Trace object", where=trace.name)
    if version is None:
        version = 6 if trace.format.startswith("nettrace 6") else 5
    contents = trace.contents
    if keep is not None:
        contents, order = in_time_order(contents)
        keep = keep[order]
    rewrite(contents, Writer.like(file, info, version=version), keep=keep)


def _findings(traces: Iterable[Trace]) -> tuple[str, ...]:
    return tuple(f"{trace.name}: {trace.damage}" for trace in traces if trace.damage is not None)


def convert(
    source: Path, formats: Sequence[str], output: Path | None, options: ConvertOptions, *, force: bool = False
) -> list[Rewritten]:
    """One file per format. ``output`` names it; with several formats (or without a name) the suffix is the format's."""
    unknown = [name for name in formats if name.lower() not in FORMATS]
    if unknown or not formats:
        raise UsageError(f"no format {', '.join(unknown)}; there are: {', '.join(FORMATS)}")
    trace = open_trace(source)
    made = []
    for name in dict.fromkeys(name.lower() for name in formats):
        chosen = FORMATS[name]
        path = output
        if path is None or len(formats) > 1:
            path = _beside(output or source, chosen.suffix, source)
        with replacing(path, force=force) as file:
            chosen.write(trace, file, options)
            size = file.tell()
        made.append(Rewritten(path=path, size_bytes=size, damage=_findings([trace])))
    return made


def _beside(path: Path, suffix: str, source: Path) -> Path:
    """The path with another suffix, but never the source itself."""
    bare = path.with_suffix("") if path.suffix in (".xz", ".gz") else path
    made = bare.with_suffix(suffix)
    return bare.with_suffix(f".converted{suffix}") if made == source else made


def trim(
    source: Path, output: Path, *, start_s: float | None, end_s: float | None, strict: bool = False, force: bool = False
) -> Rewritten:
    """The events from ``start_s`` up to ``end_s`` seconds after the start, and what names them (``trace.part``)."""
    trace = open_trace(source)
    return _part(trace, output, part_of(trace, time=(start_s, end_s), naming=not strict), force)


def filter_events(
    source: Path,
    output: Path,
    *,
    providers: Sequence[str] = (),
    names: Sequence[str] = (),
    strict: bool = False,
    force: bool = False,
) -> Rewritten:
    """The events of some providers, and events by name; and what names them (``trace.part``) unless ``strict``."""
    if not providers and not names:
        raise UsageError("nothing to filter by: give --providers or --events")
    trace = open_trace(source)
    wanted = {number for text in providers for number in trace.types.find_provider(text)}
    wanted |= {number for text in names for number in trace.types.find(text)}
    return _part(trace, output, part_of(trace, metadata_ids=wanted, naming=not strict), force)


def _part(trace: Trace, output: Path, keep: npt.NDArray[np.bool_], force: bool) -> Rewritten:
    with replacing(output, force=force) as file:
        _rewrite(trace, file, None, keep)
        size = file.tell()
    return Rewritten(path=output, size_bytes=size, events=int(keep.sum()), damage=_findings([trace]))


def merge_files(sources: Sequence[Path], output: Path, *, force: bool = False) -> Rewritten:
    """All events in time order, in nettrace 6 (``trace.merge``)."""
    traces = [open_trace(source) for source in sources]
    with replacing(output, force=force) as file:
        merge([trace.contents for trace in traces], file)
        size = file.tell()
    return Rewritten(path=output, size_bytes=size, events=sum(map(len, traces)), damage=_findings(traces))


def redact_file(source: Path, output: Path, *, fields: Sequence[str] = (), force: bool = False) -> Rewritten:
    """The same file with texts replaced in place (``trace.redact``)."""
    trace = open_trace(source)
    done = redact(trace, fields)
    with replacing(output, force=force) as file:
        file.write(done.data)
    return Rewritten(path=output, size_bytes=len(done.data), events=len(trace), replaced=done.replaced)
