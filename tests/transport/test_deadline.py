from __future__ import annotations

import math

import pytest

from dotnetdiag.errors import TimedOut, UsageError
from dotnetdiag.transport.deadline import FOR_EVER_S, LONGEST_WAIT_S, Deadline


def test_time_left_shrinks_with_the_clock_and_then_raises() -> None:
    now = [100.0]
    deadline = Deadline(5, clock=lambda: now[0])
    assert deadline.left_s == 5
    now[0] = 104
    assert deadline.left_s == 1
    assert not deadline.is_over
    now[0] = 105
    assert deadline.is_over
    with pytest.raises(TimedOut, match=r"^tcp://a:1: no answer within 5 s$") as caught:
        deadline.wait_s("no answer", address="tcp://a:1")
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.timeout_s == 5


@pytest.mark.parametrize("timeout_s", [None, math.inf, FOR_EVER_S, 10**400])
def test_no_timeout_is_for_ever(timeout_s: float | None) -> None:
    deadline = Deadline(timeout_s)
    assert deadline.left_s == math.inf
    assert deadline.wait_s() == LONGEST_WAIT_S
    assert not deadline.is_over


def test_a_wait_takes_a_day_at_most() -> None:
    now = [0.0]
    deadline = Deadline(2.5 * LONGEST_WAIT_S, clock=lambda: now[0])
    assert deadline.wait_s() == LONGEST_WAIT_S
    now[0] = 2 * LONGEST_WAIT_S
    assert deadline.wait_s() == LONGEST_WAIT_S / 2
    now[0] *= 2
    with pytest.raises(TimedOut, match="no answer"):
        deadline.wait_s("no answer")


@pytest.mark.parametrize("timeout_s", [-1.0, float("nan")])
def test_a_timeout_that_makes_no_sense_is_refused(timeout_s: float) -> None:
    with pytest.raises(UsageError):
        Deadline(timeout_s)
