"""The trace as people hold it: names, tables, rows, selections, conversions, and what damage does."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import struct
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.traces import runtime_is, traced
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of, listing_of
from tests.nettrace.traces import PLAIN, SMALL, START_NS, SYNC
from tests.trace.made import MadeTrace

import dotnetdiag
from dotnetdiag.errors import FormatError, GrammarError, MissingDependency, UnknownName, UsageError
from dotnetdiag.events import Column, EventSchema, Scalar, Struct, Table, decode
from dotnetdiag.events.columns import json_value
from dotnetdiag.events.layout import Kind
from dotnetdiag.nettrace import Field, FieldType, Metadata, ThreadInfo, TraceInfo, TypeCode, Writer
from dotnetdiag.nettrace.info import NO_TIME
from dotnetdiag.table.arrow import arrow_table, polars_frame, write_parquet
from dotnetdiag.trace import source, table
from dotnetdiag.trace.json_lines import JsonLines
from dotnetdiag.trace.trace import Trace
from dotnetdiag.trace.where import Where

_OPEN: dict[str, Trace] = {}


def opened(name: str) -> Trace:
    if name not in _OPEN:
        _OPEN[name] = Trace(data_of(f"{name}.nettrace"), name=name)
    return _OPEN[name]


def listed(name: str, event: str) -> list[dict[str, Any]]:
    return [said for said in listing_of(f"{name}.nettrace").events if said["event"] == event]


# names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["GC/Start", "gc/start", "GCStart", "GCStart_V2", "Microsoft-Windows-DotNETRuntime/GC/Start", " GC/Start "],
)
def test_an_event_is_found_by_any_of_its_names(name: str) -> None:
    trace = opened("events-10")
    assert name in trace
    made = trace[name]
    assert len(made) == len(listed("events-10", "GC/Start")) == 10
    assert made["Count"].to_pylist() == [said["payload"]["Count"] for said in listed("events-10", "GC/Start")]


def test_a_name_that_is_not_there_names_near_ones() -> None:
    trace = opened("events-10")
    for name, near in [("GC/Strat", "GC/Start"), ("Scalar", "Scalars"), ("DCStopVerbose", "Method/DCStopVerbose")]:
        assert name not in trace
        assert trace.get(name) is None
        with pytest.raises(UnknownName) as caught:
            trace[name]
        assert isinstance(caught.value, KeyError)
        assert near in caught.value.near
        assert near in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UnknownName, match="Workload-Manifest"):
        trace.events(providers="Workload-Manifst")
    with pytest.raises(UnknownName, match="near: Count"):
        trace["GC/Start"]["Cuont"]
    with pytest.raises(UnknownName, match="near: Count"):
        trace.events(where="Cuont > 5")
    assert 5 not in trace


# what a trace says of itself --------------------------------------------------------------------------------------------


def test_trace_tells_what_it_is() -> None:
    trace = opened("events-10")
    events = listing_of("events-10.nettrace").events
    assert len(trace) == len(events)
    counted = Counter((said["provider"], said["event"]) for said in events if said["id"] != 65524)
    ours = {(p, e): count for p, found in trace.counts().items() for e, count in found.items()}
    assert {key: ours[key] for key in counted} == counted
    sizes: Counter[str] = Counter()
    for said in events:
        sizes[said["provider"]] += said["bytes"]
    assert {provider: sum(found.values()) for provider, found in trace.raw.sizes().items()} == sizes
    assert set(trace.providers) == set(sizes)
    assert {thread.tid: thread.events for thread in trace.threads} == Counter(said["tid"] for said in events)
    assert {thread.pid for thread in trace.threads} == {events[0]["pid"]}
    assert trace.start == datetime(2026, 11, 21, 2, 4, 44, 495000, UTC)
    assert trace.duration == timedelta(microseconds=int(events[-1]["ms"] * 1000))
    assert trace.raw.process.pid == events[0]["pid"]
    assert trace.raw.process.runtime == ".NET 10.0.14"
    assert trace.raw.process.os == "Linux"
    assert trace.raw.process.architecture == "x64"
    assert "workload.dll events+gc" in (trace.raw.process.command_line or "")
    assert trace.complete
    assert trace.damage is None
    assert trace.lost.total == 0
    assert "2,834 events of 5 providers, 3.166 s, 0 lost, complete" in repr(trace)


def test_summary_has_first_and_last_of_every_event() -> None:
    trace = opened("events-10")
    for row in trace.summary():
        times = [
            said["ms"]
            for said in listing_of("events-10.nettrace").events
            if (said["provider"], said["event"]) == (row.provider, row.event)
        ]
        assert (row.count, row.first_ns / 1e6, row.last_ns / 1e6) == (len(times), times[0], times[-1])
        if len(times) > 1:
            assert row.rate == pytest.approx((len(times) - 1) * 1000 / (times[-1] - times[0]))
        else:
            assert row.rate is None


def test_events_of_a_time_after_the_end_are_an_error_and_others_may_be_none() -> None:
    trace = opened("events-10")
    for read in (list, len, lambda events: events.table()):
        with pytest.raises(UsageError, match=r"^nothing is after 2000 s: events-10\S* ends at 3\.166 s$"):
            read(trace.events(time=(2000, 3000)))
    assert list(trace.events(time=(0, 0))) == []
    assert list(trace.events(time=(2, None), where="ms < 0")) == []
    assert len(list(trace.events(time=(trace.raw.duration_ns / 1e9 - 1e-7, None)))) >= 1


def test_warnings_tell_what_was_concluded_and_what_is_not_known() -> None:
    warnings = opened("events-10").warnings
    assert any("Bytes" in text and "inferred" in text for text in warnings)
    assert any("Nested" in text and "nothing describes" in text for text in warnings)
    assert opened("events-10").raw.undecodable() == {}
    assert Trace(SMALL["nettrace 5"]).raw.undecodable() == {"Maker/Plain": 7}


def test_threads_of_one_id_of_the_system_are_one() -> None:
    out = io.BytesIO()
    with Writer(out, version=6, process_id=7) as writer:
        writer.add_metadata(PLAIN)
        for index, tid, name in ((1, 70, ""), (2, 71, "other"), (3, 70, "worker")):
            writer.add_thread(ThreadInfo(index=index, os_thread_id=tid, name=name))
        for time, index in enumerate((1, 3, 3, 2, 1)):
            writer.write_event(1, time, bytes(6), thread=index)
    found = [(thread.tid, thread.name, thread.events) for thread in Trace(out.getvalue()).threads]
    assert found == [(70, "worker", 4), (71, "other", 1)]


def test_events_without_a_stack_have_no_frames() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        for time, addresses in enumerate(([0x10], [], [0x20, 0x30], [])):
            writer.write_event(1, time, bytes(6), thread=1, stack=writer.add_stack(addresses) if addresses else 0)
    trace = Trace(out.getvalue())
    frames = trace.raw.frames_column(trace.events().table().headers).to_pylist()
    assert frames == [["!0x10"], None, ["!0x20", "!0x30"], None]


def test_damaged_payloads_are_counted_over_all_types_of_a_name() -> None:
    out = io.BytesIO()
    field = Field(name="Id", type=FieldType(code=TypeCode.INT32))
    with Writer(out) as writer:
        for version in (1, 2):
            writer.add_metadata(
                Metadata(metadata_id=version, provider="P", event_id=1, name="E", version=version, fields=(field,))
            )
            for time in range(3):
                writer.write_event(version, 10 * version + time, b"x", thread=1)
    assert Trace(out.getvalue()).raw.undecodable() == {"P/E": 6}


def test_nobody_is_warned_of_what_is_not_so() -> None:
    assert [text for text in Trace(SMALL["nettrace 5"]).warnings if "threads" in text or "skipped" in text] == []


def test_an_event_without_payload_needs_no_description() -> None:
    data = by_hand.trace(
        by_hand.metadata(by_hand.event_type(1), by_hand.event_type(2, "Bare")),
        by_hand.events(by_hand.event(1)[:-1] + b"\1x", by_hand.event(2)),
    )
    assert [text for text in Trace(data).warnings if "describes" in text] == [
        "P/E: nothing describes the payloads of 1 events"
    ]


def test_a_large_file_is_not_read_for_its_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.trace import raw as module

    monkeypatch.setattr(module, "_REPR_BYTES", 0)
    trace = Trace(SMALL["nettrace 5"])
    assert "not yet read" in repr(trace)
    assert trace.complete
    trace.summary()
    assert "3 lost, complete" in repr(trace)


# tables -----------------------------------------------------------------------------------------------------------------


def test_versions_of_an_event_are_one_table_that_tells_them_apart() -> None:
    made = opened("events-10")["MethodDCEndVerbose"]
    versions = made["version"].to_pylist()
    assert set(versions) == {1, 2}
    assert "v1" in repr(made)
    assert "v2" in repr(made)
    ids = made["ReJITID"].to_pylist()
    assert {
        version: {value is None for v, value in zip(versions, ids, strict=True) if v == version} for version in (1, 2)
    } == {
        1: {True},
        2: {False},
    }
    for row, said in zip(made, listed("events-10", "Method/DCStopVerbose"), strict=True):
        assert row.MethodName == said["payload"]["MethodName"]
        assert row.ms == said["ms"]
        assert ("ReJITID" in row) == (row.schema.version == 2)


def test_one_name_in_several_providers_is_one_table_with_the_provider_as_column() -> None:
    made = opened("counters-10")["EventCounters"]
    said = listed("counters-10", "EventCounters")
    assert made["provider"].to_pylist() == [one["provider"] for one in said]
    assert len(set(made["provider"].to_pylist())) > 1
    # the two kinds of counter have different members: neither is lost
    names = [one["payload"][""]["Payload"]["Name"] for one in said]
    assert [row.Payload["Name"] for row in made] == names
    means = {one["payload"][""]["Payload"].get("Mean") for one in said}
    increments = {one["payload"][""]["Payload"].get("Increment") for one in said}
    columns = [made.get(f"{field}.{member}") for field in made.fields for member in ("Mean", "Increment")]
    found = {value for column in columns if column is not None for value in column.to_pylist()}
    assert found == means | increments


def test_a_row_gives_header_and_payload_by_attribute_and_item() -> None:
    made = opened("events-10")["Scalars"]
    said = listed("events-10", "Scalars")[1]
    row = made.row(1)
    assert row.u32 == row["u32"] == 4294967295
    assert (row.tid, row.pid, row.ms, row.event, row.provider) == (
        said["tid"], said["pid"], said["ms"], "Scalars", "Workload-Manifest",
    )  # fmt: skip
    assert row["tid"] == said["tid"]
    assert row.time == datetime(2026, 11, 21, 2, 4, 46, 840966, UTC)
    assert json_value(row.payload) == said["payload"]
    assert row.activity is None
    assert row.stack > 0
    assert "u32=4294967295" in repr(row)
    assert made.row(-1).ms == list(made)[-1].ms
    with pytest.raises(AttributeError):
        row.nothing  # noqa: B018 - it is the asking
    with pytest.raises(KeyError):
        row["nothing"]
    with pytest.raises(IndexError):
        made.row(20)


def test_a_field_with_the_name_of_a_key_is_reached_under_both() -> None:
    made = opened("events-10")["Scalars"]
    assert "id" in made.columns
    assert str(made["id"].item(0)) == "00112233-4455-6677-8899-aabbccddeeff"
    assert made["payload.id"].to_pylist() == made["id"].to_pylist()
    assert made["header.id"].to_pylist() == [1] * 20
    for where in ("header.id == 1 and event == 'Scalars'", "payload.id ~ '^0011'", "id ~ '^0011'", "ID ~ '^0011'"):
        assert len(opened("events-10").events(where=where)) == 20
    event = next(iter(opened("events-10").events(names="Scalars")))
    assert event["id"] == event["payload.id"] == made["id"].item(0)
    assert event["header.tid"] == event["tid"] == event.tid


def test_a_column_of_the_header_comes_before_a_field_of_its_name() -> None:
    """In tables, events and filters alike."""
    field = Field(name="tid", type=FieldType(code=TypeCode.INT32))
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E", fields=(field,)))
        writer.write_event(1, 0, (77).to_bytes(4, "little"), thread=5)
    trace = Trace(out.getvalue())
    (event,) = trace.events()
    assert trace["E"]["tid"].to_pylist() == [event["tid"]] == [5]
    assert trace["E"]["payload.tid"].to_pylist() == [event["payload.tid"]] == [77]
    assert len(trace.events(where="tid == 5 and payload.tid == 77 and header.tid == 5")) == 1


def test_the_number_of_filtered_events_is_found_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    real = Where.mask

    def counting(self: Where, columns: Any, rows: int, *more: Any) -> Any:
        looked.append(rows)
        return real(self, columns, rows, *more)

    monkeypatch.setattr(Where, "mask", counting)
    events = opened("events-10").events(where="ms > 1")
    made = list(events)
    assert len(made) == len(events)
    assert sum(looked) == len(opened("events-10"))
    monkeypatch.setattr("dotnetdiag.trace.events.KEPT_ROWS", 10)
    again = opened("events-10").events(where="ms > 1")
    assert len(again) == len(made)
    assert again._found is None
    assert [event.ms for event in again] == [event.ms for event in made]


def test_events_say_how_they_become_a_data_frame() -> None:
    import pandas

    trace = opened("gcverbose-10")
    frame: Any = pandas.DataFrame
    with pytest.raises(UsageError, match=r"write table\.to_pandas\(\)"):
        frame(trace["GC/Start"])
    with pytest.raises(UsageError, match=r"write events\.table\(\)\.to_pandas\(\)"):
        frame(trace.events(names="GC/Start"))
    assert len(trace.events(names="GC/Start").table().to_pandas()) == len(trace["GC/Start"])


def test_a_table_is_taken_by_what_speaks_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    made = opened("events-10")["Scalars"]
    assert pyarrow.table(made).equals(made.to_arrow())


def test_only_the_columns_that_are_asked_for_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, Any]] = []
    real = decode

    def watched(*arguments: Any, **options: Any) -> Any:
        asked.append((arguments[0].name, len(arguments[2]), options.get("fields")))
        return real(*arguments, **options)

    trace = Trace(bytes(opened("events-10").raw.buffer))
    monkeypatch.setattr(table, "decode", watched)
    trace["GC/Start"]["Count"]
    asked = [one for one in asked if one[1]]
    assert asked == [("GC/Start", 10, ["Count"])]
    asked.clear()
    assert len(trace.events(where="Reason == 1", names="GC/Start")) == 10
    assert {(name, *fields) for name, rows, fields in asked if rows} == {("GC/Start", "Reason")}


def test_a_stack_is_named_by_its_id() -> None:
    trace = opened("web-10")
    row = next(iter(trace.events(names="Request/Start", providers="System.Net.Http")))
    frames = trace.frames(row.stack, row.time_ns)
    assert (
        frames == trace.raw.frames_of(trace["System.Net.Http/Request/Start"].headers[:1])[0] == trace.frames(row.stack)
    )
    assert trace.frames(row.stack, row.time_ns, row.pid) == frames
    assert frames[0].startswith("System.Private.CoreLib!System.Diagnostics.Tracing.")
    assert any(".Main(" in frame or "<Main>" in frame for frame in frames)
    assert trace.frames(0) == ()


def test_a_stack_is_named_as_its_code_was_at_the_time() -> None:
    made = MadeTrace()
    made.load(0x1000, 0x100, "Old", SYNC + 10)
    made.unload(0x1000, 0x100, "Old", SYNC + 20)
    made.load(0x1000, 0x100, "New", SYNC + 30)
    out = io.BytesIO()
    with Writer(out, start_ns=START_NS, sync_ticks=SYNC, frequency=1_000_000_000) as writer:
        for record in made.metadata.values():
            writer.add_metadata(record)
        for kind, time, thread, payload in made.events:
            writer.write_event(kind, time, payload, thread=thread, stack=writer.add_stack([0x1050]))
    trace = Trace(out.getvalue())
    stack = next(iter(trace.events())).stack
    found = [trace.frames(stack, None if at is None else START_NS + at)[0][-5:] for at in (15, 35, None)]
    assert found == ["Old()", "New()", "New()"]


# selections -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
def test_events_come_in_time_order_with_what_was_asked(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 1 << 40 if kept else 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 100)
    trace = Trace(bytes(opened("http-10").raw.buffer))
    said = listing_of("http-10.nettrace").events
    assert [event.ms for event in trace.events()] == [one["ms"] for one in said]
    some = trace.events(providers=["System.Net.Http", "System.Net.Sockets"])
    expected = [one for one in said if one["provider"] in ("System.Net.Http", "System.Net.Sockets")]
    assert [(event.event, event.ms) for event in some] == [(one["event"], one["ms"]) for one in expected]
    assert len(some) == len(expected)
    named = trace.events(names=["Request/Start", "RequestStop"], time=(2.5, 3))
    expected = [one for one in said if one["event"] in ("Request/Start", "Request/Stop") and 2500 <= one["ms"] < 3000]
    assert [(event.event, event.ms) for event in named] == [(one["event"], one["ms"]) for one in expected]
    assert len(named) == len(expected) > 0
    assert [event.ms for event in trace.events(limit=5)] == [one["ms"] for one in said[:5]]
    assert len(trace.events(limit=5)) == 5
    assert len(trace.events(limit=0)) == 0
    filtered = trace.events(where="statusCode >= 500", limit=2)
    failed = [one["ms"] for one in said if one["payload"].get("statusCode", 0) >= 500]
    assert [event.ms for event in filtered] == failed[:2]


def test_fields_limit_what_rows_and_tables_have() -> None:
    trace = opened("events-10")
    some = trace.events(names="GC/Start", fields=["Count", "DEPTH"])
    assert {tuple(event.payload) for event in some} == {("Count", "Depth")}
    assert some.table().fields == ("Count", "Depth")
    with pytest.raises(UnknownName, match="near: Reason"):
        trace.events(names="GC/Start", fields=["Raeson"])


def test_a_payload_that_nothing_describes_is_a_column_of_bytes() -> None:
    trace = opened("events-10")
    made = trace["Nested"]
    assert made.fields == ("bytes@0",)
    raw: list[Any] = made["bytes@0"].to_pylist()
    assert [event.payload for event in made] == [{"bytes@0": one} for one in raw]
    assert all(one.startswith("outer ".encode("utf-16-le")) for one in raw)
    assert [event["bytes@0"] for event in trace.events(names="Nested", fields=["bytes@0"])] == raw
    text = raw[3].hex()
    assert [e["bytes@0"] for e in trace.events(where=f"bytes@0 == 'hex:{text}'")] == [raw[3]]
    assert trace["Empty"].fields == ()


def test_wrong_questions_are_refused_before_anything_is_read() -> None:
    trace = opened("events-10")
    for time in [(3, 2), (math.nan, None), (None, math.nan), (math.inf, 0)]:
        with pytest.raises(UsageError):
            trace.events(time=time)
    with pytest.raises(UsageError):
        trace.events(limit=-1)
    with pytest.raises(GrammarError):
        trace.events(where="a ==")


def test_times_beyond_the_clock_are_open_ends() -> None:
    trace = Trace(SMALL["nettrace 5"])
    for time in [(0, math.inf), (-math.inf, None), (-1e300, 1e300), (None, 1e11)]:
        assert len(trace.events(time=time)) == len(trace)
    for time in [(None, -1e11), (None, -math.inf)]:
        assert len(trace.events(time=time)) == 0
    for time in [(1e11, None), (math.inf, math.inf)]:
        with pytest.raises(UsageError, match="nothing is after"):
            len(trace.events(time=time))


def dated(year: int, time: int = 0) -> Trace:
    """Events at the clock's zero and at a time, in nanoseconds since the start of a year."""
    head = bytes([0xDF, 1, 0, 1, 0, 1, 0])
    data = bytearray(
        by_hand.trace(
            by_hand.metadata(by_hand.event_type(1)),
            by_hand.events(head + b"\0\0\0", head + by_hand.varuint(time) + b"\0\0"),
        )
    )
    data[24:26] = struct.pack("<h", year)
    return Trace(bytes(data))


@pytest.mark.parametrize("year", [1, 1600, 1677, 1970, 2262, 2300, 9999])
def test_a_trace_begins_in_any_year(year: int) -> None:
    trace = dated(year, 5_000_000_123)
    assert trace.start == datetime(year, 1, 1, tzinfo=UTC)
    assert trace.raw.meaning.start_text() == f"{year:04}-01-01T00:00:00.0000000Z"
    (window,) = trace.events().windows()
    lines = list(map(json.loads, JsonLines(trace.raw).lines(window)))
    assert [line["utc"] for line in lines] == [f"{year:04}-01-01T00:00:0{at}Z" for at in ("0.0000000", "5.0000001")]
    since = (datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    times = [since, since + 5_000_000_123] if abs(since) < 1 << 63 else [None, None]
    assert [event.time_ns for event in trace.events()] == window["time"].to_pylist() == times


def test_an_event_that_leaves_the_years_of_64_bits_says_when_it_was() -> None:
    trace = dated(2262, 200 * 86_400 * 10**9)
    (window,) = trace.events().windows()
    assert window["utc"].to_pylist() == ["2262-01-01T00:00:00.0000000Z", "2262-07-20T00:00:00.0000000Z"]
    assert window["time"].to_pylist()[1] is None
    late = dated(1600, 100 * 366 * 86_400 * 10**9)
    (window,) = late.events().windows()
    assert window["time"].to_pylist()[0] is None
    since = datetime(1700, 3, 17, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert window["time"].to_pylist()[1] == since // timedelta(seconds=1) * 10**9
    assert window["utc"].to_pylist()[1] == "1700-03-17T00:00:00.0000000Z"


@pytest.mark.parametrize("number", [5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_ids_of_64_bits_are_shown_as_the_file_says_them(number: int) -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1, process_id=number, os_thread_id=number))
        writer.add_thread(ThreadInfo(index=2))
        writer.write_event(1, 5, bytes(6), thread=1)
        writer.write_event(1, 6, bytes(6), thread=2)
    trace = Trace(out.getvalue())
    (window,) = trace.events().windows()
    lines = list(map(json.loads, JsonLines(trace.raw).lines(window)))
    assert [(line["pid"], line["tid"]) for line in lines] == [(number, number), (None, 0)]
    assert [(event.pid, event.tid) for event in trace.events()] == [(number, number), (None, 0)]


# conversions ------------------------------------------------------------------------------------------------------------

TABLES = [
    ("events-10", "Scalars"),
    ("events-10", "Words"),
    ("events-10", "Sequence"),
    ("events-10", "Times"),
    ("events-10", "Workload-Manifest/Bytes"),
    ("events-10", "Anonymous"),
    ("events-10", "MethodDCEndVerbose"),
    ("counters-10", "EventCounters"),
    ("heap-10", "Type/BulkType"),
    ("heap-10", "GC/BulkEdge"),
    ("v6-oncpu-10", "ProcessMapping"),
    ("http-10", "Request/Start"),
]


def comparable(value: Any) -> Any:
    """Values of the libraries in the forms of JSON; dates to µs, which all of them can say."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [comparable(one) for one in value]
    if isinstance(value, float):  # Arrow gives singles as they are, we their shortest text
        return None if math.isnan(value) else float(f"{value:.6g}")
    if isinstance(value, str) and len(value) == 28 and value.endswith("Z"):
        return value[:26]
    return json_value(value)


def expected(made: table.EventTable) -> dict[str, list[Any]]:
    found = {}
    for name in made.columns:
        column = made[name]
        if name == "time":
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            found[name] = [comparable(epoch + timedelta(microseconds=ns // 1000)) for ns in made.numpy("time").tolist()]
        else:
            found[name] = [comparable(value) for value in column.to_pylist()]
    return found


@pytest.mark.parametrize(("recording", "event"), TABLES)
def test_data_frames_and_arrow_tables_have_the_values(recording: str, event: str) -> None:
    import pandas

    made = opened(recording)[event].slice(0, 300)
    values = expected(made.with_numbers())
    arrow = made.to_arrow(names=False)
    arrow.validate(full=True)
    frame, polars = made.to_pandas(names=False), made.to_polars(names=False)
    assert arrow.column_names == list(frame.columns) == polars.columns == list(made.columns)
    for name in made.columns:
        if name == "time":  # µs of arrow's ns
            assert arrow["time"].cast("int64").to_pylist() == made.numpy("time").tolist()
            assert frame["time"].astype("int64").tolist() == made.numpy("time").tolist()
            assert polars["time"].to_physical().to_list() == made.numpy("time").tolist()
            continue
        assert [comparable(value) for value in arrow[name].to_pylist()] == values[name], name
        assert [comparable(value) for value in polars[name].to_list()] == values[name], name
        shown = [None if value is pandas.NA or value is pandas.NaT else value for value in frame[name].tolist()]
        assert [comparable(value) for value in shown] == values[name], name


def test_what_the_runtime_numbers_has_names_in_frames_and_filters() -> None:
    trace = opened("gcverbose-10")
    made = trace["GC/Start"]
    enumeration = made.enumeration("Reason")
    assert enumeration is not None
    numbers = made.numpy("Reason").tolist()
    assert enumeration.values[1] == "Induced"
    assert set(numbers) >= {0, 1}
    names = [enumeration.values[number] for number in numbers]
    for frame in (made.to_pandas(), made.to_pandas(["ms", "Reason"]), made.to_polars(), made.to_arrow().to_pandas()):
        assert list(frame["Reason"]) == names
    assert list(made.to_pandas(["Reason"]).columns) == ["Reason"]
    assert [str(made.to_pandas().dtypes[name]) for name in ("provider", "event", "Reason")] == ["category"] * 3
    induced = [event.ms for event in made if event.Reason == 1]
    for where in (
        "Reason == Induced",
        "induced = reason",
        "Reason == 'Induced'",
        "Reason ~ '^Induced$'",
        "Reason == 1",
    ):
        assert [event.ms for event in trace.events(names="GC/Start", where=where)] == induced, where
    others = [event.ms for event in made if event.Reason != 1]
    assert [event.ms for event in trace.events(names="GC/Start", where="Reason != Induced")] == others
    with pytest.raises(UnknownName, match="Inducd"):
        trace.events(names="GC/Start", where="Reason == Inducd")
    flags = opened("cpu-only-10")["Method/DCStopVerbose"]
    jitted = [flag for flag in flags.numpy("MethodFlags").tolist() if flag & 8]
    found = opened("cpu-only-10").events(
        names="Method/DCStopVerbose", where="MethodFlags ~ Jitted".replace("Jitted", "'Jitted'")
    )
    assert 0 < len(jitted) == len(found) < len(flags)


def test_what_the_runtime_numbers_is_a_name_wherever_it_is_a_text() -> None:
    made = opened("gcverbose-10")["GC/Start"]
    names = made.to_pandas()["Reason"].tolist()
    numbers = made.numpy("Reason").tolist()
    assert set(names) > {"Induced"}
    column = made["Reason"]
    assert list(column) == column.to_pylist() == made.values("Reason") == names
    assert [column[row] for row in range(len(column))] == list(column[:]) == names
    assert [row["Reason"] for row in made.to_pylist()] == [row["Reason"] for row in made.to_json()] == names
    assert f"Reason={names[0]} " in repr(made)
    assert f"<td>{names[0]}</td>" in made._repr_html_()
    assert np.asarray(column).tolist() == column.numpy().tolist() == numbers
    other = made.with_numbers()
    assert other["Reason"].to_pylist() == [row["Reason"] for row in other.to_json()] == other.to_pylist()[0:0] + numbers
    assert other[2:]["Reason"].to_pylist() == numbers[2:]
    assert made.to_polars(names=False)["Reason"].to_list() == numbers


def test_a_value_of_an_event_is_the_number_and_shows_as_its_name() -> None:
    made = opened("gcverbose-10")["GC/Start"]
    for event, name, number in zip(made, made.values("Reason"), made.numpy("Reason").tolist(), strict=True):
        value = event["Reason"]
        assert value == name == str(value) == f"{value}" == event.payload["Reason"]
        assert value == number == int(value) == event.Reason
        assert value != "Nothing"
        assert value != number + 1
        assert f"{value:03d}" == f"{number:03d}"
        assert json.dumps({"Reason": value}) == f'{{"Reason": {number}}}'
        assert pickle.loads(pickle.dumps(value)) == name


@pytest.mark.parametrize("chunk_rows", [100, 1 << 16])
def test_one_field_of_types_that_name_their_values_differently_has_the_names_of_each(
    chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dotnetdiag.table.to_pandas.CHUNK_ROWS", chunk_rows)
    trace = opened("events-10")
    whole = trace.events().table()
    parts = {"GC/Start": "Induced", "GC/SuspendEEStart": "SuspendForGC"}
    for event, reason in parts.items():
        rows = [row for row, name in enumerate(whole.values("event")) if name == event]
        assert {whole["Reason"][row] for row in rows} == {reason} == set(trace[event].values("Reason"))
    assert whole.numpy("Reason").dtype == np.uint32
    frame = whole.to_pandas(["event", "Reason"])
    assert frame["Reason"].dropna().tolist() == [text for text in whole.values("Reason") if text is not None]
    assert set(parts.values()) <= set(frame["Reason"].dropna())


def test_a_value_that_a_field_does_not_have_is_told_with_near_ones() -> None:
    trace = opened("gcverbose-10")
    for where in ("Reason == Indced", "Indced != Reason", "Reason == 'Indced'", "Reason == Indced and Count > 1"):
        with pytest.raises(UnknownName, match="no value 'Indced' of Reason; near: Induced"):
            trace.events(names="GC/Start", where=where)
    with pytest.raises(UnknownName, match="no value 'Xyz' of Reason; near: AllocSmall, Induced"):
        trace.events(names="GC/Start", where="Reason == Xyz")
    with pytest.raises(UnknownName, match="no field 'Raeson' in these events; near: Reason"):
        trace.events(names="GC/Start", where="Raeson == Induced")
    assert len(trace.events(names="GC/Start", where="Reason == '1'")) > 0
    assert not len(trace.events(names="GC/Start", where="Reason == '77'"))
    flags = opened("cpu-only-10")["Method/DCStopVerbose"].values("MethodFlags")
    odd = next(text for text in flags if "0x" in text)
    assert len(
        opened("cpu-only-10").events(names="Method/DCStopVerbose", where=f"MethodFlags == '{odd}'")
    ) == flags.count(odd)


def test_a_column_named_by_header_and_payload_has_the_values_of_its_own() -> None:
    made = opened("events-10")["Scalars"]
    assert made.enumeration("id") is None
    frame = made.to_pandas(["header.id", "payload.id"])
    assert frame["payload.id"].tolist() == [str(event["payload.id"]) for event in made]
    assert frame["header.id"].tolist() == [event.schema.event_id for event in made]


def test_rows_and_parts_of_a_table_are_taken_by_number() -> None:
    made = opened("gcverbose-10")["GC/Start"]
    events = list(made)
    assert made[0].ms == events[0].ms
    assert made[-1].ms == events[-1].ms
    for part in (slice(3), slice(-2, None), slice(None, None, -1), slice(1, 9, 3), slice(5, 2)):
        assert [event.ms for event in made[part]] == [event.ms for event in events[part]]
    with pytest.raises(IndexError):
        made[len(made)]
    shown = repr(made).splitlines()
    assert f"{len(made)} rows" in shown[0]
    assert shown[1:] == [f"  {event!r}" for event in events[:10]] + ["  ..."]
    with pytest.raises(AttributeError, match=r"table\['Reason'\]"):
        made.Reason  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'Reasons'$"):
        made.Reasons  # type: ignore[attr-defined]  # noqa: B018


def test_a_trace_is_iterated_for_its_events_and_says_what_a_number_is_not() -> None:
    trace = opened("gccollect-10")
    assert [event.ms for event in trace] == [event.ms for event in trace.events()]
    with pytest.raises(UsageError, match=r"trace\[0\]: tables have names"):
        trace[0]  # type: ignore[index]


def test_a_closed_trace_says_so_and_what_was_taken_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of("gccollect-10.nettrace"))
    with dotnetdiag.open(path) as trace:
        table, count = trace["GC/Start"], len(trace)
        reasons = table.numpy("Reason").tolist()
    assert count
    assert repr(trace) == "<Trace x.nettrace: closed>"
    for use in (lambda: len(trace), lambda: trace["GC/Start"], lambda: list(trace), lambda: trace.lost, trace.counts):
        with pytest.raises(UsageError, match=r"x\.nettrace was closed"):
            use()
    trace.close()
    assert table.numpy("Reason").tolist() == reasons


def test_times_are_also_taken_as_people_type_them() -> None:
    trace = opened("gcverbose-10")
    assert [e.ms for e in trace.events(time=("2s", "2500ms"))] == [e.ms for e in trace.events(time=(2, 2.5))]
    with pytest.raises(GrammarError):
        trace.events(time=("two", None))


def test_an_empty_selection_converts_too() -> None:
    made = opened("events-10")["GC/Start"].slice(0, 0)
    assert len(made.to_arrow()) == len(made.to_pandas()) == len(made.to_polars()) == 0
    assert list(made) == []


@pytest.mark.parametrize(
    ("method", "library"), [("to_pandas", "pandas"), ("to_arrow", "pyarrow"), ("to_polars", "polars")]
)
def test_a_missing_library_is_one_plain_line(method: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=rf"needs {library}: pip install") as caught:
        getattr(opened("events-10")["GC/Start"], method)()
    assert "\n" not in str(caught.value)


def test_numbers_are_arrays_and_texts_are_objects() -> None:
    made = opened("events-10")["GC/Start"]
    assert made.numpy("Count").dtype == np.uint32
    assert made.numpy("event").tolist() == ["GC/Start"] * 10
    assert isinstance(made["Count"], Scalar)


# damage -----------------------------------------------------------------------------------------------------------------


def everything(trace: Trace) -> int:
    """Ask for all there is."""
    assert repr(trace)
    maker = JsonLines(trace.raw)
    printed = sum(len(maker.lines(window)) for window in trace.events().windows())
    assert printed == len(trace) == sum(row.count for row in trace.summary())
    _ = trace.threads, trace.processes, trace.warnings, trace.lost.total, trace.raw.undecodable(), trace.raw.symbols
    for provider, events in trace.counts().items():
        for event in events:
            assert len(trace[f"{provider}/{event}" if provider else event]) >= events[event]
    return printed


@pytest.mark.parametrize("name", SMALL)
def test_small_trace_cut_at_every_offset_is_read_as_far_as_it_goes(name: str) -> None:
    data = SMALL[name]
    last = 0
    for cut in range(0, len(data), 1 if len(data) < 700 else 2):
        try:
            trace = Trace(data[:cut])
        except FormatError:
            assert last == 0
            continue
        last = max(last, everything(trace))
        assert not trace.complete
    assert last == len(Trace(data))


@pytest.mark.parametrize("name", [name for name in SMALL if "uncompressed" not in name])
def test_small_trace_with_any_byte_flipped_raises_nothing(name: str) -> None:
    data = bytearray(SMALL[name])
    for at in range(0, len(data), 1 if len(data) < 700 else 2):
        flip = (0x01, 0x80, 0xFF)[at % 3]
        data[at] ^= flip
        try:
            everything(Trace(bytes(data)))
        except FormatError:
            assert at < 100
        data[at] ^= flip


@pytest.mark.parametrize("data", [b"", b"not a trace at all", b"Nettrace", bytes(1000)])
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        Trace(data, name="x")


def test_damage_in_payloads_is_looked_for_once_per_type(monkeypatch: pytest.MonkeyPatch) -> None:
    types, rounds = 50, 2000
    metadata = by_hand.metadata(*[by_hand.event_type(n + 1, f"E{n}") for n in range(types)])
    blobs = [b"\x01" + by_hand.varuint(n % types + 1) + b"\0" for n in range(types * rounds)]
    trace = Trace(by_hand.trace(metadata, by_hand.events(by_hand.event(1), *blobs)))
    rows = []

    def counted(schema: EventSchema, buffer: Any, offsets: Any, *rest: Any, **options: Any) -> Table:
        rows.append(len(offsets))
        return decode(schema, buffer, offsets, *rest, **options)

    monkeypatch.setattr("dotnetdiag.events.decode", counted)
    for _ in range(2):  # from batches, and from the columns that were kept
        rows.clear()
        assert trace.raw.undecodable() == {}
        assert len(rows) == types
        assert sum(rows) == types * rounds + 1
        len(trace.events().table())


LONE = "\ud800".encode("utf-16-le", "surrogatepass")


def odd_columns() -> Trace:
    """One event type with all that libraries do not take as it is, and two events of it."""
    guid, text, char, decimal, empty = b"\x11", b"\x12", b"\x04", b"\x0f", b"\x01\0\0"

    def members(*fields: tuple[str, bytes]) -> bytes:
        rows = [by_hand.text(name) + kind for name, kind in fields]
        return struct.pack("<H", len(rows)) + b"".join(struct.pack("<H", len(row)) + row for row in rows)

    kinds = [guid, text, char, decimal, empty]
    fields = [(f"f{number}", kind) for number, kind in enumerate([*kinds, *(b"\x13" + kind for kind in kinds[:4])])]
    fields.append(("s", b"\1" + members(*[(f"m{number}", kind) for number, kind in enumerate(kinds)])))
    fields.append(("l", b"\x13\1" + members(*[(f"m{number}", kind) for number, kind in enumerate(kinds)])))
    values = [bytes(16), LONE + b"\0\0", LONE, b"\xff" * 16]
    payload = b"".join(values) + b"".join(b"\1\0" + value for value in values) + b"".join(values)
    payload += b"\1\0" + b"".join(values)
    event = by_hand.event(1)[:-1] + by_hand.varuint(len(payload)) + payload
    return Trace(
        by_hand.trace(by_hand.metadata(by_hand.event_type(1, fields=members(*fields))), by_hand.events(event, event))
    )


def test_columns_that_libraries_do_not_take_as_they_are_are_converted() -> None:
    for name in ("pandas", "pyarrow", "polars"):
        pytest.importorskip(name)
    from pyarrow import parquet

    whole = odd_columns()["E"]
    assert whole.part(1).undecodable_count == 0
    assert len(whole.to_pandas()) == 2
    arrow, polars = whole.to_arrow(), whole.to_polars()
    file = io.BytesIO()
    write_parquet([lambda: arrow], file)
    assert parquet.read_table(file) == arrow
    guid = "00000000-0000-0000-0000-000000000000"
    for row in (arrow.to_pylist()[1], polars.to_dicts()[1]):
        assert [row[f"f{n}"] for n in (0, 1, 2, 5, 6, 7)] == [guid, "?", "?", [guid], ["?"], "?"]
        assert [row["s"][f"m{n}"] for n in range(3)] == [row["l"][0][f"m{n}"] for n in range(3)] == [guid, "?", "?"]
        assert [row["f8"][0], row["s"]["m3"], row["l"][0]["m3"]] == [row["f3"]] * 3


def test_names_that_libraries_do_not_take_are_told_apart() -> None:
    for name in ("pyarrow", "polars"):
        pytest.importorskip(name)
    number = Scalar(np.array([1]), None, Kind.I8)
    pair = {chr(0xD800 + n): number for n in range(2)}
    columns: dict[str, Column] = {**pair, "s": Struct(pair, 1)}
    for made in (arrow_table(columns).to_pylist(), polars_frame(columns).to_dicts()):
        assert made == [{"?": 1, "??": 1, "s": {"?": 1, "??": 1}}]


# times that 64 bits do not hold -----------------------------------------------------------------------------------------


def slow_clock(*ticks: int) -> Trace:
    """A clock of one tick per second, and an event at each of these times."""
    blobs = [by_hand.event(1)[:-3] + by_hand.varuint(tick % (1 << 64)) + b"\0\0" for tick in ticks]
    data = bytearray(by_hand.trace(by_hand.metadata(by_hand.event_type(1)), *map(by_hand.events, blobs)))
    at = data.index(struct.pack("<q", 10**9))
    data[at : at + 8] = struct.pack("<q", 1)
    return Trace(bytes(data))


@pytest.mark.parametrize(
    ("tick", "utc"),
    [
        (9_000_000_000, "2309-03-14T16:00:00.0000000Z"),
        (2**40, "36866-02-19T00:36:16.0000000Z"),
        (-(2**40), "-32819-11-11T23:23:44.0000000Z"),
        (2**63 - 1, "292277026596-12-04T15:30:07.0000000Z"),
        (-(2**63), "-292277022603-01-26T08:29:52.0000000Z"),
    ],
)
def test_a_time_beyond_64_bits_of_ns_is_none_and_never_another(tick: int, utc: str) -> None:
    trace = slow_clock(5, tick)
    events = sorted(trace.events(), key=lambda event: event.time_ns is None)
    assert events[0].time == datetime(2024, 1, 1, 0, 0, 5, tzinfo=UTC)
    odd = events[1]
    assert (odd.time_ns, odd.time, odd["time"]) == (None, None, None)
    assert odd.ms == pytest.approx(tick * 1000.0)
    whole = trace["E"]
    row = whole["time"].to_pylist().index(None)
    assert whole.numpy("time").tolist()[row] == 0
    assert whole["utc"].to_pylist()[row] == utc
    assert json.loads(JsonLines(trace.raw).lines(whole)[row])["utc"] == utc
    assert abs(trace.raw.duration_ns) < 1 << 63
    assert trace.summary()
    for name in ("pandas", "pyarrow", "polars"):
        pytest.importorskip(name)
    assert whole.to_pandas()["time"].isna().tolist().count(True) == 1
    assert whole.to_arrow()["time"].null_count == whole.to_polars()["time"].null_count() == 1


@given(
    sync=st.integers(-(2**63), 2**63 - 1),
    frequency=st.integers(1, 8 * 10**9),
    start=st.integers(-(2**62), 2**62),
    ticks=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
)
def test_times_are_exact_or_marked(sync: int, frequency: int, start: int, ticks: list[int]) -> None:
    info = TraceInfo(start_ns=start, sync_ticks=sync, frequency=frequency)
    column = np.array(ticks, np.int64)
    elapsed, utc = info.elapsed_ns(column).tolist(), info.utc_ns(column).tolist()
    for tick, since, at in zip(ticks, elapsed, utc, strict=True):
        exact = (tick - sync) * 10**9 // frequency
        if abs(tick - sync) < 1 << 63 and abs(exact) < (1 << 63) - 10**9:
            assert since == exact
        assert at in (exact + start, NO_TIME)
        assert at != NO_TIME or max(abs(exact + start), abs(exact), abs(tick - sync)) > (1 << 63) - 10**9


def test_a_trace_shows_what_people_need_and_says_where_the_rest_is() -> None:
    trace = opened("events-10")
    shown = {name for name in dir(trace) if not name.startswith("_")}
    assert shown == {
        *("name", "format", "start", "duration", "complete", "damage", "lost", "warnings", "close", "raw"),
        *(
            "providers",
            "counts",
            "summary",
            "threads",
            "processes",
            "process",
            "frames",
            "events",
            "get",
            "windows",
            "sql",
        ),
    }
    with pytest.warns(DeprecationWarning, match=r"behind raw, trace\.raw\.symbols"):
        assert getattr(trace, "symbols") is trace.raw.symbols  # noqa: B009 - mypy knows that there is none
    with pytest.raises(AttributeError, match=r"has no attribute 'nosuch'$"):
        getattr(trace, "nosuch")  # noqa: B009


@pytest.mark.parametrize("some", [False, True])
def test_a_data_frame_of_many_events_is_made_piece_by_piece(some: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.table import to_pandas

    opened_once = opened("gcverbose-10")
    name = max((count, event) for event, count in opened_once.counts()["Microsoft-Windows-DotNETRuntime"].items())[1]
    wanted = (
        None if not some else ["ms", "leaf", opened_once[name].fields[0], f"payload.{opened_once[name].fields[-1]}"]
    )
    expected = opened("gcverbose-10")[name].to_pandas(wanted)
    monkeypatch.setattr(to_pandas, "CHUNK_ROWS", 50)
    made = opened("gcverbose-10")[name].to_pandas(wanted)
    assert len(made) > 100
    assert made.equals(expected)
    assert made.dtypes.tolist() == expected.dtypes.tolist()


@pytest.mark.parametrize("limit", [1, 2000, 1 << 20])
def test_pieces_of_a_table_are_its_rows_in_their_order(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PIECE_BYTES", limit)
    whole = Trace(SMALL["nettrace 5"]).events().table()
    pieces = list(whole.pieces())
    assert [ms for piece in pieces for ms in piece["ms"].to_pylist()] == whole["ms"].to_pylist()
    assert len(pieces) == {1: len(whole), 1 << 20: 1}.get(limit, len(pieces))
    assert limit != 2000 or 1 < len(pieces) < len(whole)
    assert all(len(list(piece.pieces())) == 1 for piece in pieces), "each is small enough"
    assert [len(piece) for piece in whole[:0].pieces()] == [0]
    names = {event.schema.name for event in whole}
    assert len(names) > 1
    assert all(name not in repr(whole[:1]) for name in names - {whole[0].schema.name})


def test_windows_have_the_wanted_types_in_time_order_and_the_same_columns() -> None:
    trace = Trace(data_of("events-10.nettrace"))
    windows = list(trace.windows(lambda schema: schema.provider == "Workload-Manifest"))
    assert sum(map(len, windows)) == sum(trace.counts()["Workload-Manifest"].values()) > 0
    assert len({window.columns for window in windows}) == 1
    times = np.concatenate([window.headers.time for window in windows])
    assert (times[1:] >= times[:-1]).all()
    assert sum(map(len, trace.windows())) == len(trace)


def test_there_is_a_window_of_no_event() -> None:
    (window,) = Trace(data_of("events-10.nettrace")).windows(lambda schema: False)
    assert len(window) == 0


def test_a_command_line_that_only_the_runtime_tells_is_the_process_s() -> None:
    told = traced(runtime_is(1, 1, "9.0.22", "app --fast"), runtime_is(2, 1, "9.0.22")).process
    assert (told.command_line, told.runtime) == ("app --fast", ".NET 9.0.22")


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        ("/usr/share/dotnet/shared/Microsoft.NETCore.App/3.1.3/libcoreclr.so", ".NET Core 3.1.3"),
        (r"C:\dotnet\shared\Microsoft.NETCore.App\3.0.0-preview9\coreclr.dll", ".NET Core 3.0.0-preview9"),
        ("/app/libcoreclr.so", ".NET Core"),
    ],
)
def test_net_core_3_which_says_4_is_named_by_its_folder(path: str, runtime: str) -> None:
    assert traced(runtime_is(1, 1, "4.0.0", path=path)).process.runtime == runtime
    assert traced(runtime_is(1, 1, "10.0.14", path=path)).process.runtime == ".NET 10.0.14"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/python3.12", "Python"),
        ("/usr/lib/libpython3.12.so.1.0", "Python"),
        (r"C:\Python312\python.exe", "Python"),
        ("/opt/pypy3", "Python"),
        ("/python3/other", "runtime"),
        ("", "runtime"),
    ],
)
def test_a_runtime_of_no_kind_of_dotnet_is_named_by_its_program(path: str, name: str) -> None:
    assert traced(runtime_is(1, 1, "3.12.1", path=path, sku=0)).process.runtime == f"{name} 3.12.1"


def test_an_event_can_be_copied_and_pickled() -> None:
    (event, *_) = opened("events-10").events(where="event == 'Exception/Start'", limit=1)
    for copied in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert repr(copied) == repr(event)
        assert copied.payload == event.payload
        with pytest.raises(AttributeError, match="no field 'nothing'"):
            _ = copied.nothing
