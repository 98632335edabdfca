"""What programs log through ``Microsoft.Extensions.Logging``: events ``MessageJson`` of the provider of that name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.event import Event
from dotnetdiag.trace.table import EventTable

PROVIDER = "Microsoft-Extensions-Logging"
AS_JSON, FORMATTED = "MessageJson", "FormattedMessage"
"""The two events that tell a message as a whole."""
FORMAT = "{OriginalFormat}"
"""The argument that is the text with holes; what all loggers give it is called so."""
LEVELS = ("Trace", "Debug", "Information", "Warning", "Error", "Critical")
"""By number."""
WORSE = LEVELS[LEVELS.index("Warning") :]
"""Those of messages that tell of something wrong."""
NO_LEVEL = -1
_DIGITS = re.compile(r"-?[0-9]{1,10}")
_HOLE = re.compile(r"\{\{|\}\}|\{([^{}:,]+)[^{}]*\}")
"""What stands for an argument; two braces stand for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedException:
    """``text`` is what ``ToString`` says: with its stack."""

    type: str
    message: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One message. ``level`` is a number, whose names are :data:`LEVELS`; ``arguments`` are what it was made of, with :data:`FORMAT`. The ids are
    those of the activity in which it was logged, as far as the library says them (version 10 does).
    """

    pid: int | None
    time_ns: int
    level: int
    logger: str
    text: str
    event_id: int = 0
    event_name: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    exception: LoggedException | None = None
    trace_id: str = ""
    span_id: str = ""
    trace_flags: int = 0


def is_log_entry(schema: EventSchema) -> bool:
    """Whether events of a type are messages."""
    return schema.provider == PROVIDER and schema.name == AS_JSON


def iter_log_entries(window: EventTable) -> Iterator[LogEntry]:
    """The messages of a window."""
    if not any(is_log_entry(schema) for schema in window.schemas.values()):
        return
    for event in window:
        if is_log_entry(event.schema):
            yield log_entry(event)


def log_entry(event: Event) -> LogEntry:
    """The message that an event is (:func:`is_log_entry`)."""
    return _entry(event.payload, event.pid, event.time_ns or 0)


def _entry(said: Mapping[str, Any], pid: int | None, time_ns: int) -> LogEntry:
    arguments = _texts(said.get("ArgumentsJson"))
    text = said.get("FormattedMessage")
    return LogEntry(
        pid=pid,
        time_ns=time_ns,
        level=_level(said.get("Level")),
        logger=str(said.get("LoggerName") or ""),
        text=_filled(arguments) if text is None else str(text),
        event_id=_whole(said.get("EventId")),
        event_name=str(said.get("EventName") or ""),
        arguments=arguments,
        exception=logged_exception(said.get("ExceptionJson")),
        trace_id=str(said.get("ActivityTraceId") or ""),
        span_id=str(said.get("ActivitySpanId") or ""),
        trace_flags=_whole(said.get("ActivityTraceFlags")),
    )


def logged_exception(json_text: object) -> LoggedException | None:
    """What the field ``ExceptionJson`` tells; None where it tells of none."""
    told = _texts(json_text)
    if not told:
        return None
    return LoggedException(
        type=told.get("TypeName", ""), message=told.get("Message", ""), text=told.get("VerboseMessage", "")
    )


def _whole(value: object) -> int:
    """A number of 32 bits; 0 for what is none: anybody may write events of this name."""
    text = str(value)
    number = int(text) if _DIGITS.fullmatch(text) else 0
    return number if -(1 << 31) <= number < 1 << 32 else 0


def _level(value: object) -> int:
    """By number, or by name; :data:`NO_LEVEL` for what is neither."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        return LEVELS.index(value) if value in LEVELS else NO_LEVEL
    return _whole(value)


def _texts(text: object) -> dict[str, str]:
    """An object of JSON; a text that is none is an argument of its own."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return {"arguments": text}
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in read.items() if value is not None
    }


def filled(arguments_json: str) -> str:
    """The text of a message whose arguments these are."""
    return _filled(_texts(arguments_json))


def _filled(arguments: Mapping[str, str]) -> str:
    """What .NET Core 3 does not write: the text with its holes filled."""
    return _HOLE.sub(
        lambda hole: hole[0][0] if hole[1] is None else arguments.get(hole[1], hole[0]), arguments.get(FORMAT, "")
    )
