"""OTLP over gRPC, by OpenTelemetry's exporters."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dotnetdiag.errors import MissingDependency
from dotnetdiag.recipes.collector import CollectorOptions, Delivery, Signal
from dotnetdiag.recipes.exporter_logs import ExporterLogs
from dotnetdiag.recipes.partial_success import rejected_of

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else its core writes to stderr, past all loggers
try:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
except ImportError as exc:
    raise MissingDependency("opentelemetry-exporter-otlp-proto-grpc", extra="otlp", purpose="OTLP over gRPC") from exc

_AGAIN = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
"""What may pass (OTLP 1.x, "Failures")."""
_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.exporter"
_KINDS: dict[Signal, Any] = {
    Signal.METRICS: OTLPMetricExporter,
    Signal.LOGS: OTLPLogExporter,
    Signal.TRACES: OTLPSpanExporter,
}
_TOO_LARGE = re.compile(r"larger than max|exceeds (the )?max|too large", re.IGNORECASE)
_LONGEST = 300
"""Characters of what a server or the library says."""


class GrpcExporters:
    """Sends; see :class:`dotnetdiag.recipes.exporters.Exporters`."""

    def __init__(self, options: CollectorOptions, on_trouble: Callable[[str], None] | None = None) -> None:
        self._options, self._on_trouble = options, on_trouble
        self._lock = threading.Lock()
        self._exporters: dict[Signal, Any] = {}
        self._is_closed = False
        self._code: Any = None
        self._answer: Any = None
        self._why = ""
        self._logs = ExporterLogs(self._hear)
        logger = logging.getLogger(_EXPORTER)
        self._filters = list(logger.filters)  # they keep to themselves what was said in the last seconds
        for one in self._filters:
            logger.removeFilter(one)

    def send(self, signal: Signal, payload: Any) -> Delivery:
        """Wait until it has answered, or does not for too long."""
        with self._lock:
            if self._is_closed:
                return Delivery(taken=False, again=True, why="closed")
            exporter = self._exporters.get(signal) or self._made(signal)
        self._code, self._why, self._answer = None, "", None
        try:
            with self._logs:
                taken = exporter.export(payload).name == "SUCCESS"
        except Exception as error:  # of its encoder, and of what it reads
            if self._is_closed and isinstance(error, ValueError):  # the channel was closed meanwhile
                return Delivery(taken=False, again=True, why=str(error))
            why = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
            return Delivery(taken=False, why=why, apart=True)
        if taken:
            rejected, why = rejected_of(signal, self._answer)
            return Delivery(taken=True, rejected=rejected, why=why)
        is_exhausted = self._code is grpc.StatusCode.RESOURCE_EXHAUSTED
        again = self._code in _AGAIN and not (is_exhausted and _is_too_large(self._why))
        return Delivery(taken=False, again=again, why=self._why, apart=is_exhausted)

    def close(self) -> None:
        """Send no more; what is being sent is cancelled."""
        with self._lock:
            self._is_closed = True
            for exporter in self._exporters.values():
                exporter.shutdown()
            self._exporters = {}
        self._logs.close()
        for one in self._filters:
            logging.getLogger(_EXPORTER).addFilter(one)

    def _made(self, signal: Signal) -> Any:
        credentials = None
        if self._options.tls and self._options.ca:
            credentials = grpc.ssl_channel_credentials(Path(self._options.ca).read_bytes())
        made = self._exporters[signal] = _hearing(_KINDS[signal], self._take)(
            endpoint=self._options.base,
            insecure=not self._options.tls,
            credentials=credentials,
            headers=_Headers(self._options.headers.items()),
            timeout=self._options.timeout_s,
            channel_options=(("grpc.enable_http_proxy", 0),) if self._options.is_here else None,
        )
        return made

    def _take(self, answer: Any) -> None:
        self._answer = answer

    def _hear(self, record: logging.LogRecord) -> None:
        """What the exporter says of a call that failed has its code and the server's words among its arguments."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        codes = [one for one in arguments if isinstance(one, grpc.StatusCode)]
        if not codes:
            self._why = self._why or record.getMessage()[:_LONGEST]
            return
        said = " ".join(str(arguments[-1] or "").split())
        self._code, self._why = codes[0], f"{codes[0].name}: {said}"[:_LONGEST] if said else codes[0].name
        if self._code in _AGAIN and self._on_trouble is not None and not _is_too_large(self._why):
            self._on_trouble(self._why)


class _Headers(tuple[tuple[str, str], ...]):
    """Those that were given, also where there are none: else the exporters take those of variables."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


def _hearing(kind: Any, hear: Callable[[Any], None]) -> Any:
    """An exporter that tells what a collector answers: the library's own throws it away."""

    class Heard:
        def __init__(self, stub: Any) -> None:
            self._stub = stub

        def Export(self, **kwargs: Any) -> Any:
            answer = self._stub.Export(**kwargs)
            hear(answer)
            return answer

    class Hearing(kind):  # type: ignore[misc]
        def _initialize_channel_and_stub(self) -> None:
            super()._initialize_channel_and_stub()
            self._client: Any = Heard(self._client)

    return Hearing


def _is_too_large(why: str) -> bool:
    """Whether it is the size of a request that a server does not take: the code alone is also said by who has too much to do."""
    return _TOO_LARGE.search(why) is not None
