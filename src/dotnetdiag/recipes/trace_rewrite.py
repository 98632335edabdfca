"""Trace files made from trace files: rewritten in another version, trimmed, filtered, merged, redacted.

Every output is written under another name and takes its own when it is whole. What was damaged in an input is not in the
output, which is a whole file then: ``Rewritten.damage`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import Contents, Writer, rewrite
from dotnetdiag.recipes.outputs import check_outputs, replacing
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.table import Table
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.part import in_time_order, part_of
from dotnetdiag.trace.recorded import recorded_of
from dotnetdiag.trace.redact import redact
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What came out. ``damage`` are the findings of damaged inputs; ``replaced`` counts redacted texts by field,
    ``blanked`` the bytes that were not understood by what they were; ``renumbered`` are (file, pid, its number here) of
    processes whose pid another file had before. ``notes`` is what the output cannot say of the inputs."""

    path: Path
    size_bytes: int
    events: int | None = None
    damage: tuple[str, ...] = ()
    replaced: Mapping[str, int] = field(default_factory=dict)
    blanked: Mapping[str, int] = field(default_factory=dict)
    renumbered: tuple[tuple[Path, int, int], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "path": str(self.path),
            "events": self.events,
            "size_bytes": self.size_bytes,
            "redacted": dict(self.replaced),
            "blanked_bytes": dict(self.blanked),
            "renumbered": [
                {"file": str(file), "process_id": pid, "number": number} for file, pid, number in self.renumbered
            ],
            "damage": list(self.damage),
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """The file; what was redacted in it, blanked, and renumbered."""
        told = self.to_json()
        changes = {name: told.pop(name) for name in ("redacted", "blanked_bytes", "renumbered", "damage", "notes")}
        return [
            Table.of_rows([told], title="file", notes=(*self.damage, *self.notes)),
            Table(dict(zip(("field", "texts"), _columns(changes["redacted"]), strict=True)), title="redacted"),
            Table(dict(zip(("part", "bytes"), _columns(changes["blanked_bytes"]), strict=True)), title="blanked"),
            Table.of_rows(changes["renumbered"], columns=("file", "process_id", "number"), title="renumbered"),
        ]


def _columns(counts: Mapping[str, int]) -> tuple[list[str], list[int]]:
    return list(counts), list(counts.values())


def write_nettrace(
    trace: Trace,
    file: IO[bytes],
    version: int | None = None,
    keep: npt.NDArray[np.bool_] | None = None,
    *,
    part_ticks: tuple[int, int] | None = None,
) -> tuple[int, tuple[str, ...]]:
    """The events that ``keep`` marks (None: all), in nettrace ``version``: 4, 5, 6; None: that of the trace, at least 5. Those of types
    that a damaged file does not define are left out. ``part_ticks``: they are of that part of the time. How many were written, and notes of what
    could not be as it was.
    """
    info = trace.raw.info
    if info is None:
        raise FormatError(trace.damage or "there is no Trace object", where=trace.name)
    if version is None:
        version = 6 if trace.format.startswith("nettrace 6") else 5
    contents = trace.raw.contents
    notes = unknown_losses([trace])
    undefined = _undefined(contents)
    if undefined.any():
        keep = ~undefined if keep is None else keep & ~undefined
        notes += (f"{int(undefined.sum()):,} events of types that {trace.name} does not define were left out",)
    count = len(contents) if keep is None else int(keep.sum())
    if keep is not None:
        contents, order = in_time_order(contents)
        keep = keep[order]
    with _of_damaged([trace]):
        rewrite(contents, Writer.like(file, info, version=version), keep=keep, part_ticks=part_ticks)
    return count, notes


def _undefined(contents: Contents) -> npt.NDArray[np.bool_]:
    return ~lookup(wanted_of(contents.metadata), contents.headers.metadata_id)


@contextmanager
def _of_damaged(traces: Sequence[Trace]) -> Iterator[None]:
    """What a damaged file says, and no file can, is not the caller's fault."""
    try:
        yield
    except UsageError as error:
        damaged = next((trace for trace in traces if trace.damage is not None), None)
        if damaged is None:
            raise
        raise FormatError(f"{error}; damaged: {damaged.damage}", where=damaged.name) from error


def _findings(traces: Iterable[Trace]) -> tuple[str, ...]:
    return tuple(f"{trace.name}: {trace.damage}" for trace in traces if trace.damage is not None)


def unknown_losses(traces: Iterable[Trace]) -> tuple[str, ...]:
    """NetPerf does not count what was lost, and nettrace cannot say that nobody knows."""
    return tuple(
        f"{trace.name} does not tell whether events were lost: what is written of it says that none were"
        for trace in traces
        if not trace.lost.known
    )


def trim(
    source: Path, output: Path, *, start_s: float | None, end_s: float | None, strict: bool = False, force: bool = False
) -> Rewritten:
    """The events from ``start_s`` up to ``end_s`` seconds after the start, and what names them (``trace.part``).

    Raises UsageError for a time after the end.
    """
    trace = open_trace(source)
    trace.raw.require_within(trace.raw.ticks_between(start_s, end_s))
    check_outputs([output], force=force, sources=[source], replaces=True)
    part = recorded_of(trace).between(start_s, end_s)
    ticks = [trace.raw.meaning.ticks_at(1e9 * at) for at in part.span]
    keep = part_of(trace, time=(start_s, end_s), naming=not strict)
    return _part(trace, output, keep, force, part_ticks=(ticks[0], ticks[1]))


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
        raise UsageError("nothing to filter by: give providers or events")
    trace = open_trace(source)
    wanted = {number for text in providers for number in trace.raw.types.find_provider(text)}
    wanted |= {number for text in names for number in trace.raw.types.find(text)}
    check_outputs([output], force=force, sources=[source], replaces=True)
    return _part(trace, output, part_of(trace, metadata_ids=wanted, naming=not strict), force)


def _part(
    trace: Trace, output: Path, keep: npt.NDArray[np.bool_], force: bool, *, part_ticks: tuple[int, int] | None = None
) -> Rewritten:
    with replacing(output, force=force) as file:
        events, notes = write_nettrace(trace, file, keep=keep, part_ticks=part_ticks)
        size = file.tell()
    return Rewritten(path=output, size_bytes=size, events=events, damage=_findings([trace]), notes=notes)


def merge_files(sources: Sequence[Path], output: Path, *, force: bool = False) -> Rewritten:
    """All events in time order, in nettrace 6 (``trace.merge``)."""
    check_outputs([output], force=force, sources=sources, replaces=True)
    traces = [open_trace(source) for source in sources]
    for trace in traces:
        if undefined := int(_undefined(trace.raw.contents).sum()):
            problem = f"{undefined:,} events are of types that the file does not define"
            raise FormatError(f"{problem}: convert it to nettrace first, which leaves them out", where=trace.name)
    with replacing(output, force=force) as file, _of_damaged(traces):
        processes = merge([trace.raw.contents for trace in traces], file, [recorded_of(trace) for trace in traces])
        size = file.tell()
    return Rewritten(
        path=output,
        size_bytes=size,
        events=sum(map(len, traces)),
        damage=_findings(traces),
        notes=unknown_losses(traces),
        renumbered=tuple(
            (source, pid, number)
            for source, own in zip(sources, processes, strict=True)
            for pid, number in own.items()
            if number != pid
        ),
    )


def redact_file(
    source: Path, output: Path, *, fields: Sequence[str] = (), force_partial: bool = False, force: bool = False
) -> Rewritten:
    """The same file with texts replaced in place (``trace.redact``)."""
    check_outputs([output], force=force, sources=[source], replaces=True)
    trace = open_trace(source)
    done = redact(trace, fields, force_partial=force_partial)
    with replacing(output, force=force) as file:
        file.write(done.data)
    return Rewritten(
        path=output,
        size_bytes=len(done.data),
        events=len(trace),
        replaced=done.replaced,
        blanked=done.blanked,
        damage=_findings([trace]),
    )
