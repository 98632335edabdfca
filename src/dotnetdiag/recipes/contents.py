"""What a trace file holds, counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import iter_blocks
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.table import HasTable, Losses, Table
from dotnetdiag.trace.process import ProcessDetails
from dotnetdiag.trace.recorded import recorded_of
from dotnetdiag.trace.summary import EventSummary
from dotnetdiag.trace.thread import Thread
from dotnetdiag.trace.trace import Trace

CHECKED_BYTES = 64 << 20
"""In files up to this size every payload is decoded, to say what cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TraceContents(HasTable):
    """Everything ``trace info`` shows. ``lost`` is None where the format does not tell. ``part_ms``: of a part of a recording when it is,
    since the start of the whole, of which ``duration_ms`` tells the last event; None: it is no part.
    """

    format: str
    events: int
    size_bytes: int
    start: str | None
    duration_ms: float
    part_ms: tuple[float, float] | None
    complete: bool
    damage: str | None
    damage_offset: int | None
    lost: int | None
    lost_by_thread: dict[int, int]
    warnings: tuple[str, ...]
    processes: tuple[ProcessDetails, ...]
    threads: tuple[Thread, ...]
    summary: tuple[EventSummary, ...]

    @property
    def verdict(self) -> str:
        """``complete``, or what is damaged."""
        return "complete" if self.complete else f"broken: {self.damage}"

    def __repr__(self) -> str:
        lost = "losses not known" if self.lost is None else f"{self.lost:,} lost"
        return f"<TraceContents: {self.format}, {self.events:,} events, {lost}, {self.verdict}>"

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables())

    def table(self) -> Table:
        """The events by provider and name."""
        return self.tables()[0]

    def tables(self) -> tuple[Table, ...]:
        """The events by provider and name, the threads, the processes."""
        from dataclasses import asdict, fields

        losses = Losses(lost=self.lost, damage=self.damage)
        events = [
            {
                "provider": row.provider,
                "event": row.event,
                "count": row.count,
                "bytes": row.bytes,
                "versions": list(row.versions),
                "rate": row.rate,
                "first_ms": row.first_ns / 1e6,
                "last_ms": row.last_ns / 1e6,
            }
            for row in self.summary
        ]
        names = ("provider", "event", "count", "bytes", "versions", "rate", "first_ms", "last_ms")
        units = {"bytes": "bytes", "rate": "1/s", "first_ms": "ms", "last_ms": "ms"}
        made = [Table.of_rows(events, columns=names, title="events", units=units, notes=self.warnings, losses=losses)]
        for title, kind, rows in (("threads", Thread, self.threads), ("processes", ProcessDetails, self.processes)):
            columns = [field.name for field in fields(kind)]
            made.append(Table.of_rows([asdict(row) for row in rows], columns=columns, title=title))
        return tuple(made)

    def to_json(self) -> dict[str, Any]:
        """The fixed keys ``format events lost complete duration_ms providers``, and more."""
        from dataclasses import asdict

        providers: dict[str, dict[str, dict[str, Any]]] = {}
        for row in self.summary:
            providers.setdefault(row.provider, {})[row.event] = {
                "count": row.count,
                "bytes": row.bytes,
                "versions": list(row.versions),
                "first_ms": row.first_ns // 100 / 1e4,
                "last_ms": row.last_ns // 100 / 1e4,
                "rate": row.rate,
            }
        return {
            "format": self.format,
            "events": self.events,
            "lost": self.lost,
            "complete": self.complete,
            "duration_ms": self.duration_ms,
            "part_ms": None if self.part_ms is None else list(self.part_ms),
            "start": self.start,
            "damage": self.damage,
            "damage_offset": self.damage_offset,
            "size_bytes": self.size_bytes,
            "lost_by_thread": {str(thread): count for thread, count in self.lost_by_thread.items()},
            "warnings": list(self.warnings),
            "processes": [asdict(process) for process in self.processes],
            "threads": [asdict(thread) for thread in self.threads],
            "providers": providers,
        }


def _part_of(trace: Trace) -> tuple[float, float] | None:
    if not trace.raw.source.scan.begins_late:
        return None
    begin_s, end_s = recorded_of(trace).span
    return round(1e3 * begin_s, 4), round(1e3 * end_s, 4)


def describe(trace: Trace) -> TraceContents:
    """The contents of a trace, in one pass over its headers, and one over the payloads of a smaller file."""
    summary = trace.summary()  # first: its pass finds out what the others ask for
    warnings = [*trace.warnings]
    if len(trace.raw.buffer) <= CHECKED_BYTES:
        warnings += [
            f"{name}: payloads of {count} events cannot be decoded" for name, count in trace.raw.undecodable().items()
        ]
    info, lost = trace.raw.info, trace.lost
    return TraceContents(
        format=trace.format,
        events=len(trace),
        size_bytes=len(trace.raw.buffer),
        start=None if trace.start is None or info is None else trace.raw.meaning.start_text(),
        duration_ms=trace.raw.duration_ns // 100 / 1e4,
        part_ms=_part_of(trace),
        complete=trace.complete,
        damage=trace.damage,
        damage_offset=trace.raw.damage_offset,
        lost=lost.total if lost.known else None,
        lost_by_thread=dict(sorted(lost.by_thread.items(), key=lambda row: -row[1])),
        warnings=tuple(warnings),
        processes=trace.processes,
        threads=trace.threads,
        summary=summary,
    )


def summarize(path: Path, *, top: int = 8) -> list[str]:
    """Lines for people: format, blocks, events, what was lost, the most frequent events."""
    trace = open_trace(path)
    found, blocks = describe(trace), len(list(iter_blocks(trace.raw.buffer.data)))
    lost = "losses not known" if found.lost is None else f"{found.lost} lost"
    lines = [f"Format    {found.format}, {blocks} blocks, {found.events} events, {lost}, {found.verdict}"]
    lines += [f"  {row.count:>10}  {row.provider} {row.event}" for row in found.summary[:top]]
    return lines
