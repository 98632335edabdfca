"""Who leaves for whose session of meters, and is asked anew when: by a clock of the tests, and with scripted runtimes."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.recipes.scripted_meters import COLLECT, IN_THE_WAY, Meters, Sought, given, refused

from dotnetdiag.analysis.metrics import METRICS
from dotnetdiag.client import Client
from dotnetdiag.live import fleet
from dotnetdiag.recipes import counter_watch
from dotnetdiag.recipes.counter_rejoin import AGAIN_S, LATER_S, MOST_DOUBLINGS, SOON_S, TOLD_AFTER, Rejoining
from dotnetdiag.recipes.counter_watch import CounterChange, CounterOptions, CounterTargets, CounterUpdate, CounterWatch
from dotnetdiag.testing import Runtime, Script, Talk
from dotnetdiag.transport import processes
from dotnetdiag.transport.discovery import endpoints

PATIENCE = 400
"""Intervals."""
OFTEN = CounterOptions(counters="M", interval=0.05)


class Clock:
    """Stands still but for when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rejoining(clock: Clock) -> Rejoining:
    return Rejoining(clock)


def always_running() -> bool:
    return False


def in_a_hurry() -> Callable[[], float]:
    """A clock by which each wait is over when it is asked next."""
    return itertools.count(0.0, 1000.0).__next__


# by the clock


@pytest.mark.parametrize("times", range(1, len(SOON_S) + 1))
def test_who_is_refused_is_left_at_once_and_asked_anew_later_and_later(
    times: int, clock: Clock, rejoining: Rejoining
) -> None:
    for _ in range(times - 1):
        rejoining.refused(1)
        rejoining.leaving()
        clock.now += max(SOON_S)
        assert rejoining.beginning() == [1]
    rejoining.refused(1)
    assert (rejoining.leaving(), rejoining.beginning()) == ([1], [])
    clock.now += SOON_S[times - 1] - 0.001
    assert (rejoining.leaving(), rejoining.beginning(), bool(rejoining)) == ([], [], True)
    clock.now += 0.002
    assert (rejoining.leaving(), rejoining.beginning(), bool(rejoining)) == ([], [1], False)


def test_all_who_are_refused_are_left_together(clock: Clock, rejoining: Rejoining) -> None:
    for number in range(50):
        rejoining.refused(number)
    assert rejoining.leaving() == list(range(50))
    assert rejoining.leaving() == []
    clock.now += SOON_S[0]
    assert rejoining.beginning() == list(range(50))


def test_what_is_said_to_one_that_is_left_is_said_of_the_session_that_it_had(
    clock: Clock, rejoining: Rejoining
) -> None:
    rejoining.refused(1)
    assert not any(rejoining.refused(1) for _ in range(10))
    rejoining.leaving()
    assert not any(rejoining.refused(1) for _ in range(10))
    clock.now += SOON_S[0]
    assert rejoining.beginning() == [1], "and it counts as one time"


def test_who_is_refused_for_long_is_asked_now_and_then_as_long_as_it_lives(clock: Clock, rejoining: Rejoining) -> None:
    """He who has its meters leaves some time, and nobody tells that."""
    for _ in SOON_S:
        rejoining.refused(1)
        rejoining.leaving()
        clock.now += max(SOON_S)
        rejoining.beginning()
    for _ in range(1000):
        rejoining.refused(1)
        assert rejoining.leaving() == [], "it stays, for its EventCounters"
        clock.now += LATER_S
        assert rejoining.leaving() == [1]
        clock.now += SOON_S[0]
        assert rejoining.beginning() == [1]


def test_who_is_refused_is_told_once_and_not_for_a_tool_that_was_killed(clock: Clock, rejoining: Rejoining) -> None:
    told = []
    for _ in range(20):
        told.append(rejoining.refused(1))
        clock.now += LATER_S
        rejoining.leaving()
        clock.now += LATER_S
        rejoining.beginning()
    assert [times for times, is_told in enumerate(told, 1) if is_told] == [TOLD_AFTER]
    assert TOLD_AFTER > 1


def test_who_is_refused_again_after_a_long_time_of_ours_is_told_again(clock: Clock, rejoining: Rejoining) -> None:
    told = []
    for beats in (0, 100):
        for _ in range(TOLD_AFTER):
            told.append(rejoining.refused(1))
            rejoining.leaving()
            clock.now += max(SOON_S)
            rejoining.beginning()
        for more in range(1, 5):
            rejoining.beat(1, beats + more, 1e9, is_stopped=always_running)
            clock.now += LATER_S
    assert [times for times, is_told in enumerate(told, 1) if is_told] == [TOLD_AFTER, 2 * TOLD_AFTER]


def test_values_between_refusals_do_not_make_the_next_the_first(clock: Clock, rejoining: Rejoining) -> None:
    """Those of a shared session of somebody else count as ours, and it refuses us all the same."""
    told = []
    for times in range(20):
        rejoining.beat(1, 2 * times, 1e9, is_stopped=always_running)
        told.append(rejoining.refused(1))
        rejoining.beat(1, 2 * times + 1, 1e9, is_stopped=always_running)
        clock.now += LATER_S
        rejoining.leaving()
        clock.now += SOON_S[-1]
        rejoining.beginning()
    assert sum(told) == 1


def test_who_has_gone_is_not_asked_anew(clock: Clock, rejoining: Rejoining) -> None:
    for number in (1, 2, 3):
        rejoining.refused(number)
    rejoining.forget(1)
    assert rejoining.leaving() == [2, 3]
    rejoining.forget(2)
    clock.now += SOON_S[0]
    assert rejoining.beginning() == [3]
    rejoining.forget(99)
    rejoining.refused(1)
    rejoining.leaving()
    clock.now += SOON_S[0]
    assert rejoining.beginning() == [1], "who comes later with that number begins anew"


def test_it_is_known_who_gives_no_meters_for_now(clock: Clock, rejoining: Rejoining) -> None:
    assert 1 not in rejoining
    rejoining.refused(1)
    assert 1 in rejoining
    rejoining.leaving()
    assert 1 in rejoining
    clock.now += SOON_S[0]
    rejoining.beginning()
    assert 1 not in rejoining


def test_who_could_not_be_asked_and_is_there_is_asked_again(clock: Clock, rejoining: Rejoining) -> None:
    rejoining.refused(1)
    rejoining.leaving()
    clock.now += SOON_S[0]
    assert rejoining.beginning() == [1]
    for _ in range(10):
        rejoining.failed(1)
        assert (bool(rejoining), rejoining.beginning()) == (True, [])
        clock.now += AGAIN_S
        assert rejoining.beginning() == [1]


def test_who_collects_no_more_has_lost_the_session(clock: Clock, rejoining: Rejoining) -> None:
    for beats in range(1, 10):
        rejoining.beat(1, beats, 3.0, is_stopped=always_running)
        clock.now += 2.9
        assert rejoining.leaving() == []
    rejoining.beat(1, 9, 3.0, is_stopped=always_running)
    clock.now += 0.2
    rejoining.beat(1, 9, 3.0, is_stopped=lambda: True)
    assert rejoining.leaving() == [], "one that is stopped collects nothing, and has lost nothing"
    rejoining.beat(1, 9, 3.0, is_stopped=always_running)
    assert rejoining.leaving() == [1]
    assert 1 not in rejoining, "nobody has refused it"


def test_who_has_never_collected_has_lost_nothing(clock: Clock, rejoining: Rejoining) -> None:
    for _ in range(100):
        rejoining.beat(1, 0, 3.0, is_stopped=always_running)
        clock.now += 100
    assert rejoining.leaving() == []


def test_who_collects_no_more_is_asked_less_and_less_often(clock: Clock, rejoining: Rejoining) -> None:
    rejoining.beat(1, 1, 3.0, is_stopped=always_running)
    waits = []
    for _ in range(MOST_DOUBLINGS + 3):
        began = clock.now
        while not rejoining.leaving():
            clock.now += 1.0
            rejoining.beat(1, 1, 3.0, is_stopped=always_running)
        waits.append(clock.now - began)
        clock.now += SOON_S[0]
        assert rejoining.beginning() == [1]
    assert all(one < other for one, other in itertools.pairwise(waits[: MOST_DOUBLINGS + 1]))
    assert waits[-1] == waits[-2]
    rejoining.beat(1, 2, 3.0, is_stopped=always_running)
    clock.now += 4.0
    rejoining.beat(1, 2, 3.0, is_stopped=always_running)
    assert rejoining.leaving() == [1], "one that has collected since begins anew"


# with scripted runtimes


@contextmanager
def watched(
    folder: Path, scripts: dict[str, Script], age: str = "10", **how: Any
) -> Iterator[tuple[Runtime, CounterWatch]]:
    """One runtime, by a client."""
    with (
        Runtime(age, listen=folder / "r", scripts=scripts, **how) as runtime,
        Client.connect(f"{runtime.address},connect") as client,
        CounterWatch(CounterTargets(clients=(client,)), OFTEN) as watch,
    ):
        yield runtime, watch


def some(watch: CounterWatch) -> Iterator[CounterUpdate]:
    """Updates, for as long as anybody waits for them."""
    for turn, update in enumerate(watch.updates()):
        yield update
        assert turn < PATIENCE


def names_in(update: CounterUpdate) -> set[str]:
    return set() if update.counters is None else {one.name for one in update.counters.series}


@pytest.mark.parametrize("targets", [CounterTargets(names=("victim",)), CounterTargets(everyone=True)])
def test_who_ends_while_he_waits_to_be_asked_anew_is_told_and_forgotten(
    targets: CounterTargets, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(counter_watch, "endpoints", lambda: [one for one in endpoints() if one.pid == os.getpid()])
    meters = Meters(lambda _: refused("somebody-else"))
    with ExitStack() as stack:
        runtime = stack.enter_context(Runtime("10", name="victim", scripts=meters.scripts))
        watch = stack.enter_context(CounterWatch(targets, OFTEN))
        watch._rejoining = Rejoining(clock)
        number, gone = None, []
        for update in some(watch):
            ours = [one for one in update.processes if one.pid == os.getpid()]
            if ours and watch._rejoining:
                (number,) = (one.number for one in ours)
                runtime.close()
                monkeypatch.setattr(processes, "is_running", lambda _: False)
                clock.now += SOON_S[0]
            if gone := [one for one in update.changes if not one.joined and one.process.number == number]:
                break
    assert len(gone) == 1
    assert gone[0].why
    assert number not in {one.number for one in update.processes}


def test_who_is_slow_to_end_holds_up_nobody_when_he_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: float) -> None:
        raise AssertionError("who reads all has waited for one")

    meters = Meters(lambda sought: refused("somebody-else") if sought.number == 0 else given())
    with watched(tmp_path, meters.scripts, misbehave={"StopTracing": "ignore"}) as (runtime, watch):
        watch._rejoining = Rejoining(in_a_hurry())
        with monkeypatch.context() as patched:
            clock = SimpleNamespace(monotonic=time.monotonic, time_ns=time.time_ns, sleep=never)
            patched.setattr(fleet, "time", clock)
            for update in some(watch):
                if names_in(update):
                    break
        assert "StopTracing" in [one.command for one in runtime.asked]
        assert len(meters.sought) == 2


@pytest.mark.parametrize("whose", ["SHARED", "ours"])
def test_a_session_that_is_ours_is_not_left_when_somebody_else_is_refused_for_it(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime tells all listeners that one gets no meters, and whose session runs."""
    monkeypatch.setattr(counter_watch, "uuid4", lambda: "ours")
    meters = Meters(lambda _: given().metric(IN_THE_WAY, runningSessionId=whose))
    with watched(tmp_path, meters.scripts) as (runtime, watch):
        watch._rejoining = Rejoining(in_a_hurry())
        updates, there = some(watch), []
        for update in updates:
            there.append(update)
            if names_in(update):
                break
        there += itertools.islice(updates, 3)
        assert [one.event for one in watch.fold.notices] == ["MultipleSessionsNotSupportedError"]
        assert [notice for update in there for notice in update.notices] == []
        assert "StopTracing" not in [one.command for one in runtime.asked]
        assert len(meters.sought) == 1


def test_who_is_refused_again_and_again_is_asked_until_he_has_the_meters(tmp_path: Path) -> None:
    refusals = len(SOON_S) + 5
    meters = Meters(lambda sought: refused(f"another {sought.number}") if sought.number < refusals else given())
    with watched(tmp_path, meters.scripts) as (_, watch):
        watch._rejoining = Rejoining(in_a_hurry())
        changes: list[CounterChange] = []
        for update in some(watch):
            changes += update.changes
            if names_in(update):
                break
        assert len(meters.sought) == refusals + 1
        assert [one.joined for one in changes] == [True], "it was watched all the time"


def test_of_two_who_had_the_meters_one_after_the_other_the_second_is_told(tmp_path: Path) -> None:
    meters = Meters(lambda sought: refused("AB"[sought.number]) if sought.number < 2 else given())
    with watched(tmp_path, meters.scripts) as (_, watch):
        watch._rejoining = Rejoining(in_a_hurry())
        told = []
        for update in some(watch):
            told += [one.text for one in update.notices]
            if names_in(update):
                break
    assert told == ["the runtime serves one session of its own at a time: B"]


def test_what_was_said_once_of_each_of_two_sessions_refuses_nobody_again(clock: Clock, tmp_path: Path) -> None:
    class Counted(Rejoining):
        times = 0

        def refused(self, number: int) -> bool:
            self.times += 1
            return super().refused(number)

    def said(_: Sought) -> Any:
        return given().metric(IN_THE_WAY, runningSessionId="A").metric(
            IN_THE_WAY, runningSessionId="A"
        ).metric(IN_THE_WAY, runningSessionId="B")  # fmt: skip

    with watched(tmp_path, Meters(said).scripts) as (_, watch):
        counted = watch._rejoining = Counted(clock)
        updates = some(watch)
        next(update for update in updates if names_in(update))
        list(itertools.islice(updates, 5))
        assert counted.times == 2, "once for each of them"


def test_event_counters_with_a_session_of_their_own_stay_while_the_meters_are_left(
    clock: Clock, tmp_path: Path
) -> None:
    """8 has them in another session, with which nobody is in the way."""
    left, is_stopped = threading.Event(), threading.Event()
    counter = {"Name": "late", "Mean": 1.0, "CounterType": "Mean", "IntervalSec": 1.0}

    def event_counters(talk: Talk) -> None:
        made = given().event_counter("M", **{**counter, "Name": "early"})
        made.writer.flush()
        head = made._out.getvalue()
        talk.begin_session(head)
        assert left.wait(20)
        made.at(2000).event_counter("M", **counter)
        data = made.data()
        talk.send(data[len(head) : -1])
        if talk.wait_for_stop(None):
            is_stopped.set()
        talk.send(data[-1:])

    meters = Meters(lambda sought: refused("somebody-else") if sought.number < 1 else given())

    def script(talk: Talk) -> None:
        request: Any = talk.asked.request
        is_of_meters = METRICS in {one.name for one in request.providers}
        (meters.script if is_of_meters else event_counters)(talk)

    with watched(tmp_path, dict.fromkeys(COLLECT, script), "8") as (_, watch):
        watch._rejoining = Rejoining(clock)
        updates = some(watch)
        next(update for update in updates if watch._rejoining)
        left.set()
        assert any("late" in names_in(update) for update in updates), "it goes on"
        assert not is_stopped.is_set()
        clock.now += SOON_S[0]
        assert any("g" in names_in(update) for update in updates), "and so do the meters"
        assert [one.providers for one in meters.sought] == [(METRICS,), (METRICS,)]
        assert not is_stopped.is_set()
