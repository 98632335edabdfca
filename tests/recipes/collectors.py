"""Collectors of OpenTelemetry: servers of this process that keep what they were sent, read by OpenTelemetry's own messages."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from dotnetdiag.transport.security import Security

PATIENCE_S = 60.0
_SERVICES: list[tuple[Any, Any, Any]] = [
    (
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
        metrics_service_pb2_grpc.MetricsServiceServicer,
        metrics_service_pb2.ExportMetricsServiceResponse,
    ),
    (
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server,
        logs_service_pb2_grpc.LogsServiceServicer,
        logs_service_pb2.ExportLogsServiceResponse,
    ),
    (
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
        trace_service_pb2_grpc.TraceServiceServicer,
        trace_service_pb2.ExportTraceServiceResponse,
    ),
]
REQUESTS: dict[str, Any] = {
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
    "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
}
_NO_HTTP = {
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    401: grpc.StatusCode.UNAUTHENTICATED,
}


@dataclass
class Received:
    """What has come. ``answers`` are given to the next requests, one each: codes of HTTP; without any all is well."""

    requests: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    """No request is answered before it is set."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    asked: int = 0
    body: bytes = b""
    """Over HTTP: of each answer."""
    missing: int = 0
    """Over HTTP: so many bytes more are promised, and never come."""

    def __post_init__(self) -> None:
        self.gate.set()

    def take(self, request: Any, headers: dict[str, str]) -> int:
        """The code that it is answered with; what is refused is not kept."""
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
        assert self.gate.wait(PATIENCE_S)
        with self.changed:
            code = self.answers.pop(0) if self.answers else 200
            if code == 200:
                self.requests.append(request)
                self.headers.append(headers)
            self.changed.notify_all()
        return code

    def until(self, is_there: Callable[[Received], object]) -> None:
        """Wait for something."""
        with self.changed:
            assert self.changed.wait_for(lambda: is_there(self), PATIENCE_S)

    def metrics(self) -> list[Metric]:
        """All data points, in their order."""
        with self.changed:
            return [one for request in self.requests for one in metrics_of(request)]

    def logs(self) -> list[tuple[dict[str, Any], str, Any]]:
        """All log records: resource, scope, record."""
        with self.changed:
            return [
                (attributes_of(resource.resource), scope.scope.name, record)
                for request in self.requests
                for resource in getattr(request, "resource_logs", ())
                for scope in resource.scope_logs
                for record in scope.log_records
            ]

    def spans(self) -> list[tuple[dict[str, Any], str, Any]]:
        """All spans: resource, scope, span."""
        with self.changed:
            return [
                (attributes_of(resource.resource), scope.scope.name, span)
                for request in self.requests
                for resource in getattr(request, "resource_spans", ())
                for scope in resource.scope_spans
                for span in scope.spans
            ]


@dataclass(frozen=True)
class Metric:
    """One data point, with what it is of. ``kind`` is the field of its data."""

    resource: dict[str, Any]
    scope: Any
    metric: Any
    kind: str
    point: Any

    @property
    def name(self) -> str:
        return str(self.metric.name)

    @property
    def tags(self) -> dict[str, Any]:
        return attributes_of(self.point)

    @property
    def value(self) -> float:
        return float(self.point.as_double)


def metrics_of(request: Any) -> Iterator[Metric]:
    """The data points of a request."""
    for resource in getattr(request, "resource_metrics", ()):
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    yield Metric(attributes_of(resource.resource), scope.scope, metric, kind, point)


def attributes_of(message: Any) -> dict[str, Any]:
    """By key; values as they are typed."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in message.attributes}


@contextmanager
def http_collector(
    port: int = 0, received: Received | None = None, tls: Security | None = None
) -> Iterator[tuple[str, Received]]:
    """The URL of one, and what it gets."""
    kept = received or Received()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            request: Message = REQUESTS[self.path].FromString(body)
            code = kept.take(request, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(code)
            self.send_header("Content-Length", str(len(kept.body) + kept.missing))
            self.end_headers()
            self.wfile.write(kept.body)
            if kept.missing:
                self.wfile.flush()
                assert self.rfile.read(1) == b"", "who asks has left"
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            """Who asks may leave."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}", kept
    finally:
        kept.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def grpc_collector(
    port: int = 0, received: Received | None = None, tls: Security | None = None
) -> Iterator[tuple[str, Received]]:
    """The same over gRPC."""
    kept = received or Received()

    def export(answer: Any) -> Any:
        def Export(_: Any, request: Any, context: Any) -> Any:
            code = kept.take(request, {key: str(value) for key, value in context.invocation_metadata()})
            if code != 200:
                context.abort(_NO_HTTP[code], "larger than max" if code == 413 else f"said {code}")
            return answer

        return Export

    def servicer(base: Any, answer: Any) -> Any:
        return type("Servicer", (base,), {"Export": export(answer)})()

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    for add, base, answer in _SERVICES:
        add(servicer(base, answer()), server)
    if tls is None:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        pair = Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes()
        bound = server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        yield f"grpc{'s' if tls else ''}://127.0.0.1:{bound}", kept
    finally:
        kept.gate.set()
        server.stop(0).wait()


COLLECTORS = {"http": http_collector, "grpc": grpc_collector}
