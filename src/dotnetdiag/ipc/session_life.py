"""The life of a session, as a table: what may happen in which state, and what is to be done then. No clock, no socket.

::

    STARTING ──STARTED──> STREAMING ──STOP──> STOPPING ──STOP_ANSWERED──> DRAINING ──STREAM_ENDED──> ENDED
                              └────────────STREAM_ENDED (the target exited, or stopped it)────────────┘
    every open state ──ABORTED, STREAM_FAILED, LIMIT_PASSED──> BROKEN

Rule 1: StopTracing is answered when everything has been flushed into the stream, so the stream is read on meanwhile (§5.5).
Rule 2: from STOP on there is one limit for all that is left. A stop that fails makes it short: a target that has exited has closed
its end by then, and what it wrote is still read; one that refused, or cannot be reached, would go on for ever.
Rule 3: ENDED and BROKEN are for good, and the connection is closed in both.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a session stands."""

    STARTING = "starting"
    """It was asked for."""
    STREAMING = "streaming"
    """It runs."""
    STOPPING = "stopping"
    """It was told to end."""
    DRAINING = "draining"
    """The runtime has written all of it; what is on the way is read."""
    ENDED = "ended"
    """It is over, and all was read."""
    BROKEN = "broken"
    """It was aborted, or what ``problem`` says has ended it: something may lack."""


class Event(Enum):
    """What happens to it."""

    STARTED = "the runtime gave an id"
    STOP = "somebody wants it to end"
    STOP_ANSWERED = "the runtime has flushed everything"
    STOP_FAILED = "the runtime refused to stop, or could not be asked"
    STREAM_ENDED = "the runtime closed the stream"
    STREAM_FAILED = "the connection broke"
    LIMIT_PASSED = "the end took too long"
    ABORTED = "nobody wants the rest"


class Action(Enum):
    """What is to be done about it."""

    NOTHING = "go on"
    SEND_STOP = "send StopTracing on a connection of its own; the limit of the end begins"
    SHORTEN_LIMIT = "read what is there, and wait no longer"
    CLOSE = "close the connection"


S, E, A = State, Event, Action

TABLE: dict[tuple[State, Event], tuple[State, Action]] = {
    (S.STARTING, E.STARTED): (S.STREAMING, A.NOTHING),
    (S.STARTING, E.STREAM_FAILED): (S.BROKEN, A.CLOSE),
    (S.STREAMING, E.STOP): (S.STOPPING, A.SEND_STOP),
    (S.STREAMING, E.STREAM_ENDED): (S.ENDED, A.CLOSE),
    (S.STREAMING, E.STREAM_FAILED): (S.BROKEN, A.CLOSE),
    (S.STREAMING, E.ABORTED): (S.BROKEN, A.CLOSE),
    (S.STOPPING, E.STOP): (S.STOPPING, A.NOTHING),
    (S.STOPPING, E.STOP_ANSWERED): (S.DRAINING, A.NOTHING),
    (S.STOPPING, E.STOP_FAILED): (S.DRAINING, A.SHORTEN_LIMIT),
    (S.STOPPING, E.STREAM_ENDED): (S.ENDED, A.CLOSE),
    (S.STOPPING, E.STREAM_FAILED): (S.BROKEN, A.CLOSE),
    (S.STOPPING, E.LIMIT_PASSED): (S.BROKEN, A.CLOSE),
    (S.STOPPING, E.ABORTED): (S.BROKEN, A.CLOSE),
    (S.DRAINING, E.STOP): (S.DRAINING, A.NOTHING),
    (S.DRAINING, E.STREAM_ENDED): (S.ENDED, A.CLOSE),
    (S.DRAINING, E.STREAM_FAILED): (S.BROKEN, A.CLOSE),
    (S.DRAINING, E.LIMIT_PASSED): (S.BROKEN, A.CLOSE),
    (S.DRAINING, E.ABORTED): (S.BROKEN, A.CLOSE),
    **{(state, event): (state, A.NOTHING) for state in (S.ENDED, S.BROKEN) for event in Event},
}


class SessionLife:
    """One session's place in the table."""

    __slots__ = ("state",)

    def __init__(self, state: State = State.STARTING) -> None:
        self.state = state

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.state in (State.ENDED, State.BROKEN)

    def on(self, event: Event) -> Action:
        """What to do. Raises KeyError for what cannot happen in this state: a mistake of the shell."""
        self.state, action = TABLE[self.state, event]
        return action
