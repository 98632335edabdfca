"""One event as an object: a view of one row, made when somebody asks for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import EventSchema
from dotnetdiag.table.html import visible
from dotnetdiag.trace.header import ALIASES, COLUMNS, HEADER, PAYLOAD

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ATTRIBUTES = frozenset(
    (
        "activity",
        "bytes",
        "ms",
        "payload",
        "pid",
        "related",
        "schema",
        "stack_id",
        "tid",
        "time_ns",
        "time",
        "provider",
        "event",
    )
)


class Event:
    """Header values as attributes, payload fields as attributes or items (``event.Count``, ``event["Count"]``).

    Where a field has the name of a header value, ``event["payload.…"]`` has it. ``payload`` is a dict in the order of the schema.
    ``time_ns`` is UTC in ns since 1970, None where 64 bits do not hold it (before 1677 and after 2262), ``ms`` counts from the start of
    the trace, ``stack`` is an id.
    """

    __slots__ = (
        "_names", "_payload", "_values", "activity", "bytes", "ms", "pid", "related", "schema", "stack", "tid", "time_ns",
    )  # fmt: skip
    COLUMNS: ClassVar = ("time", "ms", "pid", "tid", "activity", "related", "stack_id", "bytes")

    def __init__(
        self,
        schema: EventSchema,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        time: int | None,
        ms: float,
        pid: int | None,
        tid: int,
        activity: UUID | None,
        related: UUID | None,
        stack: int,
        bytes: int,
    ) -> None:
        """``names`` and ``values`` are those of the payload; its dict is made when it is asked for. Called a million times: by position."""
        self.schema, self._names, self._values = schema, names, values
        self.time_ns, self.ms, self.pid, self.tid = time, ms, pid, tid
        self.activity, self.related, self.stack, self.bytes = activity, related, stack, bytes
        self._payload: dict[str, Any] | None = None

    @property
    def payload(self) -> dict[str, Any]:
        """The fields."""
        if self._payload is None:
            self._payload = dict(zip(self._names, self._values, strict=True))
        return self._payload

    @property
    def time(self) -> datetime | None:
        """UTC, cut to microseconds; None where ``time_ns`` is."""
        if self.time_ns is None:
            return None
        return _EPOCH + timedelta(microseconds=self.time_ns // 1000)

    @property
    def stack_id(self) -> int:
        """As ``stack``: what the column is called."""
        return self.stack

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.schema.provider

    @property
    def event(self) -> str:
        """The event's name as TraceEvent prints it; ``schema.manifest_name`` is the other one."""
        return self.schema.name

    name = event

    def __getattr__(self, name: str) -> Any:
        if name == "payload" or name in Event.__slots__:  # of one that is being copied, and has none yet
            raise AttributeError(name)
        try:
            return self.payload[name]
        except KeyError:
            raise AttributeError(f"{self.schema.name} has no field {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise UsageError(f"event[{name!r}]: the name of a field; all of them are event.payload")
        bare = name.removeprefix(PAYLOAD)
        if bare in self.payload and (bare != name or name not in COLUMNS):
            return self.payload[bare]
        bare = name.removeprefix(HEADER)
        bare = ALIASES.get(bare, bare)
        if bare in _ATTRIBUTES:
            return getattr(self, bare)
        raise UnknownName("field", name, near(name, tuple(self.payload)), where=f"in {self.schema.name}")

    __iter__ = None  # not its fields one after the other: dict(event.payload), list(event.payload)

    def __contains__(self, name: object) -> bool:
        return name in self.payload

    def __repr__(self) -> str:
        shown = " ".join(f"{name}={value!r}" for name, value in self.payload.items())
        return visible(f"<{self.schema.provider}/{self.schema.name} {self.ms:.4f} ms tid {self.tid} {shown}>")
