"""Who gives no values, and which counters nobody gives: told once, when there has been time for some."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.counters import Counters
from dotnetdiag.providers.counters import CounterChoice
from dotnetdiag.providers.known_counters import KNOWN_EVENT_COUNTERS
from dotnetdiag.recipes.counter_update import CounterProcess, CounterSilence, MissingCounter
from dotnetdiag.transport import processes as system

SILENT_INTERVALS, SILENT_S = 3, 3.0
"""After how many intervals without a value, and after how many seconds at least, a process is called silent."""
MISSING_S = 5.0
"""After so many seconds at least, and as many intervals, a counter is said to be missing."""


@dataclass(slots=True, kw_only=True)
class _Spoken:
    """When a process has given its last values, or is watched since; and how long it had been silent when that was told."""

    last_s: float
    has_spoken: bool = False
    told_s: float | None = None
    gap_s: float = 0.0
    """Between its last two values: a runtime that others ask less often gives ours less often too."""


class Silences:
    """``choices`` are what is asked for, by the provider's name in lower case; ``clock`` counts seconds."""

    def __init__(self, choices: Mapping[str, CounterChoice], interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s, self._clock = interval_s, clock
        self._spoken: dict[int, _Spoken] = {}
        self._missing: set[tuple[str, str]] = {
            (provider, name) for provider, choice in choices.items() for name in (sorted(choice.names) or [""])
        }
        self._names = {provider: choice.provider for provider, choice in choices.items()}
        self._begun_s: float | None = None
        self._is_told = False

    def take(
        self, processes: Mapping[int, CounterProcess], taken: Counters | None, *, excused: Container[int] = ()
    ) -> Iterator[CounterSilence]:
        """What is new of those that give no values. ``excused`` are known to give none for now."""
        now = self._clock()
        heard = {one.pid for one in taken.series} if taken is not None else set()
        if taken is not None and self._missing:
            given = {(one.provider.casefold(), one.name.lower()) for one in taken.series}
            self._missing -= given | {(provider, "") for provider, _ in given}
        if heard and self._begun_s is None:
            self._begun_s = now
        self._spoken = {number: self._spoken.get(number) or _Spoken(last_s=now) for number in processes}
        for number, spoken in self._spoken.items():
            process = processes[number]
            if number in excused:
                spoken.last_s = now
            silent_s = now - spoken.last_s
            if number in heard:
                if spoken.told_s is not None:
                    yield CounterSilence(process=process, seconds=silent_s, is_over=True, has_spoken=spoken.has_spoken)
                gap_s = silent_s if spoken.has_spoken else 0.0
                self._spoken[number] = _Spoken(last_s=now, has_spoken=True, gap_s=gap_s)
            elif spoken.told_s is None and silent_s > max(
                SILENT_INTERVALS * max(self._interval_s, spoken.gap_s), SILENT_S
            ):
                spoken.told_s = silent_s
                stopped = process.pid is not None and system.is_stopped(process.pid)
                yield CounterSilence(
                    process=process, seconds=silent_s, is_stopped=stopped, has_spoken=spoken.has_spoken
                )

    def missing(self) -> tuple[MissingCounter, ...]:
        """Counters that nobody has given although others were, once."""
        wait_s = max(MISSING_S, SILENT_INTERVALS * self._interval_s)
        if self._is_told or self._begun_s is None or self._clock() - self._begun_s < wait_s:
            return ()
        self._is_told = True
        return tuple(
            MissingCounter(
                provider=self._names[provider],
                instrument=name,
                is_event_counter=name in KNOWN_EVENT_COUNTERS.get(self._names[provider], {}),
            )
            for provider, name in sorted(self._missing)
        )
