"""Activities that programs have ended, as spans of distributed traces: events of ``Microsoft-Diagnostics-DiagnosticSource``.

Which fields they have is what :mod:`dotnetdiag.providers.telemetry` asks for.

Tags come as one text, ``[key, value],[key, value]``: a value in which ``],[`` stands is cut there. Links and events of activities do not come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.event import Event
from dotnetdiag.trace.table import EventTable

PROVIDER = "Microsoft-Diagnostics-DiagnosticSource"
_EVENT = "Activity/Stop"
_EPOCH_TICKS = 621_355_968_000_000_000
"""1970, in units of 100 ns since the year 1."""
_TICK_NS = 100
_ID = re.compile(r"[0-9a-fA-F]+")
_TICKS = re.compile(r"[0-9]{1,20}")
_RECORDED = "Recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySpan:
    """One activity. Ids are numbers as W3C has them; ``parent_id`` is 0 where there is none. ``kind`` (``Internal``, ``Server``, ``Client``,
    ``Producer``, ``Consumer``) and ``status`` (``Unset``, ``Ok``, ``Error``) are the runtime's words. Times are in ns since 1970.
    """

    pid: int | None
    source: str
    source_version: str
    name: str
    trace_id: int
    span_id: int
    parent_id: int
    is_recorded: bool
    trace_state: str
    kind: str
    begin_ns: int
    end_ns: int
    status: str
    status_text: str
    tags: Mapping[str, str] = field(default_factory=dict)


def is_activity(schema: EventSchema) -> bool:
    """Whether events of a type are activities that have ended."""
    return schema.provider == PROVIDER and schema.name == _EVENT


def iter_spans(window: EventTable) -> Iterator[ActivitySpan | None]:
    """The activities of a window that have ended; None for one without ids as W3C has them, or without times."""
    if not any(is_activity(schema) for schema in window.schemas.values()):
        return
    for event in window:
        if is_activity(event.schema):
            yield activity_span(event)


def activity_span(event: Event) -> ActivitySpan | None:
    """The activity that an event is (:func:`is_activity`); None as with :func:`iter_spans`."""
    return _span(event.payload, event.pid)


def _span(said: Mapping[str, Any], pid: int | None) -> ActivitySpan | None:
    told = _arguments(said.get("Arguments"))
    trace_id, span_id = _number(told.get("TraceId", ""), 32), _number(told.get("SpanId", ""), 16)
    begin, duration = told.get("StartTimeTicks", ""), told.get("DurationTicks", "")
    if not (trace_id and span_id and _TICKS.fullmatch(begin) and _TICKS.fullmatch(duration)):
        return None
    begin_ns = (int(begin) - _EPOCH_TICKS) * _TICK_NS
    end_ns = begin_ns + int(duration) * _TICK_NS
    if not 0 <= begin_ns <= end_ns < 1 << 63:
        return None
    own = str(said.get("ActivityName") or said.get("EventName") or "")
    return ActivitySpan(
        pid=pid,
        source=str(said.get("SourceName") or ""),
        source_version=told.get("ActivitySourceVersion", ""),
        name=told.get("DisplayName") or own,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_number(told.get("ParentSpanId", ""), 16),
        is_recorded=told.get("ActivityTraceFlags", "") == _RECORDED,
        trace_state=told.get("TraceStateString", ""),
        kind=told.get("Kind", ""),
        begin_ns=begin_ns,
        end_ns=end_ns,
        status=told.get("Status", ""),
        status_text=told.get("StatusDescription", ""),
        tags=_tags(told.get("Tags", "")),
    )


def _arguments(said: object) -> dict[str, str]:
    """The pairs of a list; nothing of what is none: anybody may write events of this name."""
    pairs = [one for one in said if isinstance(one, Mapping)] if isinstance(said, list | tuple) else []
    return {str(one.get("Key")): str(one.get("Value") or "") for one in pairs}


def _number(text: str, digits: int) -> int:
    """An id; 0 for none."""
    return int(text, 16) if len(text) == digits and _ID.fullmatch(text) else 0


def _tags(text: str) -> dict[str, str]:
    if not (text.startswith("[") and text.endswith("]")):
        return {}
    pairs = (pair.partition(", ") for pair in text[1:-1].split("],["))
    return {key: value for key, _, value in pairs if key}
