"""Where the events of one provider go: for each of its event types, what writes it into the sessions that want it."""

from __future__ import annotations

from dotnetdiag.nettrace import Metadata
from dotnetdiag.server.activities import ACTIVITY
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.writing import Write


class Channels:
    """By event type. What has none is wanted by nobody."""

    def __init__(self, *kinds: Metadata) -> None:
        self._kinds = kinds
        self._subscriptions: tuple[tuple[Subscription, dict[int, Write]], ...] = ()
        self._writes: dict[int, tuple[Write, ...]] = {}

    def add(self, subscription: Subscription) -> None:
        """Ask a session which of them it wants."""
        channels = {kind.event_id: subscription.channel(kind) for kind in self._kinds}
        wanted = {number: write for number, write in channels.items() if write is not None}
        self._change((*self._subscriptions, (subscription, wanted)))

    def remove(self, subscription: Subscription) -> None:
        """It wants no more."""
        self._change(tuple(one for one in self._subscriptions if one[0] is not subscription))

    def _change(self, subscriptions: tuple[tuple[Subscription, dict[int, Write]], ...]) -> None:
        self._subscriptions = subscriptions
        writes: dict[int, tuple[Write, ...]] = {}
        for _, wanted in subscriptions:
            for number, write in wanted.items():
                writes[number] = (*writes.get(number, ()), write)
        self._writes = writes

    def wanted(self, kind: Metadata) -> bool:
        """Whether a session wants this one."""
        return kind.event_id in self._writes

    def __bool__(self) -> bool:
        return bool(self._writes)

    def skip(self, kind: Metadata) -> None:
        """Count an event that could not be written, in all sessions that want it."""
        for subscription, wanted in self._subscriptions:
            if kind.event_id in wanted:
                subscription.skip()

    def write(self, kind: Metadata, payload: bytes, stack: bytes = b"") -> None:
        """One event, into all sessions that want it, with the activity of whoever writes."""
        activity, _ = ACTIVITY.get()
        for write in self._writes.get(kind.event_id, ()):
            write(payload, activity, b"", stack)
