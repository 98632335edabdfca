"""What is asked of processes whose counters are watched, and what comes of it: values alone."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.counters import Counters
from dotnetdiag.client import Client
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import UsageError
from dotnetdiag.providers.counters import (
    DEFAULT_COUNTERS,
    MAX_HISTOGRAMS,
    MAX_TIME_SERIES,
    CounterChoice,
    counter_session,
    parse_counters,
)
from dotnetdiag.recipes.suspension import Hold

LEAST_INTERVAL_S = 0.01
LONGEST_INTERVAL_S = 86400.0
"""8 that is asked for 25 days gives no EventCounters to anybody any more, and for more floods whoever asks."""
BUFFER_MB = 10
"""Of a session in its target: a second of values has some kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterOptions:
    """What is asked of each process: ``counters`` as dotnet-counters takes them, a value of each every ``interval`` (seconds, ``"500ms"``);
    EventCounters of .NET 6 to 8, and of who waits at its start, each second at most (``providers.counters.STALLED_BY_HASTE``).
    """

    counters: str = DEFAULT_COUNTERS
    interval: float | str = 1.0
    max_time_series: int = MAX_TIME_SERIES
    max_histograms: int = MAX_HISTOGRAMS
    buffer_mb: int = BUFFER_MB
    resume: bool = True
    """Let a runtime run that waits at its start, once it is watched: one that was named by its number, its port or a client. Others that wait
    are watched when they run.
    """

    @property
    def interval_s(self) -> float:
        """In seconds. Raises UsageError for none."""
        seconds = seconds_of(self.interval, "interval")
        if not seconds or seconds < LEAST_INTERVAL_S:
            raise UsageError(f"interval: {self.interval} is none: write 0.01 (seconds) or more")
        if seconds > LONGEST_INTERVAL_S:
            raise UsageError(f"interval: {self.interval} is longer than a day")
        return seconds

    def choices(self) -> tuple[CounterChoice, ...]:
        """The counters. Raises GrammarError; UsageError for what else is wrong with the options."""
        made = parse_counters(self.counters)
        counter_session(
            made,
            interval_s=self.interval_s,
            max_time_series=self.max_time_series,
            max_histograms=self.max_histograms,
        )
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTargets:
    """Whose counters: processes by id, by name (of the program or the entry assembly, in any case), at ports, of clients that somebody has and
    keeps, and all.

    With ``names`` or ``everyone`` processes join as they start. A port is one where a runtime listens (``ADDRESS,connect``), or one of ours
    (``ADDRESS,listen``), to which any number of runtimes come as they start; the watch is over when all who came have gone, unless it ``stays``.
    """

    pids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    clients: tuple[Client, ...] = ()
    everyone: bool = False
    stays: bool = False

    def __post_init__(self) -> None:
        if not (self.pids or self.names or self.ports or self.clients or self.everyone):
            raise UsageError("no runtime is named: give a pid, a name, or a port")
        if any(pid <= 0 for pid in self.pids):
            raise UsageError(f"{min(self.pids)} is not a valid process ID")
        if not all(self.names):
            raise UsageError("an empty name means no process")

    @property
    def grows(self) -> bool:
        """Whether others may join."""
        return self.everyone or bool(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterProcess:
    """One that is watched. ``number`` is what its series have for a process id: ids of containers may be equal."""

    number: int
    pid: int | None
    name: str
    runtime: str
    target: str
    """As it was named, for messages: the process id, or the port."""
    cookie: str = ""
    """Which start of the runtime it is: new at each. Empty where the runtime says none."""
    client: Client | None = field(default=None, repr=False, compare=False)
    """To ask it more, for as long as it is watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterChange:
    """Somebody has come, or has gone: ``why`` is empty for who came, and for who ended as we told it to. ``holds``: who came was let run, and
    still waits at its start, for these.
    """

    process: CounterProcess
    joined: bool
    why: str = ""
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSilence:
    """A process that is watched has given no values for ``seconds``, or does so again (``is_over``). ``is_stopped``: by a signal;
    ``has_spoken``: it has given some before.
    """

    process: CounterProcess
    seconds: float
    is_over: bool = False
    is_stopped: bool = False
    has_spoken: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterNotice:
    """What a runtime says of our session: a limit was reached, or another tool has the session of meters. Or that it is asked less often than
    was wanted, because it would not stand it.
    """

    process: CounterProcess
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCounter:
    """One that was asked for, and that nobody has given for some time: of a ``provider``, or one ``instrument`` of it. ``is_event_counter``: there
    is a known EventCounter of that name, which does not count where there is a meter of the provider's name.
    """

    provider: str
    instrument: str
    is_event_counter: bool

    def __str__(self) -> str:
        return f"{self.provider}[{self.instrument}]" if self.instrument else self.provider


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterUpdate:
    """One interval. ``counters``: the values that came in it, None before the first; ``processes`` are those that are watched now;
    ``silences`` what is new of those that are silent, or were, ``notices`` what runtimes say for the first time; ``missing`` are counters that
    nobody gives, told once.
    """

    counters: Counters | None
    changes: tuple[CounterChange, ...]
    processes: tuple[CounterProcess, ...]
    silences: tuple[CounterSilence, ...] = ()
    notices: tuple[CounterNotice, ...] = ()
    missing: tuple[MissingCounter, ...] = ()

    @property
    def everyone(self) -> tuple[CounterProcess, ...]:
        """Those that are watched, and those that left in this update: ``counters`` may have values of them."""
        there = {one.number for one in self.processes}
        left = {one.process.number: one.process for one in self.changes if not one.joined}
        return self.processes + tuple(one for number, one in left.items() if number not in there)
