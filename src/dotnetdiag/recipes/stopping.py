"""Stop a recording at an event: its stream is read while it is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dotnetdiag.errors import GrammarError, UnknownName, UsageError, near
from dotnetdiag.events import EventSchema, catalogue, decode, resolve
from dotnetdiag.events.carried import CarriedTypes
from dotnetdiag.events.names import matches
from dotnetdiag.nettrace import EventBatch, Reader
from dotnetdiag.recipes.known_events import events_of, named

_FILTER = "payload filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingEvent:
    """The event that ends a recording. ``event`` in any spelling (``GC/Start``, ``GCStart_V2``); None: any of the provider, of whose name
    the case does not count either.

    ``payload``: field names and the texts that their values must have: numbers as digits, or by the name that the runtime gives to them
    (``Reason:Induced``), booleans True or False.
    """

    provider: str
    event: str | None = None
    payload: tuple[tuple[str, str], ...] = ()


def parse_stopping_event(provider: str | None, event: str | None, payload: str | None) -> StoppingEvent | None:
    """The three options of dotnet-trace; the filter is ``field:value[,field:value]``, quotes protect ``:`` and ``,``."""
    if provider is None and (event or payload):
        raise UsageError("to stop at an event needs its provider")
    if payload and not event:
        raise UsageError("to stop at a payload needs the name of its event")
    if provider is None:
        return None
    wanted = StoppingEvent(provider=provider, event=event, payload=_pairs(payload or ""))
    _require_known(wanted)
    return wanted


def _require_known(wanted: StoppingEvent) -> None:
    """Of a provider of the runtime all events are known, and their fields. Raises UnknownName: the recording would never stop."""
    known = events_of(wanted.provider)
    if known is None or wanted.event is None:
        return
    events = named(known, wanted.event, f"in {wanted.provider}")
    by_field = {field: one for one in events for field in one.fields}
    for name, value in wanted.payload:
        if name not in by_field:
            raise UnknownName("field", name, near(name, by_field) or tuple(by_field), where=f"in {events[0].name}")
        values = by_field[name].values(name)
        if values is not None and not value.isdecimal() and values.number(value) is None:
            words = tuple(values.values.values())
            raise UnknownName("value", value, near(value, words) or words, where=f"of {events[0].name}.{name}")


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    if text.count('"') % 2:
        raise GrammarError(_FILTER, text, text.rindex('"'), "this quote is not closed")
    found: list[tuple[str, str]] = []
    position = 0
    for part in _outside_quotes(text, ",") if text else []:
        field, *values = _outside_quotes(part, ":")
        if not _unquoted(field) or not values:
            raise GrammarError(_FILTER, text, position, "write field:value[,field:value]")
        position += len(part) + 1
        found.append((_unquoted(field), _unquoted(":".join(values))))
    return tuple(found)


def _outside_quotes(text: str, separator: str) -> list[str]:
    parts, quoted = [""], False
    for character in text:
        if character == '"':
            quoted = not quoted
        if character == separator and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _unquoted(text: str) -> str:
    bare = text.strip()
    return bare[1:-1] if len(bare) >= 2 and bare[0] == bare[-1] == '"' else bare


class EventWatcher:
    """Fed with a session's bytes; calls ``on_seen`` once, when the event has come. ``missing`` names fields the event has not."""

    def __init__(self, wanted: StoppingEvent, on_seen: Callable[[], None]) -> None:
        self.wanted, self._on_seen = wanted, on_seen
        self.seen = False
        self.missing: set[str] = set()
        self._reader = Reader()
        self._carried = CarriedTypes(lambda: 1 << 31)
        self._schemas: dict[int, EventSchema | None] = {}

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        if self.seen:
            return
        for batch in self._reader.feed(data):
            if not self.seen and self._in(batch):
                self.seen = True
                self._on_seen()

    def notes(self) -> list[str]:
        """What to tell in the end, one line each."""
        name = self.wanted.event or f"an event of {self.wanted.provider}"
        if self.seen:
            return [f"Stopped at {name}."]
        if self.missing:
            return [f"The stopping event {name} has no field {', '.join(sorted(self.missing))}."]
        missed = f"No event of {self.wanted.provider} came"
        if self.wanted.event is not None:
            missed = f"The stopping event {name} did not come"
        return [f"{missed} before the recording was ended."]

    def _in(self, batch: EventBatch) -> bool:
        batch = self._carried.typed_batch(batch)
        for number in np.unique(batch.headers.metadata_id).tolist():
            schema = self._wanted_schema(number, batch)
            if schema is None:
                continue
            if not self.wanted.payload:
                return True
            rows = np.flatnonzero(batch.headers.metadata_id == number)
            table = decode(schema, batch.buffer, batch.headers.payload_offset[rows], batch.headers.payload_length[rows])
            self.missing = {field for field, _ in self.wanted.payload if field not in table}
            if self.missing:
                continue
            columns = [
                (table[field].to_pylist(), _texts_of(schema, field, value)) for field, value in self.wanted.payload
            ]
            if any(all(str(values[row]) in texts for values, texts in columns) for row in range(len(rows))):
                return True
        return False

    def _wanted_schema(self, number: int, batch: EventBatch) -> EventSchema | None:
        if number not in self._schemas:
            known = batch.metadata.get(number)
            schema = None
            if known is not None:
                info = self._reader.info
                found = resolve(known, info.pointer_size if info is not None else 8)
                if found.provider.lower() == self.wanted.provider.lower() and (
                    self.wanted.event is None
                    or matches(self.wanted.event, found.provider, found.name, found.manifest_name)
                ):
                    schema = found
            self._schemas[number] = schema
        return self._schemas[number]


def _texts_of(schema: EventSchema, field: str, value: str) -> tuple[str, ...]:
    """What a value is printed as that is given as a text or by its name."""
    values = catalogue.enumeration(schema.provider, next((one for one in schema.fields if one.name == field), None))
    number = None if values is None else values.number(value)
    return (value,) if number is None else (value, str(number))
