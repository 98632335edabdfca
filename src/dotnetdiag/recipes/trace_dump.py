"""The blocks of a trace file, and the headers of its events, for people who look into the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import header_fields
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBlock:
    """One block; all offsets from the start of the file. ``whole`` is False where the file ends inside of it."""

    offset: int
    name: str
    start: int
    size: int
    present: int
    end: int
    whole: bool
    has_events: bool
    fields: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedEvent:
    """One event header; ``offset`` and ``length`` are the payload's. Times in ticks."""

    offset: int
    length: int
    metadata_id: int
    provider: str
    event: str
    sequence: int
    thread: int
    capture_thread: int
    processor: int
    stack: int
    time: int
    is_sorted: bool
    activity: str | None
    related: str | None


def tables_of(trace: Trace, *, events: bool = False) -> list[Table]:
    """The blocks, and with ``events`` the headers of all events, as tables."""
    blocks = [*iter_blocks(trace)]
    names = ("offset", "name", "start", "size", "present", "end", "whole", "has_events")
    columns: dict[str, list[Any]] = {name: [getattr(block, name) for block in blocks] for name in names}
    columns["fields"] = [dict(block.fields) for block in blocks]
    made = [Table(columns, title="blocks", losses=trace.raw.losses)]
    if events:
        rows = [asdict(event) for block in blocks if block.has_events for event in iter_events(trace, block)]
        made.append(Table.of_rows(rows, columns=[field.name for field in fields(DumpedEvent)], title="events"))
    return made


def iter_blocks(trace: Trace) -> Iterator[DumpedBlock]:
    """Every block in file order."""
    view = trace.raw.buffer.data
    for block in trace.raw.blocks:
        yield DumpedBlock(
            offset=block.offset,
            name=block.name,
            start=block.start,
            size=block.size,
            present=block.present,
            end=block.end,
            whole=block.whole,
            has_events=block.kind is BlockKind.EVENT,
            fields=header_fields(block, view),
        )


def iter_events(trace: Trace, block: DumpedBlock) -> Iterator[DumpedEvent]:
    """The events of one block, in file order."""
    headers = trace.raw.contents.headers
    first, last = np.searchsorted(headers.payload_offset, [block.start, block.start + block.present + 1])
    guids = trace.raw.guids
    for row in range(int(first), int(last)):
        number = int(headers.metadata_id[row])
        schema = trace.raw.types.name_of(number)
        activity, related = int(headers.activity[row]), int(headers.related[row])
        yield DumpedEvent(
            offset=int(headers.payload_offset[row]),
            length=int(headers.payload_length[row]),
            metadata_id=number,
            provider=schema.provider,
            event=schema.name,
            sequence=int(headers.sequence[row]),
            thread=int(headers.thread[row]),
            capture_thread=int(headers.capture_thread[row]),
            processor=int(headers.processor[row]),
            stack=int(headers.stack[row]),
            time=int(headers.time[row]),
            is_sorted=bool(headers.is_sorted[row]),
            activity=str(guids[activity]) if activity else None,
            related=str(guids[related]) if related else None,
        )
