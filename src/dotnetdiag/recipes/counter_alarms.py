"""Counters that are watched for limits: what ``counters watch`` does, but for the actions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.counter_watch import CounterOptions, CounterProcess, CounterTargets, CounterUpdate, CounterWatch
from dotnetdiag.recipes.thresholds import Crossing, Crossings, Threshold

COOLDOWN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterAlarm:
    """A limit that was crossed, and by whom."""

    crossing: Crossing
    process: CounterProcess


class CounterAlarms:
    """A watch of the counters of some limits. Use with ``with``; :meth:`updates` gives what :class:`CounterWatch` gives, with the alarms of
    each interval.

    A series is told when it has been beyond a limit for as long as that says, and then again when it has come back meanwhile; one that stays
    is told again after the cool-down. A process is told once in ``cooldown`` (seconds, or ``"1m"``) for each limit, by whichever of its series;
    one that ends is told for its last values, and then forgotten.
    Raises GrammarError and UsageError for options that make no sense.
    """

    def __init__(
        self,
        targets: CounterTargets,
        thresholds: Sequence[Threshold],
        options: CounterOptions | None = None,
        *,
        cooldown: float | str = COOLDOWN_S,
    ) -> None:
        if not thresholds:
            raise UsageError("no threshold is given: write 'Provider[instrument] > 0.8'")
        self._cooldown_s = seconds_of(cooldown, "cool-down") or 0.0
        counters = ",".join(dict.fromkeys(threshold.counters for threshold in thresholds))
        self.options = replace(options or CounterOptions(), counters=counters)
        self.watch = CounterWatch(targets, self.options)
        self._crossings = Crossings(thresholds, self.options.interval_s)
        # by number of the process and of the limit
        self._quiet_until_s: dict[tuple[int, int], float] = {}

    def __enter__(self) -> CounterAlarms:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all sessions."""
        self.watch.close()

    def stop(self) -> None:
        """End the iteration at once. For signal handlers and other threads too."""
        self.watch.stop()

    def updates(self, until_s: float | None = None) -> Iterator[tuple[CounterUpdate, tuple[CounterAlarm, ...]]]:
        """One in each interval; as ``CounterWatch.updates``."""
        for update in self.watch.updates(until_s):
            alarms = tuple(self._alarms(update))
            gone = [change.process.number for change in update.changes if not change.joined]
            for number in gone:
                self._quiet_until_s = {key: until for key, until in self._quiet_until_s.items() if key[0] != number}
            self._crossings.forget_processes(gone)
            yield update, alarms

    def _alarms(self, update: CounterUpdate) -> Iterator[CounterAlarm]:
        if update.counters is None or not len(update.counters):
            return
        known = {one.number: one for one in update.everyone}
        now = time.monotonic()
        for crossing in self._crossings.feed(update.counters):
            process = known.get(crossing.pid if crossing.pid is not None else -1)
            if process is None:
                continue
            key = (process.number, crossing.number)
            if self._quiet_until_s.get(key, now) > now:
                self._crossings.again(crossing)
                continue
            self._quiet_until_s[key] = now + self._cooldown_s
            if self._cooldown_s:
                self._crossings.again(crossing)
            yield CounterAlarm(crossing=crossing, process=process)
