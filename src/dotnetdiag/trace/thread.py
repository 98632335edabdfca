"""The threads of a trace, as people count them."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread that events are of: its OS thread id, and how many ``events``. ``name`` and ``pid`` are None where the file does not say."""

    tid: int
    pid: int | None
    name: str | None
    events: int
