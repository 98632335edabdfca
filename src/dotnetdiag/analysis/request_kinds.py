"""What begins and ends as a request does: the EventSources that tell of it, and how each is named."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.kept_events import Texts
from dotnetdiag.analysis.sql_routes import sql_route
from dotnetdiag.events import EventSchema

Array: TypeAlias = "np.ndarray[Any, Any]"

LOGGING = "Microsoft-Extensions-Logging"
HOSTING = "Microsoft.AspNetCore.Hosting"
DIAGNOSTIC_SOURCE, ARGUMENTS = "Microsoft-Diagnostics-DiagnosticSource", "Arguments"
"""Where ADO.NET and Entity Framework tell of commands, as far as a session asks for it (the preset ``database``)."""
EVENT_NAME, ERROR = "EventName", "Error"
SCOPE = "scope"
"""What only holds others together: scopes of loggers."""
_SOCKET = re.compile(r"(InterNetwork(?:V6)?):\d{1,4}:\{(\d{1,3}(?:,\d{1,3}){1,126})\}")
_VARIABLE = re.compile(r"(?<=[/?&])(?:\d+|[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})(?=[/?&]|$)")
_QUERY, _VALUE = re.compile(r"\?\S+"), re.compile(r"(?<==)[^&]*")
"""Of an address: what is asked for, and the values in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """Events of a provider that begin and end something, by their names: those of a task, or of the methods ``starts`` and ``stops``. ``label`` makes
    its name of fields of the begin, ``nameless`` is what has none. ``failed`` is the name of an event in it, whose field ``reason`` tells why, by
    ``words`` where it is a number. ``arguments`` are keys of the pairs in the begin's field :data:`ARGUMENTS`, whose values are its name; begins
    without the first of them are of something else.

    Of ends that tell that it failed ``failures`` has the last parts of their :data:`EVENT_NAME`, and why, where the pair :data:`ERROR` does not
    tell; ``state`` are names of a field whose lowest bit is 0 then, and ``code`` of the one that says how. ``failure_ends``: the event that tells of
    a failure is the end, and others may have none.
    """

    name: str
    provider: str
    task: str
    fields: tuple[str, ...] = ()
    label: str = ""
    nameless: str = ""
    status: str = ""
    failed: str = ""
    reason: str = "exceptionMessage"
    starts: str = ""
    stops: str = ""
    words: Mapping[str, str] | None = None
    failures: Mapping[str, str] | None = None
    state: tuple[str, ...] = ()
    code: str = ""
    arguments: tuple[str, ...] = ()
    failure_ends: bool = False

    @property
    def waits(self) -> bool:
        """Whether, where there are no ids of activities, ends are of what their thread has open: of scopes. Of others see ``unnamed_ends``."""
        return self.name == SCOPE

    def begins(self, schema: EventSchema) -> bool:
        """Whether events of a type are its begin."""
        return schema.provider == self.provider and schema.name in _names(self.starts, self.task, "Start")

    def ends(self, schema: EventSchema) -> bool:
        """Whether they are its end."""
        is_named = schema.provider == self.provider and schema.name in _names(self.stops, self.task, "Stop")
        return is_named or (self.failure_ends and self.fails(schema))

    def fails(self, schema: EventSchema) -> bool:
        """Whether they tell that it failed."""
        return bool(self.failed) and schema.provider == self.provider and schema.name == self.failed


def _names(method: str, task: str, opcode: str) -> tuple[str, ...]:
    """What events of an opcode are called: by their task, or by a method whose name says no opcode; files of 3.1 do not tell it."""
    return (f"{method}/{opcode}", method) if method else (f"{task}/{opcode}",)


HTTP, _NAMES, SOCKETS = "System.Net.Http", "System.Net.NameResolution", "System.Net.Sockets"
_KESTREL, _SECURITY = "Microsoft-AspNetCore-Server-Kestrel", "System.Net.Security"
_CLIENT = ("scheme", "host", "port", "pathAndQuery")
_GRPC_STATUS = {
    str(number): f"{name} ({number})"
    for number, name in enumerate((
        *("OK", "Cancelled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied"),
        *("ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable"),
        *("DataLoss", "Unauthenticated"),
    ))
}  # fmt: skip
"""The status codes of gRPC, which stand in its specification."""
KINDS = (
    RequestKind(
        name="server", provider=HOSTING, task="Request", fields=("method", "path"), label="{0} {1}", failed="UnhandledException", reason=""
    ),
    RequestKind(name="kestrel", provider=_KESTREL, task="Request", fields=("method", "path"), label="{0} {1}"),
    RequestKind(name="connection", provider=_KESTREL, task="Connection", fields=("localEndPoint",), label="{0}"),
    RequestKind(
        name="tls",
        provider=_KESTREL,
        task="TlsHandshake",
        label="server",
        failed="TlsHandshakeFailed",
        reason="",
        failure_ends=True,  # and .NET 10 tells no other
    ),
    RequestKind(
        name="client",
        provider=HTTP,
        task="Request",
        fields=_CLIENT,
        label="{0}://{1}:{2}{3}",
        status="statusCode",
        failed="RequestFailed",
    ),
    RequestKind(name="client headers", provider=HTTP, task="RequestHeaders", label="sent"),
    RequestKind(name="client content", provider=HTTP, task="RequestContent", label="sent"),
    RequestKind(name="client answer", provider=HTTP, task="ResponseHeaders", label="headers"),
    RequestKind(name="client answer content", provider=HTTP, task="ResponseContent", label="received"),
    RequestKind(
        name="dns",
        provider=_NAMES,
        task="Resolution",
        fields=("hostNameOrAddress",),
        label="{0}",
        nameless="(this host)",
        failed="ResolutionFailed",
    ),
    RequestKind(name="connect", provider=SOCKETS, task="Connect", fields=("address",), label="{0}", failed="ConnectFailed"),
    RequestKind(
        name="tls", provider=_SECURITY, task="Handshake", fields=("targetHost",), label="{0}", failed="HandshakeFailed"
    ),
    *(
        RequestKind(
            name="sql",
            provider=provider,
            task="",
            starts="BeginExecute",
            stops="EndExecute",
            fields=("dataSource", "database", "databaseName", "commandText"),  # it has one of both
            label="{0} {1}{2} {3}",
            state=("compositeState", "compositestate"),
            code="sqlExceptionNumber",
        )
        for provider in ("Microsoft.Data.SqlClient.EventSource", "Microsoft-AdoNet-SystemData")
    ),
    *(
        RequestKind(
            name=name,
            provider=provider,
            task="Call",
            fields=("method",),
            label="{0}",
            failed="CallFailed",
            reason="statusCode",
            words=_GRPC_STATUS,
        )
        for name, provider in (("grpc server", "Grpc.AspNetCore.Server"), ("grpc client", "Grpc.Net.Client"))
    ),
    *(
        RequestKind(
            name="sql",
            provider=DIAGNOSTIC_SOURCE,
            task=f"Activity{number}",
            arguments=("CommandText", "Database", "DataSource"),
            failures={"WriteCommandError": "", "CommandError": "", "CommandCanceled": "canceled"},
        )
        for number in (1, 2)
    ),
    RequestKind(name=SCOPE, provider=LOGGING, task="Activity"),
    RequestKind(name=SCOPE, provider=LOGGING, task="ActivityJson"),
)  # fmt: skip

IS_SHOWN = np.array([kind.name != SCOPE for kind in KINDS])
"""Of each kind whether its spans are shown."""
TELLS_ENDS = np.array([not kind.failure_ends for kind in KINDS])
"""Of each kind whether one that has no end is under way."""
IS_SERVED = np.array([kind.provider == HOSTING for kind in KINDS])
"""Of each kind whether its spans are what a server answers."""


def readable(text: str) -> str:
    """An address as people write it, of how .NET prints a SocketAddress: ``InterNetworkV6:28:{port, flow, address, scope}``."""
    found = _SOCKET.fullmatch(text)
    if found is None:
        return text
    numbers = [int(one) for one in found[2].split(",")]
    start, length = (2, 4) if found[1] == "InterNetwork" else (6, 16)
    if max(numbers) > 255 or len(numbers) < start + length:
        return text
    address = ip_address(bytes(numbers[start : start + length]))
    plain = getattr(address, "ipv4_mapped", None) or address
    port = numbers[0] << 8 | numbers[1]
    return f"[{plain}]:{port}" if plain.version == 6 else f"{plain}:{port}"


def routes(labels: Sequence[str], label: Array) -> tuple[list[str], Array]:
    """Names without what varies in them: numbers and ids between slashes, values of queries, and of SQL what :func:`.sql_route` leaves out."""
    texts = Texts()
    of = np.array([texts.number(_way(one)) for one in labels], np.int64)
    return texts.names, of.astype(np.int32)[label] if len(label) else np.zeros(0, np.int64)


def _way(label: str) -> str:
    route = sql_route(label)
    if route is not None:
        return route
    return _VARIABLE.sub("*", _QUERY.sub(lambda query: _VALUE.sub("*", query[0]), label))
