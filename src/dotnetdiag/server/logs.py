"""``Microsoft-Extensions-Logging``: the records of :mod:`logging` as .NET's logging writes them, in each of its forms.

===========  ================  =================================================================================
keyword      event             what it has
===========  ================  =================================================================================
2 Message    Message           arguments and exception as objects
4 Formatted  FormattedMessage  the text that the record makes
8 Json       MessageJson       arguments and exception as JSON, and the text
===========  ================  =================================================================================

The argument ``FilterSpecs`` (``app.orders:Debug;*:Warning``, in quotes) chooses by the name of a logger, or what it begins with; without it
the session's level does. Neither changes what the loggers of the program let through: their levels and filters are the program's. What does not
propagate to the root logger is not heard.

Rule: a session changes nothing about the program's logging, which has as many handlers as before, may be configured anew, and has handled a
record before we look at it. So there is no handler of ours: while a session listens, what calls the handlers of a logger
(``Logger.callHandlers``) is hooked. No lock is held while values of the program become text.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.nettrace import Metadata, TypeCode
from dotnetdiag.server.activities import ACTIVITY
from dotnetdiag.server.event_fields import EventFields
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.value_text import text_of
from dotnetdiag.server.writing import Write

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


class _Words:
    """One record put into words: each once for all sessions, and only as far as they ask for it."""

    def __init__(self, record: logging.LogRecord, level: int) -> None:
        self._record = record
        self._head = level, _FACTORY_ID, record.name[:_NAME_LIMIT], 0, ""
        # no cached_property: in 3.11 it holds a lock while the program's code runs
        self._text: str | None = None
        self._exception: _Exception | None = None
        self._arguments: list[_Argument] | None = None

    def formatted(self) -> bytes:
        return _FORMATTED_FIELDS.pack(*self._head, self._said_text(), *_NO_TRACE)

    def message(self) -> bytes:
        return _MESSAGE_FIELDS.pack(*self._head, self._said_exception(), self._said_arguments(), *_NO_TRACE)

    def json(self) -> bytes:
        exception, arguments = _as_json(self._said_exception(), self._said_arguments())
        return _JSON_FIELDS.pack(*self._head, exception, arguments, self._said_text(), *_NO_TRACE)

    def _said_text(self) -> str:
        if self._text is None:
            self._text = self._record.getMessage()[:_MESSAGE_LIMIT]
        return self._text

    def _said_exception(self) -> _Exception:
        if self._exception is None:
            self._exception = _exception(self._record)
        return self._exception

    def _said_arguments(self) -> list[_Argument]:
        if self._arguments is None:
            self._arguments = _arguments(self._record)
        return self._arguments


_Form = Callable[[_Words], bytes]
"""Makes a payload. Raises whatever the values of a record raise when they become text."""
_FORMS: tuple[tuple[Metadata, _Form], ...] = (
    (_FORMATTED, _Words.formatted),
    (_MESSAGE, _Words.message),
    (_JSON, _Words.json),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Listening:
    """A session, and the least level that it takes of loggers by what their names begin with; the empty name is that of all."""

    subscription: Subscription
    rules: Mapping[str, int]
    writes: tuple[tuple[_Form, Write], ...]

    def least(self, logger: str) -> int:
        while logger and logger not in self.rules:
            logger = logger.rpartition(".")[0]
        return self.rules.get(logger, _NONE)


class LoggingEvents:
    """The provider. Loggers are hooked while a session listens."""

    name = PROVIDER

    def __init__(self) -> None:
        self._listening: tuple[_Listening, ...] = ()
        self._inner: Any = None
        """What calls handlers without us, while they are called by ``_outer``."""
        self._outer: Any = None
        self._thread = threading.local()
        """``is_hearing``: it makes text of a record now."""

    def join(self, subscription: Subscription) -> None:
        """Hear the loggers for a session."""
        default = _BY_EVENT_LEVEL.get(subscription.level, 0)
        channels = [(form, subscription.channel(kind)) for kind, form in _FORMS]
        one = _Listening(
            subscription=subscription,
            rules=dict(parse_filters(subscription.arguments.get("FilterSpecs", ""), default)),
            writes=tuple((form, write) for form, write in channels if write is not None),
        )
        if one.writes:
            self._change((*self._listening, one))

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        self._change(tuple(one for one in self._listening if one.subscription is not subscription))

    def _change(self, listening: tuple[_Listening, ...]) -> None:
        self._listening = listening
        if bool(listening) != (self._outer is not None):
            self._hook() if listening else self._unhook()

    def _hook(self) -> None:
        inner: Any = logging.Logger.callHandlers

        @functools.wraps(inner)
        def outer(logger: logging.Logger, record: logging.LogRecord) -> None:
            try:
                inner(logger, record)
            finally:
                if self._outer is outer:  # else it was left behind somebody who has hooked it too
                    self._hear(logger, record)

        self._inner, self._outer = inner, outer
        logging.Logger.callHandlers = outer  # type: ignore[assignment, method-assign]

    def _unhook(self) -> None:
        if self._inner is not None and logging.Logger.callHandlers is self._outer:
            logging.Logger.callHandlers = self._inner  # type: ignore[method-assign]
        self._inner = self._outer = None

    def _hear(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        """Raises nothing of its own. What values of the record log while they become text would not be there without us, and is not heard."""
        listening = self._listening
        if getattr(self._thread, "is_hearing", False) or not _reaches_root(logger):
            return
        self._thread.is_hearing = True
        try:
            _tell(record, listening)
        except Exception as error:  # a record that is none
            if is_of_signal(error):
                raise
            for one in listening:
                one.subscription.skip()
        finally:
            self._thread.is_hearing = False


def _reaches_root(logger: logging.Logger) -> bool:
    """Whether a handler of the root logger would get its records."""
    while logger.propagate and logger.parent is not None:
        logger = logger.parent
    return logger is logging.root


def _tell(record: logging.LogRecord, listening: tuple[_Listening, ...]) -> None:
    level = min(max(record.levelno // 10, 0), 5)
    wanting = [one for one in listening if level >= one.least(record.name)]
    if not wanting:
        return
    words = _Words(record, level)
    activity, _ = ACTIVITY.get()
    payloads: dict[_Form, bytes | None] = {}
    """None: the record cannot be put into this form."""
    for one in wanting:
        for form, write in one.writes:
            if form not in payloads:
                payloads[form] = _maybe_pack(form, words)
            payload = payloads[form]
            if payload is None:
                one.subscription.skip()
            else:
                write(payload, activity)


def _maybe_pack(form: _Form, words: _Words) -> bytes | None:
    try:
        return form(words)
    except Exception as error:  # whatever the arguments of a record do when they become text
        if is_of_signal(error):
            raise
        return None


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
    named = given.items() if isinstance(given, Mapping) else enumerate(given or ())
    pairs = [*islice(named, _ARGUMENTS_LIMIT), ("{OriginalFormat}", record.msg)]
    room = _TEXT_LIMIT // len(pairs)
    return [_Argument(text_of(name)[:room], text_of(value)[:room]) for name, value in pairs]


def _exception(record: logging.LogRecord) -> _Exception:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return _Exception("", "", 0, "")
    kind = type(error)
    try:
        whole = "".join(traceback.format_exception(error))
    except Exception as another:  # of its own code
        if is_of_signal(another):
            raise
        whole = ""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return _Exception(name[:_NAME_LIMIT], text_of(error)[:_TEXT_LIMIT], 0, whole[:_TEXT_LIMIT])


def _as_json(error: _Exception, arguments: list[_Argument]) -> tuple[str, str]:
    """The exception and the arguments; an empty object where there is none, as .NET has it."""
    said = [("TypeName", error.TypeName), ("Message", error.Message), ("HResult", "0")]
    said.append(("VerboseMessage", error.VerboseMessage))
    return (
        _json_object(said if error.TypeName else []),
        _json_object([(one.Key, one.Value) for one in arguments]),
    )


def _json_object(pairs: list[tuple[str, str]]) -> str:
    """Without its last members where it is too long: cut text would be no JSON."""
    text = json.dumps(dict(pairs), ensure_ascii=False)
    while len(text) > _TEXT_LIMIT:
        pairs = pairs[:-1]
        text = json.dumps(dict(pairs), ensure_ascii=False)
    return text
