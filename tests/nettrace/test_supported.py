"""``docs/supported.md``: what each version of the format can say, and what of it is read and written."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import numpy as np
from tests.nettrace.traces import ARRAY, FIRST, PLAIN, SECOND, SMALL, SYNC, V6_ONLY

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import (
    BlockKind,
    Contents,
    GuidTable,
    HeaderColumns,
    LabelList,
    Metadata,
    NetPerfWriter,
    ThreadInfo,
    TypeCode,
    Writer,
    read,
)
from dotnetdiag.nettrace.columns import COLUMN_TYPES

FILE = Path(__file__).resolve().parents[2] / "docs" / "supported.md"
BEGIN, END = "<!-- held by tests/nettrace/test_supported.py: begin -->\n", "<!-- held by the test: end -->\n"
VERSIONS = (1, 2, 3, 4, 5, 6)
AnyWriter = Writer | NetPerfWriter


def event(
    writer: AnyWriter, metadata: Metadata = PLAIN, guids: tuple[UUID, ...] = (), thread_name: str = "", **values: int
) -> None:
    """One, with all that it refers to."""
    writer.add_metadata(metadata)
    if isinstance(writer, Writer) and writer.version == 6:
        writer.add_thread(ThreadInfo(index=100, name=thread_name))
    columns = {name: np.zeros(1, kind) for name, kind in COLUMN_TYPES.items()}
    given = {"metadata_id": metadata.metadata_id, "thread": 100, "capture_thread": 100, "sequence": 1, "time": SYNC + 1}
    for name, value in (given | values).items():
        columns[name][:] = value
    table = GuidTable()
    for guid in guids:
        table.intern(guid.bytes_le)
    writer.write_events(HeaderColumns(**columns), b"", guids=table)


def activity(writer: AnyWriter) -> None:
    if writer.version == 6:
        labels(writer, LabelList(activity=FIRST, related=SECOND))
    else:
        event(writer, guids=(FIRST, SECOND), activity=1, related=2)


def labels(writer: AnyWriter, said: LabelList | None = None) -> None:
    event(writer, label_list=of_nettrace(writer).add_labels(said or LabelList(values=(("why", "because"),))))


def named_thread(writer: AnyWriter) -> None:
    event(writer, thread_name="main")


def stack(writer: AnyWriter) -> None:
    event(writer, stack=writer.add_stack(bytes(8) + b"\6" * 8))


def lost(writer: AnyWriter) -> None:
    event(writer)
    of_nettrace(writer).add_dropped(100, 3)


def removed(writer: AnyWriter) -> None:
    event(writer)
    of_nettrace(writer).remove_thread(100)


def unknown(writer: AnyWriter) -> None:
    if writer.version == 6:
        of_nettrace(writer).write_block(99, b"what")
    else:
        of_nettrace(writer).write_object("Later", b"what")


def sequence_point(writer: AnyWriter) -> None:
    event(writer)
    of_nettrace(writer).write_sequence_point(SYNC + 2)


def of_nettrace(writer: AnyWriter) -> Writer:
    if not isinstance(writer, Writer):
        raise UsageError("NetPerf has nothing like it")
    return writer


def fields_of(contents: Contents) -> set[int]:
    return {int(field.type.code) for metadata in contents.metadata.values() for field in metadata.fields}


def activities_of(contents: Contents) -> set[UUID]:
    guids = contents.guids.bytes().reshape(-1, 16)
    return {UUID(bytes_le=guids[number].tobytes()) for number in contents.headers.activity.tolist()}


CONTENT: dict[str, tuple[Callable[[AnyWriter], None], Callable[[Contents], bool]]] = {
    "events of types with named fields": (
        event,
        lambda contents: "number" in {field.name for one in contents.metadata.values() for field in one.fields},
    ),
    "fields that are arrays; opcodes": (
        lambda writer: event(writer, ARRAY),
        lambda contents: TypeCode.ARRAY in fields_of(contents),
    ),
    "fields of any length, message templates, attributes": (
        lambda writer: event(writer, V6_ONLY),
        lambda contents: TypeCode.VARUINT in fields_of(contents),
    ),
    "stacks": (stack, lambda contents: len(contents.stacks) > 1),
    "activity ids": (activity, lambda contents: FIRST in activities_of(contents)),
    "the processor of an event": (
        lambda writer: event(writer, processor=2),
        lambda contents: contents.info is not None and 2 in contents.headers.processor,
    ),
    "what was lost, by thread": (lost, lambda contents: contents.lost.total > 0),
    "sequence points": (sequence_point, lambda contents: len(contents.sequence_points) > 0),
    "names of threads": (named_thread, lambda contents: any(one.name for one in contents.threads.values())),
    "threads that end": (removed, lambda contents: len(contents.removals) > 0),
    "labels of any name": (labels, lambda contents: any(one.values for one in contents.labels if one is not None)),
    "blocks of later versions, kept": (
        unknown,
        lambda contents: any(one.kind == BlockKind.UNKNOWN for one in contents.blocks),
    ),
}


def test_what_is_read_and_written_is_in_the_documentation() -> None:
    """The file is written anew, should it say something else."""
    lines = ["| | NetPerf 1 | NetPerf 2 | NetPerf 3 | nettrace 4 | nettrace 5 | nettrace 6 |", "|---" * 7 + "|"]
    lines += [f"| {name} | " + " | ".join(cell(name, version) for version in VERSIONS) + " |" for name in CONTENT]
    text = FILE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, "the table has no place"
    assert end, "the table has no end"
    wanted = head + BEGIN + "\n".join(lines) + "\n" + END + tail
    if wanted != text:
        FILE.write_text(wanted, encoding="utf-8")
    assert wanted == text, "docs/supported.md was written anew: look at it"


def cell(name: str, version: int) -> str:
    put, is_in = CONTENT[name]
    kind = "NetPerf" if version < 4 else "nettrace"
    read_too = is_in(read(SMALL[f"{kind} {version}"]))
    if version < 3:
        return "read" if read_too else "–"
    out = io.BytesIO()
    writer = NetPerfWriter(out, sync_ticks=SYNC) if version == 3 else Writer(out, version=version, sync_ticks=SYNC)
    try:
        put(writer)
        writer.close()
    except UsageError:
        return "read" if read_too else "–"
    return "read, write" if is_in(read(out.getvalue())) else "–"
