"""Event sources of a Python program: typed events that any diagnostic tool can ask for by name.

::

    orders = EventSource("My-Orders")
    order_placed = orders.event("OrderPlaced", fields={"id": int, "customer": str})

    order_placed(7, "Ada")                  # nearly free while no session wants it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.nettrace import Metadata
from dotnetdiag.server.activities import ACTIVITY
from dotnetdiag.server.code_addresses import CODE_ADDRESSES
from dotnetdiag.server.event_fields import EventFields
from dotnetdiag.server.registry import EVENT_IDS, REGISTRY, RUNDOWN, Registry
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.value_text import text_of
from dotnetdiag.server.writing import Write

OPCODE_START, OPCODE_STOP = 1, 2


class Event:
    """One event of a source. Call it with its values, by position or by name.

    The call never raises, unless the source is ``strict``: an event with values that do not fit its fields, or whose own code raises, is
    counted as lost.
    """

    __slots__ = ("_fields", "_kind", "_pack", "_source", "_start", "_strict", "_writes")

    def __init__(self, source: EventSource, kind: Metadata, fields: EventFields) -> None:
        self._source, self._kind, self._fields = source, kind, fields
        self._pack = fields.pack
        self._strict = source.strict
        self._start = kind.opcode == OPCODE_START
        self._writes: tuple[Write, ...] = ()

    @property
    def name(self) -> str:
        """As it was declared."""
        return self._kind.name

    @property
    def id(self) -> int:
        """Unique in its source."""
        return self._kind.event_id

    @property
    def is_enabled(self) -> bool:
        """Whether a session wants it now: for values that are dear to compute."""
        return bool(self._writes)

    def __call__(self, *values: Any, **named: Any) -> None:
        if not self._writes and not self._strict:
            return
        given: Sequence[Any] = values
        try:
            if named:
                given = self._in_order(values, named)
            payload = self._pack(*given)
        except Exception as error:  # values that do not fit, or whatever their own code raises
            if is_of_signal(error):
                raise
            if self._strict:
                problem = "" if named and given is values else self._fields.problem(given)
                raise UsageError(f"{self._kind.name} takes {self._fields}: {problem or text_of(error)}") from error
            self._source.skip(self._kind)
            return
        current, around = ACTIVITY.get()
        if not self._start:
            around = b""
        stack = CODE_ADDRESSES.stack(1) if self._source.stacks else b""
        for write in self._writes:
            write(payload, current, around, stack)

    def _in_order(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = self._fields.names[len(values) :]
        if named.keys() != set(names):
            raise TypeError(f"values are lacking or too many: {', '.join(sorted(named.keys() ^ set(names)))}")
        return [*values, *(named[name] for name in names)]

    def _join(self, subscriptions: tuple[Subscription, ...]) -> None:
        channels = (subscription.channel(self._kind) for subscription in subscriptions)
        self._writes = tuple(write for write in channels if write is not None)


class EventSource:
    """A provider of events under a name of its own. Sessions that ask for it find it whenever it is made.

    ``stacks``: each event carries the Python stack of its caller (about 0.2 µs a frame), for sessions that take stacks. ``strict``: values
    that do not fit raise UsageError, also while no session listens; for tests. UsageError for a name that no session can ask for.
    """

    def __init__(self, name: str, *, stacks: bool = False, strict: bool = False, registry: Registry = REGISTRY) -> None:
        if not isinstance(name, str) or not name or "\0" in name or name in ("*", RUNDOWN):
            raise UsageError(f"{name!r} cannot be the name of an event source")
        self._name = name
        self._wants_stacks = stacks
        self.strict = strict
        self.stacks = False
        """Whether a session wants stacks now."""
        self._registry = registry
        self._events: dict[str, Event] = {}
        self._subscriptions: tuple[Subscription, ...] = ()
        registry.add(self)

    @property
    def name(self) -> str:
        """What sessions ask for, in the same case."""
        return self._name

    @property
    def events(self) -> tuple[Event, ...]:
        """In the order of their declaration."""
        return tuple(self._events.values())

    def event(
        self,
        name: str,
        *,
        fields: Mapping[str, object] | type | None = None,
        id: int | None = None,  # the word of the format
        level: int = EventLevel.INFORMATIONAL,
        keywords: int = 0,
        opcode: int = 0,
        version: int = 0,
    ) -> Event:
        """Declare an event; ``fields`` as :mod:`~dotnetdiag.server.event_fields` has them, from a mapping or a dataclass.

        ``id`` is by default the next that no source of this name has had. Events without ``keywords`` pass whatever keywords a session has.
        UsageError for what readers would not take, for a name that is taken, and for an id that stands for another type.
        """
        if not name or "\0" in name or name in self._events:
            raise UsageError(
                f"{self._name} has an event {name!r} already" if name in self._events else f"{name!r} is no name"
            )
        with self._registry.lock:
            if id is not None and id not in EVENT_IDS:
                raise UsageError(f"{id} is no id: 1 to {EVENT_IDS[-1]}")
            for what, value, most in (("level", level, 5), ("opcode", opcode, 0xFF), ("version", version, 0xFF)):
                if not 0 <= value <= most:
                    raise UsageError(f"{what} {value} of {name}: 0 to {most}")
            if not 0 <= keywords < 1 << 64:
                raise UsageError(f"keywords {keywords:#x} of {name} are more than 64 bits")
            declared = EventFields.of(fields)
            kind = Metadata(
                metadata_id=0,
                provider=self._name,
                event_id=id or 0,
                name=name,
                keywords=keywords,
                version=version,
                level=int(level),
                opcode=int(opcode) or None,
                fields=declared.types,
                declared=bool(declared.types),
            )
            made = self._events[name] = Event(self, self._registry.declare(kind), declared)
            made._join(self._subscriptions)
        return made

    def is_enabled(self, level: int = EventLevel.LOG_ALWAYS, keywords: int = 0) -> bool:
        """Whether a session would take events of this level and any of these keywords."""
        return any(one.wants(level=level, keywords=keywords) for one in self._subscriptions)

    def close(self) -> None:
        """Write no more events; sessions that run go on without it."""
        self._registry.remove(self)

    # what the registry and the events call ------------------------------------------------------------------------

    def join(self, subscription: Subscription) -> None:
        """A session wants events."""
        self._change((*self._subscriptions, subscription))

    def leave(self, subscription: Subscription) -> None:
        """It wants no more."""
        self._change(tuple(one for one in self._subscriptions if one is not subscription))

    def _change(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._subscriptions = subscriptions
        self.stacks = self._wants_stacks and any(one.stacks for one in subscriptions)
        for event in self._events.values():
            event._join(subscriptions)

    def skip(self, kind: Metadata) -> None:
        """Count an event that could not be written, in the sessions that would have it."""
        for subscription in self._subscriptions:
            if subscription.wants_event(kind):
                subscription.skip()
