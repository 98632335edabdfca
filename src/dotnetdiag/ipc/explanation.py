"""What bytes of the protocol say, for people: a message with its fields, where each stands, what its value means, and what is wrong with it.

Rule 1: the tables by which messages are read (``FIELDS``) are the ones that explain them; a cursor notes what they read, and where.
Rule 2: nothing is raised for what is in the bytes. What does not parse is a problem of its message, behind the fields that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Any
from uuid import UUID

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
    command that it is or answers, of a stream its format. ``sender``: None where that cannot be told. ``offset`` and ``size`` in bytes of its sender:
    a ``stream`` has the size 0, its end that of all.
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


def explain_message(data: bytes, asked: Asked = None, *, offset: int = 0) -> tuple[ExplainedMessage, Value | None]:
    """A message of at least a header, whose magic is right; and the message itself, where its fields could be read. ``asked``: what it
    answers, should it be a reply.
    """
    cursor = NotingCursor(data, base=offset, where="message", error=ProtocolError)
    cursor.skip(len(MAGIC), "magic")
    header: dict[str, Any] = {}
    fields, _ = _read(cursor, _HEADER_FIELDS, header, "")
    code = header["command_set"] << 8 | header["command_id"]
    is_reply = header["command_set"] == SERVER_SET
    fields = [_named(field, code) for field in fields]
    problems = []
    if header["size"] < HEADER_SIZE:
        problems.append(
            f"size {header['size']} is less than the header's {HEADER_SIZE}: a runtime answers BAD_ENCODING"
        )
    elif header["size"] > len(data):
        problems.append(f"size says {header['size']} bytes, and {len(data)} came")
    if header["reserved"]:
        problems.append("reserved is not 0; runtimes do not look at it")
    value: Value | None = None
    if is_reply and header["command_id"] in (OK_ID, ERROR_ID):
        is_ok = header["command_id"] == OK_ID
        kind = "ok" if is_ok else "error"
        name = _name_of(asked)
        body, said, value = _reply(cursor, asked) if is_ok else _error(cursor)
    elif code in STREAMING:
        kind, name = "request", Command(code).name
        body, said, value = _request(cursor, Command(code), data)
    else:
        kind, name = ("bytes", "") if is_reply else ("request", command_name(code))
        said = ["neither OK nor Error" if is_reply else "no such command is known: a runtime answers UNKNOWN_COMMAND"]
        body = _rest(cursor, "payload")
    made = ExplainedMessage(
        kind=kind,
        name=name,
        sender=Sender.RUNTIME if is_reply else Sender.TOOL,
        offset=offset,
        size=len(data),
        fields=(*fields, *body),
        problems=(*problems, *said),
    )
    return made, value


def explain_advertise(data: bytes, *, offset: int = 0) -> ExplainedMessage:
    """The 34 bytes of an advertise, or fewer."""
    cursor = NotingCursor(data, base=offset, where="advertise", error=ProtocolError)
    cursor.skip(min(len(advertise.MAGIC), cursor.left))
    fields, problem = _read(cursor, advertise.Advertise.FIELDS, {}, "")
    return ExplainedMessage(
        kind="advertise",
        name="Advertise",
        sender=Sender.RUNTIME,
        offset=offset,
        size=len(data),
        fields=tuple(fields),
        problems=(problem,) if problem else (),
    )


def explain_environment(data: bytes, size: int, *, offset: int = 0) -> ExplainedMessage:
    """The block of an environment, of which the reply has promised ``size`` bytes."""
    cursor = NotingCursor(data, base=offset, where="environment", error=ProtocolError)
    fields: list[ExplainedField] = []
    problems = [] if len(data) == size else [f"the reply has promised {size} bytes, and {len(data)} came"]
    try:
        count = read_count(cursor, "entry", 4)
        if count > MAX_VARIABLES:
            raise cursor.fail(f"{count} variables are more than the limit of {MAX_VARIABLES}")
        for _ in range(count):
            read_text(cursor, "entry")
    except ProtocolError as error:
        problems.append(str(error))
    names = iter(range(len(cursor.notes)))
    for field in _folded(cursor.notes):
        fields.append(_renamed(field, f"entry[{next(names)}]") if field.name == "entry" else field)
    if not problems and cursor.left:
        fields += _rest(cursor, "trailing")
    return ExplainedMessage(
        kind="environment",
        name=Command.ProcessEnvironment.name,
        sender=Sender.RUNTIME,
        offset=offset,
        size=len(data),
        fields=tuple(fields),
        problems=tuple(problems),
    )


def explain_legacy_request(data: bytes, *, offset: int = 0) -> tuple[ExplainedMessage, legacy.LegacyRequest | None]:
    """A request from before V1, whose type is known."""
    kind = legacy.REQUESTS[legacy.RequestType(int.from_bytes(data[:4], "little"))]
    cursor = NotingCursor(data, base=offset, where=kind.TYPE.name, error=ProtocolError)
    head = (Field("type", "request type", U32), Field("client_pid", "client pid", U32))
    values: dict[str, Any] = {}
    fields, problem = _read(cursor, (*head, *kind.FIELDS), values, "")
    fields[0] = _renamed(fields[0], fields[0].name, kind.TYPE.name)
    fields = [_renamed(one, one.name, _enum_name(DumpType, one.value)) if one.name == "type" else one for one in fields]
    problems, request = [problem] if problem else [], None
    if not problem:
        values.pop("type")
        trailing = _rest(cursor, "trailing")
        fields += trailing
        request = kind(**values, trailing=b"")
        if trailing:
            problems.append(
                f"{trailing[0].size} bytes behind the request; in one file of both ways they may be the reply"
            )
        if said := request.refusal():
            problems.append(said)
    made = ExplainedMessage(
        kind="legacy request",
        name=kind.TYPE.name,
        sender=Sender.TOOL,
        offset=offset,
        size=len(data),
        fields=tuple(fields),
        problems=tuple(problems),
    )
    return made, request


def explain_legacy_reply(data: bytes, asked: type[legacy.LegacyRequest], *, offset: int = 0) -> ExplainedMessage:
    """The one u64 that answers a request from before V1."""
    cursor = NotingCursor(data, base=offset, where="legacy reply", error=ProtocolError)
    is_result = asked.TYPE in (legacy.RequestType.GenerateCoreDump, legacy.RequestType.AttachProfiler)
    table = (
        (Field("value", "hr", HRESULT), Field("high", "unused", U32))
        if is_result
        else (Field("value", "sessionId", U64),)
    )
    fields, problem = _read(cursor, table, {}, "")
    problems = [problem] if problem else []
    if not is_result and fields and fields[0].value == 0:
        problems.append("session 0: there is none")
    return ExplainedMessage(
        kind="legacy reply",
        name=asked.TYPE.name,
        sender=Sender.RUNTIME,
        offset=offset,
        size=len(data),
        fields=tuple(fields),
        problems=tuple(problems),
    )


def unknown_bytes(data: bytes, size: int, why: str, sender: Sender | None, *, offset: int) -> ExplainedMessage:
    """``size`` bytes that begin with ``data`` and are no message."""
    shown = data[:SHOWN_BYTES]
    field = ExplainedField(name="bytes", offset=offset, size=size, type="bytes", value=shown.hex(" "))
    return ExplainedMessage(
        kind="bytes", name="", sender=sender, offset=offset, size=size, fields=(field,) if data else (), problems=(why,)
    )


# -- bodies


def _request(
    cursor: NotingCursor, command: Command, data: bytes
) -> tuple[list[ExplainedField], list[str], Request[Any] | None]:
    kind = STREAMING[command]
    if command in USER_EVENTS and data[HEADER_SIZE : HEADER_SIZE + 4] == SESSION_USER_EVENTS.to_bytes(4, "little"):
        kind = USER_EVENTS[command]
    values: dict[str, Any] = {}
    fields, problem = _read(cursor, kind.FIELDS, values, command.name)
    if problem:
        return fields, [problem, MALFORMED], None
    trailing = _rest(cursor, "trailing")
    request = kind(**values, trailing=data[len(data) - trailing[0].size :] if trailing else b"")
    problems = []
    try:
        request.check()
    except RequestRefused as error:
        problems.append(error.reason)
    if trailing and not problems:
        problems.append(f"{trailing[0].size} bytes behind the last field; runtimes do not look at them")
    return fields + trailing, problems, request


def _reply(cursor: NotingCursor, asked: Asked) -> tuple[list[ExplainedField], list[str], OkReply | None]:
    problems: list[str] = []
    if asked is not None and issubclass(asked, Request):
        kind = asked.REPLY
    else:
        kind = _guessed(cursor)
        if kind is not OkReply:
            problems.append(f"the request was not seen; taken for a {kind.__name__}")
    values: dict[str, Any] = {}
    fields, problem = _read(cursor, kind.FIELDS, values, kind.__name__)
    if problem:
        return fields, [*problems, problem], None
    fields += _rest(cursor, "trailing")
    reply = kind(**values)
    if reply.failure():
        problems.append("an OK that carries a failure")
    return fields, problems, reply


def _guessed(cursor: NotingCursor) -> type[OkReply]:
    """What an OK is whose request is not known: by its size, or the information on a process that its bytes are exactly."""
    if cursor.left in _GUESSES:
        return _GUESSES[cursor.left]
    payload = bytes(cursor.data[cursor.position : cursor.end])
    for kind in _INFORMATION:
        trial = NotingCursor(payload, base=0, where="", error=ProtocolError)
        if not _read(trial, kind.FIELDS, {}, "")[1] and not trial.left:
            return kind
    return OkReply


def _error(cursor: NotingCursor) -> tuple[list[ExplainedField], list[str], None]:
    fields, problem = _read(cursor, (Field("hresult", "hr", U32),), {}, "ErrorReply")
    fields = [_named(field, 0) for field in fields]
    if problem:
        return fields, [problem], None
    if cursor.left:
        position, count = cursor.position, len(cursor.notes)
        text, problem = _read(cursor, (Field("text", "message", TEXT),), {}, "ErrorReply")
        if problem:  # no text: bytes
            cursor.position = position
            del cursor.notes[count:]
        else:
            fields += text
    return fields + _rest(cursor, "trailing"), [], None


def _rest(cursor: NotingCursor, name: str) -> list[ExplainedField]:
    if not cursor.left:
        return []
    offset, data = cursor.offset, cursor.rest()
    return [ExplainedField(name=name, offset=offset, size=len(data), type="bytes", value=data.hex(" "))]


# -- fields


def _read(
    cursor: NotingCursor, table: Fields, values: dict[str, Any], command: str
) -> tuple[list[ExplainedField], str]:
    """The fields of a table, as far as they can be read, and why not all of them."""
    made: list[ExplainedField] = []
    cursor.where = command or cursor.where
    for field in table:
        start, begin = cursor.offset, len(cursor.notes)
        try:
            field.read(cursor, values)
        except MalformedError as error:
            made += _folded(cursor.notes[begin:])
            return made, str(error)
        if isinstance(field, Constant):
            made.append(_made(field.spec, start, cursor.offset - start, "u32", field.value, command))
        elif isinstance(field.kind, Providers):
            made += _folded(cursor.notes[begin:])
        elif field.name in values:
            made.append(
                _made(field.spec, start, cursor.offset - start, _type_of(field.kind), values[field.name], command)
            )
    return made, ""


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
