"""The conversations of many connections at once, explained: those that a router forwards, or that a capture holds."""

from __future__ import annotations

from datetime import UTC, datetime

from dotnetdiag._dataclasses import as_dict, dataclass
from dotnetdiag.ipc.conversation import Conversation
from dotnetdiag.ipc.explanation import ExplainedField, ExplainedMessage, Sender

__all__ = ["Conversations", "ExplainedField", "ExplainedMessage", "Heard", "Sender", "mixed_conversation"]

MOST_CONVERSATIONS = 4096
"""At the same time; with one more, the one that has said nothing for longest is taken for ended."""
TOOL, RUNTIME = 0, 1
"""The ways of a connection whose sides are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message, and where it was heard. ``connection`` counts from 1; ``time_s``: seconds since 1970, None where nobody has noted it."""

    connection: int
    time_s: float | None
    message: ExplainedMessage

    def to_dict(self) -> dict[str, object]:
        """The same for JSON; the time in UTC."""
        message = self.message
        return {
            "connection": self.connection,
            "time": None if self.time_s is None else utc_text(self.time_s),
            "sender": None if message.sender is None else message.sender.value,
            "kind": message.kind,
            "name": message.name,
            "offset": message.offset,
            "size": message.size,
            "fields": [as_dict(field) for field in message.fields],
            "problems": list(message.problems),
        }


def utc_text(time_s: float) -> str:
    """``2026-11-23T07:18:34.000123Z``; of what is no time, ``""``."""
    try:
        return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def mixed_conversation() -> Conversation:
    """Of a file that holds what both sides have said, one after the other."""
    return Conversation(mixed=True)


class Conversations:
    """By number of connection. ``knows_sides``: way 0 is the tool's; else who speaks is found by what is said."""

    def __init__(self, *, knows_sides: bool) -> None:
        self._senders = (Sender.TOOL, Sender.RUNTIME) if knows_sides else None
        self._open: dict[int, Conversation] = {}

    def feed(self, connection: int, way: int, data: bytes | memoryview, time_s: float | None) -> list[Heard]:
        """Bytes have come on a way of a connection; none: the way has ended."""
        conversation = self._open.pop(connection, None) or Conversation(senders=self._senders)
        self._open[connection] = conversation  # the last to have spoken
        said = conversation.feed(way, data) if len(data) else conversation.end(way)
        found = _heard(connection, said, time_s)
        if len(self._open) > MOST_CONVERSATIONS:
            found += self.end(next(iter(self._open)), time_s)
        return found

    def gap(self, connection: int, way: int, size: int | None, time_s: float | None) -> list[Heard]:
        """So many bytes of a way are missing; None: all that follows."""
        conversation = self._open.get(connection)
        return [] if conversation is None else _heard(connection, conversation.gap(way, size), time_s)

    def end(self, connection: int, time_s: float | None) -> list[Heard]:
        """The connection is closed."""
        conversation = self._open.pop(connection, None)
        return [] if conversation is None else _heard(connection, conversation.end(), time_s)

    def end_all(self) -> list[Heard]:
        """Nothing more comes of any connection."""
        return [one for connection in list(self._open) for one in self.end(connection, None)]


def _heard(connection: int, said: list[ExplainedMessage], time_s: float | None) -> list[Heard]:
    return [Heard(connection=connection, time_s=time_s, message=message) for message in said]
