"""What the runtime's GCDynamicEvent carries is a type of its own wherever events are read."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dotnetdiag.cli.trace_files import COMMANDS
from dotnetdiag.events import carried, well_known
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.part import part_of
from dotnetdiag.trace.trace import Trace

RUNTIME = "Microsoft-Windows-DotNETRuntime"
SAMPLE = struct.pack("<HQIIIIQI", 1, 7, 454, 40, 1, 2, 746_080, 2_621_440)  # as 10.0.14 writes it
SAMPLE_FIELDS = {
    "Version": 1,
    "GCIndex": 7,
    "ElapsedTimeBetweenGCs": 454,
    "GCPauseTime": 40,
    "SOHMslWaitTime": 1,
    "UOHMslWaitTime": 2,
    "TotalSOHStableSize": 746_080,
    "Gen0BudgetPerHeap": 2_621_440,
    "ClrInstanceID": 9,
}


def payload(name: str, data: bytes, size: int | None = None) -> bytes:
    head = struct.pack("<I", len(data) if size is None else size)
    return f"{name}\0".encode("utf-16-le") + head + data + struct.pack("<H", 9)


def recorded(*payloads: bytes, other: int = 0) -> bytes:
    out = io.BytesIO()
    with Writer(out, process_id=1) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider=RUNTIME, event_id=39, name=""))
        writer.add_metadata(Metadata(metadata_id=2, provider=RUNTIME, event_id=10, name=""))
        for at, one in enumerate(payloads):
            writer.write_event(1, 10 * at, one, thread=1)
        for at in range(other):
            writer.write_event(2, 1000 + at, b"", thread=1)
    return out.getvalue()


def counts(data: bytes) -> dict[str, int]:
    return {row.event: row.count for row in Trace(data).summary() if row.provider == RUNTIME}


def test_what_is_carried_has_its_name_and_its_fields() -> None:
    trace = Trace(recorded(payload("SizeAdaptationSample", SAMPLE), other=2))
    assert trace.counts() == {
        RUNTIME: {"GC/AllocationTick": 2, "GC/DynamicEvent": 1}
    }  # as declared: no payload is read
    assert {row.event: row.count for row in trace.summary()} == {"GC/AllocationTick": 2, "GC/SizeAdaptationSample": 1}
    assert trace.counts() == {RUNTIME: {"GC/AllocationTick": 2, "GC/DynamicEvent": 1}}
    assert [(row.event, row.count) for row in trace.summary()] == [
        ("GC/AllocationTick", 2),
        ("GC/SizeAdaptationSample", 1),
    ]
    table = trace["GC/SizeAdaptationSample"]
    assert {name: table[name].to_pylist()[0] for name in table.fields} == SAMPLE_FIELDS
    assert [event.name for event in trace.events(where="GCPauseTime == 40 and Version == 1 and version == 0")] == [
        "GC/SizeAdaptationSample"
    ]
    assert trace.raw.undecodable() == {}


def test_json_lines_and_tables_have_it_too(tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    path.write_bytes(recorded(payload("SizeAdaptationSample", SAMPLE)))
    (command,) = [one for one in COMMANDS if one.name == "events"]
    done = CliRunner().invoke(command, [str(path), "--event", "GC/SizeAdaptationSample", "--format", "jsonl"])
    line = json.loads(done.stdout)
    assert (line["event"], line["id"], line["version"], line["opcode"]) == ("GC/SizeAdaptationSample", 39, 0, 41)
    assert line["payload"] == SAMPLE_FIELDS
    assert Trace(path.read_bytes())["GC/SizeAdaptationSample"].to_pandas()["Version"].tolist() == [1]


def test_the_name_of_the_carrier_means_all_that_it_carries() -> None:
    trace = Trace(recorded(payload("SizeAdaptationSample", SAMPLE), payload("Other", b"x"), other=1))
    for name in ("GC/DynamicEvent", "GCDynamicEvent", f"{RUNTIME}/gc/dynamicevent"):
        assert [event.name for event in trace.events(names=name)] == ["GC/SizeAdaptationSample", "GC/Other"]
        assert len(trace[name]) == 2


@pytest.mark.parametrize(
    "data", [SAMPLE + b"more", SAMPLE[:-1], b""], ids=["of a later version", "of an earlier one", "empty"]
)
def test_another_size_than_the_known_one_stays_bytes_under_the_name(data: bytes) -> None:
    table = Trace(recorded(payload("SizeAdaptationSample", data), payload("SizeAdaptationSample", SAMPLE)))[
        "GC/SizeAdaptationSample"
    ]
    assert table["Data"].to_pylist() == [data, None]
    assert table["GCIndex"].to_pylist() == [None, 7]


def test_unknown_names_are_events_with_their_bytes() -> None:
    trace = Trace(recorded(payload("OOMDetails", b"\x01\x02"), payload("OOMDetails", b"")))
    table = trace["GC/OOMDetails"]
    assert table.fields == ("Name", "DataSize", "Data", "ClrInstanceID")
    assert table["Data"].to_pylist() == [b"\x01\x02", b""]


@pytest.mark.parametrize("name", ["", "a b", "\x1b[2J", "é", "x" * 64, "9", "a\ud800"])
def test_what_is_no_name_stays_with_the_carrier(name: str) -> None:
    raw = name.encode("utf-16-le", "surrogatepass") + b"\0\0" + struct.pack("<I", 0) + struct.pack("<H", 0)
    assert counts(recorded(raw)) == {"GC/DynamicEvent": 1}


def test_cut_payloads_stay_with_the_carrier() -> None:
    whole = payload("SizeAdaptationSample", SAMPLE)
    named = len("SizeAdaptationSample") * 2 + 2 + 4
    for length in range(1, len(whole)):
        name = "GC/DynamicEvent" if length < named else "GC/SizeAdaptationSample"
        trace = Trace(recorded(whole[:length]))
        assert {row.event: row.count for row in trace.summary()} == {name: 1}
        assert set(trace.raw.undecodable()) <= {f"{RUNTIME}/{name}"}
        assert len(trace[name].to_pandas()) == 1
    wrong = payload("SizeAdaptationSample", SAMPLE, size=0xFFFFFFFF)
    assert Trace(recorded(wrong)).raw.undecodable() == {f"{RUNTIME}/GC/SizeAdaptationSample": 1}


def test_names_are_told_apart_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "TYPES_LIMIT", 3)
    found = counts(recorded(*(payload(f"E{number % 5}", b"") for number in range(20))))
    assert found == {"GC/E0": 4, "GC/E1": 4, "GC/E2": 4, "GC/DynamicEvent": 8}


def test_what_has_no_proper_name_hides_nothing_behind_it() -> None:
    bad = [payload(f"9bad{number}", b"") for number in range(carried.TYPES_LIMIT + 1)]
    found = counts(recorded(*bad, payload("Good", b""), bad[0], payload("Good", b"")))
    assert found == {"GC/Good": 2, "GC/DynamicEvent": len(bad) + 1}


def test_a_name_is_told_apart_or_not_as_a_whole_in_any_order_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where parts of the names have the same sum."""
    monkeypatch.setattr(carried, "_FACTORS", np.ones_like(carried._FACTORS))
    names = ["Ab", "Ba", "Abc", "Acb", "Cab"]
    expected = {f"GC/{name}": 200 for name in names}
    assert counts(recorded(*(payload(names[number % 5], b"") for number in range(1000)))) == expected
    assert counts(recorded(*(payload(names[number // 200], b"") for number in range(1000)))) == expected


def test_ids_that_the_file_uses_are_not_given_again() -> None:
    out = io.BytesIO()
    with Writer(out, process_id=1) as writer:
        for number, event_id in ((1, 39), (7, 1)):
            writer.add_metadata(Metadata(metadata_id=number, provider=RUNTIME, event_id=event_id, name=""))
        writer.write_event(1, 1, payload("Other", b""), thread=1)
        writer.write_event(7, 2, b"", thread=1)
    assert counts(out.getvalue()) == {"GC/Start": 1, "GC/Other": 1}


def test_a_part_of_a_trace_may_be_chosen_by_what_is_carried() -> None:
    trace = Trace(recorded(payload("Other", b"1"), payload("SizeAdaptationSample", SAMPLE), other=1))
    assert part_of(trace, metadata_ids=trace.raw.types.find("GC/Other"), naming=False).tolist() == [True, False, False]
    assert part_of(trace, metadata_ids=trace.raw.types.find("GC/DynamicEvent"), naming=False).tolist() == [
        True,
        True,
        False,
    ]


def test_a_merged_file_carries_the_same() -> None:
    data = recorded(payload("SizeAdaptationSample", SAMPLE), payload("Other", b"1"))
    out = io.BytesIO()
    merge([Trace(data).raw.contents, Trace(data).raw.contents], out)
    assert counts(out.getvalue()) == {"GC/SizeAdaptationSample": 2, "GC/Other": 2}


def test_layouts_of_what_is_carried_have_the_sizes_that_the_runtimes_write() -> None:
    sizes = {name: well_known.carried_size(name) for name in well_known._CARRIED}
    assert sizes == {
        "CommittedUsage": 42,
        "HeapCountTuning": 36,
        "HeapCountSample": 34,
        "SizeAdaptationSample": 38,
        "SizeAdaptationTuning": 56,
        "SizeAdaptationFullGCTuning": 44,
    }
