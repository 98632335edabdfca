"""Rows of reports that lie elsewhere: of each window its own are made, and not all of a column."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

from dotnetdiag.analysis import spans as spans_room
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.query import tables
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace.trace import Trace

COUNT = 20
FIELDS = (
    Field(name="Id", type=FieldType(code=TypeCode.INT32)),
    Field(name="Text", type=FieldType(code=TypeCode.STRING)),
)


@pytest.fixture
def trace() -> Trace:
    """Twenty spans, the third without an end."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "Work/Start"), (2, "Work/Stop")):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="Mine", event_id=number, name=name, fields=FIELDS)
            )
        for key in range(COUNT):
            for kind in (1, 2):
                if (kind, key) != (2, 3):
                    payload = struct.pack("<i", key) + f"{key % 3}\0".encode("utf-16-le")
                    writer.write_event(kind, (10 * key + kind) * 1_000_000, payload, thread=1)
    return Trace(file.getvalue())


QUERIES = [
    "select * from spans('Work/Start', 'Work/Stop')",
    "select Id, Text, duration_ms from spans('Work/Start', 'Work/Stop') where Id % 4 = 1 and start_ms > 20",
    "select Text, count(*), sum(duration_ms) from spans('Work/Start', 'Work/Stop') group by all order by all",
    "select count(*) from spans('Work/Start', 'Work/Stop')",
    "select max(time) from spans('Work/Start', 'Work/Stop') where Text = '1'",
]


def answer(trace: Trace, query: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = trace.sql(query).to_arrow().to_pylist()
    return made


@pytest.mark.parametrize("query", QUERIES)
def test_each_window_has_its_own_rows(query: str, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer(trace, query)

    def refused(_: SlicedTable, name: str) -> None:
        raise AssertionError(f"all of {name}")

    monkeypatch.setattr(spans_room, "MANY", 2)
    monkeypatch.setattr(tables, "WINDOW_ROWS", 3)
    monkeypatch.setattr(SlicedTable, "_found", refused)
    assert answer(trace, query) == whole
    assert whole
