"""Messages of programs as OpenTelemetry's log records, which its exporters take.

The logger is the scope, as with OpenTelemetry's own library for .NET; arguments are attributes, texts all of them, and so are the exception
(``exception.type``, ``.message``, ``.stacktrace``) and the number of the event (``logrecord.event.id``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dotnetdiag.analysis.log_entries import LEVELS, LogEntry
from dotnetdiag.export.otlp_metrics import Attributes, resource_of, since_1970
from dotnetdiag.export.otlp_series import texts, utf8

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import ReadableLogRecord

_ID_BITS, _SPAN_BITS = 128, 64


def build_logs(processes: Iterable[tuple[Attributes, Iterable[LogEntry]]]) -> list[ReadableLogRecord]:
    """What an exporter takes."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    severities = (
        SeverityNumber.TRACE,
        SeverityNumber.DEBUG,
        SeverityNumber.INFO,
        SeverityNumber.WARN,
        SeverityNumber.ERROR,
        SeverityNumber.FATAL,
    )
    made = []
    for attributes, entries in processes:
        resource = resource_of(attributes)
        for one in entries:
            is_known = 0 <= one.level < len(LEVELS)
            record = LogRecord(
                timestamp=since_1970(one.time_ns),
                context=_context(one),
                severity_text=LEVELS[one.level] if is_known else str(one.level),
                severity_number=severities[one.level] if is_known else SeverityNumber.UNSPECIFIED,
                body=utf8(one.text),
                attributes=_attributes(one),
                event_name=utf8(one.event_name) or None,
            )
            made.append(ReadableLogRecord(record, resource, InstrumentationScope(utf8(one.logger))))
    return made


def _attributes(one: LogEntry) -> dict[str, str | int]:
    made: dict[str, str | int] = {**texts(one.arguments)}
    if one.event_id:
        made["logrecord.event.id"] = one.event_id
    if one.exception is not None:
        error = {"type": one.exception.type, "message": one.exception.message, "stacktrace": one.exception.text}
        made |= {f"exception.{key}": utf8(text) for key, text in error.items() if text}
    return made


def _context(one: LogEntry) -> Context:
    """The activity in which it was logged."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    try:
        trace_id, span_id = int(one.trace_id or "0", 16), int(one.span_id or "0", 16)
    except ValueError:
        return Context()
    if not (0 < trace_id < 1 << _ID_BITS and 0 < span_id < 1 << _SPAN_BITS):
        return Context()
    context = SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(one.trace_flags & 0xFF))
    return set_span_in_context(NonRecordingSpan(context), Context())
