"""Requests, of what was followed at once and event by event: what ends without an id, fails late, waits without end."""

from __future__ import annotations

import gc
import io
import os
import pickle
import struct
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.trace.made import z16

from dotnetdiag.analysis import open_spans, request_spans
from dotnetdiag.analysis.cpu import SAMPLER
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.request_kinds import HOSTING, LOGGING
from dotnetdiag.analysis.requests import RequestReport, RequestsFold, requests
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace import scratch
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.trace import Trace

DNS, SQL = "System.Net.NameResolution", "Microsoft.Data.SqlClient.EventSource"
KINDS: dict[str, tuple[str, int, str, tuple[str, ...]]] = {
    "server": (HOSTING, 1, "RequestStart", ()),
    "served": (HOSTING, 2, "RequestStop", ()),
    "dns": (DNS, 1, "ResolutionStart", ()),
    "found": (DNS, 2, "ResolutionStop", ()),
    "failed": (DNS, 3, "ResolutionFailed", ()),
    "sql": (SQL, 1, "BeginExecute", ()),
    "done": (SQL, 2, "EndExecute", ("compositestate", "sqlExceptionNumber")),
    "sample": (SAMPLER, 0, "ThreadSample", ()),
    "contended": (RUNTIME, 81, "ContentionStart", ()),
    "got": (RUNTIME, 91, "ContentionStop", ()),
    "stopping": (RUNTIME, 9, "SuspendEEStart", ()),
    "restarted": (RUNTIME, 3, "RestartEEStop", ()),
    "tick": (RUNTIME, 10, "AllocationTick", ()),
    "thrown": (RUNTIME, 80, "ExceptionStart", ()),
    "message": (LOGGING, 19, "FormattedMessage", ("Level",)),
}
OPCODES = {"BeginExecute": 1, "EndExecute": 2}
"""What names do not say."""
MANAGED = struct.pack("<I", 2)
WITHIN = {2: 1}
"""Of an activity the one around it."""
Event = tuple[str, int, int, bytes]


def trace_of(events: Sequence[Event], code: TypeCode = TypeCode.INT32) -> Trace:
    """(kind, ms, id of the activity, payload) of one thread."""
    file = io.BytesIO()
    with Writer(file, frequency=1000) as writer:
        for number, (provider, event, name, fields) in enumerate(KINDS.values(), 1):
            writer.add_metadata(
                Metadata(
                    metadata_id=number,
                    provider=provider,
                    event_id=event,
                    name=name,
                    version=int(provider == RUNTIME),
                    opcode=OPCODES.get(name),
                    fields=tuple(Field(name=one, type=FieldType(code=code)) for one in fields),
                )
            )
        for kind, ms, activity, payload in events:
            writer.write_event(
                [*KINDS].index(kind) + 1,
                ms,
                payload,
                thread=1,
                activity=UUID(int=activity) if activity else None,
                related=UUID(int=WITHIN[activity]) if kind == "dns" and activity in WITHIN else None,
            )
    return Trace(file.getvalue())


@pytest.fixture(params=["at once", "event by event"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    if request.param == "at once":
        return {}
    monkeypatch.setattr(request_spans, "_FOLLOWED", 1)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    return {"rows": 1}


def asked(events: Sequence[Event], way: dict[str, int]) -> RequestReport:
    (made,) = fold(trace_of(events), RequestsFold(), **way)
    return made


def test_behind_an_end_without_an_id_the_thread_works_for_what_is_around(way: dict[str, int]) -> None:
    samples: list[Event] = [("sample", ms, 0, MANAGED) for ms in range(4, 15)]
    made = asked(
        [("server", 1, 1, b""), ("dns", 2, 2, b""), ("found", 3, 0, b""), *samples, ("served", 20, 1, b"")], way
    )
    rows = {row["kind"]: row for row in made.requests.to_pylist()}
    assert (rows["dns"]["duration_ms"], rows["dns"]["cpu_ms"], rows["dns"]["parent"]) == (1.0, 0.0, 0)
    assert rows["server"]["cpu_ms"] == 10.0


@pytest.mark.parametrize("inner", [0, 7, 8, 40])
def test_without_ids_the_one_that_is_alone_under_way_fails(inner: int, way: dict[str, int]) -> None:
    events: list[Event] = [("dns", 1, 0, b"")]
    for at in range(inner):
        events += [("dns", 2 + 2 * at, 0, b""), ("found", 3 + 2 * at, 0, b"")]
    made = asked([*events, ("failed", 200, 0, b""), ("found", 201, 0, b"")], way)
    assert made.requests.values("failure") == ["failed" if not inner else None, *[None] * inner]
    assert made.totals.unknown == (inner + 1 if inner else 0)
    assert made.totals.unknown_failures == ({"dns": 1} if inner else {})


@pytest.mark.parametrize("activity", [0, 1])
def test_a_failure_may_be_told_behind_the_end(activity: int, way: dict[str, int]) -> None:
    events: list[Event] = [("dns", 1, activity, b""), ("found", 2, activity, b""), ("failed", 3, activity, b"")]
    assert asked(events, way).totals.failed == 1


def test_of_equally_frequent_reasons_the_first_is_told(way: dict[str, int]) -> None:
    events: list[Event] = []
    for at, number in enumerate((547, 0, 547, 0)):
        events += [("sql", 2 * at, at + 1, b""), ("done", 2 * at + 1, at + 1, struct.pack("<ii", 0, number))]
        events += [("dns", 2 * at + 1, 9, b""), ("failed", 2 * at + 1, 9, b"")]
    found = {row["kind"]: row["failure"] for row in asked(events, way).by_route.to_pylist()}
    assert found == {"sql": "error 547", "dns": "failed"}


def test_of_each_route_it_is_told_how_many_never_end_and_since_when(way: dict[str, int]) -> None:
    made = asked(
        [
            ("server", 1, 1, b""),
            ("server", 2, 2, b""),
            ("sql", 3, 2, b""),
            ("server", 4, 3, b""),
            ("served", 5, 1, b""),
        ],
        way,
    )
    told = {row["kind"]: (row["count"], row["unfinished"], row["open_since_ms"]) for row in made.by_route.to_pylist()}
    assert told == {"server": (3, 2, 2.0), "sql": (1, 1, 3.0)}
    assert made.totals.unfinished == 3
    ended = asked([("server", 1, 1, b""), ("served", 2, 1, b"")], way)
    assert [(row["unfinished"], row["open_since_ms"]) for row in ended.by_route.to_pylist()] == [(0, None)]


def test_state_that_is_no_whole_number_is_taken_as_one() -> None:
    events: list[Event] = [("sql", 1, 1, b""), ("done", 2, 1, struct.pack("<dd", 0.0, 547.0))]
    assert requests(trace_of(events, TypeCode.DOUBLE)).requests.values("failure") == ["error 547"]
    guid = [("sql", 1, 1, b""), ("done", 2, 1, bytes(32))]
    assert requests(trace_of(guid, TypeCode.GUID)).requests.values("failure") == [None]


def test_a_report_may_be_sent_to_another_process(way: dict[str, int]) -> None:
    made = asked([("dns", 1, 1, b""), ("failed", 2, 1, b""), ("found", 3, 1, b"")], way)
    assert pickle.loads(pickle.dumps(made)).to_json() == made.to_json()


def test_what_a_thread_does_behind_the_end_is_of_no_request(way: dict[str, int]) -> None:
    samples: list[Event] = [("sample", ms, 0, MANAGED) for ms in (3, 4, 5000)]
    events: list[Event] = [("server", 1, 1, b""), ("contended", 2, 1, b""), *samples[:2], ("served", 10, 1, b"")]
    made = asked([*events, samples[2], ("got", 5001, 0, b"")], way)
    assert (made.requests.values("cpu_ms"), made.requests.values("lock_ms")) == ([7.0], [8.0])


def test_what_is_allocated_behind_the_end_is_of_no_request(way: dict[str, int]) -> None:
    ticks: list[Event] = [("tick", ms, 1, struct.pack("<IIHQ", 100, 0, 1, 100)) for ms in (3, 10, 5000)]
    events: list[Event] = [("server", 1, 1, b""), ticks[0], ("served", 10, 1, b""), *ticks[1:]]
    assert asked(events, way).requests.values("allocated_bytes") == [200]


def test_of_what_shares_its_id_with_others_of_another_kind_the_end_is_known(way: dict[str, int]) -> None:
    """Name look-ups at once that have the id of the request that they are within."""
    looks: list[Event] = [("dns", 2, 1, b""), ("dns", 3, 1, b""), ("found", 4, 1, b""), ("found", 5, 1, b"")]
    made = asked([("server", 1, 1, b""), *looks, ("served", 10, 1, b"")], way)
    assert made.requests.values("duration_ms") == [9.0, None, None]
    assert (made.totals.unknown, made.totals.unfinished) == (2, 0)


def thrown(ms: int, activity: int, type_: str, message: str = "") -> Event:
    return "thrown", ms, activity, z16(type_) + z16(message) + bytes(8 + 4 + 2 + 2)


def test_what_was_thrown_counts_for_what_it_was_thrown_in_and_the_last_is_told(way: dict[str, int]) -> None:
    inside = [("dns", 3, 2, b""), thrown(4, 2, "Odd", "why"), ("found", 5, 2, b"")]
    first = [("server", 1, 1, b""), thrown(2, 1, "First"), *inside, thrown(6, 1, "Last", "NULL"), ("served", 7, 1, b"")]
    others = [thrown(8, 1, "Late"), thrown(9, 0, "Nobody's"), ("server", 10, 5, b""), ("served", 11, 5, b"")]
    made = asked([*first, *others], way)
    rows = [(row["kind"], row["exceptions"], row["exception"]) for row in made.requests.to_pylist()]
    assert rows == [("server", 3, "Last"), ("dns", 1, "Odd: why"), ("server", 0, None)]
    routes = {row["kind"]: (row["exceptions"], row["exception"]) for row in made.by_route.to_pylist()}
    assert routes == {"server": (3, None), "dns": (1, None)}, "none has failed"


def test_what_is_thrown_within_a_part_is_told_of_what_the_server_answers(way: dict[str, int]) -> None:
    events = [
        ("server", 1, 1, b""),
        ("dns", 3, 2, b""),
        thrown(4, 2, "Odd"),
        ("failed", 5, 2, b""),
        ("found", 6, 2, b""),
    ]
    made = asked([*events, ("served", 7, 1, b"")], way)
    assert made.requests.values("exception") == ["Odd", "Odd"]
    failed = {row["kind"]: (row["failure"], row["exception"]) for row in made.by_route.to_pylist()}
    assert failed == {"server": (None, None), "dns": ("failed", "Odd")}


def test_without_any_exception_it_is_not_told_how_many_there_were(way: dict[str, int]) -> None:
    made = asked([("server", 1, 1, b""), ("served", 2, 1, b"")], way)
    assert (made.requests.values("exceptions"), made.requests.values("exception")) == ([None], [None])


def stopping(ms: int, reason: int) -> Event:
    return "stopping", ms, 0, struct.pack("<IIH", reason, 1, 0)


def test_a_pause_counts_for_what_never_ends_and_for_nothing_of_which_the_end_is_not_known(way: dict[str, int]) -> None:
    pause = [stopping(10, 1), ("restarted", 110, 0, b"")]
    assert asked([("server", 1, 1, b""), *pause], way).requests.values("gc_ms") == [100.0]
    at_once: list[Event] = [("server", 1, 0, b""), ("server", 2, 0, b""), *pause, ("served", 120, 0, b"")]
    made = asked([*at_once, ("served", 121, 0, b"")], way)
    assert made.requests.values("gc_ms") == made.by_route.values("gc_ms") * 2 == [None, None]


@pytest.mark.parametrize("reason", [1, 4])
def test_a_pause_whose_end_was_lost_does_not_end_with_what_stops_the_program_later(
    reason: int, way: dict[str, int]
) -> None:
    late: list[Event] = [stopping(10, 1), stopping(500, reason), ("restarted", 501, 0, b""), ("served", 600, 1, b"")]
    made = asked([("server", 1, 1, b""), *late], way)
    assert made.requests.values("gc_ms") in ([1.0] if reason == 1 else [0.0], [None])


def test_waits_for_locks_that_never_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_spans, "_FOLLOWED", 1)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    one = RequestsFold()
    for window in trace_of([("dns", 0, 1, b""), *(("contended", 1 + at, 1, b"") for at in range(500))]).windows(
        one.wants, size=100
    ):
        one.feed(window)
    assert one._costs is not None
    assert len(one._costs._wanted) == 4
    assert one.result().requests.values("lock_ms") == [0.0]


def test_asking_again_takes_no_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    init = scratch.UnnamedFile.__init__

    def noted(self: scratch.UnnamedFile) -> None:
        init(self)
        made.append(weakref.ref(self))

    monkeypatch.setattr(scratch.UnnamedFile, "__init__", noted)
    one = LogsFold()
    for window in trace_of([("message", at, 1, struct.pack("<i", 2)) for at in range(15_000)]).windows(one.wants):
        one.feed(window)
    sizes = []
    for _ in range(4):
        assert one.result().totals.count == 15_000
        gc.collect()
        there = [file for file in (one() for one in made) if file is not None]
        sizes.append(sum(os.fstat(file._raw.fileno()).st_size for file in there))
    assert sizes[0] == sizes[-1]


def test_what_new_requests_are_within_takes_no_memory_for_all_before() -> None:
    spans, rows = request_spans.RequestSpans(), 8 << 20
    for grown, kind in ((spans._depth, np.int8), (spans._parent, np.int32)):
        for _ in range(8):
            grown.append(np.ones(rows // 8, kind))
    spans._first = rows
    parent, within = np.array([5, rows, -1], np.int32), np.array([-1, 0, -1])
    tracemalloc.start()
    try:
        assert spans._depths(parent, within).tolist() == [2, 3, 1]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
