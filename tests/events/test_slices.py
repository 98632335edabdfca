"""Tables of a stream of events, by type: the same values as event by event, however it is cut."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shared import CHECKOUT

from dotnetdiag.events import Table, decode, program, resolve, slices, tables
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


def stream_of(fields: tuple[Field, ...], payloads: list[bytes]) -> Iterator[EventBatch]:
    """Events of one type, each in a batch of its own."""
    file, reader = io.BytesIO(), Reader()
    with Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E", fields=fields))
        for time, payload in enumerate(payloads):
            writer.write_event(1, time, payload, thread=1)
            writer.write_sequence_point()
    yield from reader.feed(file.getvalue())


def all_tables(batches: Iterator[EventBatch]) -> list[Table]:
    return [table for _, table in tables(batches)]


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
    "many, then one": np.where(np.arange(ROWS) < 300, np.arange(ROWS) % 5 + 1, 2),
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


def stream(data: bytes, size: int = 1 << 20) -> Iterator[EventBatch]:
    reader = Reader()
    for start in range(0, len(data), size):
        yield from reader.feed(data[start : start + size])
    yield from reader.close()


@pytest.mark.parametrize("size", [200, 1 << 20])
def test_batches_of_a_stream_give_the_same_tables(size: int) -> None:
    data = recording(IDS["many"], tuple(range(1, 8)))
    found: dict[int, list[dict[str, Any]]] = {}
    for number, table in tables(stream(data, size)):
        found.setdefault(number, []).extend(table.to_pylist())
    assert found == event_by_event(scan(data).iter_batches())


@pytest.mark.parametrize("read", [stream, lambda data: scan(data).iter_batches()], ids=["stream", "file"])
def test_a_batch_says_which_event_of_the_batch_and_of_the_file_each_row_is(
    read: Callable[[bytes], Iterator[EventBatch]],
) -> None:
    data = recording(IDS["large"], (4, 70_000))
    seen = 0
    for batch in read(data):
        for part in batch.tables():
            assert part.schema.name == f"E{part.metadata_id}"
            assert (batch.headers.metadata_id[part.rows] == part.metadata_id).all()
            numbers = part.table["number"].to_pylist()
            assert batch.headers.time[part.rows].tolist() == numbers
            assert [int.from_bytes(data[at : at + 4], "little") for at in part.file_offsets.tolist()] == numbers
            seen += len(numbers)
    assert seen == ROWS


def test_a_batch_leaves_out_events_without_metadata() -> None:
    (batch,) = scan(recording(np.array([1, 9, 1]), (1, 9))).iter_batches()
    parts = list(replace(batch, metadata={1: batch.metadata[1]}).tables())
    assert [(part.metadata_id, part.rows.tolist()) for part in parts] == [(1, [0, 2])]


def test_a_second_pass_over_a_file_gives_what_the_first_gave() -> None:
    """Though the layout that the first payloads prove is contradicted by the last."""
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="Mine", event_id=1, name="Blob"))
        for time in range(2000):
            writer.write_event(1, time, blob(time % 50) if time < 1000 else b"\xff" * 9, thread=1)
            if time % 500 == 499:
                writer.write_sequence_point()
    scanned = scan(out.getvalue())
    passes = [
        [
            (part.table.inferred, part.table.undecodable_count)
            for batch in scanned.iter_batches()
            for part in batch.tables()
        ]
        for _ in range(3)
    ]
    assert passes[0] == passes[1] == passes[2]
    assert passes[0][0][0]
    assert not passes[0][-1][0]


def test_pointers_are_those_of_the_trace() -> None:
    file = io.BytesIO()
    with Writer(file, pointer_size=4) as writer:
        writer.add_metadata(
            Metadata(metadata_id=1, provider="Microsoft-Windows-DotNETRuntime", event_id=33, declared=False)
        )
        writer.write_event(1, 1, struct.pack("<IIQ2sH", 1, 2, 3, b"\0\0", 9), thread=1)
    data = file.getvalue()
    rows = [table.row(0) for batches in (stream(data), scan(data).iter_batches()) for _, table in tables(batches)]
    rows += [part.table.row(0) for batch in stream(data) for part in batch.tables()]
    assert rows == [{"HandleID": 1, "ObjectID": 2, "ObjectSize": 3, "TypeName": "", "ClrInstanceID": 9}] * 3


def test_metadata_that_a_stream_forgets_is_forgotten() -> None:
    batches = [
        replace(batch, metadata={1: replace(batch.metadata[1], name=name)})
        for name in ("Old", "New")
        for batch in stream(recording(np.full(10, 1), (1,)))
    ]
    assert [part.schema.name for batch in batches for part in batch.tables()] == ["Old", "New"]
    assert [table.schema.name for _, table in tables(batches)] == ["Old", "New"]
    shared = [replace(batch, buffer=batches[0].buffer) for batch in batches]
    assert [table.schema.name for _, table in tables(shared)] == ["Old", "New"]


@pytest.mark.parametrize(("proof", "calls"), [(10, 3), (8, 2)])
def test_a_layout_that_nobody_declares_is_looked_for_in_so_many_events_and_no_more(
    proof: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first ones do not prove later ones may; but not every slice is gone through again."""
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="", declared=False))
        for time in range(40):
            writer.write_event(1, time, b"\xff" * 9, thread=1)
            writer.flush()
    looked: list[int] = []

    def look(_: object, __: object, offsets: np.ndarray[Any, Any], ___: object) -> None:
        looked.append(len(offsets))

    monkeypatch.setattr(slices, "infer", look)
    monkeypatch.setattr(slices, "CALL_ROWS", 4)
    monkeypatch.setattr(slices, "PROOF_ROWS", proof)
    batches = list(scan(out.getvalue()).iter_batches())
    cut = [replace(batch, headers=batch.headers[row : row + 4]) for batch in batches for row in range(0, len(batch), 4)]
    assert sum(len(table) for _, table in tables(cut)) == 40
    assert looked == [4] * calls


def test_the_example_decodes_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "some.nettrace"
    path.write_bytes(recording(IDS["many"], tuple(range(1, 8))))
    example = CHECKOUT / "examples" / "offline" / "decode_payloads.py"
    done = subprocess.run([sys.executable, str(example), str(path)], capture_output=True, text=True, check=True)
    assert "P/E7, from tick" in done.stdout
    assert "'number': " in done.stdout


def undeclared(*blocks: list[bytes]) -> Iterator[EventBatch]:
    """A stream of blocks of events of a type without fields, whose payloads these are; each block comes by itself."""
    file, reader, taken = io.BytesIO(), Reader(), 0
    writer = Writer(file, process_id=1)
    writer.add_metadata(Metadata(metadata_id=1, provider="Mine", event_id=1, name="Blob"))
    for number, payloads in enumerate(blocks):
        for payload in payloads:
            writer.write_event(1, number, payload, thread=1)
        writer.write_sequence_point()
        yield from reader.feed(file.getvalue()[taken:])
        taken = len(file.getvalue())


def blob(size: int) -> bytes:
    return struct.pack("<I", size) + bytes(size)


@pytest.mark.parametrize(
    "odd",
    [[b"\xff\xff\xff\xffhello"] * 5, [b"\xff\xff\xff\xff" + struct.pack("<I", size) + bytes(size) for size in range(5)]],
    ids=["that prove nothing", "that prove another"],
)  # fmt: skip
def test_a_layout_that_later_payloads_contradict_was_none(odd: list[bytes]) -> None:
    first, second, third = (table for batch in undeclared([blob(1), blob(2)], odd, [blob(3)]) for table in [batch])
    found = [table.table for batch in (first, second, third) for table in batch.tables()]
    assert [table.inferred for table in found] == [True, False, False]
    assert [table.undecodable_count for table in found] == [0, 0, 0]
    assert [len(table) for table in found] == [2, 5, 1]
    assert [table.inferred for _, table in tables(undeclared([blob(1), blob(2)], odd))] == [True, False]


def test_a_layout_is_inferred_though_two_of_the_first_payloads_in_two_thousand_are_damaged() -> None:
    payloads = [blob(size % 50) for size in range(2000)]
    payloads[3] = payloads[40] = b"\xff\xff\xff\xffhello"
    (table,) = (part.table for batch in undeclared(payloads) for part in batch.tables())
    assert (table.inferred, table.undecodable_count) == (True, 2)


def test_a_layout_outlives_one_damaged_payload_in_a_thousand() -> None:
    blocks = [[blob(size % 50) for size in range(1000)], [b"\xff\xff\xff\xffhello"], [blob(3)], [b"\xff" * 9]]
    found = [table.table for batch in undeclared(*blocks) for table in batch.tables()]
    assert [table.inferred for table in found] == [True, True, True, True]
    assert [table.undecodable_count for table in found] == [0, 1, 0, 1]


def test_pieces_ahead_are_counted_by_what_they_hold() -> None:
    given = 0

    def batches() -> Iterator[EventBatch]:
        nonlocal given
        for batch in undeclared(*([bytes(60_000)] for _ in range(300))):
            given += 1
            yield batch

    with ThreadPoolExecutor(1) as pool:
        made = tables(batches(), executor=pool)
        next(made)
        assert given <= slices.AHEAD_ROWS * 4 // 2048 + 2
        made.close()  # type: ignore[attr-defined]  # it is a generator


@pytest.mark.parametrize(
    "tables_of", [lambda batches: [part.table for batch in batches for part in batch.tables()], all_tables]
)
def test_many_fields_and_many_batches_of_nothing_do_not_take_their_product(
    tables_of: Callable[[Iterator[EventBatch]], list[Table]], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = 0
    column = program._Run.column

    def counting(*arguments: Any) -> Any:
        nonlocal columns
        columns += 1
        return column(*arguments)

    monkeypatch.setattr(program._Run, "column", counting)
    counted = []
    for size in (200, 400):
        columns = 0
        fields = tuple(Field(name=f"f{number}", type=FieldType(code=TypeCode.BYTE)) for number in range(size))
        made = tables_of(stream_of(fields, [b""] * size + [bytes(size)] * 2))
        assert len(made) == size + 2
        assert [len(table.columns) for table in made[:8]] == [size] * 8
        assert sum(table.undecodable_count for table in made[:size]) > 0.8 * size
        assert made[-1].row(0) == {f"f{number}": 0 for number in range(size)}
        counted.append(columns)
    assert counted[1] < 2.5 * counted[0]


def test_few_fields_are_always_columns() -> None:
    fields = tuple(Field(name=f"f{number}", type=FieldType(code=TypeCode.BYTE)) for number in range(64))
    made = all_tables(stream_of(fields, [b""] * 50))
    assert [len(table.columns) for table in made] == [64] * 50


def test_large_payloads_are_not_decoded_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_BYTES", 1 << 20)
    file = io.BytesIO()
    with Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E"))
        for time in range(400):
            writer.write_event(1, time, bytes([time % 251]) * 60_000, thread=1)
            writer.write_sequence_point()
    made = all_tables(scan(file.getvalue()).iter_batches())
    payloads = [table.remainder for table in made if table.remainder is not None]
    assert max(len(part.data) for part in payloads) <= 1 << 20
    assert [part.data[first] for part in payloads for first in part.offsets[:-1]] == [n % 251 for n in range(400)]


def test_tables_have_so_many_rows_of_so_many_events() -> None:
    """Calls of at most 32,768 rows, of slices of at most 300,000 events; of events of one type as soon as there are enough."""
    (batch,) = scan(recording(np.array([1, 2]), (1, 2))).iter_batches()
    mixed = replace(batch, headers=batch.headers[np.arange(100_000) % 2])
    single = replace(batch, headers=batch.headers[np.zeros(20_000, np.int64)])
    call, rest, last = 1 << 15, 150_000 - 4 * (1 << 15), 50_000 - (1 << 15)
    sizes = [(number, len(table)) for number, table in tables([mixed] * 4)]
    assert sizes == [(number, size) for number in (1, 2) for size in [call] * 4 + [rest]] + [
        (number, size) for number in (1, 2) for size in (call, last)
    ]
    assert [len(table) for _, table in tables([single] * 3)] == [call, 40_000 - call, 20_000]


@pytest.mark.parametrize(
    ("rows", "size", "weight"), [(1, 0, 2048), (2049, 0, 2049), (100, 6400, 10_000), (8191, 128, 16_382), (8192, 128, 8192)]
)  # fmt: skip
def test_a_piece_ahead_counts_as_its_rows_or_its_bytes(rows: int, size: int, weight: int) -> None:
    lengths = np.full(rows, size, np.uint32)
    schema = resolve(Metadata(metadata_id=1, provider="P", event_id=1, name="E"))
    piece = slices._Piece(1, schema, np.zeros(0, np.uint8), np.zeros(rows, np.int64), lengths, rows, True)
    assert piece.weight() == weight
