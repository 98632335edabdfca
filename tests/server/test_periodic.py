from __future__ import annotations

import itertools
import threading

import pytest
from tests.server.recorded import LIMIT_S

from dotnetdiag.server import periodic
from dotnetdiag.server.periodic import Periodic, Turn


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "monotonic_ns", lambda: 1000)


@pytest.mark.usefixtures("clock")
def test_turns_are_an_interval_apart() -> None:
    turn = Turn(interval_ns=10)
    seen = [turn.next_ns]
    for now in (1012, 1020, 1039):
        turn.pass_on(now)
        seen.append(turn.next_ns)
    assert seen == [1010, 1020, 1030, 1040]


@pytest.mark.usefixtures("clock")
def test_turns_that_were_missed_are_not_made_up_for() -> None:
    turn = Turn(interval_ns=10)
    turn.pass_on(1095)
    assert turn.next_ns == 1095
    turn.pass_on(1096)
    assert turn.next_ns == 1105


@pytest.mark.usefixtures("clock")
def test_a_turn_has_its_part_of_each_interval() -> None:
    parts = itertools.cycle((0.0, 0.9, 0.5))
    turn = Turn(interval_ns=10, part=lambda: next(parts))
    seen = []
    for _ in range(6):
        seen.append(turn.next_ns)
        turn.pass_on(turn.next_ns)
    assert seen == [1010, 1029, 1035, 1040, 1059, 1065]


def test_what_a_turn_raises_ends_that_turn_alone() -> None:
    acted = threading.Semaphore(0)

    def act(turns: list[Turn]) -> None:
        acted.release()
        raise ValueError(turns)

    one = Periodic("test", (Turn(interval_ns=1000),), act)
    one.start()
    for _ in range(3):
        assert acted.acquire(timeout=LIMIT_S)
    one.end()
    one.join(LIMIT_S)
    assert not one.is_alive()
