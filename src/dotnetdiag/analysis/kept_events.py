"""What folds keep of events until the end: numbers in columns, window by window, some dozens of bytes for each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.distinct import combined, numbered
from dotnetdiag.analysis.fold import OfTypes
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import ListOf, Struct, Text, numbers_of
from dotnetdiag.trace.scratch import PART_BYTES, Scratch, Stored
from dotnetdiag.trace.symbol_events import RUNTIME
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.text_ids import TextIds

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_LARGEST = float((1 << 63) - 1024)
"""A fraction that whole numbers hold."""
HELD_TEXTS = 1 << 20
"""Bytes of texts that are known by their bytes: of more, what comes is looked up by its text again."""
NONE = -1
"""A field that a version of the event does not have."""
_PLACE = ".place"
"""Among the fields of events that are kept with their places."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Kept:
    """Events of one type in the order in which they came. Ids are i32, or i64 where they are larger. ``fields`` are as numbers, :data:`NONE` where
    a version of the event has none; those of texts say which of the keeper's ``texts``; those of lists have a row of places for each event.
    """

    ms: Array
    pid: Array
    tid: Array
    fields: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(values.nbytes for values in (self.ms, self.pid, self.tid, *self.fields.values()))

    def __getitem__(self, name: str) -> Array:
        return self.fields[name]

    @property
    def place(self) -> Array:
        """Of each its place in the order in which events came (i64, ascending), where they are kept with their :class:`Places`."""
        return self.fields[_PLACE]

    def of(self, rows: Array) -> Kept:
        """Some of them."""
        return Kept(
            self.ms[rows], self.pid[rows], self.tid[rows], {name: values[rows] for name, values in self.fields.items()}
        )

    def threads(self) -> Array:
        """The first row of each thread."""
        return combined([self.pid, self.tid], len(self))[0]

    def of_process(self, pid: int) -> Kept:
        """Those of one process."""
        own = self.pid == pid
        return self if own.all() else self.of(np.flatnonzero(own))


MOST_POOLED, MOST_DIFFERENT = 256 << 20, 1 << 20
"""Bytes of texts that are kept as such, and how many."""
POOLED_IN_FILE = 4 << 20
"""Bytes of these from which on they lie in a file."""
OTHERS = "(others)"
"""The text in the place of those that are too many."""


CUT = "…"
"""The last character of a text that is longer than what is kept of it."""


def cut_at(text: str, longest: int | None) -> str:
    """At most so many characters of it."""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + CUT


class Texts:
    """Different texts, each once: ``most`` of them, and with ``room`` so many characters; those beyond are the last, which says so. Of each at most
    ``longest`` characters; those that are longer end in :data:`CUT`, and are as different as they were: two of :attr:`names` may be alike then.
    """

    def __init__(self, most: int = 1 << 16, *, longest: int | None = None, room: int | None = None) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._most, self.longest, self._room = most, longest, room
        self.has_others = False
        """Whether some were too many."""
        self.has_cut = False
        """Whether some were longer."""
        self._ids, self._of_ids = TextIds(), np.zeros(0, np.int64)

    def __getitem__(self, number: int) -> str:
        return self.names[number] if number >= 0 else ""

    def numbers(self, column: Column | None, count: int) -> Array:
        """Of each row the number of its text; :data:`NONE` where there is no column."""
        if column is None:
            return np.full(count, NONE, np.int64)
        if isinstance(column, Text):
            return self._numbers_of_column(column)
        texts, which = numbered([str(value or "") for value in column.to_pylist()])
        return np.array(self._numbers_of(texts), np.int64)[which] if texts else which

    def _numbers_of_column(self, column: Text) -> Array:
        if self._ids.size_bytes > HELD_TEXTS:  # many that hardly come again
            self._ids, self._of_ids = TextIds(), np.zeros(0, np.int64)
        which = self._ids.of(column)
        fresh = self._ids.texts(len(self._of_ids))
        if fresh:
            self._of_ids = np.append(self._of_ids, self._numbers_of(fresh))
        found: Array = self._of_ids[which]
        return found

    def _numbers_of(self, texts: list[str]) -> list[int]:
        """Of different texts. Of 400,000 exceptions half may have a message of their own, most of them beyond the limit."""
        others = self._numbers.get(OTHERS) if self.has_others else None
        if others is None:
            return [self.number(text) for text in texts]
        known = self._numbers
        return [known.get(self._key(text), others) for text in texts]

    def _key(self, text: str) -> str:
        """By what it is known: of one that is longer than what is kept of it, also by what it says behind."""
        if self.longest is None or len(text) <= self.longest:
            return text
        self.has_cut = True
        return f"{cut_at(text, self.longest)}{hash(text)}"

    def each(self, texts: Sequence[str]) -> Array:
        """Of each its number (i32)."""
        return np.array([self.number(text) for text in texts], np.int32)

    def number(self, text: str) -> int:
        """Its number, a new one for a new text."""
        key = self._key(text)
        found = self._numbers.get(key)
        if found is not None:
            return found
        told = cut_at(text, self.longest)
        if self.has_others or len(self.names) >= self._most or (self._room is not None and len(told) > self._room):
            self.has_others = True
            key = told = OTHERS
            if key in self._numbers:
                return self._numbers[key]
        elif self._room is not None:
            self._room -= len(told)
        self._numbers[key] = len(self.names)
        self.names.append(told)
        return self._numbers[key]


class PooledTexts:
    """Different texts, nearly one for each event: they are bytes in one place, for as texts of Python's each takes 250 bytes more. As :class:`Texts`,
    but for when there are too many, or of too many bytes: then all that come are one that says so.
    """

    def __init__(self, most_bytes: int = MOST_POOLED, most: int = MOST_DIFFERENT) -> None:
        self._ids, self._most_bytes, self._most = TextIds(in_file=POOLED_IN_FILE), most_bytes, most
        self._others = NONE

    def __getitem__(self, number: int) -> str:
        return self._ids.text(number) if number >= 0 else ""

    @property
    def has_others(self) -> bool:
        """Whether some were too many."""
        return self._others != NONE

    def numbers(self, column: Column | None, count: int) -> Array:
        """Of each row the number of its text; :data:`NONE` where there is no column."""
        if column is None:
            return np.full(count, NONE, np.int64)
        if self._ids.size_bytes > self._most_bytes or len(self._ids) > self._most:
            if self._others == NONE:
                (self._others,) = self._ids.of(Text.from_pylist([OTHERS])).tolist()
            return np.full(count, self._others, np.int64)
        if not isinstance(column, Text):
            column = Text.from_pylist([str(value or "") for value in column.to_pylist()])
        return self._ids.of(column)


def others_told(what: str, texts: Iterable[Texts | PooledTexts]) -> tuple[str, ...]:
    """A note where texts were too many, ``what`` is named by which."""
    too_many = any(one.has_others for one in texts)
    return (f"there are so many different names of {what} that some are told as {OTHERS}",) if too_many else ()


def cut_told(what: str, texts: Texts) -> tuple[str, ...]:
    """A note where some of ``what`` were longer."""
    if not texts.has_cut:
        return ()
    return (f"{what} are told to {texts.longest:,} characters; where one ends in {CUT}, its events have all of it",)


@dataclass(slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class ListField:
    """A list of structs: the first ``most`` of each event, and ``names`` of their fields. What is missing is 0; NaN where a version of the event
    has no list.
    """

    names: Sequence[str]
    most: int


class Places:
    """Places of events among all of the windows that a fold takes, for the keepers that it feeds within :meth:`window`. They tell which of two
    events of different keepers came first, which times do not: a tick of a coarse clock has many, and what is behind a sequence point may be older
    than what is in front of it.
    """

    def __init__(self) -> None:
        self._before = 0
        self._window: EventTable | None = None

    @contextmanager
    def window(self, window: EventTable) -> Iterator[None]:
        """Until it is left, events are of this window."""
        self._window = window
        try:
            yield
        finally:
            self._window = None
            self._before += len(window)

    def of(self, types: OfTypes) -> Array:
        """Those of all events of some types."""
        assert self._window is not None
        return np.asarray(types.rows(self._window) + np.int64(self._before))


class KeptEvents:
    """Takes windows; :meth:`all` is what came. ``texts`` are of the ``names``, which may also be given with texts of their own each; they
    may be shared by several keepers. ``activities``: also ids of activities, as fields
    ``activity`` and ``related``, by numbers of the recording, 0 for none. ``places``: also the place of each event, i64. With a ``scratch`` only
    :data:`~.scratch.PART_BYTES` of what came are in memory, and :meth:`parts` gives it in such pieces.
    """

    def __init__(
        self,
        wants: Callable[[EventSchema], bool],
        numbers: Iterable[str] = (),
        *,
        names: Iterable[str] | Mapping[str, Texts | PooledTexts] = (),
        lists: Mapping[str, ListField] | None = None,
        texts: Texts | None = None,
        activities: bool = False,
        places: Places | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        self._scratch, self._stored = scratch, list[_StoredPart]()
        self._bytes = 0
        self._types = OfTypes(wants)
        self.wants = wants
        self._numbers, self._lists = tuple(numbers), dict(lists or {})
        self._header = ("activity", "related") if activities else ()
        self._places = places
        self.texts = Texts() if texts is None else texts
        given: Mapping[str, Texts | PooledTexts] = (
            names if isinstance(names, Mapping) else dict.fromkeys(names, self.texts)
        )
        self._names = dict(given)
        self._parts: list[Kept] = []
        self.latest_ms = -np.inf
        """The latest time of an event that was ever kept."""

    def feed(self, window: EventTable) -> EventTable:
        """Keep what is needed of it, and give the events that this is of."""
        events = self.events_of(window)
        if len(events):
            self.add(self.of(events))
        return events

    def events_of(self, window: EventTable) -> EventTable:
        """The events of the type."""
        return self._types.of(window)

    def add(self, kept: Kept) -> None:
        """Keep these too."""
        self._parts.append(kept)
        self._bytes += kept.nbytes
        self.latest_ms = max(self.latest_ms, float(kept.ms.max(initial=-np.inf)))
        if self._scratch is not None and self._bytes >= PART_BYTES:
            self._stored.append(_StoredPart(_joined(self._parts), self._scratch))
            self._parts, self._bytes = [], 0

    def of(self, events: EventTable) -> Kept:
        """What would be kept of events of the type; with places, of all that the window has."""
        count = len(events)
        events.ahead((*self._numbers, *self._names, *self._lists))
        fields = {name: number_of(events.get(f"payload.{name}"), count) for name in self._numbers}
        fields |= {name: narrow(own.numbers(events.get(f"payload.{name}"), count)) for name, own in self._names.items()}
        fields |= {name: narrow(getattr(events.headers, name)) for name in self._header}
        fields |= {name: _listed(events, name, one) for name, one in self._lists.items()}
        if self._places is not None:
            fields[_PLACE] = self._places.of(self._types)
        return Kept(events.numpy("ms"), narrow(events.numpy("pid")), narrow(events.numpy("tid")), fields)

    def all(self) -> Kept:
        """What was kept, which stays."""
        if self._stored:
            return _joined([*self._stored, *self._parts])
        if len(self._parts) > 1:
            self._parts = [_joined(self._parts)]
        return self._parts[0] if self._parts else self._nothing()

    def take(self, until: float = np.inf) -> Kept:
        """What was kept, which goes; of events from that time on, in ms, nothing."""
        made = self.all()
        self._parts, self._stored, self._bytes = [], [], 0
        if self.latest_ms < until:
            return made
        waits = made.ms >= until
        if waits.any():
            self.add(made.of(np.flatnonzero(waits)))
            made = made.of(np.flatnonzero(~waits))
        return made

    def forget(self, pid: int, place: int) -> None:
        """What came of a process before a place goes."""
        kept = self.all()
        stays = (kept.place >= place) | (kept.pid != pid)
        self._parts, self._stored, self._bytes = [], [], 0
        if stays.any():
            self.add(kept if stays.all() else kept.of(np.flatnonzero(stays)))

    def copy(self) -> KeptEvents:
        """One that has the same events. Texts are those of this one; what more it keeps has a place of its own."""
        made = copy(self)
        made._scratch = None if self._scratch is None else Scratch()
        made._stored, made._parts = [*self._stored], [*self._parts]
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields but for lists."""
        return (*self._numbers, *self._names, *self._header)

    def parts(self) -> Iterator[Kept]:
        """The same in pieces, one at least."""
        yield from (_joined([one]) for one in self._stored)
        if self._parts or not self._stored:
            yield _joined(self._parts) if self._parts else self._nothing()

    def __len__(self) -> int:
        return sum(len(part) for part in self._stored) + sum(len(part) for part in self._parts)

    def _nothing(self) -> Kept:
        none = np.zeros(0, np.int32)
        fields: dict[str, Array] = dict.fromkeys(self.names, none)
        fields |= {name: np.zeros((0, one.most, len(one.names))) for name, one in self._lists.items()}
        if self._places is not None:
            fields[_PLACE] = np.zeros(0, np.int64)
        return Kept(np.zeros(0), none, none, fields)


class _StoredPart:
    """Events that wait elsewhere; their columns are read one by one."""

    def __init__(self, kept: Kept, scratch: Scratch) -> None:
        self._count = len(kept)
        self._columns = {name: scratch.put(values) for name, values in _columns(kept).items()}

    def __len__(self) -> int:
        return self._count

    def columns(self) -> Mapping[str, Stored]:
        """By name: those of all, and the fields."""
        return self._columns


_OF_ALL = ("ms", "pid", "tid")


def _columns(kept: Kept) -> dict[str, Array]:
    return {f".{name}": getattr(kept, name) for name in _OF_ALL} | dict(kept.fields)


def _joined(parts: Sequence[Kept | _StoredPart]) -> Kept:
    """Parts as one, column by column."""
    if len(parts) == 1 and isinstance(parts[0], Kept):
        return parts[0]
    sources = [one.columns() if isinstance(one, _StoredPart) else _columns(one) for one in parts]

    def column(name: str) -> Array:
        values = [one[name] for one in sources]
        arrays = [one.read() if isinstance(one, Stored) else one for one in values]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    made = {name: column(name) for name in sources[0]}
    return Kept(made.pop(".ms"), made.pop(".pid"), made.pop(".tid"), made)


def narrow(ids: Array) -> Array:
    """Ids in half the memory where they fit, as they do but for threads that a damaged file makes up. Not for amounts: a sum of two may not fit."""
    if not len(ids) or (ids.min() >= _LEAST and ids.max() <= _MOST):
        return ids.astype(np.int32, copy=False)
    return ids.astype(np.int64, copy=False)


def having(*numbers: int) -> Callable[[EventSchema], bool]:
    """Whether a type is an event of the runtime with one of these ids."""
    return lambda schema: schema.provider == RUNTIME and schema.event_id in numbers


def of_source(provider: str, *numbers: int) -> Callable[[EventSchema], bool]:
    """Whether a type is an event of that provider with one of these ids."""
    return lambda schema: schema.provider == provider and schema.event_id in numbers


def named(*names: str) -> Callable[[EventSchema], bool]:
    """Whether a type is an event of the runtime with one of these names."""
    return lambda schema: schema.provider == RUNTIME and schema.name in names


def words_of(window: EventTable, wants: Callable[[EventSchema], bool], field: str) -> Callable[[int], str] | None:
    """The words that a type has for the numbers of a field; None where the window has no such type, or none with words: windows of a session
    have the types of their own events alone, so who asks keeps what was told before.
    """
    for number, schema in window.schemas.items():
        if wants(schema) and (given := window.enumerations_of(number).get(field)) is not None:
            return given.text
    return None


def number_of(column: Column | None, count: int, missing: int = NONE) -> Array:
    """The numbers of ``count`` rows; ``missing`` where there is no column, or a row has none."""
    plain = None if column is None else numbers_of(column)
    if not isinstance(plain, Scalar) or plain.values.dtype.kind not in "iufb":
        return np.full(count, missing, np.int64)
    values = plain.values if plain.values.dtype.kind == "f" else plain.values.astype(np.int64)
    return values if plain.valid is None else np.where(plain.valid, values, missing)


def whole_numbers(values: Array) -> Array:
    """Whole numbers of what should be some: a damaged file may say that a field has fractions."""
    if values.dtype.kind != "f":
        return values
    found: Array = np.clip(np.rint(np.nan_to_num(values.astype(np.float64), nan=NONE)), -_LARGEST, _LARGEST)
    return found.astype(np.int64)


def _empty(shape: tuple[int, int, int]) -> Array:
    """Room for values that are asked for one field after the other: those of a field stand side by side."""
    return np.empty((shape[2], *shape[:2])).transpose(1, 2, 0)


def _listed(events: EventTable, name: str, wanted: ListField) -> Array:
    shape = len(events), wanted.most, len(wanted.names)
    column = events.get(f"payload.{name}")
    if not isinstance(column, ListOf) or not isinstance(column.child, Struct):
        return np.full(shape, np.nan)
    lengths = np.diff(column.offsets)
    fields = [column.child.fields.get(one) for one in wanted.names]
    if column.valid is None and (lengths == wanted.most).all():  # as nearly always
        made = _empty(shape)
        for at, field in enumerate(fields):
            given = field.values[column.offsets[0] : column.offsets[-1]] if isinstance(field, Scalar) else np.zeros(1)
            made[:, :, at] = given.reshape(-1, wanted.most) if len(given) > 1 else given
        return made
    made = np.zeros(shape)
    if column.valid is not None:
        made[~column.valid] = np.nan
    rows = np.repeat(np.arange(len(events)), lengths)
    places = np.arange(len(rows)) - np.repeat(column.offsets[:-1] - column.offsets[0], lengths)
    fit = places < wanted.most
    for at, field in enumerate(fields):
        if isinstance(field, Scalar):
            values = field.values[column.offsets[0] : column.offsets[-1]]
            made[rows[fit], places[fit], at] = values[fit]
    return made
