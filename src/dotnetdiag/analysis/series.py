"""What values of counters are of: instruments as the runtime announces them, and the series of each, one for each set of tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.tags import TagTexts

SERIES_LIMIT = 1 << 17
"""Series of one fold. A runtime gives a session as many as it asks for (``MaxTimeSeries``, 1000 as a rule)."""
INSTRUMENTS_LIMIT = 1 << 14
INSTRUMENTS_EACH = 1 << 11
"""Of one process, where processes have limits of their own."""
TEXTS_LIMIT = 1 << 26
"""Characters of all that is kept of series and instruments: 500 of each series."""
TEXTS_SHARE = 16
"""Where processes have limits of their own, one may have so small a part of them."""


class CounterKind(StrEnum):
    """What a series is. The last two are of EventCounters, the others of System.Diagnostics.Metrics."""

    COUNTER = "counter"
    """What is only added to: ``Counter``, ``ObservableCounter``."""
    UP_DOWN_COUNTER = "updowncounter"
    """What is added to and taken from: ``UpDownCounter``, ``ObservableUpDownCounter``."""
    GAUGE = "gauge"
    """A value of its own each time: ``Gauge``, ``ObservableGauge``."""
    HISTOGRAM = "histogram"
    """Many values, by their quantiles."""
    MEAN = "mean"
    """``EventCounter`` and ``PollingCounter``."""
    RATE = "rate"
    """``IncrementingEventCounter`` and ``IncrementingPollingCounter``."""

    @property
    def is_event_counter(self) -> bool:
        """Whether it is one of an EventSource."""
        return self in (CounterKind.MEAN, CounterKind.RATE)


class InstrumentKey(NamedTuple):
    """What tells one instrument from all others. ``number`` is the runtime's (.NET 9 and later), 0 where there is none; without it, two
    instruments of the same name in meters of the same name are one. EventCounters have neither session nor version.
    """

    pid: int | None
    session: str
    provider: str
    version: str
    name: str
    number: int


class SeriesKey(NamedTuple):
    """What tells one series from all others; ``tags`` as the runtime writes them."""

    instrument: InstrumentKey
    kind: CounterKind
    unit: str
    tags: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """What is said of one. ``type`` is the runtime's word (``ObservableGauge`1``), empty where nobody says it; ``scope`` is a hash that is
    equal for meters of one scope. Of EventCounters ``description`` is the display name, and ``rate_s`` the seconds that a rate is shown for.
    """

    key: InstrumentKey
    type: str = ""
    unit: str = ""
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    meter_tags: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    schema_url: str = ""
    rate_s: float | None = None
    ended_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series: the values of an instrument for one set of ``tags``. ``number`` is the same as long as the fold lives."""

    number: int
    kind: CounterKind
    unit: str
    tags: Mapping[str, str]
    instrument: Instrument

    @property
    def pid(self) -> int | None:
        """The process, where the recording tells it."""
        return self.instrument.key.pid

    @property
    def provider(self) -> str:
        """The meter, or the EventSource."""
        return self.instrument.key.provider

    @property
    def name(self) -> str:
        """The instrument's, or the EventCounter's."""
        return self.instrument.key.name


REFUSED, UNWANTED = -1, -2
"""In the place of a number: of series beyond the limit, of those that nobody wants."""


class SeriesRegistry:
    """All that were met, with a number each. ``wants`` says which are to have one, when they are met first (None: all); ``per_process`` is the
    limit of each process (None: that of all is the only one); with one, no process takes the room for instruments and texts of the others.
    """

    def __init__(self, wants: Callable[[SeriesKey], bool] | None = None, per_process: int | None = None) -> None:
        self.keys: dict[int, SeriesKey] = {}
        """By number, of those that were not forgotten."""
        self._given = 0
        self.instruments: dict[InstrumentKey, Instrument] = {}
        self.refused = self.undescribed = 0
        """Values of series beyond the limit, which readers count; announcements beyond that of instruments."""
        self._wants, self._per_process = wants, SERIES_LIMIT if per_process is None else per_process
        self._counts: Counter[int | None] = Counter()
        is_shared = per_process is not None
        self._instruments_each = INSTRUMENTS_EACH if is_shared else INSTRUMENTS_LIMIT
        self._texts_each = TEXTS_LIMIT // TEXTS_SHARE if is_shared else TEXTS_LIMIT
        self._announced: Counter[int | None] = Counter()
        self._characters_of: Counter[int | None] = Counter()
        self._numbers: dict[SeriesKey, int] = {}
        self._characters = 0
        self._texts: dict[tuple[str, str, bool], TagTexts] = {}
        self._meter_texts: dict[int | None, set[tuple[str, str]]] = {}
        """By process: meters, and texts of their tags."""
        self._meters: Counter[tuple[int | None, str]] = Counter()
        """Instruments of meters, by process and name."""
        self._sessions: dict[str, int] = {}
        """How many series of meters each has."""
        self._series: dict[int, Series] = {}
        """Those that were made since something was announced last: each is asked for in every window."""

    @property
    def sessions(self) -> tuple[str, ...]:
        """Those that series of meters are of, in the order in which they came."""
        return tuple(self._sessions)

    @property
    def has_given(self) -> bool:
        """Whether any series was met, forgotten or not."""
        return self._given > 0

    def number(self, key: SeriesKey) -> int:
        """Its number, :data:`REFUSED`, or :data:`UNWANTED`."""
        number = self._numbers.get(key)
        if number is None:
            pid = key.instrument.pid
            is_full = len(self._numbers) >= SERIES_LIMIT or self._counts[pid] >= self._per_process
            if is_full or not self._has_room(pid, *key.instrument[1:5], key.unit, key.tags):
                return REFUSED
            self._counts[pid] += 1
            if self._wants is not None and not self._wants(key):
                self._numbers[key] = UNWANTED
                return UNWANTED
            number, self._given = self._given, self._given + 1
            self._numbers[key], self.keys[number] = number, key
            if not key.kind.is_event_counter:
                self._sessions[key.instrument.session] = self._sessions.get(key.instrument.session, 0) + 1
            self._texts_of(key).learn([key.tags])
        return number

    def forget(self, pid: int) -> None:
        """What is of a process that has ended. Its numbers are not used again."""
        self._series.clear()
        for key in [key for key in self._numbers if key.instrument.pid == pid]:
            number = self._numbers.pop(key)
            if self.keys.pop(number, None) is not None and not key.kind.is_event_counter:
                self._forget_session(key.instrument.session)
            self._characters -= _characters(*key.instrument[1:5], key.unit, key.tags)
        for own in [own for own in self.instruments if own.pid == pid]:
            one = self.instruments.pop(own)
            self._characters -= _characters(*_words(one))
            self._meters.pop((pid, own.provider), None)
        for meter, text in self._meter_texts.pop(pid, ()):
            self._characters -= _characters(meter, text)
        for counted in (self._counts, self._announced, self._characters_of):
            counted.pop(pid, None)
        self._forget_texts()

    def _forget_session(self, session: str) -> None:
        """One series of it."""
        self._sessions[session] -= 1
        if not self._sessions[session]:
            del self._sessions[session]

    def _forget_texts(self) -> None:
        """Those that nobody has any more: each new one is read with all that are known."""
        left: dict[tuple[str, str, bool], set[str]] = {}
        for key in self._numbers:
            left.setdefault(_place_of(key), set()).add(key.tags)
        for met in self._meter_texts.values():
            for meter, text in met:
                left.setdefault((meter, "", False), set()).add(text)
        for place in list(self._texts):
            if place in left:
                self._texts[place].keep(left[place])
            else:
                del self._texts[place]

    def has_meter(self, pid: int | None, name: str) -> bool:
        """Whether instruments of a meter of this name were announced. (EventCounters are of an EventSource.)"""
        return (pid, name) in self._meters

    def reconsider(self, pid: int | None, provider: str, ms: float) -> None:
        """Ask once more for the EventCounters of a provider whether they are wanted; those that are not end now."""
        for key, number in self._numbers.items():
            own = key.instrument
            is_one = key.kind.is_event_counter and (own.pid, own.provider) == (pid, provider)
            if is_one and number >= 0 and self._wants is not None and not self._wants(key):
                self._numbers[key] = UNWANTED
                known = self.instruments.get(own) or Instrument(key=own, unit=key.unit)
                self.announce(replace(known, ended_ms=ms))

    def announce(self, instrument: Instrument) -> None:
        """Take what is said of one; what was said of it before counts no more."""
        one, known = instrument, self.instruments.get(instrument.key)
        is_same = known is not None and one == replace(known, ended_ms=one.ended_ms)
        words = _words(one)
        pid = instrument.key.pid
        full = known is None and (
            len(self.instruments) >= INSTRUMENTS_LIMIT or self._announced[pid] >= self._instruments_each
        )
        before = 0 if known is None else _characters(*_words(known))
        if full or (not is_same and not self._has_room(pid, *words, instead_of=before)):
            self.undescribed += 1
            return
        self._announced[pid] += known is None
        self.instruments[instrument.key] = instrument
        if not is_same or known != one:
            self._series.clear()
        if known is None and instrument.key.session:
            self._meters[pid, instrument.key.provider] += 1

    def _has_room(self, pid: int | None, *texts: object, instead_of: int = 0) -> bool:
        """Whether these texts of a process may be kept too; they are counted then. ``instead_of``: characters that go."""
        size = _characters(*texts) - instead_of
        if self._characters + size > TEXTS_LIMIT or self._characters_of[pid] + size > self._texts_each:
            return False
        self._characters += size
        self._characters_of[pid] += size
        return True

    def meter_tags(self, pid: int | None, meter: str, text: str) -> Mapping[str, str]:
        """The tags of a meter of a process, or of an instrument of it; none where there is no room for more texts."""
        if not text:
            return {}
        met = self._meter_texts.setdefault(pid, set())
        if (meter, text) not in met:
            if not self._has_room(pid, meter, text):
                return {}
            met.add((meter, text))
        return self._texts.setdefault((meter, "", False), TagTexts()).read(text)

    def series(self, number: int) -> Series:
        """What is known of one by now; its tags are what they were when they were first asked for."""
        made = self._series.get(number)
        if made is None:
            key = self.keys[number]
            known = self.instruments.get(key.instrument)
            made = self._series[number] = Series(
                number=number,
                kind=key.kind,
                unit=key.unit,
                tags=self._texts_of(key).read(key.tags),
                instrument=Instrument(key=key.instrument, unit=key.unit) if known is None else known,
            )
        return made

    def _texts_of(self, key: SeriesKey) -> TagTexts:
        """Those of all instruments of one name, of whatever session and process."""
        place = _place_of(key)
        found = self._texts.get(place)
        if found is None:
            found = self._texts[place] = TagTexts(":", is_sorted=False) if key.kind.is_event_counter else TagTexts()
        return found


def _place_of(key: SeriesKey) -> tuple[str, str, bool]:
    return key.instrument.provider, key.instrument.name, key.kind.is_event_counter


def _words(one: Instrument) -> tuple[object, ...]:
    return (*one.key[1:5], one.type, one.unit, one.description, one.scope, one.schema_url)


def _characters(*texts: object) -> int:
    return sum(len(text) for text in texts if isinstance(text, str))
