"""Moments as the formats have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ns(moment: datetime) -> int:
    """Nanoseconds since 1970, of all the microseconds of a moment: a float of so many seconds is up to 128 ns beside it."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
