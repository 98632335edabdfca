"""Names that a recording has are not those that SQL likes: every column and every event can be asked for all the same."""

from __future__ import annotations

import io
import struct

import pytest

from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.query.batches import distinct_names
from dotnetdiag.query.tables import names_of
from dotnetdiag.trace.trace import Trace

FIELDS = [
    "file",
    "FILE",
    "ms",
    'a"b',
    "Frames",
    "é ü",
    "payload.ms",
    "rowid",
    "x",
    "X",
    "a\nb",
    "(q > 1)",
    "\\",
    "'",
    "select",
]
EVENTS = ["it's", 'a"b', "new\nline", "events", "gc", "tables", "with space", "System.X/Y", "select", "x.parquet"]
ROWS = 3


@pytest.fixture(scope="module")
def trace() -> Trace:
    out = io.BytesIO()
    declared = tuple(Field(name=name, type=FieldType(code=TypeCode.INT32)) for name in FIELDS)
    with Writer(out) as writer:
        for number, name in enumerate(EVENTS, 1):
            writer.add_metadata(Metadata(metadata_id=number, provider="P", event_id=number, name=name, fields=declared))
            for row in range(ROWS):
                payload = struct.pack(f"<{len(FIELDS)}i", *range(row, row + len(FIELDS)))
                writer.write_event(number, 1000 * number + row, payload, thread=1)
    return Trace(out.getvalue(), name="hostile")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_every_event_can_be_asked_for(trace: Trace) -> None:
    known = names_of(trace)
    assert list(known) == [f"P/{name}" if name in ("events", "gc", "tables") else name for name in EVENTS]
    for name in known:
        assert len(trace.sql(f"select ms from {quoted(name)}")) == ROWS
    assert len(trace.sql("from gc")) == 0
    assert len(trace.sql("from events")) == ROWS * len(EVENTS)


def test_every_column_can_be_asked_for_and_chosen_by(trace: Trace) -> None:
    table = trace[EVENTS[0]]
    whole = trace.sql(f"from {quoted(EVENTS[0])}")
    own = whole.columns[-len(FIELDS) - 1 : -1]
    assert len({name.lower() for name in whole.columns}) == len(whole.columns)
    for name, field in zip(own, FIELDS, strict=True):
        values = table.values(f"payload.{field}")
        assert whole.values(name) == values
        rows = trace.sql(f"select {quoted(name)} as v from {quoted(EVENTS[0])} where {quoted(name)} = {values[1]}")
        assert rows.values("v") == [values[1]]


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    assert distinct_names(["a", "A", "a", "ms", "x\0y"], ["file", "MS"]) == [
        "a",
        "payload.A",
        "a?",
        "payload.ms",
        "x?y",
    ]
