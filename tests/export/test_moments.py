"""Moments as the formats have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dotnetdiag.export.moments import epoch_ns


@pytest.mark.parametrize(
    ("moment", "ns"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 11, 21, 2, 5, 8, 917_000, tzinfo=UTC), 1_795_226_708_917_000_000),
        (datetime(2026, 11, 21, 3, 5, 8, 917_001, tzinfo=timezone(timedelta(hours=1))), 1_795_226_708_917_001_000),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000_000),
    ],
)
def test_every_microsecond_counts(moment: datetime, ns: int) -> None:
    assert epoch_ns(moment) == ns
