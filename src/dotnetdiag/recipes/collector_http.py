"""OTLP over HTTP, by OpenTelemetry's exporters: protobuf, a path for each signal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from http.client import BadStatusLine, HTTPException
from typing import Any

from dotnetdiag.errors import MissingDependency
from dotnetdiag.recipes.collector import CollectorOptions, Delivery, Signal
from dotnetdiag.recipes.exporter_logs import ExporterLogs
from dotnetdiag.recipes.partial_success import rejected_of

try:
    import requests
    import requests.utils
    from google.protobuf.message import DecodeError
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
    from urllib3.exceptions import HTTPError

    from dotnetdiag.recipes.cut_connections import CutAdapter
except ImportError as exc:
    raise MissingDependency("opentelemetry-exporter-otlp-proto-http", extra="otlp", purpose="OTLP over HTTP") from exc

_AGAIN = (408, 429, 500, 502, 503, 504)
"""What may pass. (OTLP 1.x, "Failures", has 429, 502, 503 and 504; 408 and 500 are said by what stands before a collector.)"""
_TOO_LARGE = 413
_MOST_BYTES = 1 << 16
"""Of the body of an answer: no more of it is read."""
_TIMEOUT_S = 10.0
_HTTP2 = "\\x04\\x00\\x00\\x00\\x00\\x00"
"""Of the first frame of a server of HTTP/2, in the words of an error."""
_LATE = "it does not answer in time"
_OF_HTTP = frozenset(
    ("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "user-agent")
)
"""Headers of any request."""
_ANSWERS: dict[Signal, Any] = {
    Signal.METRICS: ExportMetricsServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
    Signal.TRACES: ExportTraceServiceResponse,
}
_KINDS: dict[Signal, Any] = {
    Signal.METRICS: OTLPMetricExporter,
    Signal.LOGS: OTLPLogExporter,
    Signal.TRACES: OTLPSpanExporter,
}


class HttpExporters:
    """Sends; see :class:`dotnetdiag.recipes.exporters.Exporters`."""

    def __init__(self, options: CollectorOptions, on_trouble: Callable[[str], None] | None = None) -> None:
        self._options, self._on_trouble = options, on_trouble
        self._lock = threading.Lock()
        self._exporters: dict[Signal, tuple[Any, _Session]] = {}
        self._is_closed = False
        self._logged = ""
        self._logs = ExporterLogs(self._hear)

    def send(self, signal: Signal, payload: Any) -> Delivery:
        """Wait until it has answered, or does not for too long."""
        with self._lock:
            if self._is_closed:
                return Delivery(taken=False, again=True, why="closed")
            exporter, session = self._exporters.get(signal) or self._made(signal)
        session.forget()
        self._logged = ""
        with self._logs:
            taken = exporter.export(payload).name == "SUCCESS"
        if session.status is None:  # nobody has answered, or nothing was sent
            again = session.failed
            return Delivery(taken=False, again=again, why=session.why or self._logged, apart=not again)
        if taken and 200 <= session.status < 300:
            rejected, why = _rejected(signal, session.body)
            return Delivery(taken=True, rejected=rejected, why=why)
        is_apart = session.status == _TOO_LARGE
        return Delivery(taken=False, again=session.status in _AGAIN, why=session.why, apart=is_apart)

    def close(self) -> None:
        """Send no more; what waits to be tried again is not."""
        with self._lock:
            self._is_closed = True
            for exporter, session in self._exporters.values():
                exporter.shutdown()
                session.end()
            self._exporters = {}
        self._logs.close()

    def _made(self, signal: Signal) -> tuple[Any, _Session]:
        session = _Session(self._options, self._on_trouble)
        exporter = _KINDS[signal](
            endpoint=f"{self._options.base}/v1/{signal}",
            certificate_file=self._options.ca or None,
            headers=dict(self._options.headers),
            timeout=self._options.timeout_s,
            session=session,
        )
        self._exporters[signal] = exporter, session
        return exporter, session

    def _hear(self, record: logging.LogRecord) -> None:
        self._logged = record.getMessage()


class _Session(requests.Session):
    """Knows how its last request ended: the exporters tell it to nobody. Nothing goes out that was not given: no headers of variables, no
    passwords of a ``.netrc``, and nothing for this machine through a proxy.
    """

    def __init__(self, options: CollectorOptions, on_trouble: Callable[[str], None] | None) -> None:
        super().__init__()
        self._on_trouble = on_trouble
        self._sent = {*_OF_HTTP, *(name.lower() for name in options.headers)}
        self._adapter = CutAdapter()
        for scheme in ("http://", "https://"):
            self.mount(scheme, self._adapter)
        self.trust_env = False
        if not options.is_here:
            self.proxies = requests.utils.get_environ_proxies(options.base)
        self.forget()

    def end(self) -> None:
        """End what is being sent, and send no more. For other threads."""
        self._adapter.end()

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """With those headers alone that were given, and HTTP's own."""
        made = super().prepare_request(request)
        for name in [name for name in made.headers if name.lower() not in self._sent]:
            del made.headers[name]
        return made

    def forget(self) -> None:
        """As if there had been none."""
        self.status: int | None = None
        self.failed = False
        self.why = ""
        self.body = b""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Remember what comes of it."""
        self.forget()
        kwargs["stream"] = True
        timeout_s = kwargs.get("timeout")
        limit_s = timeout_s if isinstance(timeout_s, int | float) else _TIMEOUT_S
        ends = time.monotonic() + limit_s
        try:
            with self._adapter.limited(limit_s):
                answer = super().request(*args, **kwargs)
                self.status = answer.status_code
                self.body = _body(answer, ends)
        except requests.exceptions.RequestException as error:
            self.failed = True
            self.why = _words(error) if time.monotonic() < ends else _LATE
            self._tell()
            raise
        if not 200 <= answer.status_code < 300:
            self.why = f"{answer.status_code} {answer.reason or ''}".strip()
            if answer.status_code in _AGAIN:
                self._tell()
        return answer

    def _tell(self) -> None:
        if self._on_trouble is not None:
            self._on_trouble(self.why)


def _body(answer: requests.Response, ends: float) -> bytes:
    """What there is of it up to a time (of ``time.monotonic``), and to our limit. What is longer is left, with its connection."""
    body, is_whole = b"", False
    read = getattr(answer.raw, "read1", answer.raw.read)  # urllib3 has it since 2.2
    try:
        while len(body) < _MOST_BYTES and time.monotonic() < ends:
            piece = read(_MOST_BYTES - len(body), decode_content=True)
            if not piece:
                is_whole = True
                break
            body += piece
    except (HTTPError, HTTPException, OSError, ValueError):
        pass
    if not is_whole:
        answer.close()
    answer._content, answer._content_consumed = body, True  # nobody reads the rest
    return body


def _rejected(signal: Signal, body: bytes) -> tuple[int, str]:
    try:
        return rejected_of(signal, _ANSWERS[signal].FromString(body))
    except DecodeError:  # not all answer as they should
        return 0, ""


def _words(error: BaseException) -> str:
    """What is at the bottom of an error: ``Connection refused``."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        inner = getattr(one, "reason", None) or (one.args[0] if one.args else None)
        one = inner if isinstance(inner, BaseException) else one.__cause__ or one.__context__
    bottom = seen[-1]
    if isinstance(bottom, OSError) and bottom.strerror:
        return bottom.strerror
    if isinstance(bottom, TimeoutError) or "timed out" in str(bottom):
        return _LATE
    if isinstance(bottom, BadStatusLine) or _HTTP2 in str(bottom):
        return "it speaks no HTTP/1.1; one of gRPC is grpc://HOST:PORT"
    return " ".join(str(bottom).split()) or type(bottom).__name__
