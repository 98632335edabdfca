"""What is known of all watched processes by now: who is up, and the totals of each. For systems that ask when they like.

The thread that watches makes a :class:`FleetSnapshot` of each interval; who asks gets the last one, and waits for nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.running_totals import RunningSeries, RunningTotals
from dotnetdiag.recipes.counter_watch import CounterProcess, CounterUpdate

STALE_INTERVALS = 3
"""Without a value for so long a process that had some is not up, and a series is over. One that never had any is up for as long as it is watched."""
SLACK_S = 1.0
"""More, for values that are on their way: sessions are read once a second."""
KEPT_S = 300.0
"""How long a process that has ended is told not to be up: Prometheus looks back as far."""
KEPT_PROCESSES = 1000
"""Of those; beyond it the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProcess:
    """One process. ``service``: see :mod:`dotnetdiag.recipes.service_names`.

    ``is_up``: it is watched, and has not gone silent since its first value. One that never gave a value counts as up: it may have none to give.
    """

    process: CounterProcess
    service: str
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """All of an interval. ``lost`` events never came, ``damaged`` ones could not be read, ``refused`` values are of series beyond limits: since the
    watch began.
    """

    processes: tuple[ServedProcess, ...] = ()
    series: list[RunningSeries] = field(default_factory=list)
    interval_s: float = 1.0
    lost: int = 0
    damaged: int = 0
    refused: int = 0

    def iter_series(self) -> Iterator[tuple[ServedProcess, RunningSeries]]:
        """Those of processes that are up, as far as their runtimes still report them."""
        up = {one.process.number: one for one in self.processes if one.is_up}
        numbers = [one.series.instrument.key.pid or 0 for one in self.series]
        newest: dict[int, int] = {}
        for number, one in zip(numbers, self.series, strict=True):
            if one.utc_ns > newest.get(number, 0):
                newest[number] = one.utc_ns
        usual_ns = (STALE_INTERVALS * self.interval_s + SLACK_S) * 1e9
        for number, one in zip(numbers, self.series, strict=True):
            process = up.get(number)
            if process is None or one.ended:
                continue
            age_ns = newest.get(number, 0) - one.utc_ns
            if age_ns <= usual_ns or age_ns <= (STALE_INTERVALS * (one.interval_s or 0) + SLACK_S) * 1e9:
                yield process, one


class FleetState:
    """Takes each update of a watch. ``clock`` gives seconds that only grow."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s, self._clock = interval_s, clock
        self._totals = RunningTotals()
        self._valued_s: dict[int, float] = {}
        """By process: when it had its last values."""
        self._services: dict[int, str] = {}
        self._served: dict[int, ServedProcess] = {}
        """As it was told last, which is the same object as long as nothing changes."""
        self._over: dict[int, tuple[ServedProcess, float]] = {}
        """Those that have ended, and until when they are told."""
        self._lost = self._damaged = self._refused = 0

    def take(self, update: CounterUpdate, service_of: Callable[[CounterProcess], str | None]) -> FleetSnapshot:
        """All that is known after an update. A process for which ``service_of`` says None yet is left out, so that it does not change its name."""
        now, counters = self._clock(), update.counters
        if counters is not None:
            self._totals.feed(counters)
            self._lost = max(self._lost, counters.rows.losses.lost or 0)
            self._damaged, self._refused = counters.damaged, counters.refused
            self._valued_s |= {pid: now for one in counters.series if (pid := one.instrument.key.pid) is not None}
        for change in update.changes:
            if not change.joined:
                self._end(change.process, now)
        for number in [number for number, (_, until_s) in self._over.items() if until_s <= now]:
            del self._over[number]
        limit_s = STALE_INTERVALS * self._interval_s + SLACK_S
        served = []
        for process in update.processes:
            service = self._services.get(process.number) or service_of(process)
            if service is None:
                continue
            self._services[process.number] = service
            is_up = now - self._valued_s.get(process.number, now) <= limit_s
            told = ServedProcess(process=process, service=service, is_up=is_up)
            known = self._served.get(process.number)
            served.append(known if known == told else told)
        self._served = {one.process.number: one for one in served}
        return FleetSnapshot(
            processes=(*(one for one, _ in self._over.values()), *served),
            series=self._totals.latest(),
            interval_s=self._interval_s,
            lost=self._lost,
            damaged=self._damaged,
            refused=self._refused,
        )

    def _end(self, process: CounterProcess, now: float) -> None:
        self._totals.forget(process.number)
        self._valued_s.pop(process.number, None)
        service = self._services.pop(process.number, process.name)
        self._over[process.number] = ServedProcess(process=process, service=service, is_up=False), now + KEPT_S
        while len(self._over) > KEPT_PROCESSES:
            del self._over[next(iter(self._over))]
