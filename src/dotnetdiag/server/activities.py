"""Activities: what events of one piece of work share, as .NET's do. Every provider's events carry the one in which they are written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

_NONE = (b"", b"")
ACTIVITY: ContextVar[tuple[bytes, bytes]] = ContextVar("dotnetdiag activity", default=_NONE)
"""The current activity and the one around it, in .NET order; empty where there is none."""


@contextmanager
def activity(activity_id: UUID | None = None) -> Iterator[UUID]:
    """Events inside carry this activity id (default: a new one), in this thread or task and what it awaits: those of event sources, records of
    :mod:`logging`, exceptions and collections.

    Events of the opcode Start carry the activity around it as related activity.
    """
    chosen = uuid.uuid4() if activity_id is None else activity_id
    token = ACTIVITY.set((chosen.bytes_le, ACTIVITY.get()[0]))
    try:
        yield chosen
    finally:
        ACTIVITY.reset(token)


def current_activity() -> UUID | None:
    """The activity id that an event written now would carry."""
    raw = ACTIVITY.get()[0]
    return UUID(bytes_le=raw) if raw else None
