"""What one session wants of one provider: which events pass, and where they go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.nettrace import Metadata
from dotnetdiag.server.writing import Write

_ARGUMENT = re.compile(r'\s*+(?:"([^"]*+)"|([^=;"]*+))\s*+=\s*+(?:"([^"]*+)"|([^;]*+))(?:;|$)')
"""What is matched is not given back (``*+``): a request may have 30,000 blanks, and to try each way of sharing them out takes their cube."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subscription:
    """One provider of one session. Each is another than every other, whatever they say.

    ``stacks``: whether the session takes stacks. ``define`` gives what writes events of a type: its metadata, whose ``metadata_id`` the
    session chooses. ``skip`` counts an event of the calling thread that could not be written.
    """

    provider: str
    keywords: int
    level: int
    stacks: bool
    define: Callable[[Metadata], Write]
    skip: Callable[[], None]
    arguments: Mapping[str, str] = field(default_factory=dict)
    event_filter: EventFilter | None = None

    @classmethod
    def of(
        cls, provider: Provider, *, stacks: bool, define: Callable[[Metadata], Write], skip: Callable[[], None]
    ) -> Subscription:
        """As a request has it."""
        return cls(
            provider=provider.name or "",
            keywords=provider.keywords,
            level=provider.level,
            stacks=stacks,
            define=define,
            skip=skip,
            arguments=parse_arguments(provider.arguments or ""),
            event_filter=provider.event_filter,
        )

    def wants(self, *, level: int, keywords: int) -> bool:
        """Whether events of this level, and with any of these keywords, pass; those without keywords pass any."""
        asked = self.level == EventLevel.LOG_ALWAYS or level <= self.level
        return asked and (not keywords or bool(keywords & self.keywords))

    def wants_event(self, kind: Metadata) -> bool:
        """Whether events of this type pass."""
        chosen = self.event_filter
        passes = chosen is None or (kind.event_id in chosen.ids) == chosen.enable
        return passes and self.wants(level=kind.level, keywords=kind.keywords)

    def channel(self, kind: Metadata) -> Write | None:
        """What writes events of this type into the session; None when they do not pass."""
        return self.define(kind) if self.wants_event(kind) else None

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """An argument that is a number, within limits; ``default`` where it is not there, or is no number."""
        try:
            value = float(self.arguments.get(name, ""))
        except ValueError:
            return default
        return min(max(value, least), most) if value == value else default


def parse_arguments(text: str) -> dict[str, str]:
    """``key=value;key2="a;b"``: what quotes enclose may have ``;`` and ``=`` in it. Parts that say nothing are passed over."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ARGUMENT.match(text, at)
        if match is None:
            at = (text.find(";", at) + 1) or len(text)
            continue
        quoted, key, quoted_value, value = match.groups()
        name = (key if quoted is None else quoted).strip()
        if name:
            found.setdefault(name, (value or "").strip() if quoted_value is None else quoted_value)
        at = match.end()
    return found
