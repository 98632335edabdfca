"""One event as an object: a view of one row, made when somebody asks for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from dotnetdiag.events import EventSchema
from dotnetdiag.trace.header import COLUMNS, HEADER, PAYLOAD

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event:
    """Header values as attributes, payload fields as attributes or items (``event.Count``, ``event["Count"]``).

    Where a field has the name of a header value, ``event["payload.…"]`` has it. ``payload`` is a dict in the order of the schema.
    ``time_ns`` is UTC in ns since 1970, None where 64 bits do not hold it (before 1677 and after 2262), ``ms`` counts from the start of
    the trace, ``stack`` is an id.
    """

    __slots__ = ("activity", "bytes", "ms", "payload", "pid", "related", "schema", "stack", "tid", "time_ns")
    COLUMNS: ClassVar = ("time", "ms", "pid", "tid", "activity", "related", "stack", "bytes")

    def __init__(
        self,
        *,
        schema: EventSchema,
        payload: dict[str, Any],
        time: int | None,
        ms: float,
        pid: int | None,
        tid: int,
        activity: UUID | None,
        related: UUID | None,
        stack: int,
        bytes: int,
    ) -> None:
        self.schema, self.payload = schema, payload
        self.time_ns, self.ms, self.pid, self.tid = time, ms, pid, tid
        self.activity, self.related, self.stack, self.bytes = activity, related, stack, bytes

    @property
    def time(self) -> datetime | None:
        """UTC, cut to microseconds; None where ``time_ns`` is."""
        if self.time_ns is None:
            return None
        return _EPOCH + timedelta(microseconds=self.time_ns // 1000)

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
        try:
            return object.__getattribute__(self, "payload")[name]
        except KeyError:
            raise AttributeError(f"{self.schema.name} has no field {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        bare = name.removeprefix(PAYLOAD)
        if bare in self.payload and (bare != name or name not in COLUMNS):
            return self.payload[bare]
        bare = name.removeprefix(HEADER)
        if bare in self.__slots__ or bare in ("time", "provider", "event"):
            return getattr(self, bare)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.payload

    def __repr__(self) -> str:
        shown = " ".join(f"{name}={value!r}" for name, value in self.payload.items())
        return f"<{self.schema.provider}/{self.schema.name} {self.ms:.4f} ms tid {self.tid} {shown}>"
