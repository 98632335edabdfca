"""What stands out in recordings whose workload is known."""

from __future__ import annotations

import io
import json
import re
import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow
import pytest
from tests.analysis.test_gc import event
from tests.analysis.test_logs import as_json, own
from tests.analysis.test_requests import said as sources_said
from tests.analysis.test_thread_pool import adjusted, begun, queued
from tests.analysis.test_waits import begins, ends
from tests.analysis.traces import Seen, external, managed, traced, worker_start
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis import exceptions as exceptions_room
from dotnetdiag.analysis.advice import advice, of_death, of_exceptions, of_jit
from dotnetdiag.analysis.advice_report import NOTHING, AdviceReport
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.finding import LEAST
from dotnetdiag.analysis.gc_collections import GcReport, gc
from dotnetdiag.analysis.gc_findings import of_heaps
from dotnetdiag.analysis.jit import JitReport, jit
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.pool_findings import of_pool
from dotnetdiag.analysis.request_findings import CALLS, of_requests
from dotnetdiag.analysis.request_kinds import HTTP
from dotnetdiag.analysis.requests import RequestReport, requests
from dotnetdiag.analysis.thread_pool import threadpool
from dotnetdiag.analysis.waits import waits
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.trace import Trace


def advised(name: str) -> AdviceReport:
    return advice(Trace(data_of(f"{name}.nettrace"), name=name))


@pytest.mark.parametrize(
    ("name", "question", "words"),
    [
        ("gcverbose-10", "gc", ["10 of 22 collections are induced", "by Workload.Collections.Run"]),
        ("web-10", "requests", ["GET /slow takes", "4 of 40 requests"]),
        ("web-10", "requests", ["4 of 40 requests that came in failed", "GET /fail (4)"]),
        ("http-10", "requests", ["2 of 20 requests that went out failed"]),
        ("default-10", "exceptions", ["240 exceptions were thrown", "120 are Workload.WidgetException"]),
        ("default-10", "topN", ["Workload.Cpu.Spin took 31 % of the time on processors"]),
        ("cpu-only-10", "topN", ["Workload.Cpu.Spin took 100 % of the time on processors"]),
    ],
)
def test_what_a_workload_does_wrong_is_found_and_named(name: str, question: str, words: list[str]) -> None:
    texts = [row["text"] for row in advised(name).findings.to_pylist() if row["question"] == question]
    assert any(all(word in text for word in words) for text in texts), texts


def test_of_several_processes_each_has_its_own_collections() -> None:
    out = io.BytesIO()
    names = ("gcverbose-10.nettrace", "gccollect-10.nettrace")
    merge([Trace(data_of(name), name=name).raw.contents for name in names], out)
    found = [row["text"] for row in advice(Trace(out.getvalue())).findings if row["question"] == "gc"]
    assert len(found) == len(names)
    assert all(re.match(r"process \d+: the collector paused the program", text) for text in found)
    assert all(": 10 of 22 collections are induced" in text for text in found)


@pytest.mark.parametrize("payload", [b"", struct.pack("<I", 7), struct.pack("<II", 7, 1)])
def test_collections_of_which_little_is_told_are_no_mistake(payload: bytes) -> None:
    """As in a damaged file: neither a reason nor a type, nor a generation."""
    made = advice(
        traced(event(1, 9, 1, struct.pack("<IIH", 1, 7, 0)), event(2, 1, 2, payload), event(9, 3, 1, bytes(2)))
    )
    assert "gc" not in made.lacking
    assert len(made.findings) == 0


@pytest.mark.parametrize("name", ["counters-10", "heap-10"])
def test_of_what_is_well_nothing_is_said(name: str) -> None:
    made = advised(name)
    assert (len(made.findings), made.findings.notes) == (0, (NOTHING,))


@pytest.mark.parametrize("name", recordings())
def test_the_most_important_comes_first_and_what_is_lacking_is_named(name: str) -> None:
    made = advice(Trace(data_of(name), name=name))
    severities = made.findings.values("severity")
    assert severities == sorted(severities, reverse=True)
    assert all(LEAST <= one <= 100 for one in severities)
    assert not {row["question"] for row in made.findings.to_pylist()} & made.lacking.keys()
    assert all(made.lacking.values())
    assert made.to_json()["findings"] == made.findings.to_pylist()


@pytest.mark.parametrize(("ms", "seconds", "is_told"), [(137, 0.56, True), (137, 0.9, False), (60, 0.2, False)])
def test_a_start_that_compiles_much_is_named(ms: float, seconds: float, is_told: bool) -> None:
    found = list(of_jit(compiling([(0.0, ms)]), seconds))
    assert [one.question for one in found] == (["jit"] if is_told else [])


def compiling(methods: list[tuple[float, float]], *, dynamic: bool = False) -> JitReport:
    """A report of methods that were waited for: when each began, and for how long."""
    made = jit(traced(managed(0, 1)))
    kinds, dynamics = ["Foreground"] * len(methods), [int(dynamic)] * len(methods)
    table = Table(
        {
            "kind": kinds,
            "dynamic": dynamics,
            "start_ms": [at for at, _ in methods],
            "compile_ms": [ms for _, ms in methods],
        },
        title="methods",
    )
    total = sum(ms for _, ms in methods)
    return replace(made, methods=table, totals=replace(made.totals, foreground=len(methods), foreground_ms=total))


def test_threads_that_wait_for_the_compiler_at_once_are_one_share_of_the_time() -> None:
    (found,) = of_jit(compiling([(1.0, 249.0)] * 4), 1.0)
    assert "threads waited 996 ms for the compiler, in 25 % of the time, for 4 methods" in found.text
    (found,) = of_jit(compiling([(1.0, 200.0), (2.0, 10.0), (150.0, 149.0), (500.0, 100.0)]), 1.0)
    assert "in 40 % of the time" in found.text


def test_nothing_compiles_ahead_what_is_made_as_the_program_runs() -> None:
    (found,) = of_jit(compiling([(1.0, 249.0)] * 4), 1.0)
    assert found.text.endswith("for 4 methods: code that is compiled ahead (ReadyToRun) would spare most of it")
    (found,) = of_jit(compiling([(1.0, 249.0)] * 4, dynamic=True), 1.0)
    assert "ReadyToRun" not in found.text
    assert (
        ": 4 of them are made as the program runs, as by Expression.Compile or Reflection.Emit: keep what was compiled"
        in found.text
    )


def test_errors_are_those_of_the_logger_that_has_most_however_many_templates_it_has() -> None:
    told = [own(at, f"retrying {at}") for at in range(6)] + [own(9, "no room"), own(9, "no room")]
    told += [as_json(10 + at, "rare", level=4, LoggerName="Rare", EventId=3) for at in range(3)]
    (found,) = advice(traced(*told)).findings
    assert found["text"] == '11 messages of level Error or worse were logged, 8 by Shop (2 of these "no room")'


@pytest.mark.parametrize(
    ("message", "exception", "said"),
    [
        ("cart lost", None, ' ("cart lost")'),
        ("cart lost", {"TypeName": "Odd", "VerboseMessage": "Odd: why\n   at Cart"}, ' ("cart lost", with Odd: why)'),
        ("", {"TypeName": "Odd", "Message": "why"}, " (Odd: why)"),
        ("", {"TypeName": ""}, ""),
    ],
)
def test_the_exception_that_an_error_was_logged_with_is_named(
    message: str, exception: dict[str, str] | None, said: str
) -> None:
    (found,) = advice(traced(as_json(1, message, json.dumps(exception or {}), level=4))).findings
    assert found["text"] == f"1 message of level Error or worse was logged, 1 by Shop{said}"


def test_errors_that_were_logged_are_named() -> None:
    (row,) = [row for row in advised("web-10").findings.to_pylist() if row["question"] == "logs"]
    assert row["text"] == '4 messages of level Error or worse were logged, 4 by Web.Fail ("failing 500")'


def test_of_many_exceptions_those_that_were_thrown_again_are_counted() -> None:
    edi = "System.Runtime.ExceptionServices.ExceptionDispatchInfo"
    payload = z16("Lost") + z16("") + bytes(12) + bytes(2) + bytes(2)
    one = Seen(ms=0, thread=1, stack=("App.Read",), provider=RUNTIME, number=80, payload=payload, version=1)
    again = replace(one, stack=(f"{edi}.Throw", "App.Ask"))
    events = [replace(again if ms % 4 else one, ms=ms) for ms in range(40)]
    (found,) = of_exceptions(exceptions(traced(*events, modules={edi: "/x/System.Private.CoreLib.dll"})), 2.0)
    assert (
        found.text
        == "40 exceptions were thrown, 30 of them again, 20 a second; 40 are Lost; 30 of these thrown by App.Ask"
    )


def test_who_threw_most_is_told_of_the_type_that_is_told() -> None:
    def thrown(type_: str, by: str, count: int) -> list[Seen]:
        payload = z16(type_) + z16("") + bytes(12) + bytes(2) + bytes(2)
        one = Seen(ms=0, thread=1, stack=(by,), provider=RUNTIME, number=80, payload=payload, version=1)
        return [replace(one, ms=ms) for ms in range(count)]

    events = [*thrown("Lost", "App.Read", 12), *thrown("Lost", "App.Write", 13), *thrown("Odd", "App.Run", 20)]
    events.sort(key=lambda one: one.ms)
    (found,) = of_exceptions(exceptions(traced(*events)), 1.0)
    assert found.text.endswith("; 25 are Lost; 13 of these thrown by App.Write")


def routed(
    *routes: tuple[str, str, int, int, float, float | None, str | None], thrown: str | None = None
) -> RequestReport:
    """(kind, route, count, failed, ms, ms in the queue, why); ``thrown``: what was thrown in those that failed."""
    none = requests(traced(managed(0, 1)))
    names = ("kind", "route", "count", "failed", "total_ms", "queue_ms", "failure")
    columns: dict[str, Any] = {name: [one[at] for one in routes] for at, name in enumerate(names)}
    columns |= {
        "exception": [thrown] * len(routes),
        "median_ms": [one[4] / one[2] for one in routes],
        "unfinished": [0] * len(routes),
        "slow": [0] * len(routes),
    }
    return replace(
        none, by_route=Table(columns | {name: [None] * len(routes) for name in ("cpu_ms", "gc_ms", "lock_ms")})
    )


def open_requests(*routes: tuple[str, int, float, float | None], lost: int | None = 0) -> RequestReport:
    """(kind, how many have no end, since when the first, what those took that have one)"""
    made = routed(*((kind, f"of {at}", 1000, 0, 1.0, None, None) for at, (kind, *_) in enumerate(routes)))
    took = [one[3] for one in routes]
    columns: dict[str, Any] = {name: made.by_route[name] for name in made.by_route.columns}
    columns |= {
        "unfinished": [one[1] for one in routes],
        "open_since_ms": [one[2] if one[1] else None for one in routes],
        "open_pid": [1 if one[1] else None for one in routes],
    }
    columns |= {"median_ms": took, "p95_ms": took, "max_ms": [None if ms is None else 100 * ms for ms in took]}
    return replace(made, by_route=Table(columns, losses=Losses(lost=lost)))


def requests_found(made: RequestReport, seconds: float = 10.0) -> list[str]:
    return [one.text for one in of_requests(made, Recorded(0.0, seconds))]


def test_what_fails_most_comes_first_and_what_is_not_named_is_counted() -> None:
    made = routed(
        *(("client", f"http://x/{failed}", 10, failed, 1.0, None, f"why {failed}") for failed in (1, 4, 0, 3, 2, 5))
    )
    (text,) = requests_found(made)
    assert text == (
        '15 of 60 requests that went out failed: http://x/5 (5), http://x/4 (4), http://x/3 (3) and 2 more; most of the first: "why 5"'
    )


@pytest.mark.parametrize(("failed", "is_told"), [(1, False), (2, True)])
@pytest.mark.parametrize("kind", ["server", "client", "grpc server", "grpc client", "sql"])
def test_of_any_kind_what_fails_is_told_but_for_few(kind: str, failed: int, is_told: bool) -> None:
    found = requests_found(routed((kind, "one", 200, failed, 1.0, None, "failed")))
    assert found == [f"2 of 200 {CALLS[kind]} failed: one (2)"] * is_told


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("failed", 'with "Odd: why" in most of them'),
        ("status 500", 'with "Odd: why" in most of them'),
        ("Connection refused (shop:80)", 'most of them: "Connection refused (shop:80)"'),
    ],
)
def test_what_was_thrown_says_more_than_a_status(failure: str, said: str) -> None:
    (text,) = requests_found(routed(("server", "GET /", 9, 9, 1.0, None, failure), thrown="Odd: why"))
    assert text == f"9 of 9 requests that came in failed: GET / (9), {said}"


@pytest.mark.parametrize(("queue", "is_told"), [(None, False), (30.0, False), (900.0, False), (2566.0, True)])
@pytest.mark.parametrize(
    ("waited", "why"),
    [
        (1, "it took long to open"),
        (2, "it took long to open"),
        (6, "connections are too few (MaxConnectionsPerServer), or take long to open"),
    ],
)
def test_requests_that_wait_for_a_connection_are_told(
    waited: int, why: str, queue: float | None, is_told: bool
) -> None:
    made = routed(("client", "http://x/slow", 6, 0, 3600.0, queue, None))
    columns: dict[str, Any] = {name: made.by_route[name] for name in made.by_route.columns}
    made = replace(made, by_route=Table(columns | {"queued": [waited if queue else None]}))
    text = f"{waited} of 6 requests that went out waited 2,566 of 3,600 ms for a connection, 2,566 ms of it those to http://x/slow: {why}"
    assert requests_found(made) == [text] * is_told


@pytest.mark.parametrize(("waited_ms", "is_named"), [(150, False), (900, True)])
def test_who_queued_little_of_what_waited_is_not_named(waited_ms: int, is_named: bool) -> None:
    """Nor is a median of nothing told, where a few of many pieces waited."""
    core = {"System.Threading.TimerQueue": "/x/System.Private.CoreLib.dll"}
    quick = [one for at in range(40) for one in (queued(at, 1, at + 100, "App.Quick"), begun(at + 0.1, 2, at + 100))]
    slow = [queued(50 + at, 1, at, "System.Threading.TimerQueue.Fire") for at in range(4)]
    ended = [begun(550 + at, 2, at) for at in range(4)]
    own = [queued(60, 1, 9, "App.Own"), begun(60 + waited_ms, 2, 9)]
    events = sorted([*quick, *slow, *ended, *own], key=lambda one: one.ms)
    (found,) = of_pool(threadpool(traced(*events, modules=core)), 1.0)
    assert ("1 of 45 were queued by App.Own" in found.text) == is_named
    assert "in the median" not in found.text


def test_of_a_recording_how_many_waited_for_a_connection_is_counted() -> None:
    """A row for each request is not kept where the question is what stands out."""
    begun: dict[str, str | int | float] = {"scheme": "http", "host": "x", "port": 80, "pathAndQuery": "/slow"}
    ids = [UUID(int=number) for number in range(1, 7)]
    events: list[Any] = []
    for at, one in enumerate(ids):
        events += [
            (HTTP, "RequestStart", begun, one),
            (HTTP, "RequestLeftQueue", {"timeOnQueueMilliseconds": 1300.0 if at else 0.5}, one),
        ]
    events += [(HTTP, "RequestStop", {"statusCode": 200}, one) for one in ids]
    trace = sources_said(*events, every_ms=200)
    (queued,) = requests(trace).by_route.values("queued")
    assert queued == sum(row["queue_ms"] > 1.0 for row in requests(trace).requests.to_pylist())
    (text,) = [one["text"] for one in advice(trace).findings.to_pylist() if "connection" in one["text"]]
    assert text.startswith(f"{queued} of 6 requests that went out waited")
    assert "MaxConnectionsPerServer" in text


def test_requests_that_never_end_are_told_of_all_kinds_at_once() -> None:
    made = open_requests(
        ("client", 3, 9000.0, 5.0), ("server", 29, 6800.0, None), ("server", 1, 6900.0, 2.0), ("sql", 9, 0.0, None)
    )
    (text,) = requests_found(made)
    assert text == (
        "30 requests that came in are still under way when the recording ends, the longest for 3.2 s: of 1 (29), of 2 (1); "
        "so are 3 requests that went out: of 0 (3)"
    )
    assert [one.severity for one in of_requests(made, Recorded(0.0, 10.0))] == [32.0]


@pytest.mark.parametrize(
    ("count", "since_ms", "took_ms", "is_told"),
    [
        (1, 9000.0, None, True),
        (1, 9001.0, None, False),  # the recording ends in the midst of it
        (2, 9000.0, 100.0, True),
        (2, 9000.0, 101.0, False),
        (1, 8000.0, 20.0, False),  # one that ended took as long
        (1, 7999.0, 20.0, True),
        (2, 8000.0, 20.0, True),
        (0, 0.0, 20.0, False),
    ],
)
def test_a_request_is_told_that_is_under_way_far_longer_than_others_were(
    count: int, since_ms: float, took_ms: float | None, is_told: bool
) -> None:
    found = requests_found(open_requests(("server", count, since_ms, took_ms)))
    start = "one of the requests that came in is" if count == 1 else "2 requests that came in are"
    assert [one.startswith(f"{start} still under way when the recording ends, ") for one in found] == [True] * is_told


Tail = tuple[str, str, int, int, str | None]
"""(kind, route, how many, how many of them are slow, what took most of their time)"""


def with_tails(*routes: Tail) -> RequestReport:
    made = routed(*((kind, route, count, 0, 2.0 * count, None, None) for kind, route, count, *_ in routes))
    columns: dict[str, Any] = {name: made.by_route[name] for name in made.by_route.columns}
    columns |= {"slow": [one[3] for one in routes], "slow_ms": [100.0 * one[3] for one in routes]}
    columns |= {"slow_by": [one[4] for one in routes], "slow_by_ms": [one[4] and 90.0 * one[3] for one in routes]}
    return replace(made, by_route=Table(columns))


@pytest.mark.parametrize(
    ("slow", "by", "said"),
    [
        (4, None, ""),
        (4, "client http://x/stock/*", "; 360 of these 400 ms in client http://x/stock/*"),
        (4, "lock", "; 360 of these 400 ms for locks"),
        (4, "queue", "; 360 of these 400 ms in the queue for a connection"),
        (2, "lock", None),
    ],
)
def test_a_route_of_which_some_take_far_longer_is_told(slow: int, by: str | None, said: str | None) -> None:
    found = list(of_requests(with_tails(("server", "GET /orders/*", 40, slow, by)), Recorded(0.0, 10.0)))
    capped = list(
        of_requests(with_tails(("server", "GET /orders/*", 40, slow, by)), Recorded(0.0, 10.0), slow_most=1.5)
    )
    assert [(min(one.severity, 1.5), one.text) for one in found] == [(one.severity, one.text) for one in capped]
    assert [one.text for one in found] == (
        []
        if said is None
        else [f"GET /orders/* took 100 ms on average in 4 of 40 requests, where its median is 2.0 ms{said}"]
    )
    assert [one.severity for one in found] == [5.0] * len(found)


@pytest.mark.parametrize(("count", "is_told"), [(60, True), (61, False)])
def test_fewer_slow_ones_than_a_twentieth_are_not_told(count: int, is_told: bool) -> None:
    assert len(requests_found(with_tails(("server", "GET /", count, 3, None)))) == is_told


@pytest.mark.parametrize(
    ("tails", "told"),
    [
        ([("client", "http://x/a", 10, 3, None), ("sql", "select", 10, 3, None)], ["http://x/a", "select"]),
        ([("client", "http://x/a", 10, 3, None), ("server", "GET /b", 10, 3, None)], ["GET /b"]),
        ([("grpc client", "/a", 10, 3, None), ("client", "POST /a", 10, 3, None)], ["POST /a"]),
        ([("grpc server", "/a", 10, 3, None), ("server", "POST /a", 10, 3, None)], ["POST /a"]),
        ([("grpc server", "/a", 10, 3, None), ("server", "POST /a", 10, 0, None)], ["/a"]),
        ([("sql", "select", 10, 3, None), ("server", "GET /b", 10, 3, "sql select")], ["GET /b"]),
    ],
)
def test_what_took_the_time_of_others_is_told_once(tails: list[Tail], told: list[str]) -> None:
    assert [text.partition(" took ")[0] for text in requests_found(with_tails(*tails))] == told


@pytest.mark.parametrize("kind", ["server", "grpc server", "client", "grpc client", "sql"])
def test_of_each_kind_what_is_slow_is_slow_among_its_own(kind: str) -> None:
    made = routed(
        *((kind, "slow", 8, 0, 480.0, None, None), (kind, "quick", 32, 0, 64.0, None, None)),
        *(("kestrel", f"{number}", 99, 0, 9900.0, None, None) for number in range(3)),
    )
    (text,) = requests_found(made)
    assert text.startswith(
        f"slow takes 60.0 ms in the median, where that of all {CALLS[kind]} is 2.0 ms; it is 8 of 40 "
    )
    beside = routed(
        *((kind, "slow", 8, 0, 480.0, None, None), (kind, "quick", 32, 0, 64.0, None, None)),
        *(("server", name, 10, 0, 600.0, None, None) for name in ("GET /a", "GET /b")),
    )
    assert any("2.0 ms" in text for text in requests_found(beside)) == (kind not in ("client", "grpc client"))


@pytest.mark.parametrize("lost", [1, None])
def test_where_events_were_lost_no_request_is_said_to_be_without_an_end(lost: int | None) -> None:
    assert not requests_found(open_requests(("server", 30, 0.0, None), lost=lost))


def test_nothing_is_said_of_a_recording_of_nothing() -> None:
    made = advice(traced(managed(0, 1)))
    assert len(made.findings) == 0
    assert {"gc", "allocations", "exceptions", "requests"} <= made.lacking.keys()


@pytest.mark.parametrize(
    ("method", "named"), [("app!A.B(int32)", True), ("app!0x7f01", False), ("0x7f01", False), (None, False)]
)
def test_addresses_are_no_names(method: str | None, named: bool) -> None:
    assert is_named(method) == named
    assert method is None or not named or short(method) == "A.B"


def test_a_pool_is_blocked_when_it_takes_more_threads_for_those_that_wait() -> None:
    """The first number tells of no change, and it says the same reason when threads go."""

    def findings(*threads: int) -> list[str]:
        made = threadpool(traced(*(adjusted(10 * place, count, 8) for place, count in enumerate(threads))))
        return [one.text for one in of_pool(made, 1.0)]

    assert findings(2, 3, 4, 5) == findings(9, 8, 7, 6, 5, 4, 3) == []
    (text,) = findings(2, 3, 4, 5, 6)
    assert text.startswith("threads of the pool are blocked; it took more threads 4 times because")


def test_a_pool_that_starves_says_where_its_threads_are() -> None:
    stack = ("System.Threading.Monitor.Wait", "App.Handle")
    events = [worker_start(0, thread) for thread in (1, 2)]
    events += [external(ms, thread, *stack) for ms in range(1, 300) for thread in (1, 2)]
    events += [external(ms, 3, "Main") for ms in range(1, 300)]
    corelib = {"System.Threading.Monitor": "/x/System.Private.CoreLib.dll"}
    trace = traced(*events, modules=corelib)
    made = threadpool(traced(*(adjusted(10 * place, count, 8) for place, count in enumerate((2, 3, 4, 5, 6)))))
    (found,) = of_pool(made, 1.0, lambda: cpu(trace))
    assert found.text.endswith("; for 100 % of the time that its threads have work they are in App.Handle")
    (other,) = of_pool(made, 1.0, lambda: cpu(traced(*events[2:])))
    assert "have work" not in other.text


def test_where_threads_of_a_pool_wait_for_work_is_not_what_blocks_them() -> None:
    idle = (
        "System.Threading.LowLevelLifoSemaphore.WaitNative",
        "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart",
    )
    events = [worker_start(0, thread) for thread in (1, 2)]
    events += [external(ms, 1, *idle) for ms in range(1, 900)]
    events += [external(ms, 2, "System.Threading.Monitor.Wait", "App.Handle", idle[1]) for ms in range(1, 300)]
    core = "/x/System.Private.CoreLib.dll"
    names = ("LowLevelLifoSemaphore", "PortableThreadPool+WorkerThread", "Monitor")
    trace = traced(*events, modules={f"System.Threading.{name}": core for name in names})
    made = threadpool(traced(*(adjusted(10 * place, count, 8) for place, count in enumerate((2, 3, 4, 5, 6)))))
    (found,) = of_pool(made, 1.0, lambda: cpu(trace))
    assert found.text.endswith("; for 100 % of the time that its threads have work they are in App.Handle")


def thrown(ms: float, type_: str, message: str) -> Seen:
    payload = z16(type_) + z16(message) + struct.pack("<QIHH", 0, 0x80131509, 16, 0)
    return Seen(ms=ms, thread=1, stack=("App.Throw",), provider=RUNTIME, number=80, payload=payload, version=1)


@pytest.mark.parametrize(("end_s", "count", "died"), [(1.2, 1, True), (5.0, 1, False), (1.2, 30, False)])
def test_what_a_program_may_have_died_of_is_told(end_s: float, count: int, died: bool) -> None:
    made = exceptions(traced(*(thrown(1000 + place / 10, "Boom", "the end") for place in range(count))))
    found = [one.text for one in of_death(made, Recorded(0.0, end_s))]
    assert (
        found
        == [
            'Boom ("the end") was not caught when the recording breaks off: the program may have died of it; thrown by App.Throw'
        ]
        * died
    )
    caught = exceptions(Trace(data_of("default-10.nettrace")))
    assert not list(of_death(caught, Recorded(0.0, 3.0)))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", ""),
        ("NULL", ""),
        ("so\n  it is", ' ("so it is")'),
        ("a" * 80, f' ("{"a" * 80}")'),
        ("gave up after 1000 ms" + " x" * 40, f' ("gave up after 1000 ms{" x" * 29}…")'),
    ],
)
def test_what_an_exception_says_is_quoted_where_it_says_something(message: str, said: str) -> None:
    made = exceptions(traced(*(thrown(float(ms), "Boom", message) for ms in range(40))))
    (one,) = of_exceptions(made, 1.0)
    assert f"; 40 are Boom{said}; " in one.text
    (died,) = of_death(exceptions(traced(thrown(1000.0, "Boom", message))), Recorded(0.0, 1.2))
    assert died.text.startswith(f"Boom{said} was not caught")


def test_a_message_that_some_have_is_told_with_how_many() -> None:
    made = exceptions(traced(*(thrown(float(ms), "Boom", f"order {ms % 2}") for ms in range(40))))
    (one,) = of_exceptions(made, 1.0)
    assert '; 40 are Boom ("order 0" in 20); ' in one.text


def test_what_pauses_went_into_is_told_where_it_is_most_of_them() -> None:
    def told(kind: int, *collections: tuple[float, float, int]) -> str:
        """``collections``: how long until all threads stood still, what came then, and the reason."""
        seen, ms = list[Seen](), 1.0
        for count, (stopping, rest, reason) in enumerate(collections, 1):
            seen += [
                event(ms, 9, 1, struct.pack("<IIH", 1, count, 0)),
                event(ms + stopping, 8, 1, bytes(2)),
                event(ms + stopping, 1, 2, struct.pack("<IIIIHQ", count, kind, reason, 0, 0, 0)),
                event(ms + stopping + rest, 2, 1, struct.pack("<IIH", count, kind, 0)),
                event(ms + stopping + rest, 3, 1, bytes(2)),
            ]
            ms += stopping + rest + 10
        (row,) = advice(traced(*seen)).findings.to_pylist()
        return str(row["text"])

    slow = told(0, (250, 1, 0), (10, 2, 0))
    assert slow.endswith("; 2 collections, 0 of gen2; 260.0 of 263.0 ms passed until all threads stood still")
    assert "stood still" not in told(0, (1, 250, 0))
    mixed = told(2, (0.5, 300, 0), *[(0.1, 1, 1)] * 4)
    assert ": 4 of 5 collections are induced, which paused it for 4.4 of 304.9 ms" in mixed
    assert "4.4 of 304.9 ms; most, 300.5 ms, are 1 of gen2 because of AllocSmall" in mixed
    assert "which paused it for" not in told(2, *[(0.1, 90, 1)] * 4)
    assert told(2, *[(0.1, 300, 4)] * 4).endswith("; 4 collections, 4 of gen2, 4 because of large objects")
    assert "10 collections, 10 of gen2, 10 because of large objects" in told(2, *[(0.1, 1, 4)] * 10)


@pytest.mark.parametrize(("ms", "said"), [(0.04, False), (40.0, False), (400.0, True)])
def test_a_short_wait_is_not_where_the_threads_of_a_pool_are(ms: float, said: bool) -> None:
    """The pool's own threads wait for a moment when they are named (.NET 9): all of their waits, and nothing of their time."""
    trace = traced(worker_start(0, 1), begins(1, 1, "App.Handle"), ends(1 + ms, 1))
    made = threadpool(traced(*(adjusted(10 * place, count, 8) for place, count in enumerate((2, 3, 4, 5, 6)))))
    (found,) = of_pool(made, 1.0, lambda: cpu(trace), lambda: waits(trace).profile)
    assert found.text.endswith("its threads waited for 400 ms together in App.Handle") == said
    assert said or "App.Handle" not in found.text


def test_a_pool_that_begins_nothing_is_told_of() -> None:
    """As of a program that hangs: there is no work of which is known how long it waited."""
    work = [queued(10 + number, 1, number + 1, "App.Ask") for number in range(20)]
    trace = traced(worker_start(0, 1), *work, thrown(3000, "App.E", "late"))
    (text,) = [row["text"] for row in advice(trace).findings if row["question"] == "threadpool"]
    assert re.search(r"some work had waited for more than 100 ms, [\d,]+ ms at most; none of it was begun", text)


def test_what_stands_out_has_the_same_columns_where_nothing_does() -> None:
    """Of several recordings, one of which is quiet, the most severe came in the order of their letters."""
    quiet, other = (
        advice(traced(external(1, 1, "A.M"))).findings,
        advice(Trace(data_of("gccollect-10.nettrace"))).findings,
    )
    assert len(quiet) == 0 < len(other)
    assert (
        quiet.to_arrow().schema.field("severity").type
        == other.to_arrow().schema.field("severity").type
        == pyarrow.float64()
    )
    assert [quiet.to_arrow().schema.names, quiet.to_arrow().schema.types] == [
        other.to_arrow().schema.names,
        other.to_arrow().schema.types,
    ]


def test_tables_of_methods_have_the_same_columns_where_there_are_none() -> None:
    some = cpu(traced(managed(1, 1, "A.M"), managed(2, 1, "A.M")))
    for of in (lambda profile: profile.top(5).table(), lambda profile: diff(profile, profile).table()):
        types = [of(one).to_arrow().schema.types for one in (some, some.focus("nowhere"))]
        assert types[0] == types[1]


def test_no_message_is_quoted_where_each_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what stands for those beyond the limit."""
    events = [thrown(float(ms), "Boom", f"order {ms}") for ms in range(40)]
    (one,) = of_exceptions(exceptions(traced(*events)), 1.0)
    assert one.text.startswith("40 exceptions were thrown, 40 a second; 40 are Boom")
    assert "order" not in one.text
    monkeypatch.setattr(exceptions_room, "MOST_MESSAGES", 3)
    made = exceptions(traced(*events))
    assert made.by_message.values("message")[0] == "(others)"
    (one,) = of_exceptions(made, 1.0)
    assert "(" not in one.text.partition(";")[2]


def left_behind(left: list[float], seconds: float = 20.0, generation: int = 2) -> GcReport:
    """A report on collections that left so many MB, all over that time."""
    made = gc(traced(managed(0, 1)))
    count = len(left)
    columns: dict[str, Any] = {
        "pid": [7] * count,
        "generation": [generation] * count,
        "start_ms": [1000 * seconds * at / max(count - 1, 1) for at in range(count)],
        "after_bytes": [int(one * 1e6) for one in left],
    }
    return replace(made, collections=Table(columns, title="collections"))


def with_young(made: GcReport, left: list[float]) -> GcReport:
    """The same with collections of gen0 behind them, one each second."""
    rows = made.collections.to_pylist()
    end = rows[-1]["start_ms"]
    rows += [
        {"pid": 7, "generation": 0, "start_ms": end + 1000.0 * at, "after_bytes": int(one * 1e6)}
        for at, one in enumerate(left, 1)
    ]
    return replace(made, collections=Table({name: [row[name] for row in rows] for name in rows[0]}, title="both"))


LEAK = [10.0, 21.0, 44.0, 92.0, 190.0, 400.0]


@pytest.mark.parametrize(
    ("made", "is_told"),
    [
        (left_behind(LEAK), True),
        (left_behind(LEAK, seconds=9.0), False),  # a program that starts
        (left_behind(LEAK[1:]), False),  # too few
        (left_behind(LEAK, generation=1), False),  # others leave what the oldest has, whatever that is
        (left_behind([one / 20 for one in LEAK]), False),  # 10 MB
        (left_behind([10, 50, 100, 140, 160, 161, 162, 163, 163]), False),  # a cache that is full
        (left_behind([100, 140, 90, 150, 100, 160, 210, 150, 190]), False),  # up and down
        (left_behind([200, 210, 220, 230, 240, 250]), False),  # hardly more
        (left_behind([200, 230, 260, 300, 330, 360, 390, 420, 450]), True),
        (left_behind([10, 40, 70, 100, 130, 12, 12]), False),  # it gives all back
        (left_behind([10, 30, 25, 50, 45, 70, 90, 80, 110]), True),  # with young garbage, as in the background
        (with_young(left_behind(LEAK), [400.0] * 30), False),  # it has loaded what it needs
        (with_young(left_behind(LEAK), [400.0 + 10 * at for at in range(30)]), True),
        (left_behind([]), False),
    ],
)
def test_a_heap_of_which_ever_more_stays_is_told(made: GcReport, is_told: bool) -> None:
    found = list(of_heaps(made))
    assert len(found) == is_told
    if made.collections.values("after_bytes") == [one * 1e6 for one in LEAK] and is_told:
        assert found[0].text == (
            "ever more of the heap stays: 6 collections of gen2 left 10 MB at first and 400 MB at last, 19.5 MB a second more: "
            "what two dumps of the heap differ in tells what is kept"
        )


def test_of_several_processes_that_whose_heap_grows_most_is_told_first() -> None:
    tables = [left_behind(LEAK), left_behind([2 * one for one in LEAK])]
    rows = [{**row, "pid": pid} for pid, one in enumerate(tables, 8) for row in one.collections.to_pylist()]
    made = replace(tables[0], collections=Table({name: [row[name] for row in rows] for name in rows[0]}, title="two"))
    assert [one.text[:42] for one in of_heaps(made)] == [
        "ever more of the heap of process 9 stays: ",
        "ever more of the heap of process 8 stays: ",
    ]
