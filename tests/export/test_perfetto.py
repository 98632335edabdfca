"""Perfetto's traces, read with the schema that Perfetto publishes: no number is unknown, no text is missing, all that begins ends."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket
from tests.analysis.reference import opened
from tests.export.made import DEEP, SMALL, profile_of, written
from tests.export.tracks_made import REQUESTS, tracks_made
from tests.shared import needs

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.tracks import Tracks, tracks
from dotnetdiag.export import FORMATS
from dotnetdiag.export.texts import clean

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Read:
    """A trace as Perfetto's importer reads it: numbers of texts and tracks become these, and a packet without them is an error."""

    def __init__(self, data: bytes) -> None:
        self.packets = Trace.FromString(data).packet
        self.names: dict[str, dict[int, Any]] = defaultdict(dict)
        self.tracks: dict[int, Any] = {}
        self.slices: list[tuple[int, str, str, int, int]] = []
        """Track, name, detail, begin and end in ns."""
        self.instants: list[tuple[int, str, str]] = []
        self.samples: list[tuple[int, int, tuple[str, ...]]] = []
        self.values: list[tuple[int, float]] = []
        self.flows: dict[int, list[str]] = defaultdict(list)
        open_slices: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
        for packet in self.packets:
            assert packet.trusted_packet_sequence_id == 1 or not packet.HasField("track_event")
            for field, entries in packet.interned_data.ListFields():
                for entry in entries:
                    assert entry.iid not in self.names[field.name]
                    self.names[field.name][entry.iid] = entry
            if packet.HasField("track_descriptor"):
                described = packet.track_descriptor
                assert described.uuid not in self.tracks
                assert not described.HasField("parent_uuid") or described.parent_uuid in self.tracks
                self.tracks[described.uuid] = described
        for packet in sorted(self.packets, key=lambda one: int(one.timestamp)):  # stable, as the importer's
            if packet.HasField("perf_sample"):
                sample = packet.perf_sample
                stack = self.names["callstacks"][sample.callstack_iid].frame_ids
                self.samples.append((packet.timestamp, sample.tid, tuple(map(self.function, stack))))
            if packet.HasField("track_event"):
                self.event(packet, open_slices[packet.track_event.track_uuid])
        assert not any(open_slices.values())

    def function(self, frame: int) -> str:
        one = self.names["frames"][frame]
        assert self.names["mappings"][one.mapping_id].path_string_ids[0] in self.names["mapping_paths"]
        return self.text("function_names", one.function_name_id)

    def text(self, kind: str, iid: int) -> str:
        made: bytes = self.names[kind][iid].str
        return made.decode("utf-8")

    def event(self, packet: TracePacket, is_open: list[tuple[str, str, int]]) -> None:
        event = packet.track_event
        assert event.track_uuid in self.tracks
        if event.type == COUNTER:
            self.values.append((packet.timestamp, event.double_counter_value))
            return
        if event.type == END:
            name, detail, begin = is_open.pop()
            self.slices.append((event.track_uuid, name, detail, begin, packet.timestamp))
            return
        name = self.names["event_names"][event.name_iid].name
        detail = ""
        for annotation in event.debug_annotations:
            assert self.names["debug_annotation_names"][annotation.name_iid].name == "detail"
            detail = self.text("debug_annotation_string_values", annotation.string_value_iid)
        for number in event.flow_ids:
            self.flows[number].append(name)
        if event.type == BEGIN:
            is_open.append((name, detail, packet.timestamp))
        else:
            assert event.type == INSTANT
            self.instants.append((packet.timestamp, name, detail))


def read(result: Tracks) -> Read:
    out = io.BytesIO()
    FORMATS["perfetto"].write(result, out)
    return Read(out.getvalue())


def test_threads_are_called_as_in_their_samples_where_the_recording_names_none() -> None:
    samples = profile_of(*SMALL, module="", names={1: "sampled", 2: "of both"})
    names = {one.key: name for one, name in zip(samples.threads, ("", "recorded"), strict=True)}
    threads = [one.thread for one in read(Tracks(samples=samples, threads=names, end_ns=1)).tracks.values()]
    assert {one.tid: one.thread_name for one in threads if one.tid} == {1: "sampled", 2: "recorded"}


def test_samples_have_their_stacks_outermost_first() -> None:
    found = Read(written(profile_of(*SMALL, module=""), "perfetto"))
    first = min(found.samples)
    assert first == (0, 1, (*(f"ManagedModule!App.{name}()" for name in ("Main", "Work", "Inner")), "CPU_TIME"))
    assert len(found.samples) == len(SMALL)


def test_requests_within_each_other_are_on_one_track_and_arrows_lead_to_the_others() -> None:
    found = read(tracks_made())
    track = {name: uuid for uuid, name, *_ in found.slices}
    assert track["server GET /"] == track["client GET /a"] == track["server GET /b"] != track["client GET /b"]
    assert sorted(sorted(ends) for ends in found.flows.values()) == [
        ["client GET /a", "server GET /b"],
        ["client GET /b", "server GET /"],
    ]
    times = {name: (begin, end) for _, name, _, begin, end in found.slices}
    for _, begin, end, name, *_ in REQUESTS:
        assert times[name] == (begin * 1e6, end * 1e6)
    assert {detail for _, name, detail, *_ in found.slices if name == "client GET /b"} == {"refused"}


def test_a_request_with_several_others_has_an_arrow_to_each() -> None:
    from tests.export.tracks_made import slices_of

    made = tracks_made()
    rows = [
        (1, 0.0, 50.0, "server GET /", "", -1),
        *((1, 1.0, 20.0 + at, f"client {at}", "", 0) for at in range(40)),
    ]
    found = read(
        Tracks(
            samples=made.samples,
            slices=(slices_of("Requests", rows, of_threads=False),),
            threads={},
            end_ns=made.end_ns,
        )
    )
    assert len(found.flows) == 39  # the first lies within
    assert all(sorted(ends)[1] == "server GET /" for ends in found.flows.values())


@needs("fixtures", "the recording web-10")
def test_an_arrow_goes_from_a_request_through_what_was_logged_within_it_on_threads() -> None:
    made = tracks(opened("web-10"))
    found = read(made)
    requests, logs = (next(one for one in made.slices if one.kind == kind) for kind in ("Requests", "Logs"))
    assert logs.request is not None
    expected = {
        requests.label.texts[requests.label.number[row]]: int((logs.request == row).sum())
        for row in set(logs.request.tolist()) - {-1}
    }
    assert len(expected) > 20
    assert {ends[0]: len(ends) - 1 for ends in found.flows.values()} == expected


def test_any_text_is_shown_as_it_is() -> None:
    made = tracks_made()
    found = read(made)
    expected = [(clean(text) or "?", clean(text)) for text in made.slices[2].label.texts]
    assert [(name, detail) for _, name, detail in found.instants] == expected
    names = {one.thread.thread_name for one in found.tracks.values() if one.HasField("thread")}
    assert {"worker </script>", "lone \ufffd"} <= names
    assert max(len(stack) for *_, stack in found.samples) == DEEP + 1
    assert found.values == [(0, 5.0), (10, 7.0e300)]


@needs("fixtures", "the recordings")
@pytest.mark.parametrize("name", ["default-10", "web-10", "startup-10"])
def test_all_of_a_recording_is_there(name: str) -> None:
    trace = opened(name)
    made = tracks(trace)
    found = read(made)
    assert len(found.samples) == len(cpu(trace))
    assert len(found.slices) + len(found.instants) == sum(map(len, made.slices))
    assert Counter(name for _, name, *_ in found.slices if name == "GC pause")["GC pause"] == next(
        (len(one) for one in made.slices if one.kind == "GC pause"), 0
    )
    assert len(found.values) == sum(len(one.ns) for one in made.counters)


def test_what_touches_on_one_track_or_begins_together_has_its_own_times() -> None:
    """Of events of one time the importer takes those first that come first in the file."""
    from tests.export.tracks_made import slices_of

    made = tracks_made()
    rows = [
        (1, 1.0, 2.0, "a", "", -1),
        (1, 2.0, 3.0, "b", "", -1),
        (1, 3.0, 9.0, "outer", "refused", -1),
        (1, 3.0, 6.0, "inner", "", 2),
        (1, 3.0, 4.0, "innermost", "late", 3),
        (1, 6.0, 9.0, "behind", "", 2),
    ]
    slices = slices_of("Requests", rows, of_threads=False)
    found = read(Tracks(samples=made.samples, slices=(slices,), threads={}, end_ns=made.end_ns))
    times = {name: (begin / 1e6, end / 1e6) for _, name, _, begin, end in found.slices}
    assert times == {row[3]: row[1:3] for row in rows}
    assert {name: detail for _, name, detail, *_ in found.slices if detail} == {"outer": "refused", "innermost": "late"}
    assert len({track for track, *_ in found.slices}) == 1
