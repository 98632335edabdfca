from __future__ import annotations

import math

import pytest

from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import UsageError


@pytest.mark.parametrize("duration", [-1, math.nan, math.inf, 10**400, "9" * 400 + "d"])
def test_a_number_that_is_no_duration_is_refused(duration: float | str) -> None:
    with pytest.raises(UsageError, match="must be 0 or more"):
        seconds_of(duration)


def test_seconds_of_a_number_or_a_text() -> None:
    assert [seconds_of(one) for one in (None, 0, 1.5, "1m30s")] == [None, 0.0, 1.5, 90.0]
