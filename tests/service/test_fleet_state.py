"""Who is up, of updates made by hand: the clock is the test's."""

from __future__ import annotations

import pytest
from tests.analysis.counters_made import MadeCounters
from tests.service.made import NOW_NS, process, running, served, snapshot

from dotnetdiag.analysis.counters import Counters, CountersFold
from dotnetdiag.recipes.counter_watch import CounterChange, CounterProcess, CounterUpdate
from dotnetdiag.service.fleet_state import KEPT_S, FleetSnapshot, FleetState

ONE, TWO = process(77, pid=77), process(78, pid=78)
"""Their numbers are what the recording has for process ids."""
S = 1_000_000_000


def values(*threads: int, rate: str = "1") -> Counters:
    """A value of each: of the processes 77 and 78."""
    made = MadeCounters("10", version=6)
    for thread in threads:
        made.at(1000, thread=thread).interval(1).counter(rate=rate, value="")
    fold = CountersFold()
    for window in made.trace().windows(fold.wants):
        fold.feed(window)
    return fold.take()


class Watched:
    """A state, and what it is told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.state = FleetState(1.0, clock=lambda: self.now_s)
        self.services: dict[int, str | None] = {}

    def take(
        self, counters: Counters | None, *there: CounterProcess, gone: tuple[CounterProcess, ...] = (), s: float = 0
    ) -> FleetSnapshot:
        self.now_s += s
        changes = tuple(CounterChange(process=one, joined=False, why="it has ended") for one in gone)
        update = CounterUpdate(counters=counters, changes=changes, processes=there)
        return self.state.take(update, lambda one: self.services.get(one.number, f"service-{one.number}"))


def ups(made: FleetSnapshot) -> dict[int, bool]:
    return {one.process.number: one.is_up for one in made.processes}


def told(made: FleetSnapshot) -> list[int]:
    """Whose series are told."""
    return [one.process.number for one, _ in made.iter_series()]


def test_a_process_is_up_while_it_has_values() -> None:
    watched = Watched()
    made = watched.take(values(1, 2), ONE, TWO)
    assert (ups(made), told(made)) == ({77: True, 78: True}, [77, 78])
    assert [one.service for one in made.processes] == ["service-77", "service-78"]
    made = watched.take(values(1), ONE, TWO, s=3.9)
    assert (ups(made), told(made)) == ({77: True, 78: True}, [77, 78])
    made = watched.take(values(1), ONE, TWO, s=0.2)
    assert (ups(made), told(made)) == ({77: True, 78: False}, [77])
    made = watched.take(values(1, 2), ONE, TWO, s=1)
    assert (ups(made), told(made)) == ({77: True, 78: True}, [77, 78])
    assert [one.total for one in made.series] == [4, 2], "what there was still counts"


def test_a_process_that_never_had_a_value_is_up() -> None:
    watched = Watched()
    watched.take(None, ONE)
    assert ups(watched.take(None, ONE, s=60)) == {77: True}


def test_a_process_that_has_ended_is_told_for_five_minutes_and_its_series_are_gone() -> None:
    watched = Watched()
    watched.take(values(1, 2), ONE, TWO)
    made = watched.take(values(1, 2), TWO, gone=(ONE,), s=1)
    assert (ups(made), told(made), len(made.series)) == ({77: False, 78: True}, [78], 1)
    assert made.processes[0].service == "service-77"
    assert ups(watched.take(values(2), TWO, s=KEPT_S - 1)) == {77: False, 78: True}
    assert ups(watched.take(values(2), TWO, s=1)) == {78: True}


def test_a_process_that_could_not_be_watched_is_not_up() -> None:
    made = Watched().take(None, gone=(ONE,))
    assert [(one.service, one.is_up) for one in made.processes] == [("app", False)]


def test_of_processes_that_have_ended_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.service.fleet_state.KEPT_PROCESSES", 2)
    made = Watched().take(None, gone=tuple(process(number) for number in range(5)))
    assert list(ups(made)) == [3, 4]


def test_a_process_is_left_out_until_its_service_is_known() -> None:
    watched = Watched()
    watched.services[77] = None
    made = watched.take(values(1), ONE)
    assert (ups(made), told(made)) == ({}, [])
    watched.services[77] = "shop"
    made = watched.take(values(1), ONE, s=1)
    assert (ups(made), told(made)) == ({77: True}, [77])
    assert [one.total for one in made.series] == [2]


def test_a_series_that_is_not_reported_any_more_is_over_before_its_process_is() -> None:
    fresh = running("fresh", utc_ns=NOW_NS + 10 * S, interval_s=1.0, number=0)
    old = running("old", utc_ns=NOW_NS + 5 * S, interval_s=1.0, number=1)
    rare = running("rare", utc_ns=NOW_NS + 5 * S, interval_s=2.0, number=2)
    ended = running("ended", utc_ns=NOW_NS + 10 * S, number=3, ended=True)
    other = running("other", utc_ns=NOW_NS, number=4, pid=1)
    made = snapshot(fresh, old, rare, ended, other, processes=(served(0), served(1)))
    assert [one.series.name for _, one in made.iter_series()] == ["fresh", "rare", "other"]


def test_losses_do_not_shrink() -> None:
    watched = Watched()
    watched.state._lost = 5
    made = watched.take(values(1), ONE)
    assert (made.lost, made.damaged, made.refused) == (5, 0, 0)
