"""How collectors are named, and what comes of what they are sent: over HTTP and gRPC, to receivers of OpenTelemetry's own messages."""

from __future__ import annotations

import logging
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from tests.recipes.collectors import COLLECTORS, grpc_collector, http_collector
from tests.service.made import running
from tests.transport.certificates import security

from dotnetdiag.analysis.series import CounterKind
from dotnetdiag.errors import MissingDependency, UsageError, WrongCombination
from dotnetdiag.export.otlp_metrics import build_metrics
from dotnetdiag.export.otlp_series import SeriesNames
from dotnetdiag.recipes.collector import Delivery, Signal, collector_options
from dotnetdiag.recipes.collector_http import HttpExporters
from dotnetdiag.recipes.exporters import connect_collector

A = running("a", CounterKind.GAUGE, value=1.0)
ONE = build_metrics([({"service.name": "shop"}, [(SeriesNames().of(A.series), A)])])


@pytest.mark.parametrize(
    ("text", "base", "grpc", "tls"),
    [
        ("http://localhost:4318", "http://localhost:4318", False, False),
        ("http://c/otlp/", "http://c/otlp", False, False),
        ("https://c", "https://c", False, True),
        ("grpc://localhost", "localhost:4317", True, False),
        ("grpcs://c:1", "c:1", True, True),
        ("grpc://[::1]:4317", "[::1]:4317", True, False),
    ],
)
def test_a_url_says_where_and_how(text: str, base: str, grpc: bool, tls: bool) -> None:
    made = collector_options(text)
    assert (made.base, made.grpc, made.tls) == (base, grpc, tls)


@pytest.mark.parametrize(
    "text",
    [
        "localhost:4318",
        "ftp://c",
        "http://",
        "http://c:99999",
        "grpc://c/path",
        "http://c?x=1",
        "http://a:b@c",
        "http://[c",
    ],
)
def test_what_is_no_collector_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        collector_options(text)


def test_what_is_not_given_is_what_the_environment_says() -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": "Api-Key=a%20b, x=y",
    }
    made = collector_options(environment=environment)
    assert (made.base, made.grpc, dict(made.headers)) == ("localhost:4317", True, {"api-key": "a b", "x": "y"})
    given = collector_options("http://127.0.0.1:1", headers={"X": "mine"}, environment=environment)
    assert (given.base, given.grpc, dict(given.headers)) == (
        "http://127.0.0.1:1",
        False,
        {"api-key": "a b", "x": "mine"},
    )
    with pytest.raises(WrongCombination, match="no collector is named"):
        collector_options()
    with pytest.raises(UsageError, match="http/json"):
        collector_options(environment={**environment, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})


def test_headers_go_in_clear_text_only_where_that_is_wanted(tmp_path: Path) -> None:
    secret = {"api-key": "s3cret"}
    with pytest.raises(WrongCombination) as refused:
        collector_options("http://collector.example:4318", headers=secret)
    assert "s3cret" not in str(refused.value)
    assert collector_options("http://collector.example:4318", headers=secret, insecure=True).headers == secret
    assert collector_options("https://collector.example", headers=secret).headers == secret
    assert collector_options("http://[::1]:4318", headers=secret).headers == secret
    assert "s3cret" not in repr(collector_options("https://collector.example", headers=secret))


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "ż"}, {"": "a"}])
def test_headers_that_cannot_be_are_told(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="header"):
        collector_options("http://localhost", headers=headers)


def test_certificates_are_for_tls_and_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        collector_options("https://c", ca=str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match="no TLS"):
        collector_options("http://localhost", ca=str(tmp_path / "none.pem"))


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_what_is_sent_arrives_with_its_headers(protocol: str) -> None:
    with COLLECTORS[protocol]() as (url, received):
        exporters = connect_collector(collector_options(url, headers={"Api-Key": "k"}))
        assert exporters.send(Signal.METRICS, ONE) == Delivery(taken=True)
        exporters.close()
    assert [(one.name, one.value) for one in received.metrics()] == [("a", 1.0)]
    assert received.headers[0]["api-key"] == "k"


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_what_is_refused_is_told_apart_from_what_may_pass(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    troubles: list[str] = []
    with COLLECTORS[protocol]() as (url, received):
        exporters = connect_collector(collector_options(url, timeout_s=0.5), troubles.append)
        received.answers = [401]
        refused = exporters.send(Signal.METRICS, ONE)
        assert troubles == []
        received.answers = [503] * 10
        busy = exporters.send(Signal.METRICS, ONE)
        received.answers = []
        assert exporters.send(Signal.METRICS, ONE).taken
        exporters.close()
    assert (refused.taken, refused.again) == (False, False)
    assert ("401" if protocol == "http" else "UNAUTHENTICATED") in refused.why
    assert (busy.taken, busy.again) == (False, True)
    assert ("503" if protocol == "http" else "UNAVAILABLE") in busy.why
    assert set(troubles) == {busy.why}
    assert [one for one in caplog.records if one.name.startswith("opentelemetry")] == []


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_nobody_there_is_something_that_may_pass(protocol: str, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        troubles: list[str] = []
        options = collector_options(f"{protocol}://127.0.0.1:{nobody.getsockname()[1]}", timeout_s=0.5)
        exporters = connect_collector(options, troubles.append)
        gone = exporters.send(Signal.METRICS, ONE)
        exporters.close()
    assert (gone.taken, gone.again) == (False, True)
    assert "refused" in gone.why.lower()
    assert "\n" not in gone.why
    assert troubles
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_tls_is_only_with_who_proves_it(protocol: str, tmp_path: Path) -> None:
    ours, others = security(tmp_path), security(tmp_path, name="others")
    with COLLECTORS[protocol](tls=ours) as (url, received):
        trusting = connect_collector(collector_options(url, ca=ours.ca, headers={"api-key": "k"}))
        assert trusting.send(Signal.METRICS, ONE) == Delivery(taken=True)
        trusting.close()
        wary = connect_collector(collector_options(url, ca=others.ca, headers={"api-key": "k"}, timeout_s=2))
        refused = wary.send(Signal.METRICS, ONE)
        wary.close()
    assert (len(received.requests), received.headers[0]["api-key"]) == (1, "k")
    assert (refused.taken, refused.again) == (False, True)
    assert "certificate" in refused.why.lower() or "handshake" in refused.why.lower()


def test_what_cannot_be_encoded_is_refused() -> None:
    with http_collector() as (url, received):
        exporters = connect_collector(collector_options(url))
        nothing: Any = "no metrics"
        delivery = exporters.send(Signal.METRICS, nothing)
        exporters.close()
    assert (delivery.taken, delivery.again) == (False, False)
    assert delivery.why
    assert received.asked == 0


def test_a_redirection_is_no_delivery() -> None:
    with http_collector() as (url, received):
        exporters = connect_collector(collector_options(url))
        received.answers = [302]
        delivery = exporters.send(Signal.METRICS, ONE)
        exporters.close()
    assert (delivery.taken, delivery.again, delivery.why) == (False, False, "302 Found")


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_the_loggers_of_the_library_are_as_before_when_it_is_closed(protocol: str) -> None:
    import_module(f"dotnetdiag.recipes.collector_{protocol}")  # the library adds a filter when it is imported
    loggers = [logging.getLogger(name) for name in ("opentelemetry", "opentelemetry.exporter.otlp.proto.grpc.exporter")]
    before = [(one.propagate, list(one.handlers), list(one.filters)) for one in loggers]
    with COLLECTORS[protocol]() as (url, _):
        connect_collector(collector_options(url)).close()
    assert [(one.propagate, list(one.handlers), list(one.filters)) for one in loggers] == before


@pytest.mark.parametrize(("protocol", "library"), [("http", "requests"), ("grpc", "grpc")])
def test_without_the_libraries_the_extra_is_named(protocol: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"dotnetdiag.recipes.collector_{protocol}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=r"pip install 'dotnetdiag\[otlp\]'"):
        connect_collector(collector_options(f"{protocol}://127.0.0.1"))


def test_what_the_library_raises_over_grpc_is_a_refusal() -> None:
    with grpc_collector() as (url, received):
        exporters = connect_collector(collector_options(url))
        nothing: Any = "no metrics"
        delivery = exporters.send(Signal.METRICS, nothing)
        assert exporters.send(Signal.METRICS, ONE).taken
        exporters.close()
    assert (delivery.taken, delivery.again, delivery.apart) == (False, False, True)
    assert delivery.why
    assert len(received.requests) == 1


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_a_request_that_is_too_large_may_go_in_smaller_ones(protocol: str) -> None:
    with COLLECTORS[protocol]() as (url, received):
        exporters = connect_collector(collector_options(url, timeout_s=0.5))
        received.answers = [413] * 10
        delivery = exporters.send(Signal.METRICS, ONE)
        exporters.close()
    assert (delivery.taken, delivery.again, delivery.apart) == (False, False, True)


def test_what_a_collector_rejects_of_a_request_is_told() -> None:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 2
    answer.partial_success.error_message = "too\nold"
    with http_collector() as (url, received):
        received.body = answer.SerializeToString()
        exporters = connect_collector(collector_options(url))
        delivery = exporters.send(Signal.METRICS, ONE)
        received.body = b"<html>fine</html>"
        fine = exporters.send(Signal.METRICS, ONE)
        exporters.close()
    assert delivery == Delivery(taken=True, rejected=2, why="too old")
    assert fine == Delivery(taken=True)


@pytest.mark.parametrize(("size", "missing"), [(1 << 20, 0), (10, 10)])
def test_of_an_answer_only_so_much_is_read_for_so_long(size: int, missing: int) -> None:
    with http_collector() as (url, received):
        received.body, received.missing = b"x" * size, missing
        exporters = HttpExporters(collector_options(url, timeout_s=0.5))
        assert [exporters.send(Signal.METRICS, ONE).taken for _ in range(2)] == [True, True]
        _, session = exporters._exporters[Signal.METRICS]
        exporters.close()
    assert len(session.body) == min(size, 1 << 16)
