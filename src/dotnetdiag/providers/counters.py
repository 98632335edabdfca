"""Which counters are meant, and the session that has them.

::

    counters := provider (',' provider)*
    provider := ['EventCounters\\'] name ['[' [name (',' name)*] ']']

The text of dotnet-counters, and its rules: a provider that is named twice has the counters of both, or all; a bare name means the EventSource
and the meter of that name, with ``EventCounters\\`` in front only the EventSource's. Names of counters are in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.eventpipe import Provider

DEFAULT_COUNTERS = "System.Runtime"
EVENT_COUNTERS_ONLY = "EventCounters\\"
METRICS_PROVIDER = "System.Diagnostics.Metrics"
_TIME_SERIES_VALUES, _INSTRUMENTS_PUBLISHED = 0x2, 0x4
_LEVEL = 4
_NO_METER = "dotnetdiag.none"
"""Who joins a shared session has to name a meter: else the runtime does not publish its instruments (8 to 10)."""
RUNTIME_METER_SINCE = 9
"""The runtime has its meter ``System.Runtime``."""
SHARED_SINCE = 8
"""The first major version of .NET whose sessions of meters may be shared; before, and by another name, there is one at a time."""
ONE_SESSION_SINCE = 9
"""The first major version whose EventCounters and meters may be asked for in one session."""
SHARED = "SHARED"
STALLED_BY_HASTE = range(6, 9)
"""The major versions that are asked for EventCounters each second at most; a runtime from 6 on that waits at its start is so too.

The first value that is ever written makes a source of the runtime's own, which waits until no other is being made or told of a session, and
holds the counter that the other may wait for: the program, or whoever asks, stands still for good. An interval below a second is none to .NET 8
before the first value, so that it comes while sources are told; 9 and later wait for the interval, which may be in the midst of a start. Seen by
the threads' stacks, with 8.0 at 0.5 s in one start of ten: ``EventCounter.WritePayload``, which rents its text, ``ArrayPoolEventSource..cctor``,
``EventSource.Initialize`` in one, ``EventSource.Initialize``, ``OnEventCommand``, ``DiagnosticCounter.AddMetadata`` in the other; with 10.0 at
0.2 s. 3.1 rents nothing.
"""
MAX_TIME_SERIES, MAX_HISTOGRAMS = 1000, 10
"""The limits of dotnet-counters: who shares a session must ask for the same."""
_WHAT = "counters"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterChoice:
    """Counters of one provider. ``names``: in lower case; empty: all of them. ``event_counters_only``: not those of a meter of that name."""

    provider: str
    names: frozenset[str] = frozenset()
    event_counters_only: bool = False

    def includes(self, instrument: str) -> bool:
        """Whether an instrument of this name is meant."""
        return not self.names or instrument.lower() in self.names


def parse_counters(text: str) -> tuple[CounterChoice, ...]:
    """The counters that a text means, repeated providers joined. Raises GrammarError."""
    made: dict[str, CounterChoice] = {}
    for start, end in _parts(text):
        choice = _parse_one(text, start, end)
        known = made.get(choice.provider)
        if known is not None:
            if known.event_counters_only != choice.event_counters_only:
                raise GrammarError(
                    _WHAT,
                    text,
                    start,
                    f"{choice.provider} with and without {EVENT_COUNTERS_ONLY} in front is not supported",
                )
            names = known.names | choice.names if known.names and choice.names else frozenset[str]()
            choice = CounterChoice(
                provider=choice.provider, names=names, event_counters_only=choice.event_counters_only
            )
        made[choice.provider] = choice
    return tuple(made.values())


def _parts(text: str) -> list[tuple[int, int]]:
    """Start and end of what commas outside of brackets separate."""
    made, start, inside = [], 0, False
    for at, character in enumerate(text):
        if character == "[":
            inside = True
        elif character == "]":
            inside = False
        elif character == "," and not inside:
            made.append((start, at))
            start = at + 1
    return [*made, (start, len(text))]


def _parse_one(text: str, start: int, end: int) -> CounterChoice:
    part = text[start:end]
    name, bracket, rest = part.partition("[")
    at = start + len(name)
    if "[" in rest:
        raise GrammarError(_WHAT, text, at + 1 + rest.index("["), "at most one '[' in a provider is expected")
    names, closing, behind = rest.partition("]")
    if bracket and not closing:
        raise GrammarError(_WHAT, text, end, "a closing ']' is expected")
    if behind.strip():
        raise GrammarError(_WHAT, text, at + 2 + len(names), "nothing is expected behind the closing ']'")
    name = name.strip()
    only = name.lower().startswith(EVENT_COUNTERS_ONLY.lower())
    name = name[len(EVENT_COUNTERS_ONLY) :] if only else name
    if not name:
        raise GrammarError(_WHAT, text, start, "the name of a provider is expected")
    if any(character in name for character in ';"='):
        raise GrammarError(_WHAT, text, start, "the name of a provider has no quotes, ';' or '='")
    return CounterChoice(
        provider=name,
        names=frozenset(one.strip().lower() for one in names.split(",") if one.strip()),
        event_counters_only=only,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimits:
    """What all who share a session have in common: a runtime refuses who asks for others (.NET 8 and later)."""

    max_time_series: int = MAX_TIME_SERIES
    max_histograms: int = MAX_HISTOGRAMS
    interval_s: float = 1.0

    def __str__(self) -> str:
        return f"RefreshInterval={self.interval_s:g};MaxTimeSeries={self.max_time_series};MaxHistograms={self.max_histograms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSession:
    """What is asked of one runtime. ``session``: the id of the session of meters, by which its values are told from those of others.

    Each of ``parts`` is to be an EventPipe session of its own: .NET 8 that is asked for EventCounters and for meters in one tells two sources at
    once, which makes the standstill of ``STALLED_BY_HASTE`` likely (two of three tries; never with 9 and 10).
    """

    parts: tuple[tuple[Provider, ...], ...]
    session: str
    slowed_s: float | None = None
    """The interval of the EventCounters, where it is longer than the one that was wanted: see ``STALLED_BY_HASTE``."""


def counter_session(
    choices: Sequence[CounterChoice],
    *,
    interval_s: float = 1.0,
    runtime_major: int | None = None,
    max_time_series: int = MAX_TIME_SERIES,
    max_histograms: int = MAX_HISTOGRAMS,
    session_id: str | None = None,
    client_id: str | None = None,
    limits: SharedLimits | None = None,
    both: bool = True,
    at_start: bool = False,
) -> CounterSession:
    """What to ask for some counters, a value each ``interval_s``. ``runtime_major``: the target's version, None where nobody knows.
    ``session_id``: that of the session of meters, where it is not a shared one (None: a new one). ``client_id``: who shares it (None: a new one);
    it must be another each time: a runtime counts those that come by their ids, and those that go by their number, so that who comes twice
    with one takes the session of somebody else with him when he goes (seen with 9 and 10). ``limits``: those of a shared session that there is,
    instead of ours. ``both``: the EventCounters of a provider, too, whose meter every runtime of that version is known to have (``System.Runtime``
    of .NET 9 and later), where it counts: without them, the target and who reads have half the work. ``at_start``: the target waits at its start.

    Raises UsageError for an interval or limits that are none, and for no counters at all.
    """
    if not choices:
        raise UsageError("no counters are named")
    if not 0 < interval_s < float("inf"):
        raise UsageError(f"an interval of {interval_s} s is none")
    if max_time_series < 0 or max_histograms < 0:
        raise UsageError("limits of time series and histograms are not negative")
    is_hasty = runtime_major in STALLED_BY_HASTE or (at_start and (runtime_major or 0) >= STALLED_BY_HASTE.start)
    each_s = max(1.0, interval_s) if is_hasty else interval_s
    made = [
        Provider(name=choice.provider, keywords=0, level=_LEVEL, arguments=f"EventCounterIntervalSec={each_s:g}")
        for choice in choices
        if both or choice.event_counters_only or not _is_known_meter(choice.provider, runtime_major)
    ]
    slowed_s = each_s if made and each_s > interval_s else None
    own = session_id or str(uuid4())
    session = SHARED if runtime_major is not None and runtime_major >= SHARED_SINCE else own
    meters = [choice.provider for choice in choices if not choice.event_counters_only]
    if meters:
        arguments = {
            "SessionId": session,
            "Metrics": f'"{",".join(meters)}"' if len(meters) > 1 else meters[0],
        }
        own_limits = SharedLimits(max_time_series=max_time_series, max_histograms=max_histograms, interval_s=interval_s)
        text = ";".join(f"{key}={value}" for key, value in arguments.items())
        text += f";{limits or own_limits};ClientId={client_id or uuid4()}"
        meter = Provider(name=METRICS_PROVIDER, keywords=_TIME_SERIES_VALUES, level=_LEVEL, arguments=text)
        if runtime_major is None or runtime_major < ONE_SESSION_SINCE:
            return CounterSession(parts=(tuple(made), (meter,)), session=session, slowed_s=slowed_s)
        made.append(meter)
    return CounterSession(parts=(tuple(made),), session=session, slowed_s=slowed_s)


def _is_known_meter(provider: str, runtime_major: int | None) -> bool:
    return (
        provider.casefold() == "system.runtime" and runtime_major is not None and runtime_major >= RUNTIME_METER_SINCE
    )


def listing_providers(
    sources: Sequence[str], runtime_major: int | None = None, *, limits: SharedLimits | None = None
) -> tuple[Provider, ...]:
    """What has a runtime publish all its instruments (.NET 6 and later), also those that nobody reads, and send the EventCounters of these sources
    each second: as most tools ask, for all sessions get them as often as the most eager one wants.

    ``runtime_major``: the target's version; one that has shared sessions (8 and later) is asked in that, which others may have too, with their
    ``limits``.
    """
    shared, keywords = "", _INSTRUMENTS_PUBLISHED
    if runtime_major is not None and runtime_major >= SHARED_SINCE:
        keywords |= _TIME_SERIES_VALUES  # with it comes why there are none
        shared = f"SessionId={SHARED};Metrics={_NO_METER};{limits or SharedLimits()};ClientId={uuid4()}"
    return (
        Provider(name=METRICS_PROVIDER, keywords=keywords, level=_LEVEL, arguments=shared),
        *(Provider(name=name, keywords=0, level=_LEVEL, arguments="EventCounterIntervalSec=1") for name in sources),
    )
