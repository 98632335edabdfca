"""Activities as OpenTelemetry's spans, which its exporters take: ids, parents, times, kind and status as they are, tags as texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dotnetdiag.analysis.activity_spans import ActivitySpan
from dotnetdiag.export.otlp_metrics import Attributes, resource_of, since_1970
from dotnetdiag.export.otlp_series import texts, utf8

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import TraceState

_FROM_ELSEWHERE = ("Server", "Consumer")
"""Kinds whose parent is another process's, as a rule."""


def build_spans(processes: Iterable[tuple[Attributes, Iterable[ActivitySpan]]]) -> list[ReadableSpan]:
    """What an exporter takes."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    made = []
    for attributes, spans in processes:
        resource = resource_of(attributes)
        for one in spans:
            flags = TraceFlags(TraceFlags.SAMPLED if one.is_recorded else TraceFlags.DEFAULT)
            context = SpanContext(
                one.trace_id, one.span_id, is_remote=False, trace_flags=flags, trace_state=_state(one.trace_state)
            )
            parent = None
            if one.parent_id:
                parent = SpanContext(one.trace_id, one.parent_id, is_remote=one.kind in _FROM_ELSEWHERE)
            code = StatusCode.__members__.get(one.status.upper(), StatusCode.UNSET)
            text = utf8(one.status_text) if code is StatusCode.ERROR and one.status_text else None
            made.append(
                ReadableSpan(
                    utf8(one.name),
                    context=context,
                    parent=parent,
                    resource=resource,
                    attributes=texts(one.tags),
                    kind=SpanKind.__members__.get(one.kind.upper(), SpanKind.INTERNAL),
                    status=Status(code, text),
                    start_time=since_1970(one.begin_ns),
                    end_time=since_1970(one.end_ns),
                    instrumentation_scope=InstrumentationScope(utf8(one.source), utf8(one.source_version) or None),
                )
            )
    return made


def _state(text: str) -> TraceState | None:
    from opentelemetry.trace import TraceState

    return TraceState.from_header([utf8(text)]) if text else None
