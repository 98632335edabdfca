"""Do something at an event of a recording, end it for one: its stream is read while it is saved.

Which event is said by the three options of dotnet-trace, or by one text (``parse_event``)::

    event      := [provider "/"] name ["where" filter]

Names are in any spelling, the filter is that of ``trace.where``: ``GC/Start where Depth >= 2 and Reason == Induced``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError, UnknownName, UsageError, near
from dotnetdiag.events import EventSchema, Source, catalogue, decode, resolve
from dotnetdiag.events.carried import CarriedTypes
from dotnetdiag.events.names import matches
from dotnetdiag.live.events import require_stacks
from dotnetdiag.live.windows import WindowMaker, with_inferred
from dotnetdiag.nettrace import EventBatch, HeaderColumns, Reader
from dotnetdiag.recipes.known_events import UNASKED, events_of, named, require_known
from dotnetdiag.trace.events import passing
from dotnetdiag.trace.header import PAYLOAD, key_meant
from dotnetdiag.trace.where import Where

Mask: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

_FILTER = "payload filter"
_EVENT = "event"
_WHERE = re.compile(r"(?:^|\s)where(?=\s|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingEvent:
    """An event that is waited for, as one that ends a recording. ``event`` in any spelling (``GC/Start``, ``GCStart_V2``); None: any of the
    provider, of whose name the case does not count either; no provider: any that is recorded.

    ``payload``: field names and the texts that their values must have: numbers as digits, or by the name that the runtime gives to them
    (``Reason:Induced``), booleans True or False. ``where`` is a filter in the language of ``Trace.events``. ``hit``: which of those that pass
    it is, counted from 1.
    """

    provider: str | None
    event: str | None = None
    payload: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    hit: int = 1

    @property
    def title(self) -> str:
        """What people call it."""
        return self.event or f"an event of {self.provider}"


def parse_event(text: str, providers: Sequence[str], *, hit: int = 1) -> StoppingEvent:
    """The event that a text means, in a session of ``providers``. Raises GrammarError, and UnknownName for a provider that is not recorded,
    for an event, a field or a value that the providers are known not to have.
    """
    if hit < 1:
        raise UsageError(f"hit {hit} of an event: the first is 1")
    found = _WHERE.search(text)
    name = (text if found is None else text[: found.start()]).strip()
    if not name:
        raise GrammarError(_EVENT, text, 0, "write Provider/Event or Event, and perhaps: where CONDITION")
    where = None if found is None else _filter(text, found.end())
    provider, event = _provider_and_event(name, providers)
    asked = providers if provider is None else (provider,)
    require_known(asked, () if event is None else (event,), (), where)
    return StoppingEvent(provider=provider, event=event, where=None if where is None else where.text, hit=hit)


def _filter(text: str, start: int) -> Where:
    """The condition, whose mistakes are told at their place in the whole text."""
    condition = text[start:]
    try:
        where = Where(condition)
    except GrammarError as error:
        raise GrammarError(_EVENT, text, start + error.position, error.problem) from error
    require_stacks(where, kept=False)
    return where


def _provider_and_event(name: str, providers: Sequence[str]) -> tuple[str | None, str | None]:
    """Names of events have slashes, too: what stands before the first is a provider where it is recorded, or known."""
    recorded = {one.lower() for one in (*providers, *UNASKED)}
    if name.lower() in recorded:
        return name, None
    head, slash, rest = name.partition("/")
    if slash and head.lower() in recorded:
        return head, rest.strip()
    unrecorded = head if slash and events_of(head) is not None else name if events_of(name) is not None else None
    if unrecorded is not None:
        raise UnknownName("provider", unrecorded, near(unrecorded, providers), where="among those that are recorded")
    return None, name


def require_recorded(wanted: StoppingEvent, providers: Sequence[str]) -> None:
    """Raises UnknownName where a session does not record the event's provider."""
    if wanted.provider is None or wanted.provider.lower() in {name.lower() for name in (*providers, *UNASKED)}:
        return
    raise UnknownName(
        "provider", wanted.provider, near(wanted.provider, providers), where="among those that are recorded"
    )


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
    known = None if wanted.provider is None else events_of(wanted.provider)
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
    """Fed with a session's bytes; calls ``on_seen`` when the event has come, ``delay_s`` later: once, or ``again`` for every further such
    number of hits. ``missing`` names fields the event has not.
    """

    def __init__(
        self,
        wanted: StoppingEvent,
        on_seen: Callable[[], None],
        *,
        delay_s: float = 0.0,
        again: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wanted, self._on_seen = wanted, on_seen
        self.hits = 0
        """Events that have passed."""
        self.seen = False
        self.missing: set[str] = set()
        self._delay_s, self._again, self._clock = delay_s, again, clock
        self._due_at: float | None = None
        self._where = None if wanted.where is None else Where(wanted.where)
        self._reader = Reader()
        self._carried = CarriedTypes(lambda: 1 << 31)
        self._schemas: dict[int, EventSchema | None] = {}
        self._maker = WindowMaker()

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        if self.seen and not self._again:
            return
        before = self.hits
        for batch in self._reader.feed(data):
            self.hits += self._count(self._carried.typed_batch(batch))
        if self.hits // self.wanted.hit > before // self.wanted.hit:
            self.seen = True
            if self._due_at is None:
                self._due_at = self._clock() + self._delay_s
        self.look()

    def look(self) -> None:
        """Call ``on_seen`` if it is time to: also when nothing comes."""
        if self._due_at is not None and self._clock() >= self._due_at:
            self._due_at = None
            self._on_seen()

    def notes(self) -> list[str]:
        """What to tell in the end, one line each."""
        name = self.wanted.title
        if self.seen:
            return [f"Stopped at {name}{f', hit {self.wanted.hit}' if self.wanted.hit > 1 else ''}."]
        if self.missing:
            return [f"The stopping event {name} has no field {', '.join(sorted(self.missing))}."]
        if self.hits:
            return [
                f"The stopping event {name} came {self.hits} of {self.wanted.hit} times before the recording was ended."
            ]
        missed = f"No event of {self.wanted.provider} came"
        if self.wanted.event is not None:
            missed = f"The stopping event {name} did not come"
        return [f"{missed} before the recording was ended."]

    def _count(self, batch: EventBatch) -> int:
        """Events of a batch that pass."""
        count = 0
        for number in np.unique(batch.headers.metadata_id).tolist():
            schema = self._wanted_schema(number, batch)
            if schema is None:
                continue
            rows = batch.headers[batch.headers.metadata_id == number]
            if self.wanted.payload:
                rows = rows[self._with_payload(schema, batch, rows)]
            count += len(rows) if self._where is None else self._passing(number, schema, batch, rows)
        return count

    def _with_payload(self, schema: EventSchema, batch: EventBatch, rows: HeaderColumns) -> Mask:
        table = decode(schema, batch.buffer, rows.payload_offset, rows.payload_length)
        mask = np.ones(len(rows), np.bool_)
        self.missing = {field for field, _ in self.wanted.payload if field not in table}
        for field, value in self.wanted.payload:
            if field in self.missing:
                return np.zeros(len(rows), np.bool_)
            texts = _texts_of(schema, field, value)
            mask &= np.array([str(one) in texts for one in table[field].to_pylist()], np.bool_)
        return mask

    def _passing(self, number: int, schema: EventSchema, batch: EventBatch, rows: HeaderColumns) -> int:
        assert self._where is not None
        if schema.source is Source.NONE and (better := with_inferred(schema, batch, rows)) is not None:
            schema = self._schemas[number] = better
        self._maker.add(batch, rows, {number: schema}, self._reader.info, None)
        count = sum(int(np.count_nonzero(passing(window, self._where))) for window, _ in self._maker.make())
        self.missing = set() if self.hits or count else _unknown_names(self._where, schema)
        return count

    def _wanted_schema(self, number: int, batch: EventBatch) -> EventSchema | None:
        if number not in self._schemas:
            known = batch.metadata.get(number)
            schema = None
            if known is not None:
                info = self._reader.info
                found = resolve(known, info.pointer_size if info is not None else 8)
                if (self.wanted.provider is None or found.provider.lower() == self.wanted.provider.lower()) and (
                    self.wanted.event is None
                    or matches(self.wanted.event, found.provider, found.name, found.manifest_name)
                ):
                    schema = found
            self._schemas[number] = schema
        return self._schemas[number]


def _unknown_names(where: Where, schema: EventSchema) -> set[str]:
    """Names in a filter that mean nothing in the event: no field, no key, no value."""
    fields = {field.name.lower() for field in schema.fields}
    if schema.self_describing:
        fields |= {field.name.lower() for field in schema.fields[0].layout.fields}
    found = set()
    for name in where.names:
        bare = name.lower().removeprefix(PAYLOAD)
        is_key = key_meant(name.lower(), is_field=False) is not None
        if not is_key and name not in where.values_met and not {bare, bare.partition(".")[0]} & fields:
            found.add(name)
    return found


def _texts_of(schema: EventSchema, field: str, value: str) -> tuple[str, ...]:
    """What a value is printed as that is given as a text or by its name."""
    values: Any = catalogue.enumeration(
        schema.provider, next((one for one in schema.fields if one.name == field), None)
    )
    number = None if values is None else values.number(value)
    return (value,) if number is None else (value, str(number))
