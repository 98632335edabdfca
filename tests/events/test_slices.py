"""Tables of a stream of events, by type: the same values as event by event, however it is cut."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.events import decode, resolve, slices, tables
from dotnetdiag.nettrace import EventBatch, Field, FieldType, HeaderColumns, Metadata, Reader, TypeCode, Writer, scan

pytestmark = pytest.mark.usefixtures("kernels_both_ways")

ROWS = 3000
FIELDS = (
    Field(name="number", type=FieldType(code=TypeCode.INT32)),
    Field(name="text", type=FieldType(code=TypeCode.STRING)),
)


def recording(ids: np.ndarray[Any, Any], defined: tuple[int, ...]) -> bytes:
    """Events of these types, whose number is their row, and whose text is as long as their id is large."""
    payloads = [
        int(row).to_bytes(4, "little") + ("x" * (int(number) % 17)).encode("utf-16-le") + b"\0\0"
        for row, number in enumerate(ids)
    ]
    columns = HeaderColumns.allocate(len(ids))
    columns.metadata_id[:] = ids
    columns.payload_length[:] = [len(payload) for payload in payloads]
    columns.payload_offset[:] = np.cumsum([0, *columns.payload_length[:-1].tolist()])
    columns.sequence[:] = np.arange(1, len(ids) + 1)
    columns.time[:] = np.arange(len(ids))
    columns.capture_thread[:] = columns.thread[:] = 7
    for name in ("processor", "stack", "activity", "related", "label_list", "is_sorted"):
        getattr(columns, name)[:] = 0
    file = io.BytesIO()
    with Writer(file, process_id=1) as writer:
        for number in defined:
            made = Metadata(
                metadata_id=number, provider="P", event_id=number & 0xFFFF, name=f"E{number}", fields=FIELDS
            )
            writer.add_metadata(made)
        for first in range(0, len(ids), 500):
            rows = slice(first, first + 500)
            writer.write_events(columns[rows], np.frombuffer(b"".join(payloads), np.uint8))
            writer.write_sequence_point()
    return file.getvalue()


def event_by_event(batches: Iterator[EventBatch]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        for row, number in enumerate(batch.headers.metadata_id.tolist()):
            if number not in batch.metadata:
                continue
            one = slice(row, row + 1)
            headers = batch.headers
            table = decode(
                resolve(batch.metadata[number]),
                batch.buffer,
                headers.payload_offset[one],
                headers.payload_length[one],
            )
            found.setdefault(number, []).append(table.row(0))
    return found


IDS = {
    "many": np.arange(ROWS) % 7 + 1,
    "one": np.full(ROWS, 3),
    "first one, then many": np.where(np.arange(ROWS) < 1700, 2, np.arange(ROWS) % 5 + 1),
    "large": np.where(np.arange(ROWS) % 3 == 0, 70_000, 4),
}


@pytest.mark.parametrize("what", IDS)
@pytest.mark.parametrize("shared", [False, True])
def test_tables_hold_every_event_of_a_type_in_order(what: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ROWS", 1100)
    monkeypatch.setattr(slices, "CALL_ROWS", 300)
    ids = IDS[what]
    data = recording(ids, tuple(np.unique(ids).tolist()))
    with ThreadPoolExecutor(2) as pool:
        found: dict[int, list[dict[str, Any]]] = {}
        for number, table in tables(scan(data).iter_batches(), executor=pool if shared else None):
            found.setdefault(number, []).extend(table.to_pylist())
    assert found == event_by_event(scan(data).iter_batches())
    assert sum(map(len, found.values())) == ROWS


def test_events_without_metadata_are_left_out() -> None:
    ids = np.where(np.arange(100) % 2 == 0, 1, 9)
    batches = scan(recording(ids, (1, 9))).iter_batches()
    found = list(tables(replace(batch, metadata={1: batch.metadata[1]}) for batch in batches))
    assert [number for number, _ in found] == [1]
    assert found[0][1].to_pylist()[1]["number"] == 2


def test_no_event_makes_no_table() -> None:
    assert list(tables(scan(recording(np.zeros(0, np.int64), (1,))).iter_batches())) == []


def test_batches_of_a_stream_are_refused() -> None:
    reader, data = Reader(), recording(IDS["many"], tuple(range(1, 8)))
    batches = [*reader.feed(data), *reader.close()]
    assert len(batches) > 1
    with pytest.raises(UsageError, match=r"nettrace\.scan"):
        list(tables(batches))
