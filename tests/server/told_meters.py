"""Sessions of ``System.Diagnostics.Metrics``: what they were told, event by event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.server.recorded import LIMIT_S, Reader, request

import dotnetdiag
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.meter_events import PROVIDER
from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.registry import Registry

Told = list[tuple[str, dict[str, Any]]]


class MeterReader:
    """A session with these arguments, and what it was told."""

    def __init__(self, registry: Registry, arguments: str, *, keywords: int = 7) -> None:
        provider = Provider(name=PROVIDER, keywords=keywords, level=4, arguments=arguments)
        self.session = EventSession(request(provider), registry=registry).start()
        self._reader = Reader(self.session)

    def take(self, intervals: int, path: Path) -> Told:
        """Until so many further intervals have been told, which may be over already: what it was told so far."""
        before = len(named(self.told(path), "Collection/Stop"))
        return self.until(lambda told: len(named(told, "Collection/Stop")) >= before + intervals, path)

    def until(self, done: Callable[[Told], bool], path: Path) -> Told:
        """Until that is so of what it was told."""
        self._reader.take_until(lambda: done(self.told(path)))
        return self.told(path)

    def finish(self, path: Path) -> Told:
        """End the session: all it was told."""
        self.session.stop()
        self._reader.take_all()
        return self.told(path)

    def told(self, path: Path) -> Told:
        """So far."""
        path.write_bytes(b"".join(self._reader.parts))
        if not self._reader.parts:
            return []
        events = dotnetdiag.open(path).events()
        return [(one.name, one.payload) for one in events if one.provider == PROVIDER]


def values(told: Told, instrument: str, *, tags: str | None = None) -> list[dict[str, Any]]:
    """The values of an instrument, in the order in which they came."""
    return [
        payload
        for name, payload in told
        if name.endswith("ValuePublished")
        and payload["instrumentName"] == instrument
        and (tags is None or payload["tags"] == tags)
    ]


def named(told: Told, event: str) -> list[dict[str, Any]]:
    """The events of that name."""
    return [payload for name, payload in told if name == event]


def meter_threads() -> list[threading.Thread]:
    """Those that read meters now and have not been told to end."""
    found = [one for one in threading.enumerate() if one.name == f"{OWN_THREADS}meters"]
    return [one for one in found if not getattr(one, "is_ending", False)]


def wait_for_meter_threads() -> None:
    """Until those that were told to end have."""
    for thread in [one for one in threading.enumerate() if one.name == f"{OWN_THREADS}meters"]:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
