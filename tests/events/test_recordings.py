"""Every recording, value by value, against what TraceEvent saw in it. A new recording dropped in is checked as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.events.traceevent_differences import CUT, INVENTED_IDS, NAMES, OPCODES, UNDECLARED, differences
from tests.nettrace.recordings import data_of, listing_of, recordings

from dotnetdiag.events import EventSchema, Source, Table, decode, resolve
from dotnetdiag.events.carried import CarriedTypes
from dotnetdiag.events.columns import json_value
from dotnetdiag.nettrace import Contents, HeaderColumns, Metadata, read


@lru_cache(maxsize=2)
def opened(name: str) -> tuple[Contents, HeaderColumns, Mapping[int, Metadata]]:
    """A recording, and its headers and metadata with the types that events carry."""
    raw = data_of(name)
    contents = read(raw)
    carried = CarriedTypes(lambda: max(contents.metadata) + 1)
    headers = carried.typed(contents.headers, contents.buffer, contents.metadata)
    return contents, headers, {**contents.metadata, **carried.records}


def tables(name: str) -> dict[int, tuple[EventSchema, Table, dict[int, int]]]:
    """By metadata id: the schema, the decoded table, and which row of it each event of the file is."""
    contents, headers, metadata = opened(name)
    assert contents.info is not None
    made = {}
    for number in np.unique(headers.metadata_id).tolist():
        rows = np.flatnonzero(headers.metadata_id == number)
        schema = resolve(metadata[number], contents.info.pointer_size)
        table = decode(schema, contents.buffer, headers.payload_offset[rows], headers.payload_length[rows])
        made[number] = (schema, table, {int(row): place for place, row in enumerate(rows)})
    return made


@pytest.fixture(params=recordings())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_event_has_the_names_and_values_that_the_reference_shows(name: str) -> None:
    contents, headers, _ = opened(name)
    made = {number: (schema, table.to_pylist(), places) for number, (schema, table, places) in tables(name).items()}
    order = contents.order()
    wrong: dict[str, int] = defaultdict(int)
    place = 0
    for said in listing_of(name).events:
        row = int(order[place])
        place += 1
        number = int(headers.metadata_id[row])
        schema, rows, places = made[number]
        key = (schema.provider, schema.event_id)
        facts = (
            schema.provider,
            schema.event_id,
            schema.version,
            schema.level,
            hex(schema.keywords),
            schema.opcode,
            schema.name,
        )
        opcode = OPCODES.get(key, (said["opcode"],))[0]
        title = NAMES.get(key, (said["event"],))[0]
        assert (opcode, title) == (said["opcode"], said["event"])
        expected = (
            said["provider"],
            INVENTED_IDS.get(said["id"], said["id"]),
            said["version"],
            said["level"],
            said["keywords"],
            schema.opcode if key in OPCODES else said["opcode"],
            schema.name if key in NAMES else said["event"],
        )
        if facts != expected:
            wrong[f"{facts} is not {expected}"] += 1
        if (schema.provider, schema.name) in UNDECLARED:
            assert said["payload"] == {}
            continue
        for text in differences(key, json_value(rows[places[row]]), said["payload"]):
            wrong[f"{schema.provider}/{schema.name} {text}"] += 1
    assert not wrong, "\n".join(f"{count} × {text}" for text, count in list(wrong.items())[:40])
    assert place == len(order) or name in CUT


def test_every_payload_decodes_to_its_last_byte(name: str) -> None:
    for schema, table, _ in tables(name).values():
        assert table.undecodable is None, schema.name
        if (schema.provider, schema.name) in UNDECLARED:
            assert table.inferred == (schema.name != "Nested")
            assert (table.remainder is None) == table.inferred
        else:
            assert table.remainder is None, (schema.provider, schema.name, schema.version)


def test_selected_fields_are_the_same_values(name: str) -> None:
    contents, headers, _ = opened(name)
    for number, (schema, table, places) in tables(name).items():
        rows = np.array(list(places), np.int64)
        for field in list(table.columns)[:: max(1, len(table.columns) // 3)]:
            alone = decode(
                table.schema,
                contents.buffer,
                headers.payload_offset[rows],
                headers.payload_length[rows],
                fields=[field],
            )
            picked = np.arange(0, len(rows), max(1, len(rows) // 50))
            assert alone[field].take(picked).to_pylist() == table[field].take(picked).to_pylist(), (number, schema.name)


def found(name: str, event: str) -> Table:
    (table,) = [table for schema, table, _ in tables(name).values() if schema.matches(event)]
    return table


def listed_values(table: Table, field: str) -> list[Any]:
    return list(table[field].to_pylist())


def test_blob_of_the_lossy_recording_is_inferred_from_its_lengths() -> None:
    table = found("lossy-10.nettrace", "Workload-Manifest/Blob")
    assert table.schema.source == Source.INFERRED
    assert list(table.columns) == ["u32@0", "u32@4", "bytes@12"]
    assert set(np.diff(table["bytes@12"].offsets).tolist()) == {40}  # type: ignore[union-attr]


def test_bulk_events_and_maps_have_all_their_elements() -> None:
    heap = "heap-10.nettrace"
    for event in ("GC/BulkNode", "GC/BulkEdge", "GC/BulkRootEdge", "Type/BulkType", "GC/BulkRootStaticVar"):
        table = found(heap, event)
        assert [len(values) for values in listed_values(table, "Values")] == listed_values(table, "Count")
    names = [one["Name"] for values in listed_values(found(heap, "Type/BulkType"), "Values") for one in values]
    assert "System.String[]" in names
    assert all(name.isprintable() for name in names)


def test_strings_of_universal_events_are_whole() -> None:
    v6 = "v6-oncpu-10.nettrace"
    files = listed_values(found(v6, "ProcessMapping"), "FileName")
    assert any(file.endswith("/libcoreclr.so") for file in files)
    symbols = listed_values(found(v6, "ProcessSymbol"), "Name")
    assert all(symbol.isprintable() and symbol for symbol in symbols)
