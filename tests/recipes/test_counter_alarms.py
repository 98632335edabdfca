"""Limits of the counters of running processes: servers of our own, whose counters are those of this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analysis.counters_made import MadeCounters
from tests.recipes.test_counter_watch import PATIENCE, served

from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.counter_alarms import CounterAlarm, CounterAlarms
from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets
from dotnetdiag.recipes.thresholds import parse_threshold
from dotnetdiag.testing import Runtime

OFTEN = CounterOptions(interval=0.05)
ALWAYS = parse_threshold("System.Runtime[dotnet.process.memory.working_set] > 1MB")
NEVER = parse_threshold("System.Runtime[dotnet.process.memory.working_set] < 1MB")


def told(alarms: CounterAlarms, count: int, rounds: int = 10) -> list[CounterAlarm]:
    """The alarms of some rounds after there were ``count``."""
    found: list[CounterAlarm] = []
    for turn, (_, some) in enumerate(alarms.updates()):
        found += some
        if len(found) >= count:
            rounds -= 1
        if not rounds:
            return found
        assert turn < PATIENCE
    raise AssertionError(f"it has ended with {len(found)}")


def test_each_process_is_told_once_in_the_cooldown(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b") as ports:
        targets = CounterTargets(ports=tuple(ports))
        with CounterAlarms(targets, [NEVER, ALWAYS], OFTEN, cooldown="1h") as alarms:
            found = told(alarms, 2)
    assert sorted(one.process.target for one in found) == sorted(ports)
    assert {one.crossing.threshold for one in found} == {ALWAYS}


def test_who_stays_beyond_a_limit_is_told_again_after_the_cooldown(tmp_path: Path) -> None:
    with (
        served(tmp_path, "a") as ports,
        CounterAlarms(CounterTargets(ports=tuple(ports)), [ALWAYS], OFTEN, cooldown=0.01) as alarms,
    ):
        found = told(alarms, 3, rounds=1)
    assert len({one.crossing.utc for one in found}) == 3


def test_no_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="no threshold"):
        CounterAlarms(CounterTargets(everyone=True), [])


def test_who_crosses_a_limit_and_ends_in_the_same_interval_is_told_and_forgotten(tmp_path: Path) -> None:
    made = MadeCounters()
    made.at(100).gauge("g", sessionId="SHARED", meterName="M", lastValue="1")
    made.at(200).gauge("g", sessionId="SHARED", meterName="M", lastValue="1000")
    limit = parse_threshold("M[g] > 500")
    with Runtime("9.0", listen=str(tmp_path / "p"), name="ends", replay=made.data()) as runtime:
        targets = CounterTargets(ports=(f"{runtime.address},connect",))
        with CounterAlarms(targets, [limit], CounterOptions(interval=0.5), cooldown="1h") as alarms:
            found = [one for _, some in alarms.updates() for one in some]
            assert not alarms._quiet_until_s
    assert [(one.process.name, one.crossing.value) for one in found] == [("ends", 1000.0)]
