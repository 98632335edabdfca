"""Where the sequence numbers of threads stand: what a part of a stream has to say of those before it."""

from __future__ import annotations

from collections.abc import Mapping

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNumbers:
    """The number of the last event that each capture thread attempted, of threads that live and of those that have ended."""

    live: Mapping[int, int]
    ended: Mapping[int, int]
