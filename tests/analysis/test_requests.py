"""Requests by hand, and of recordings."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.analysis.traces import managed, traced
from tests.analysis.traces import said as event_said
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.cpu import SAMPLER, cpu
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.request_findings import of_requests
from dotnetdiag.analysis.request_kinds import DIAGNOSTIC_SOURCE, HOSTING, HTTP, KINDS, LOGGING, readable, routes
from dotnetdiag.analysis.request_spans import TOO_DEEP
from dotnetdiag.analysis.requests import (
    DIAGNOSTICS,
    FINISHED,
    NO_EVENTS,
    NO_STATUSES,
    SHARED_IDS,
    RequestsFold,
    requests,
)
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.trace import Trace

COUNTED = {
    "server": ("Microsoft.AspNetCore.Hosting", "Request/Start"),
    "kestrel": ("Microsoft-AspNetCore-Server-Kestrel", "Request/Start"),
    "client": ("System.Net.Http", "Request/Start"),
    "dns": ("System.Net.NameResolution", "Resolution/Start"),
    "connect": ("System.Net.Sockets", "Connect/Start"),
}


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    counts = trace.counts()
    made = requests(trace)
    for kind, (provider, event) in COUNTED.items():
        assert made.totals.by_kind.get(kind, 0) == counts.get(provider, {}).get(event, 0)
    assert len(made.requests) == made.totals.count + made.totals.parts == sum(made.by_route.values("count"))
    proper = {"server", "client", "grpc server", "grpc client", "sql"}
    proper |= set() if "server" in made.totals.by_kind else {"kestrel"}
    assert made.totals.count == sum(made.totals.by_kind.get(kind, 0) for kind in proper)
    assert (made.notes == (NO_EVENTS,)) == (len(made.requests) == 0)
    assert made.totals.failed == sum(made.by_route.values("failed"))


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        (["server", "kestrel", "connection", "client", "client headers", "dns", "connect", "tls"], 2),
        (["kestrel", "connection"], 1),  # without the host's
        (["grpc server", "grpc client", "sql", "scope"], 3),
        (["dns", "tls", "scope"], 0),
        ([], 0),
    ],
)
def test_parts_of_requests_are_not_counted_as_requests(kinds: list[str], count: int) -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in enumerate(kinds, 1):
            kind = next(one for one in KINDS if one.name == name)
            begin = kind.starts or f"{kind.task}Start"
            writer.add_metadata(
                Metadata(metadata_id=number, provider=kind.provider, event_id=number, name=begin, opcode=1)
            )
            writer.write_event(number, number, b"", thread=1, activity=UUID(int=number))
    totals = requests(Trace(file.getvalue())).totals
    shown = [kind for kind in kinds if kind != "scope"]
    assert (totals.count, totals.parts, dict(totals.by_kind)) == (count, len(shown) - count, dict.fromkeys(shown, 1))


def test_the_requests_of_a_recorded_server() -> None:
    name = "web-10.nettrace"
    made = requests(Trace(data_of(name), name=name))
    found = {(row["kind"], row["route"].rpartition("/")[2]): row for row in made.by_route.to_pylist()}
    assert {key: (row["count"], row["failed"]) for key, row in found.items() if key[0] == "server"} == {
        ("server", "*"): (32, 0),
        ("server", "slow"): (4, 0),
        ("server", "fail"): (4, 4),
    }
    assert found["server", "slow"]["median_ms"] > 50


def test_an_end_without_an_activity_is_of_what_its_thread_has_open() -> None:
    name = "http-10.nettrace"
    made = requests(Trace(data_of(name), name=name))
    spans = [row["duration_ms"] for row in made.requests.to_pylist() if row["kind"] == "dns"]
    assert (spans, made.totals.unfinished) == ([pytest.approx(9.205, abs=0.01), pytest.approx(0.184, abs=0.01)], 0)


DNS = "System.Net.NameResolution"
A, B = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # (1 start or 2 stop, thread, activity)
        ([(1, 1, A), (1, 1, B), (2, 1, B), (2, 1, None)], [3.0, 1.0]),
        ([(1, 1, None), (1, 1, B), (2, 1, B), (2, 1, A)], [3.0, 1.0]),
        ([(1, 1, A), (1, 1, B), (2, 1, None), (2, 1, None)], [3.0, 1.0]),
        ([(1, 1, A), (2, 1, B)], [None]),
        ([(1, 1, A), (2, 2, None)], [None]),
        ([(1, 1, A), (1, 2, B), (2, 2, A), (2, 1, B)], [2.0, 2.0]),
    ],
)
def test_ends_are_told_by_activities_and_what_is_left_by_threads(
    steps: list[tuple[int, int, UUID | None]], expected: list[float | None]
) -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "ResolutionStart"), (2, "ResolutionStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=DNS, event_id=number, name=name))
        for time, (kind, thread, activity) in enumerate(steps):
            ids: dict[str, Any] = {} if activity is None else {"activity": activity}
            writer.write_event(kind, time * 1_000_000, b"", thread=thread, **ids)
    assert requests(Trace(file.getvalue())).requests.values("duration_ms") == expected


def test_a_request_whose_answer_breaks_off_has_failed() -> None:
    """HttpClient tells that within the activity of the content, as 8 and 10 were seen to do."""
    file = io.BytesIO()
    http, text = "System.Net.Http", FieldType(code=TypeCode.STRING)
    names = ("RequestStart", "ResponseContentStart", "RequestFailed", "ResponseContentStop", "RequestStop")
    fields = {"RequestFailed": (Field(name="exceptionMessage", type=text),)}
    with Writer(file) as writer:
        for number, name in enumerate(names, 1):
            record = Metadata(
                metadata_id=number, provider=http, event_id=number, name=name, fields=fields.get(name, ())
            )
            writer.add_metadata(record)
        for number, activity, related in ((1, A, None), (2, B, A), (3, B, None), (4, B, None), (5, A, None)):
            ids: dict[str, Any] = {"activity": activity} | ({} if related is None else {"related": related})
            said = "broken off\0".encode("utf-16-le") if number == 3 else b""
            writer.write_event(number, number * 1_000_000, said, thread=1, **ids)
    request, content = requests(Trace(file.getvalue())).requests.to_pylist()
    assert (request["kind"], request["failure"]) == ("client", "broken off")
    assert (content["kind"], content["failure"]) == ("client answer content", None)


@pytest.mark.parametrize("said", [None, ""])
def test_what_tells_no_reason_has_failed_without_that_of_another(said: str | None) -> None:
    """The event of a host name that is not found has no fields."""
    file = io.BytesIO()
    text = (Field(name="exceptionMessage", type=FieldType(code=TypeCode.STRING)),)
    http, dns = "System.Net.Http", "System.Net.NameResolution"
    names = {1: (http, "RequestStart"), 2: (http, "RequestFailed"), 3: (http, "RequestStop")}
    names |= {4: (dns, "ResolutionStart"), 5: (dns, "ResolutionFailed"), 6: (dns, "ResolutionStop")}
    told = (2,) if said is None else (2, 5)
    with Writer(file) as writer:
        for number, (provider, name) in names.items():
            fields = text if number in told else ()
            writer.add_metadata(
                Metadata(metadata_id=number, provider=provider, event_id=number, name=name, fields=fields)
            )
        for time, (number, activity) in enumerate(((1, A), (2, A), (3, A), (4, B), (5, B), (6, B))):
            reason = "broken off\0" if number == 2 else "" if said is None else f"{said}\0"
            payload = reason.encode("utf-16-le") if number in told else b""
            writer.write_event(number, time * 1_000_000, payload, thread=1, activity=activity)
    rows = requests(Trace(file.getvalue())).requests.to_pylist()
    assert [(row["kind"], row["failure"]) for row in rows] == [("client", "broken off"), ("dns", "failed")]


Event = tuple[str, str, dict[str, str | int | float], UUID]
"""(provider, name, fields, activity)"""
CODES = {str: TypeCode.STRING, int: TypeCode.INT32, float: TypeCode.DOUBLE}


def said(*events: Event, opcodes: Mapping[str, int] = {}, every_ms: int = 1) -> Trace:
    """Events of EventSources, one each ms or so; ``opcodes``, by name, are those that a source declares, and a file tells."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for time, (provider, name, values, activity) in enumerate(events):
            fields = [Field(name=key, type=FieldType(code=CODES[type(value)])) for key, value in values.items()]
            record = Metadata(
                metadata_id=time + 1,
                provider=provider,
                event_id=time + 1,
                name=name,
                opcode=opcodes.get(name),
                fields=tuple(fields),
            )
            writer.add_metadata(record)
            writer.write_event(
                time + 1,
                time * every_ms * 1_000_000,
                b"".join(map(_packed, values.values())),
                thread=1,
                activity=activity,
            )
    return Trace(file.getvalue())


def _packed(value: str | int | float) -> bytes:
    if isinstance(value, str):
        return f"{value}\0".encode("utf-16-le")
    return struct.pack("<d" if isinstance(value, float) else "<i", value)


def test_a_grpc_call_that_fails_says_with_which_status() -> None:
    client = "Grpc.Net.Client"
    made = requests(
        said(
            (client, "CallStart", {"method": "/shop.Cart/Get"}, A),
            (client, "CallFailed", {"statusCode": 13}, A),
            (client, "CallStop", {}, A),
            (client, "CallStart", {"method": "/shop.Cart/Get"}, B),
            (client, "CallStop", {}, B),
        )
    )
    assert made.requests.values("failure") == ["Internal (13)", None]
    (route,) = made.by_route.to_pylist()
    assert (route["count"], route["failed"], route["failure"]) == (2, 1, "Internal (13)")


@pytest.mark.parametrize("source", ["Microsoft.Data.SqlClient.EventSource", "Microsoft-AdoNet-SystemData"])
@pytest.mark.parametrize("opcodes", [{"BeginExecute": 1, "EndExecute": 2}, {}], ids=["5 and later", "3.1"])
@pytest.mark.parametrize(
    ("database", "state", "ends"),
    [
        ("database", "compositestate", {0: None, 2: "error 1205"}),
        ("database", "compositestate", {4: "failed"}),
        ("databaseName", "compositeState", {0: None, 2: "error 1205"}),
    ],
)
def test_a_command_says_at_its_end_whether_it_failed(
    database: str, state: str, ends: dict[int, str | None], opcodes: dict[str, int], source: str
) -> None:
    """The lowest bit is that of success. The source gives its events opcodes, which a file of 3.1 does not tell."""
    events: list[Event] = []
    for number, why in ends.items():
        activity = UUID(int=number + 1)
        command: dict[str, str | int | float] = {"dataSource": "db1", database: "shop", "commandText": "select 1"}
        code = 1205 if why and why != "failed" else 0
        events.append((source, "BeginExecute", command, activity))
        events.append((source, "EndExecute", {state: number | (why is None), "sqlExceptionNumber": code}, activity))
    made = requests(said(*events, opcodes=opcodes))
    assert made.requests.values("failure") == list(ends.values())
    assert made.requests.values("name") == ["db1 shop select 1"] * len(ends)
    assert made.totals.unfinished == 0


def test_commands_at_once_without_ids_end_nobody_knows_how() -> None:
    """Those that are awaited end on any thread."""
    source, none = "Microsoft.Data.SqlClient.EventSource", UUID(int=0)
    state: dict[str, str | int | float] = {"compositestate": 1, "sqlExceptionNumber": 0}
    events: list[Event] = [(source, "BeginExecute", {"commandText": "select 1"}, none)] * 2
    made = requests(
        said(*events, *[(source, "EndExecute", state, none)] * 2, opcodes={"BeginExecute": 1, "EndExecute": 2})
    )
    assert (made.requests.values("duration_ms"), made.totals.unknown) == ([None, None], 2)


@pytest.mark.parametrize(
    ("provider", "task", "failed", "name"),
    [
        (HOSTING, "Request", "UnhandledException", "server"),
        ("Microsoft-AspNetCore-Server-Kestrel", "TlsHandshake", "TlsHandshakeFailed", "tls"),
        (HTTP, "Request", "RequestFailed", "client"),
        (DNS, "Resolution", "ResolutionFailed", "dns"),
        ("System.Net.Sockets", "Connect", "ConnectFailed", "connect"),
        ("System.Net.Security", "Handshake", "HandshakeFailed", "tls"),
        ("Grpc.AspNetCore.Server", "Call", "CallFailed", "grpc server"),
        ("Grpc.Net.Client", "Call", "CallFailed", "grpc client"),
    ],
)
def test_what_fails_says_so_as_its_source_calls_it(provider: str, task: str, failed: str, name: str) -> None:
    """As runtimes write the names, without an opcode: what failed may have an end, or none (Kestrel of 10)."""
    for ends in (True, False):
        stop: list[Event] = [(provider, f"{task}Stop", {}, A)] if ends else []
        made = requests(said((provider, f"{task}Start", {}, A), (provider, failed, {}, A), *stop))
        (row,) = made.requests.to_pylist()
        assert (row["kind"], row["failure"], made.totals.failed) == (name, "failed", 1)
        assert made.totals.unfinished == (not ends and task != "TlsHandshake")


def test_a_handshake_of_kestrel_ends_when_it_fails_and_of_others_no_end_is_told() -> None:
    source = "Microsoft-AspNetCore-Server-Kestrel"
    made = requests(
        said(
            (source, "TlsHandshakeStart", {}, A),
            (source, "TlsHandshakeStart", {}, B),
            (source, "TlsHandshakeFailed", {}, B),
        )
    )
    assert [(row["failure"], row["duration_ms"]) for row in made.requests.to_pylist()] == [
        (None, None),
        ("failed", 1.0),
    ]
    (route,) = made.by_route.to_pylist()
    assert (route["count"], route["failed"], route["unfinished"], made.totals.unfinished) == (2, 1, 0, 0)
    assert (route["slow"], route["slow_ms"]) == (None, None)


@pytest.mark.parametrize("has_sockets", [True, False])
def test_why_ids_are_shared_is_told_as_far_as_it_is_known(has_sockets: bool) -> None:
    at_once: list[Event] = [
        (HTTP, "RequestStart", {}, A),
        (HTTP, "RequestStart", {}, A),
        *[(HTTP, "RequestStop", {}, A)] * 2,
    ]
    sockets: list[Event] = [("System.Net.Sockets", "ConnectStart", {"address": "x"}, B)] if has_sockets else []
    notes = requests(said(*sockets, *at_once)).notes
    (note,) = (note for note in notes if note.startswith(SHARED_IDS))
    assert ("Sockets" in note) == has_sockets
    assert ("HTTP/2" in note) == (not has_sockets)


@pytest.mark.parametrize(
    ("end", "told", "expected"),
    [
        ("Microsoft.Data.SqlClient.WriteCommandAfter", {}, None),
        ("Microsoft.Data.SqlClient.WriteCommandError", {"Error": "timeout expired"}, "timeout expired"),
        ("System.Data.SqlClient.WriteCommandError", {}, "failed"),
        ("Microsoft.EntityFrameworkCore.Database.Command.CommandError", {"Error": ""}, "failed"),
        ("Microsoft.EntityFrameworkCore.Database.Command.CommandCanceled", {}, "canceled"),
    ],
)
def test_a_command_ends_with_its_error(end: str, told: dict[str, str], expected: str | None) -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "Activity1Start"), (2, "Activity1Stop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=DIAGNOSTIC_SOURCE, event_id=number, name=name))
        for number, name, pairs in ((1, "Before", {"CommandText": "select 1"}), (2, end, told)):
            texts = [word for pair in pairs.items() for word in pair]
            payload = _packed("SqlClientDiagnosticListener") + _packed(name) + struct.pack("<H", len(pairs))
            writer.write_event(
                number, number * 1_000_000, payload + b"".join(map(_packed, texts)), thread=1, activity=A
            )
    made = requests(Trace(file.getvalue()))
    assert (made.totals.unfinished, made.totals.failed) == (0, int(expected is not None))
    assert [(row["name"], row["failure"]) for row in made.requests.to_pylist()] == [("select 1", expected)]


def test_how_long_requests_waited_for_a_connection_is_told_by_route() -> None:
    where: dict[str, str | int | float] = {"scheme": "http", "host": "x", "port": 80, "pathAndQuery": "/a"}
    made = requests(
        said(
            (HTTP, "RequestStart", where, A),
            (HTTP, "RequestLeftQueue", {"timeOnQueueMilliseconds": 1.5}, A),
            (HTTP, "RequestStop", {"statusCode": 503}, A),
            (HTTP, "RequestStart", where, B),
            (HTTP, "RequestLeftQueue", {"timeOnQueueMilliseconds": 0.25}, B),
            (HTTP, "RequestFailed", {"exceptionMessage": "broken"}, B),
            (HTTP, "RequestStop", {"statusCode": -1}, B),
            (HTTP, "RequestStart", {**where, "host": "y"}, A),
            (HTTP, "RequestLeftQueue", {}, A),
            (HTTP, "RequestStop", {"statusCode": 500}, A),
        )
    )
    rows = {row["route"]: (row["queue_ms"], row["failure"]) for row in made.by_route.to_pylist()}
    assert rows["http://x:80/a"][0] == 1.75
    assert rows["http://x:80/a"][1] in ("broken", "status 503")
    assert rows["http://y:80/a"] == (None, "status 500")


def test_what_fails_without_a_reason_has_the_status_for_one() -> None:
    """That an exception was not handled has no text, and the message with the status comes behind it."""
    path: dict[str, str | int | float] = {"method": "GET", "path": "/bad"}
    made = requests(
        said(
            (HOSTING, "RequestStart", path, A),
            (HOSTING, "UnhandledException", {}, A),
            (LOGGING, "FormattedMessage", finished(500, "0 - 1.5ms"), A),
            (HOSTING, "RequestStop", {}, A),
            (HOSTING, "RequestStart", path, B),
            (LOGGING, "FormattedMessage", finished(500, "0 - 1.5ms"), B),
            (HOSTING, "RequestStop", {}, B),
            (HOSTING, "RequestStart", path, A),
            (HOSTING, "UnhandledException", {}, A),
            (HOSTING, "RequestStop", {}, A),
        )
    )
    rows = [(row["status"], row["failure"]) for row in made.requests.to_pylist()]
    assert rows == [(500, "status 500"), (500, "status 500"), (None, "failed")]
    (route,) = made.by_route.to_pylist()
    assert (route["failed"], route["failure"]) == (3, "status 500")


@pytest.mark.parametrize(("status", "failure"), [(413, None), (200, "failed"), (503, "status 503")])
def test_an_exception_that_says_that_a_request_is_refused_is_no_failure(status: int, failure: str | None) -> None:
    """As that of a body that is too large; of one that comes when the answer has begun the status is 200."""
    made = requests(
        said(
            (HOSTING, "RequestStart", {"method": "GET", "path": "/a"}, A),
            (HOSTING, "UnhandledException", {}, A),
            (LOGGING, "FormattedMessage", finished(status), A),
            (HOSTING, "RequestStop", {}, A),
        )
    )
    assert [(row["status"], row["failure"]) for row in made.requests.to_pylist()] == [(status, failure)]
    (route,) = made.by_route.to_pylist()
    assert (route["failed"], route["failure"]) == (int(failure is not None), failure)
    assert made.totals.failed == route["failed"]


def finished(status: int, behind: str = "- text/plain 1.2ms") -> dict[str, str | int | float]:
    return {
        "EventId": 2,
        "LoggerName": "Microsoft.AspNetCore.Hosting.Diagnostics",
        "FormattedMessage": f"Request finished HTTP/1.1 GET http://x/a - {status} {behind}",
    }


@pytest.mark.parametrize("has_status", [True, False])
def test_where_no_status_is_told_no_route_has_0_failures(has_status: bool) -> None:
    path: dict[str, str | int | float] = {"method": "GET", "path": "/a"}
    told = [(LOGGING, "FormattedMessage", finished(200), A)] if has_status else []
    made = requests(
        said(
            (HOSTING, "RequestStart", path, A),
            *told,
            (HOSTING, "RequestStop", {}, A),
            (HOSTING, "RequestStart", path, B),
            (HOSTING, "RequestStop", {}, B),
        )
    )
    assert made.by_route.values("failed") == [0 if has_status else None]
    assert (NO_STATUSES in made.notes) == (not has_status)
    assert made.totals.failed == 0


def test_an_exception_that_nobody_handled_does_not_tell_how_other_routes_ended() -> None:
    one: dict[str, str | int | float] = {"method": "GET", "path": "/a"}
    other: dict[str, str | int | float] = {"method": "GET", "path": "/fail"}
    made = requests(
        said(
            (HOSTING, "RequestStart", one, A),
            (HOSTING, "RequestStop", {}, A),
            (HOSTING, "RequestStart", other, B),
            (HOSTING, "UnhandledException", {}, B),
            (HOSTING, "RequestStop", {}, B),
        )
    )
    failed = {row["route"]: row["failed"] for row in made.by_route.to_pylist()}
    assert failed == {"GET /a": None, "GET /fail": 1}
    assert NO_STATUSES in made.notes
    (text,) = [finding.text for finding in of_requests(made, Recorded(0.0, 10.0))]
    assert text.startswith("at least 1 of 2 requests that came in failed: GET /fail (1)")


def test_a_name_that_is_empty_is_that_of_this_host() -> None:
    made = requests(said((DNS, "ResolutionStart", {"hostNameOrAddress": ""}, A)))
    assert made.requests.values("name") == ["(this host)"]


@pytest.mark.parametrize("rows", [2, 1000])
def test_a_sample_counts_as_long_as_until_the_next_of_its_thread(rows: int) -> None:
    """As in a profile; the median of what lies between samples told 60 ms of requests that span for 100."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "RequestStart"), (2, "RequestStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=HOSTING, event_id=number, name=name))
        writer.add_metadata(Metadata(metadata_id=3, provider=SAMPLER, event_id=0, name=""))
        writer.write_event(1, 0, b"", thread=1, activity=A)
        for ms, thread, kind in (
            (1, 1, 2), (1, 2, 2), (3, 1, 2), (3, 2, 2), (23, 1, 2), (24, 1, 1), (60, 1, 2), (90, 2, 2), (101, 1, 2), (103, 1, 2),
        ):  # fmt: skip
            if ms == 101:
                writer.write_event(2, 100_000_000, b"", thread=1, activity=A)
            writer.write_event(3, ms * 1_000_000, struct.pack("<I", kind), thread=thread)
    trace = Trace(file.getvalue())
    (made,) = fold(trace, RequestsFold(), rows=rows)
    assert made.requests.values("cpu_ms") == [2.0 + 20.0 + 1.0 + 40.0]  # up to its end
    assert sum(cpu(trace).in_states(State.CPU).weight[:5]) == 2.0 + 20.0 + 1.0 + 41.0 + 2.0


@pytest.mark.parametrize("rows", [3, 1000])
def test_a_worker_that_spins_for_other_work_does_so_for_no_request(rows: int) -> None:
    """The last that it did is known: it began an await, and the request goes on elsewhere."""
    idle = (
        "System.Threading.LowLevelSpinWaiter.Wait",
        "System.Threading.LowLevelLifoSemaphore.WaitForSignal",
        "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart",
    )
    begin = event_said(0, 1, provider=HOSTING, number=1, name="RequestStart")
    end = event_said(100, 2, provider=HOSTING, number=2, name="RequestStop")
    samples = [managed(ms, 1, "App.Handle", idle[-1]) for ms in (1, 2, 3)] + [
        managed(ms, 1, *idle) for ms in (5, 6, 40)
    ]
    names = ("LowLevelSpinWaiter", "LowLevelLifoSemaphore", "PortableThreadPool+WorkerThread")
    trace = traced(
        replace(begin, activity=A),
        *samples,
        managed(60, 1, "App.Handle", idle[-1]),
        managed(61, 1, *idle),
        replace(end, activity=A),
        managed(120, 1, *idle),
        modules={f"System.Threading.{name}": "/x/System.Private.CoreLib.dll" for name in names},
    )
    fold_ = RequestsFold()
    for window in trace.windows(fold_.wants, size=rows):
        fold_.feed(window)
        before = fold_.result()
    made = fold_.result()
    assert made.requests.values("cpu_ms") == before.requests.values("cpu_ms") == [4.0 + 1.0]


def test_what_a_command_compares_with_is_part_of_its_route() -> None:
    labels = [
        "db SELECT a FROM t WHERE id = @p",
        "db SELECT a FROM t WHERE id = @p AND b=(SELECT max(c2) FROM t2)",
        "db x WHERE a=? AND b=1",
    ]
    assert routes(labels, np.arange(3))[0] == labels
    assert routes(["GET /a?id=1&b=x y", "GET /a?id=2&b=z y"], np.arange(2))[0] == ["GET /a?id=*&b=* y"]


@pytest.mark.parametrize(
    ("commands", "route"),
    [
        (
            ["SELECT * FROM o WHERE id = 5 shop srv1,1433", "SELECT * FROM o WHERE id = 12 shop srv1,1433"],
            "SELECT * FROM o WHERE id = * shop srv1,1433",
        ),
        (["db insert into t2 values (1, 'a''b', N'c', -2.5)", "db insert into t2 values (7,'x',N'', -1)"], None),
        (
            ["update t set a1=1 where b in (1,2,3)", "update t set a1=2 where b in (4,5,6)"],
            "update t set a1=* where b in (*)",
        ),
        (["EXEC dbo.p2 @a = 'x'", "EXEC dbo.p2 @a = 'it''s 5'"], "EXEC dbo.p2 @a = *"),
        (["GET /select/5/x", "GET /select/6/x"], "GET /select/*/x"),
    ],
)
def test_commands_that_differ_in_their_literals_are_one_route(commands: list[str], route: str | None) -> None:
    made, which = routes(commands, np.arange(len(commands)))
    if route is None:
        assert [one.replace(" ", "") for one in made] == ["dbinsertintot2values(*)"] * len(made)
    else:
        assert (made, which.tolist()) == ([route], [0, 0])


def test_routes_have_no_numbers_and_no_ids() -> None:
    names = [
        "GET /a/1/b",
        "GET /a/22/b",
        "GET /a/1/c",
        "POST /x/6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "GET /find?q=one&page=2",
        "GET /slow?0",
        "GET /v2/x",
    ]
    made, _ = routes(names, np.arange(len(names)))
    assert made == ["GET /a/*/b", "GET /a/*/c", "POST /x/*", "GET /find?q=*&page=*", "GET /slow?*", "GET /v2/x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("InterNetwork:16:{31,144,127,0,0,1,0,0,0,0,0,0,0,0}", "127.0.0.1:8080"),
        ("InterNetworkV6:28:{0,80,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0}", "[::1]:80"),
        ("InterNetworkV6:28:{0,80,0,0,0,0,0,0,0,0,0,0,0,0,0,0,255,255,10,0,0,1,0,0,0,0}", "10.0.0.1:80"),
        ("InterNetwork:16:{999,1,1,1,1,1}", "InterNetwork:16:{999,1,1,1,1,1}"),
        ("InterNetworkV6:28:{1,2}", "InterNetworkV6:28:{1,2}"),
        ("example.com", "example.com"),
    ],
)
def test_addresses_are_as_people_write_them(text: str, expected: str) -> None:
    assert readable(text) == expected


def test_fields_of_other_types_than_they_should_be_are_taken_as_far_as_they_go() -> None:
    file, number = io.BytesIO(), FieldType(code=TypeCode.DOUBLE)
    kinds = {
        1: (HTTP, "RequestStart", ("scheme", "host")),
        2: (HTTP, "RequestStop", ("statusCode",)),
        3: (HTTP, "RequestLeftQueue", ("timeOnQueueMilliseconds",)),
        4: ("Microsoft-Extensions-Logging", "FormattedMessage", ("EventId", "Level")),
    }
    with Writer(file) as writer:
        for kind, (provider, name, fields) in kinds.items():
            writer.add_metadata(
                Metadata(
                    metadata_id=kind,
                    provider=provider,
                    event_id=kind,
                    name=name,
                    fields=tuple(Field(name=one, type=number) for one in fields),
                )
            )
        for at, value in enumerate((float("nan"), float("inf"), -1e300, 503.0, 1e15)):
            for kind in (1, 3, 4, 2):
                payload = struct.pack("<d", value) * len(kinds[kind][2])
                time = at * 1000 + 10 * (kind == 2) + kind
                writer.write_event(kind, time, payload, thread=2**63 - 1, activity=UUID(int=at + 1))
    made = requests(Trace(file.getvalue()))
    assert made.requests.values("status") == [None, 9223372036854774784, None, 503, 10**15]
    assert made.requests.values("queue_ms") == [None] * 5  # no part of them is longer than the whole
    assert made.totals.failed == 3
    assert sorted(filter(None, made.by_route.values("failure"))) == [
        "status 1000000000000000",
        "status 503",
        "status 9223372036854774784",
    ]


@pytest.mark.parametrize(("deep", "roots", "notes"), [(100, 1, ()), (101, 2, (TOO_DEEP,)), (250, 3, (TOO_DEEP,))])
def test_requests_that_are_too_deep_in_each_other_are_said_to_be(deep: int, roots: int, notes: tuple[str, ...]) -> None:
    text = FieldType(code=TypeCode.STRING)
    began = tuple(Field(name=name, type=text) for name in ("scheme", "host"))
    ids = [UUID(int=(one + 1) << 64 | 1) for one in range(deep)]
    file = io.BytesIO()
    with Writer(file) as writer:
        for kind, name, fields in ((1, "RequestStart", began), (2, "RequestStop", ())):
            writer.add_metadata(Metadata(metadata_id=kind, provider=HTTP, event_id=kind, name=name, fields=fields))
        for one in range(deep):
            told = "http\0host\0".encode("utf-16-le")
            writer.write_event(1, one * 1000, told, thread=1, activity=ids[one], related=ids[one - 1] if one else None)
        for one in range(deep):
            writer.write_event(2, (deep + one) * 1000, b"", thread=1, activity=ids[deep - 1 - one])
    made = requests(Trace(file.getvalue()))
    rows = made.requests.to_pylist()
    assert sum(row["parent"] is None for row in rows) == roots
    assert max(row["depth"] for row in rows) == 100
    assert made.notes == notes


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("GET http://x/a - 200 - - 619.0612ms", 200),
        ("GET http://x/a - 503 - - 151.8ms", 503),
        ("GET http://x/a - 200 5 text/plain;+charset=utf-8 0.3ms", 200),
        ("GET http://x/a - 404 0 - 1234.5ms", 404),
        ("POST http://x/a application/json 12 - 201 - application/json 7.25ms", 201),
        ("GET http://x/a?q=-%20500 - 204 - - 5ms", 204),
        ("GET http://x/a - - - 200 - - 619.06ms", 200),
        ("GET http://x/a - 619.06ms", None),
        ("GET http://x/a - 200", None),
    ],
)
def test_the_status_is_no_length_and_no_time(told: str, status: int | None) -> None:
    """As ASP.NET Core 5 to 7, which tells of the request's content first, and later ones say it."""
    finished: dict[str, str | int | float] = {
        "EventId": 2,
        "LoggerName": "Microsoft.AspNetCore.Hosting.Diagnostics",
        "FormattedMessage": f"Request finished HTTP/1.1 {told}",
    }
    begun: dict[str, str | int | float] = {"method": "GET", "path": "/a"}
    made = requests(
        said(
            (HOSTING, "RequestStart", begun, A),
            (LOGGING, "FormattedMessage", finished, A),
            (HOSTING, "RequestStop", {}, A),
        )
    )
    assert made.requests.values("status") == [status]
    assert made.totals.failed == (status == 503)


def test_a_wait_for_a_connection_counts_with_the_request_that_has_ended() -> None:
    asked: dict[str, str | int | float] = {"scheme": "http", "host": "x", "port": 80, "pathAndQuery": "/a"}
    left: dict[str, str | int | float] = {"timeOnQueueMilliseconds": 0.5}
    made = requests(
        said(
            (HTTP, "RequestStart", asked, A),
            (HTTP, "RequestLeftQueue", left, A),
            (HTTP, "RequestStop", {"statusCode": 200}, A),
            (HTTP, "RequestStart", asked, B),
            (HTTP, "RequestLeftQueue", left, B),
        )
    )
    assert made.requests.values("queue_ms") == [0.5, 0.5]
    (route,) = made.by_route.to_pylist()
    assert (route["count"], route["unfinished"], route["queue_ms"]) == (2, 1, 0.5)
    assert (route["open_since_ms"], route["open_pid"]) == (
        made.requests.values("start_ms")[1],
        made.requests.values("pid")[1],
    )


def answered(number: int, *, status: int, events: Sequence[tuple[str, str, dict[str, Any]]] = ()) -> list[Event]:
    """A request, what was told in it, and the message that tells its status."""
    at = UUID(int=number)
    finished = f"Request finished HTTP/1.1 GET http://x/cart - {status} - text/plain 1.2ms"
    ended = {"Level": 2, "LoggerName": DIAGNOSTICS, "EventId": FINISHED, "FormattedMessage": finished}
    return [
        (HOSTING, "RequestStart", {"method": "GET", "path": "/cart"}, at),
        *((provider, name, values, at) for provider, name, values in events),
        (LOGGING, "MessageJson", ended, at),
        (HOSTING, "RequestStop", {}, at),
    ]


def logged(type_: str, message: str, level: int = 4) -> tuple[str, str, dict[str, Any]]:
    """A message with an exception."""
    told = json.dumps({"TypeName": type_, "Message": message, "VerboseMessage": f"{type_}: {message}\n   at Cart"})
    values = {"Level": level, "LoggerName": "Shop", "EventId": 1, "ExceptionJson": told, "FormattedMessage": "lost"}
    return LOGGING, "MessageJson", values


def test_what_was_logged_as_an_error_is_what_a_request_failed_with() -> None:
    lost, odd = logged("Lost", "no cart"), logged("Odd", "again", level=3)
    events = [
        *answered(1, status=500, events=[lost, odd]),
        *answered(2, status=500, events=[lost]),
        *answered(3, status=200),
    ]
    made = requests(said(*events))
    assert made.requests.values("exception") == ["Lost: no cart", "Lost: no cart", None]
    (route,) = made.by_route.to_pylist()
    assert (route["failed"], route["failure"], route["exception"]) == (2, "status 500", "Lost: no cart")


def test_what_is_told_of_those_that_do_not_fail_too_is_not_why_others_do() -> None:
    usual = logged("Usual", "as always")
    failed = [*answered(1, status=500, events=[usual]), *answered(2, status=500, events=[usual])]
    for well, expected in ((0, "Usual: as always"), (1, None), (20, None)):
        events = [*failed, *(one for number in range(well) for one in answered(3 + number, status=200, events=[usual]))]
        (route,) = requests(said(*events)).by_route.to_pylist()
        assert (route["count"], route["exception"]) == (2 + well, expected)


def test_where_messages_have_no_texts_their_arguments_tell_the_status() -> None:
    """As of .NET Core 3. A path may say anything, with its quotes escaped."""
    path = '/"StatusCode":"200"'
    told = json.dumps({"Path": path, "StatusCode": "503", "{OriginalFormat}": "Request finished"})
    ended: dict[str, Any] = {"Level": 2, "LoggerName": DIAGNOSTICS, "EventId": FINISHED, "ArgumentsJson": told}
    at = UUID(int=1)
    events: list[Event] = [
        (HOSTING, "RequestStart", {"method": "GET", "path": path}, at),
        (LOGGING, "MessageJson", ended, at),
        (HOSTING, "RequestStop", {}, at),
    ]
    (row,) = requests(said(*events)).requests.to_pylist()
    assert (row["status"], row["failure"]) == (503, "status 503")
