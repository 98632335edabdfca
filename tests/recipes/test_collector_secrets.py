"""What goes to a collector, and what comes back: nothing that was not given, nothing past it, no longer than is wanted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
import requests
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from tests.recipes.test_collector import ONE

from dotnetdiag.recipes.collector import Delivery, Signal, collector_options
from dotnetdiag.recipes.cut_connections import CutAdapter
from dotnetdiag.recipes.exporters import connect_collector

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
PATIENCE_S = 60.0


class Listener:
    """Takes one connection, keeps what comes first, and answers; ``drips``: with header lines without an end."""

    def __init__(self, *, drips: bool = False) -> None:
        self._drips = drips
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.got = b""
        self.ended = threading.Event()
        self._done = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                self.got = connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" if self._drips else OK)
                while self._drips and not self._done.wait(0.05):
                    connection.sendall(b"X-Y: z\r\n")
        self.ended.set()

    def close(self) -> None:
        self._done.set()
        self._socket.close()


@contextmanager
def listening(*, drips: bool = False) -> Iterator[Listener]:
    made = Listener(drips=drips)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for spelled in (name, name.upper()):
            monkeypatch.delenv(spelled, raising=False)


def sent(to: str, **options: object) -> Delivery:
    exporters = connect_collector(collector_options(to, **options))  # type: ignore[arg-type]
    try:
        return exporters.send(Signal.METRICS, ONE)
    finally:
        exporters.close()


def test_headers_of_variables_for_a_signal_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=s3cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "other-key=s3cret")
    with listening() as collector:
        assert sent(f"http://{collector.address}").taken
    assert b"s3cret" not in collector.got
    assert b"application/x-protobuf" in collector.got


def test_what_is_for_this_machine_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as proxy, listening() as collector:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.address}")
        assert sent(f"http://{collector.address}", headers={"api-key": "s3cret"}).taken
        assert not proxy.got
    assert b"s3cret" in collector.got


def test_no_password_of_the_users_files_takes_the_place_of_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with listening() as collector:
        assert sent(f"http://{collector.address}", headers={"authorization": "Bearer mine"}).taken
    assert b"authorization: Bearer mine" in collector.got
    assert b"Basic" not in collector.got


def test_a_collector_that_drips_is_left_in_time() -> None:
    with listening(drips=True) as collector:
        done = threading.Event()

        def send() -> None:
            sent(f"http://{collector.address}", timeout_s=0.3)
            done.set()

        threading.Thread(target=send, daemon=True).start()
        assert done.wait(PATIENCE_S)
        assert collector.ended.wait(PATIENCE_S), "the connection is left too"


def test_the_end_cuts_what_is_under_way() -> None:
    with listening(drips=True) as collector:
        exporters = connect_collector(collector_options(f"http://{collector.address}", timeout_s=10 * PATIENCE_S))
        thread = threading.Thread(target=lambda: exporters.send(Signal.METRICS, ONE), daemon=True)
        thread.start()
        for _ in range(int(PATIENCE_S / 0.05)):
            if collector.got:
                break
            thread.join(0.05)
        exporters.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_server_of_grpc_that_is_asked_over_http_is_told_as_what_it_is() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert (
            sent(f"http://127.0.0.1:{port}", timeout_s=2.0).why
            == "it speaks no HTTP/1.1; one of gRPC is grpc://HOST:PORT"
        )
    finally:
        server.stop(0)


class Rejecting(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Takes a request, and keeps all but one point."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}

    def Export(self, request: object, context: grpc.ServicerContext) -> object:
        self.metadata = {key: str(value) for key, value in context.invocation_metadata()}
        answer = metrics_service_pb2.ExportMetricsServiceResponse()
        answer.partial_success.rejected_data_points = 1
        answer.partial_success.error_message = "unknown\nmetric"
        return answer


def test_what_a_collector_has_not_kept_is_told_over_grpc_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=s3cret")
    server, service = grpc.server(ThreadPoolExecutor(1)), Rejecting()
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert sent(f"grpc://127.0.0.1:{port}") == Delivery(taken=True, rejected=1, why="unknown metric")
    finally:
        server.stop(0)
    assert "api-key" not in service.metadata


def test_who_was_cut_does_not_connect_again() -> None:
    """urllib3 tries once more where a connection broke while it was made."""
    adapter = CutAdapter()
    with closing(socket.create_server(("127.0.0.1", 0))) as server, requests.Session() as session:
        server.setblocking(False)
        session.mount("http://", adapter)
        adapter.end()
        with pytest.raises(requests.ConnectionError):
            session.get(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=PATIENCE_S)
        with pytest.raises(BlockingIOError):
            server.accept()
