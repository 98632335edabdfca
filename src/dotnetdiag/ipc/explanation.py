"""What bytes of the protocol say, for people: a message with its fields, where each stands, what its value means, and what is wrong with it.

Rule 1: the tables by which messages are read (``FIELDS``) are the ones that explain them; a cursor notes what they read, and where.
Rule 2: nothing is raised for what is in the bytes. What does not parse is a problem of its message, behind the fields that do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from enum import Enum, IntFlag
from typing import Any
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import MalformedError, ProtocolError, RequestRefused
from dotnetdiag.ipc import advertise, legacy
from dotnetdiag.ipc.commands import ERROR_ID, OK_ID, SERVER_SET, Command, command_name
from dotnetdiag.ipc.constants import (
    SESSION_USER_EVENTS,
    BufferingMode,
    DumpFlags,
    DumpType,
    EventLevel,
    PerfMapType,
    TraceFormat,
)
from dotnetdiag.ipc.environment import MAX_VARIABLES, EnvironmentReply
from dotnetdiag.ipc.eventpipe import Providers
from dotnetdiag.ipc.fields import (
    HRESULT,
    TEXT,
    U16,
    U32,
    U64,
    Bool,
    Bytes,
    Constant,
    Field,
    Fields,
    Guid,
    HResultKind,
    Kind,
    Text,
    Unsigned,
    read_count,
    read_text,
)
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC
from dotnetdiag.ipc.hresults import hresult_name
from dotnetdiag.ipc.messages import OkReply, Request
from dotnetdiag.ipc.noting import Note, NotingCursor
from dotnetdiag.ipc.process_info import ProcessInfo2Reply, ProcessInfo3Reply, ProcessInfoReply
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.requests import STREAMING, USER_EVENTS
from dotnetdiag.ipc.values import Value

MALFORMED = "to a request like this runtimes answer BAD_ENCODING, or die of it (§21.1)"
LEGACY_REPLY_SIZE = 8
SHOWN_BYTES = 32
"""Of bytes that say nothing, so many are shown."""


class Sender(Enum):
    """Who says it."""

    TOOL = "tool"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedField:
    """A value and its place. ``name`` as in the document (``provider[0].level``); ``offset`` from the first byte of its sender;
    ``value``: a number, text, truth, None, or numbers; GUIDs and bytes are texts. ``meaning``: the name that a number has, or ``""``.
    """

    name: str
    offset: int
    size: int
    type: str
    value: int | str | bool | tuple[int, ...] | None
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """What was said at once, by one side.

    ``kind``: ``advertise``, ``request``, ``ok``, ``error``; ``environment`` (the block behind its reply), ``stream`` (a session's bytes begin),
    ``stream end``; ``byte`` (that carries a descriptor); ``legacy request``, ``legacy reply``; ``bytes`` (of nothing known). ``name``: the
    command that it is or answers, of a stream its format. ``sender``: None where that cannot be told. ``offset`` and ``size`` in bytes of its sender,
    those that a capture lacks included: a ``stream`` has the size 0, its end that of all.
    """

    kind: str
    name: str
    sender: Sender | None
    offset: int
    size: int
    fields: tuple[ExplainedField, ...] = ()
    problems: tuple[str, ...] = ()


Asked = type[Request[Any]] | type[legacy.LegacyRequest] | None
"""What a reply answers; None: that is not known."""

_HEADER_FIELDS = (
    Field("size", "size", U16),
    Field("command_set", "command set", Unsigned(1)),
    Field("command_id", "command id", Unsigned(1)),
    Field("reserved", "reserved", U16),
)
_SETS = {1: "Dump", 2: "EventPipe", 3: "Profiler", 4: "Process", SERVER_SET: "Server"}
_SESSION_TYPES = {0: "streaming", SESSION_USER_EVENTS: "user_events"}
_ENUMS: dict[str, Callable[[int], Enum]] = {
    "level": EventLevel,
    "format": TraceFormat,
    "dumpType": DumpType,
    "sessionBufferMode": BufferingMode,
}
_GUESSES: dict[int, type[OkReply]] = {4: ResultReply, 6: EnvironmentReply, 8: SessionReply}
_INFORMATION = (ProcessInfo3Reply, ProcessInfo2Reply, ProcessInfoReply)


def explain_message(
    data: bytes, asked: Asked = None, *, offset: int = 0, missing: int = 0
) -> tuple[ExplainedMessage, Value | None]:
    """A message of at least a header, whose magic is right; and the message itself, where its fields could be read. ``asked``: what it
    answers, should it be a reply. ``missing``: so many of its bytes a capture lacks; ``data`` are those before them.
    """
    reading = _Reading(data, "message", offset=offset)
    reading.cursor.skip(len(MAGIC), "magic")
    header: dict[str, Any] = {}
    reading.read(_HEADER_FIELDS, header)
    code = header["command_set"] << 8 | header["command_id"]
    is_reply = header["command_set"] == SERVER_SET
    reading.fields = [_named(field, code) for field in reading.fields]
    if header["size"] < HEADER_SIZE:
        reading.problems.append(
            f"size {header['size']} is less than the header's {HEADER_SIZE}: a runtime answers BAD_ENCODING"
        )
    else:
        reading.is_to_have(header["size"], missing, f"size says {header['size']} bytes, and {len(data)} came")
    if header["reserved"]:
        reading.problems.append("reserved is not 0; runtimes do not look at it")
    value: Value | None = None
    if is_reply and header["command_id"] in (OK_ID, ERROR_ID):
        is_ok = header["command_id"] == OK_ID
        kind = "ok" if is_ok else "error"
        name = _name_of(asked)
        if is_ok:
            value = _reply(reading, asked)
        else:
            _error(reading)
    elif code in STREAMING:
        kind, name = "request", Command(code).name
        value = _request(reading, Command(code), data)
    else:
        kind, name = ("bytes", "") if is_reply else ("request", command_name(code))
        reading.problems.append(
            "neither OK nor Error" if is_reply else "no such command is known: a runtime answers UNKNOWN_COMMAND"
        )
        reading.rest("payload")
    return reading.message(kind, name, Sender.RUNTIME if is_reply else Sender.TOOL), value


def explain_advertise(data: bytes, *, offset: int = 0, missing: int = 0) -> ExplainedMessage:
    """The 34 bytes of an advertise, or fewer."""
    reading = _Reading(data, "advertise", offset=offset)
    reading.is_to_have(advertise.SIZE, missing)
    reading.cursor.skip(min(len(advertise.MAGIC), reading.cursor.left))
    reading.read(advertise.Advertise.FIELDS)
    return reading.message("advertise", "Advertise", Sender.RUNTIME)


def explain_environment(data: bytes, size: int, *, offset: int = 0, missing: int = 0) -> ExplainedMessage:
    """The block of an environment, of which the reply has promised ``size`` bytes."""
    reading = _Reading(data, "environment", offset=offset)
    reading.is_to_have(size, missing, f"the reply has promised {size} bytes, and {len(data)} came")
    cursor, numbers = reading.cursor, itertools.count()
    try:
        count = read_count(cursor, "entry", 4)
        if count > MAX_VARIABLES:
            raise cursor.fail(f"{count} variables are more than the limit of {MAX_VARIABLES}")
        for _ in range(count):
            read_text(cursor, "entry")
    except ProtocolError as error:
        reading.fails(error)
    for field in _folded(cursor.notes):
        reading.fields.append(_renamed(field, f"entry[{next(numbers)}]") if field.name == "entry" else field)
    if not reading.problems:
        reading.rest("trailing")
    return reading.message("environment", Command.ProcessEnvironment.name, Sender.RUNTIME)


def explain_legacy_request(data: bytes, *, offset: int = 0) -> tuple[ExplainedMessage, legacy.LegacyRequest | None]:
    """A request from before V1, whose type is known."""
    kind = legacy.REQUESTS[legacy.RequestType(int.from_bytes(data[:4], "little"))]
    reading = _Reading(data, kind.TYPE.name, offset=offset)
    head = (Field("type", "request type", U32), Field("client_pid", "client pid", U32))
    values: dict[str, Any] = {}
    is_read = reading.read((*head, *kind.FIELDS), values)
    reading.fields = [
        _renamed(one, one.name, kind.TYPE.name if one.name == "request type" else _enum_name(DumpType, one.value))
        if one.name in ("request type", "type")
        else one
        for one in reading.fields
    ]
    request = None
    if is_read:
        values.pop("type")
        trailing = reading.rest("trailing")
        request = kind(**values, trailing=b"")
        if trailing:
            reading.problems.append(
                f"{trailing} bytes behind the request; in one file of both ways they may be the reply"
            )
        if said := request.refusal():
            reading.problems.append(said)
    return reading.message("legacy request", kind.TYPE.name, Sender.TOOL), request


def explain_legacy_reply(
    data: bytes, asked: type[legacy.LegacyRequest], *, offset: int = 0, missing: int = 0
) -> ExplainedMessage:
    """The one u64 that answers a request from before V1."""
    reading = _Reading(data, "legacy reply", offset=offset)
    reading.is_to_have(LEGACY_REPLY_SIZE, missing)
    if asked.TYPE in (legacy.RequestType.GenerateCoreDump, legacy.RequestType.AttachProfiler):
        reading.read((Field("value", "hr", HRESULT), Field("high", "unused", U32)))
    elif reading.read((Field("value", "sessionId", U64),)) and reading.fields[0].value == 0:
        reading.problems.append("session 0: there is none")
    return reading.message("legacy reply", asked.TYPE.name, Sender.RUNTIME)


def unknown_bytes(data: bytes, size: int, why: str, sender: Sender | None, *, offset: int) -> ExplainedMessage:
    """``size`` bytes that begin with ``data`` and are no message."""
    shown = data[:SHOWN_BYTES]
    field = ExplainedField(name="bytes", offset=offset, size=size, type="bytes", value=shown.hex(" "))
    return ExplainedMessage(
        kind="bytes", name="", sender=sender, offset=offset, size=size, fields=(field,) if data else (), problems=(why,)
    )


# -- a message while it is read


class _Reading:
    """The fields of a message so far, and what is wrong with it. ``is_whole``: all its bytes are there."""

    def __init__(self, data: bytes, where: str, *, offset: int) -> None:
        self.cursor = NotingCursor(data, base=offset, where=where, error=ProtocolError)
        self.fields: list[ExplainedField] = []
        self.problems: list[str] = []
        self.is_whole = True
        self._offset, self._size, self._is_missing = offset, len(data), False

    @property
    def left(self) -> int:
        """Bytes that are not read yet, those that a capture lacks included."""
        return self._size - self.cursor.position

    def is_to_have(self, size: int, missing: int, too_few: str = "") -> None:
        """So many bytes, of which a capture lacks ``missing``; what is to be said where fewer came."""
        if missing:
            self.problems.append(f"{missing} of its {size} bytes are not in the capture")
            self._size, self._is_missing = size, True
        elif size > self._size and too_few:
            self.problems.append(too_few)
        self.is_whole = not missing and size <= self._size

    def read(self, table: Fields, values: dict[str, Any] | None = None, command: str = "") -> bool:
        """The fields of a table, as far as they can be read, and why not all of them, unless a capture lacks them."""
        cursor, values = self.cursor, {} if values is None else values
        cursor.where = command or cursor.where
        for field in table:
            start, begin = cursor.offset, len(cursor.notes)
            try:
                field.read(cursor, values)
            except MalformedError as error:
                self.fields += _folded(cursor.notes[begin:])
                self.fails(error)
                return False
            if isinstance(field, Constant):
                self.fields.append(_made(field.spec, start, cursor.offset - start, "u32", field.value, command))
            elif isinstance(field.kind, Providers):
                self.fields += _folded(cursor.notes[begin:])
            elif field.name in values:
                self.fields.append(
                    _made(field.spec, start, cursor.offset - start, _type_of(field.kind), values[field.name], command)
                )
        return True

    def fails(self, error: MalformedError) -> None:
        """Why a field cannot be read: by the message itself, unless a capture lacks a part of it."""
        if not self._is_missing:
            self.problems.append(str(error))

    def rest(self, name: str) -> int:
        """The bytes that are left as one field; how many they are."""
        offset, data = self.cursor.offset, self.cursor.rest()
        if data:
            self.fields.append(
                ExplainedField(name=name, offset=offset, size=len(data), type="bytes", value=data.hex(" "))
            )
        return len(data)

    def message(self, kind: str, name: str, sender: Sender) -> ExplainedMessage:
        return ExplainedMessage(
            kind=kind,
            name=name,
            sender=sender,
            offset=self._offset,
            size=self._size,
            fields=tuple(self.fields),
            problems=tuple(self.problems),
        )


# -- bodies


def _request(reading: _Reading, command: Command, data: bytes) -> Request[Any] | None:
    kind = STREAMING[command]
    if command in USER_EVENTS and data[HEADER_SIZE : HEADER_SIZE + 4] == SESSION_USER_EVENTS.to_bytes(4, "little"):
        kind = USER_EVENTS[command]
    values: dict[str, Any] = {}
    if not reading.read(kind.FIELDS, values, command.name):
        if reading.is_whole:
            reading.problems.append(MALFORMED)
        return None
    trailing = reading.rest("trailing")
    request = kind(**values, trailing=data[len(data) - trailing :])
    try:
        request.check()
    except RequestRefused as error:
        reading.problems.append(error.reason)
    else:
        if trailing:
            reading.problems.append(f"{trailing} bytes behind the last field; runtimes do not look at them")
    return request


def _reply(reading: _Reading, asked: Asked) -> OkReply | None:
    if asked is not None and issubclass(asked, Request):
        kind = asked.REPLY
    else:
        kind = _guessed(reading)
        if kind is not OkReply:
            reading.problems.append(f"the request was not seen; taken for a {kind.__name__}")
    values: dict[str, Any] = {}
    if not reading.read(kind.FIELDS, values, kind.__name__):
        return None
    reading.rest("trailing")
    reply = kind(**values)
    if reply.failure():
        reading.problems.append("an OK that carries a failure")
    return reply


def _guessed(reading: _Reading) -> type[OkReply]:
    """What an OK is whose request is not known: by its size, or the information on a process that its bytes are exactly."""
    if reading.left in _GUESSES:
        return _GUESSES[reading.left]
    cursor = reading.cursor
    payload = bytes(cursor.data[cursor.position : cursor.end])
    for kind in _INFORMATION:
        trial = _Reading(payload, "", offset=0)
        if trial.read(kind.FIELDS) and not trial.left:
            return kind
    return OkReply


def _error(reading: _Reading) -> None:
    if not reading.read((Field("hresult", "hr", U32),), {}, "ErrorReply"):
        return
    cursor = reading.cursor
    text = _Reading(bytes(cursor.data[cursor.position : cursor.end]), "ErrorReply", offset=cursor.offset)
    if text.left and text.read((Field("text", "message", TEXT),)):
        reading.fields += text.fields
        cursor.skip(text.cursor.position)
    reading.rest("trailing")


# -- fields


def _type_of(kind: Kind) -> str:
    if isinstance(kind, HResultKind):
        return "int32"
    if isinstance(kind, Unsigned):
        return f"u{8 * kind.size}"
    names: dict[type, str] = {Bool: "bool", Text: "string", Guid: "GUID", Bytes: "bytes"}
    return names.get(type(kind), "bytes")


def _made(name: str, offset: int, size: int, kind: str, value: Any, command: str = "") -> ExplainedField:
    if isinstance(value, UUID):
        value = str(value)
    elif isinstance(value, bytes):
        value = value.hex(" ")
    elif isinstance(value, int) and not isinstance(value, bool):
        value = int(value)
    meaning = _meaning(name, value, command) if isinstance(value, int) and not isinstance(value, bool) else ""
    return ExplainedField(name=name, offset=offset, size=size, type=kind, value=value, meaning=meaning)


def _meaning(name: str, value: int, command: str) -> str:
    last = name.rpartition(".")[2]
    if last in _ENUMS:
        return _enum_name(_ENUMS[last], value)
    if last == "session type":
        return _SESSION_TYPES.get(value, "")
    if last == "hr":
        return hresult_name(value) if value else "S_OK"
    if last == "type" and command == Command.EnablePerfMap.name:
        return _enum_name(PerfMapType, value)
    if last == "flags":
        return _flag_names(DumpFlags, value)
    if last in ("keywords", "rundownKeyword", "sessionId"):
        return f"0x{value:x}"
    return ""


def _enum_name(kind: Callable[[int], Enum], value: Any) -> str:
    try:
        return kind(value).name
    except ValueError:
        return ""


def _flag_names(kind: type[IntFlag], value: int) -> str:
    return "|".join(str(one.name) for one in kind if one.value & value)


def _named(field: ExplainedField, code: int) -> ExplainedField:
    """A field of the header, with the names of its numbers."""
    value = field.value
    assert isinstance(value, int)
    if field.name == "command set":
        return _renamed(field, field.name, _SETS.get(value, ""))
    if field.name == "command id" and code in STREAMING:
        return _renamed(field, field.name, command_name(code))
    if field.name == "command id" and code >> 8 == SERVER_SET:
        return _renamed(field, field.name, {OK_ID: "OK", ERROR_ID: "Error"}.get(value, ""))
    return field


def _renamed(field: ExplainedField, name: str, meaning: str | None = None) -> ExplainedField:
    return ExplainedField(
        name=name,
        offset=field.offset,
        size=field.size,
        type=field.type,
        value=field.value,
        meaning=field.meaning if meaning is None else meaning,
    )


def _name_of(asked: Asked) -> str:
    if asked is None:
        return ""
    return asked.COMMAND.name if issubclass(asked, Request) else asked.TYPE.name


def _folded(notes: Iterable[Note]) -> list[ExplainedField]:
    """Notes as fields: a length and its characters are a string, a count and its event ids an array; what belongs to a provider says so."""
    made: list[ExplainedField] = []
    rest = list(notes)
    at, prefix, provider, group = 0, "", -1, -1
    while at < len(rest):
        note = rest[at]
        at += 1
        what = note.what
        if what == "keywords":
            provider, group = provider + 1, -1
            prefix = f"provider[{provider}]."
        if what == "event id count":
            ids = []
            while at < len(rest) and rest[at].what == "event id":
                ids.append(int(rest[at].value))
                at += 1
            complete = len(ids) == note.value
            name = prefix + ("event ids" if complete else "event ids (cut off)")
            made.append(_made(name, note.offset, 4 + 4 * len(ids), "array<u32>", tuple(ids)))
        elif what.startswith("length of "):
            inner = what.removeprefix("length of ")
            if inner == "tracepoint name":
                group += 1
                prefix = f"provider[{provider}].tracepoint[{group}]."
            name = prefix + inner.removeprefix("provider ").removeprefix("tracepoint ")
            if at < len(rest) and rest[at].what == inner:
                made.append(_text(name, note, rest[at]))
                at += 1
            elif note.value == 0:
                made.append(_made(name, note.offset, 4, "string", None))
            else:
                made.append(_made(prefix + what, note.offset, note.size, note.type, note.value))
        elif what == "filter enable":
            made.append(_made(prefix + what, note.offset, note.size, "bool", note.value != 0))
        else:
            made.append(_made(prefix + what, note.offset, note.size, note.type, note.value))
    return made


def _text(name: str, length: Note, characters: Note) -> ExplainedField:
    assert isinstance(characters.value, bytes)
    text = characters.value.decode("utf-16-le", "surrogatepass").removesuffix("\0")
    return _made(name, length.offset, length.size + characters.size, "string", text)
