"""``Microsoft-Extensions-Logging``: the records of :mod:`logging` as .NET's logging writes them, in each of its forms.

===========  ================  =================================================================================
keyword      event             what it has
===========  ================  =================================================================================
2 Message    Message           arguments and exception as objects
4 Formatted  FormattedMessage  the text that the record makes
8 Json       MessageJson       arguments and exception as JSON, and the text
===========  ================  =================================================================================

The argument ``FilterSpecs`` (``app.orders:Debug;*:Warning``, in quotes) chooses by the name of a logger, or what it begins with; without it
the session's level does. Neither changes what the loggers of the program let through: their levels are the program's, and a logger that does
not propagate is not heard.
"""

from __future__ import annotations

import json
import logging
import traceback
from dataclasses import dataclass

from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.nettrace import Metadata, TypeCode
from dotnetdiag.server.event_fields import EventFields
from dotnetdiag.server.held_events import Write
from dotnetdiag.server.subscription import Subscription

PROVIDER = "Microsoft-Extensions-Logging"
MESSAGE_KEYWORD, FORMATTED_KEYWORD, JSON_KEYWORD = 2, 4, 8
_FACTORY_ID = 1
_MESSAGE_LIMIT, _TEXT_LIMIT = 6000, 3000
"""Characters of the message, and of each other text: longer ones are cut, for a payload holds 16,000 of the widest."""
_NAME_LIMIT = 1000
_ARGUMENTS_LIMIT = 64
_NONE = 6
_LEVELS = {"trace": 0, "debug": 1, "information": 2, "warning": 3, "error": 4, "critical": 5, "none": _NONE}
_BY_EVENT_LEVEL: dict[int, int] = {
    EventLevel.LOG_ALWAYS: 0,
    EventLevel.CRITICAL: 5,
    EventLevel.ERROR: 4,
    EventLevel.WARNING: 3,
    EventLevel.INFORMATIONAL: 2,
    EventLevel.VERBOSE: 0,
}


@dataclass(frozen=True, slots=True)
class _Argument:
    Key: str
    Value: str


@dataclass(frozen=True, slots=True)
class _Exception:
    TypeName: str
    Message: str
    HResult: int
    VerboseMessage: str


_HEAD: dict[str, object] = {
    "Level": TypeCode.INT32,
    "FactoryID": TypeCode.INT32,
    "LoggerName": str,
    "EventId": TypeCode.INT32,
    "EventName": str,
}
_TRACE: dict[str, object] = {"ActivityTraceId": str, "ActivitySpanId": str, "ActivityTraceFlags": str}
_NO_TRACE = ("", "", "")
_FORMATTED_FIELDS = EventFields.of({**_HEAD, "FormattedMessage": str, **_TRACE})
_MESSAGE_FIELDS = EventFields.of({**_HEAD, "Exception": _Exception, "Arguments": list[_Argument], **_TRACE})
_JSON_FIELDS = EventFields.of({**_HEAD, "ExceptionJson": str, "ArgumentsJson": str, "FormattedMessage": str, **_TRACE})


def _kind(event_id: int, name: str, keyword: int, fields: EventFields) -> Metadata:
    return Metadata(
        metadata_id=0, provider=PROVIDER, event_id=event_id, name=name, keywords=keyword, fields=fields.types
    )


_FORMATTED = _kind(1, "FormattedMessage", FORMATTED_KEYWORD, _FORMATTED_FIELDS)
_MESSAGE = _kind(2, "Message", MESSAGE_KEYWORD, _MESSAGE_FIELDS)
_JSON = _kind(5, "MessageJson", JSON_KEYWORD, _JSON_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Listening:
    """A session, and the least level that it takes of loggers by what their names begin with, longest first."""

    subscription: Subscription
    rules: tuple[tuple[str, int], ...]
    formatted: Write | None
    message: Write | None
    json: Write | None

    def least(self, logger: str) -> int:
        for start, level in self.rules:
            if not start or logger == start or logger.startswith(start + "."):
                return level
        return _NONE


class LoggingEvents:
    """The provider. While a session listens, a handler of its own is on the root logger."""

    name = PROVIDER

    def __init__(self) -> None:
        self._listening: tuple[_Listening, ...] = ()
        self._handler: _Handler | None = None

    def join(self, subscription: Subscription) -> None:
        """Hear the loggers for a session."""
        default = _BY_EVENT_LEVEL.get(subscription.level, 0)
        one = _Listening(
            subscription=subscription,
            rules=parse_filters(subscription.arguments.get("FilterSpecs", ""), default),
            formatted=subscription.channel(_FORMATTED),
            message=subscription.channel(_MESSAGE),
            json=subscription.channel(_JSON),
        )
        if one.formatted or one.message or one.json:
            self._change((*self._listening, one))

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        self._change(tuple(one for one in self._listening if one.subscription is not subscription))

    def _change(self, listening: tuple[_Listening, ...]) -> None:
        self._listening = listening
        root = logging.getLogger()
        if not listening and self._handler is not None:
            root.removeHandler(self._handler)
            self._handler = None
        if listening:
            if self._handler is None:
                self._handler = _Handler()
                root.addHandler(self._handler)
            self._handler.listening = listening


class _Handler(logging.Handler):
    """On the root logger while a session listens."""

    listening: tuple[_Listening, ...] = ()

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno // 10, 0), 5)
        wanting = [one for one in self.listening if level >= one.least(record.name)]
        if not wanting:
            return
        try:
            text = record.getMessage()[:_MESSAGE_LIMIT]
            head = (level, _FACTORY_ID, record.name[:_NAME_LIMIT], 0, "")
            formatted = message = packed_json = b""
            for one in wanting:
                if one.formatted is not None:
                    formatted = formatted or _FORMATTED_FIELDS.pack(*head, text, *_NO_TRACE)
                    one.formatted(formatted)
                if one.message is not None:
                    message = message or _MESSAGE_FIELDS.pack(*head, _exception(record), _arguments(record), *_NO_TRACE)
                    one.message(message)
                if one.json is not None:
                    packed_json = packed_json or _JSON_FIELDS.pack(*head, *_as_json(record), text, *_NO_TRACE)
                    one.json(packed_json)
        except Exception:  # whatever the arguments of a record do when they become text
            for one in wanting:
                one.subscription.skip()


def parse_filters(text: str, default: int) -> tuple[tuple[str, int], ...]:
    """``Name:Level;*:Level`` → what names begin with and their least level, longest first; the rule for all others is last.

    ``UseAppFilters`` and what is no rule are passed over: the program's own levels hold anyway. A rule without a level has the default.
    """
    rules: dict[str, int] = {}
    for part in text.split(";"):
        name, _, level = part.strip().rpartition(":") if ":" in part else (part.strip(), "", "")
        name = name.strip().rstrip("*").rstrip(".")
        if part.strip() and part.strip().lower() != "useappfilters" and (not level or level.strip().lower() in _LEVELS):
            rules[name] = _LEVELS.get(level.strip().lower(), default)
    if not rules:
        rules[""] = default
    return tuple(sorted(rules.items(), key=lambda rule: -len(rule[0])))


def _arguments(record: logging.LogRecord) -> list[_Argument]:
    """By name where they have one, else by place; what they are put into is called as .NET calls it."""
    given = record.args
    if isinstance(given, dict):
        pairs = [(str(name), value) for name, value in given.items()]
    else:
        pairs = [(str(at), value) for at, value in enumerate(given or ())]
    pairs = [*pairs[:_ARGUMENTS_LIMIT], ("{OriginalFormat}", record.msg)]
    room = _TEXT_LIMIT // len(pairs)
    return [_Argument(name[:room], str(value)[:room]) for name, value in pairs]


def _exception(record: logging.LogRecord) -> _Exception:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return _Exception("", "", 0, "")
    kind = type(error)
    whole = "".join(traceback.format_exception(error))
    return _Exception(f"{kind.__module__}.{kind.__qualname__}", str(error)[:_TEXT_LIMIT], 0, whole[:_TEXT_LIMIT])


def _as_json(record: logging.LogRecord) -> tuple[str, str]:
    """The exception and the arguments; an empty object where there is none, as .NET has it."""
    error = _exception(record)
    said = [("TypeName", error.TypeName), ("Message", error.Message), ("HResult", "0")]
    said.append(("VerboseMessage", error.VerboseMessage))
    return (
        _json_object(said if error.TypeName else []),
        _json_object([(one.Key, one.Value) for one in _arguments(record)]),
    )


def _json_object(pairs: list[tuple[str, str]]) -> str:
    """Without its last members where it is too long: cut text would be no JSON."""
    text = json.dumps(dict(pairs), ensure_ascii=False)
    while len(text) > _TEXT_LIMIT:
        pairs = pairs[:-1]
        text = json.dumps(dict(pairs), ensure_ascii=False)
    return text
