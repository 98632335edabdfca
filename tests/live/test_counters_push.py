"""``counters push`` of real runtimes: every value is what the workload does, every tag as the program said it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.cli.test_counters_push import pushing
from tests.live.runtimes import Target, command, unpack, workload
from tests.live.sessions import until_sessions
from tests.recipes.collectors import COLLECTORS, PATIENCE_S, Received, attributes_of, http_collector
from tests.shared import needs

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

COUNTERS = "System.Runtime,Workload.Meter,Workload-Counters"
SLACK_NS = 20_000_000
VERSIONS = {"3.1": None, "8": "8.0.33", "9": "9.0.22", "10": "10.0.14", "NativeAOT": "9."}


def names(received: Received) -> set[str]:
    return {one.name for one in received.metrics()}


@pytest.mark.parametrize(
    ("runtime", "protocol"), [("3.1", "http"), ("8", "grpc"), ("9", "http"), ("10", "grpc"), ("NativeAOT", "http")]
)
def test_a_collector_gets_what_the_workload_counts(runtime: str, protocol: str) -> None:
    meters = runtime != "3.1"
    awaited = {"latency", "orders", "temperature", "answer", "requests"} if meters else {"answer", "requests"}
    with (
        COLLECTORS[protocol]() as (url, received),
        workload(runtime, "counters+meters" if meters else "counters") as target,
        pushing("-p", str(target.pid), "--to", url, "--counters", COUNTERS, interval="1") as ours,
    ):
        received.until(lambda all: awaited <= names(all))
        at_first = len(received.metrics())
        received.until(lambda all: awaited <= {one.name for one in all.metrics()[at_first:]})
        assert "dropped" not in ours.end()
    made = received.metrics()
    (resource,) = {tuple(one.resource.items()) for one in made}
    told = dict(resource)
    assert (told["process.pid"], told["process.runtime.name"]) == (target.pid, ".NET")
    version = VERSIONS[runtime]
    if version is not None:
        assert told["process.runtime.version"].startswith(version)
    assert told["process.executable.name"] == ("workload-aot" if runtime == "NativeAOT" else "dotnet")
    assert {one.value for one in made if one.name == "answer"} == {42.5}
    requests = [one for one in made if one.name == "requests"]
    assert {(one.kind, one.metric.sum.is_monotonic, one.scope.name) for one in requests} == {
        ("sum", True, "Workload-Counters")
    }
    if not meters:
        return
    assert {one.tags["room"]: one.value for one in made if one.name == "temperature"} == {
        "a,b": 21.5,
        "zażółć=🐍": -3.0,
    }
    assert {(one.scope.name, one.scope.version) for one in made if one.name == "orders"} == {
        ("Workload.Meter", "1.2.3")
    }
    orders = [one for one in made if one.name == "orders" and not one.tags]
    assert len({one.point.start_time_unix_nano for one in orders}) == 1
    seconds = (orders[-1].point.time_unix_nano - orders[-1].point.start_time_unix_nano) / 1e9
    assert 100 < orders[-1].value / seconds < 250
    slow = [one for one in made if one.name.startswith("latency") and one.tags.get("route") == "/slow"]
    own = [one for one in slow if one.kind == "histogram"][-1]
    assert own.metric.unit == "ms"
    assert 1000 <= own.point.sum / own.point.count <= 1100
    last = {one.tags["quantile"]: one.value for one in slow if one.kind == "gauge"}
    assert 1000 <= last["0.5"] <= last["0.95"] <= last["0.99"] <= 1100
    if runtime in ("9", "10"):
        (kind,) = {
            (one.kind, one.metric.sum.is_monotonic) for one in made if one.name == "dotnet.thread_pool.thread.count"
        }
        assert kind == ("sum", False)


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_logs_and_spans_of_a_web_application_belong_together(protocol: str) -> None:
    with (
        COLLECTORS[protocol]() as (url, received),
        web("requests=10", "wait=stdin", "linger=stdin") as target,
        pushing("-p", str(target.pid), "--to", url, "--logs", "Information", "--traces", interval="0.2") as ours,
    ):
        received.until(lambda all: all.metrics())
        until_sessions(target, 2)
        ask_until_heard(target, received)
        last = ours.end()
    assert "log records" in last
    assert "spans" in last
    logged = [(scope, record) for _, scope, record in received.logs()]
    items = [record for scope, record in logged if scope == "Web.Items"]
    assert len(items) == 8
    assert {record.body.string_value for record in items} >= {'item 0 asked for by zażółć, "quoted"'}
    assert attributes_of(items[0]) == {
        "Id": "0",
        "Who": 'zażółć, "quoted"',
        "{OriginalFormat}": "item {Id} asked for by {Who}",
    }
    (failed,) = [record for scope, record in logged if scope == "Web.Fail"]
    assert (failed.severity_text, failed.severity_number) == ("Error", 17)
    assert attributes_of(failed)["exception.type"] == "System.InvalidOperationException"
    spans = {span.span_id: (scope, span) for _, scope, span in received.spans()}
    served = [span for scope, span in spans.values() if scope == "Microsoft.AspNetCore"]
    assert len(served) == 10
    assert {span.kind for span in served} == {2}, "server"
    assert {spans[span.parent_span_id][0] for span in served} == {"System.Net.Http"}, "who asked is its parent"
    for record in (*items, failed):
        scope, span = spans[record.span_id]
        assert (scope, span.trace_id) == ("Microsoft.AspNetCore", record.trace_id)
        # a session tells its begin in milliseconds, an activity in 100 ns
        assert span.start_time_unix_nano - SLACK_NS <= record.time_unix_nano <= span.end_time_unix_nano + SLACK_NS
    slow = max(served, key=lambda span: span.end_time_unix_nano - span.start_time_unix_nano)
    assert slow.end_time_unix_nano - slow.start_time_unix_nano >= 50_000_000
    assert {resource["process.pid"] for resource, _, _ in (*received.logs(), *received.spans())} == {target.pid}


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_requests_of_a_client_are_spans(runtime: str) -> None:
    with (
        http_collector() as (url, received),
        workload(runtime, "http", "rounds=10", "wait=stdin", "linger=stdin") as target,
        pushing("-p", str(target.pid), "--to", url, "--traces", interval="0.2") as ours,
    ):
        received.until(lambda all: all.metrics())
        until_sessions(target, 3 if runtime == "8" else 2)  # it has meters in a session of their own
        target.say("go")
        target.expect("done http")
        received.until(lambda all: len(requests_of(all)) == 10)
        ours.end()
    spans = requests_of(received)
    assert {span.kind for span in spans} == {3}, "client"
    assert all(0 < span.end_time_unix_nano - span.start_time_unix_nano < 60_000_000_000 for span in spans)
    if runtime != "8":  # it has no tags yet
        assert {attributes_of(span)["http.request.method"] for span in spans} == {"GET"}
        assert [span.status.code for span in spans].count(2) == 1, "one in ten is a 500"


REQUESTS = 50
EVENTS = ("--logs", "Information", "--traces")


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_a_program_that_is_started_is_sent_from_its_first_request_to_its_last(protocol: str) -> None:
    words, environment = web_command(f"requests={REQUESTS}")
    with (
        COLLECTORS[protocol]() as (url, received),
        pushing("--to", url, *EVENTS, "--", *words, interval="20", **environment, OTEL_SERVICE_NAME="shop") as ours,
    ):
        assert ours.process.wait(PATIENCE_S) == 0
        said = ours.lines.until(": sent ")
    expect_all(received)
    assert {resource["service.name"] for resource, _, _ in (*received.logs(), *received.spans())} == {"shop"}
    assert f"{len(received.logs())} log records" in said
    assert f"{len(received.spans())} spans" in said


def test_so_is_a_runtime_that_waits_at_its_start() -> None:
    words, environment = web_command(f"requests={REQUESTS}")
    held = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment, "DOTNET_DefaultDiagnosticPortSuspend": "1"},
    )
    try:
        await_answer(held.pid)
        with (
            http_collector() as (url, received),
            pushing("-p", str(held.pid), "--to", url, *EVENTS, interval="20") as ours,
        ):
            assert ours.process.wait(PATIENCE_S) == 0
            ours.lines.until(": sent ")
    finally:
        held.kill()
        held.wait()
    expect_all(received)


def expect_all(received: Received) -> None:
    """What the web application says of its requests, and what it does for them."""
    logged = [(scope, record) for _, scope, record in received.logs()]
    assert len([1 for scope, _ in logged if scope == "Web.Items"]) == REQUESTS * 8 // 10
    assert len([1 for scope, _ in logged if scope == "Web.Fail"]) == REQUESTS // 10
    assert "Microsoft.Hosting.Lifetime" in {scope for scope, _ in logged}, "that is said before the first request"
    assert {record.severity_text for _, record in logged} == {"Information", "Error"}
    for scope in ("Microsoft.AspNetCore", "System.Net.Http"):
        assert len([1 for _, of, _ in received.spans() if of == scope]) == REQUESTS


def await_answer(pid: int) -> None:
    """Its runtime has a socket by now."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        with suppress(DiagnosticsError):
            Client(pid).process_info()
            return
        pause.wait(0.05)
    raise AssertionError("the runtime does not answer")


def requests_of(received: Received) -> list[Any]:
    return [span for _, scope, span in received.spans() if scope == "System.Net.Http"]


def ask_until_heard(target: Target, received: Received) -> None:
    target.say("go")
    target.expect("done web")
    received.until(lambda all: len([1 for _, scope, _ in all.spans() if scope == "Microsoft.AspNetCore"]) == 10)
    received.until(lambda all: any(scope == "Web.Fail" for _, scope, _ in all.logs()))


def web_command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """How the web application is started, and the environment that it takes."""
    words, environment = command("10")
    return [words[0], str(unpack() / "workload" / "web" / "web.dll"), *arguments], environment


@contextmanager
def web(*arguments: str) -> Iterator[Target]:
    """The web application; it is killed at the end."""
    program, environment = web_command(*arguments)
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env={**os.environ, **environment}
    )
    try:
        target = Target(runtime="10", pid=process.pid, process=process)
        target.expect("ready")
        yield target
    finally:
        process.kill()
        process.communicate()
