"""Sessions without sockets: a request, what happens meanwhile, and the stream as it came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing5
from dotnetdiag.server.event_session import NETPERF, EventSession
from dotnetdiag.server.registry import Registry

LIMIT_S = 60.0


def request(*wanted: str | Provider, buffer_mb: int = 16, rundown_keyword: int = 0, **more: Any) -> CollectTracing5:
    """For these providers; for everything of one that is a text: ``name`` or ``name:arguments``."""
    providers = tuple(one if isinstance(one, Provider) else _everything_of(one) for one in wanted)
    return CollectTracing5(buffer_mb=buffer_mb, providers=providers, rundown_keyword=rundown_keyword, **more)


def _everything_of(text: str) -> Provider:
    name, _, arguments = text.partition(":")
    return Provider(name=name, arguments=arguments or None)


class Reader:
    """Takes the stream as a connection would: when it is told that there is something."""

    def __init__(self, session: EventSession) -> None:
        self.session = session
        self.parts: list[bytes] = []
        self._ready = threading.Event()
        session.on_ready(self._ready.set)

    def take_until(self, done: Callable[[], bool]) -> None:
        """Take what comes until that is so, or the stream ends."""
        while not done():
            self._ready.clear()
            data = self.session.take(1 << 16)
            if data is None:
                return
            if data:
                self.parts.append(data)
            else:
                assert self._ready.wait(LIMIT_S), "nothing came, and no end"

    def take_all(self) -> bytes:
        """To the end of the stream."""
        self.take_until(lambda: False)
        return b"".join(self.parts)


@contextmanager
def recording(
    path: Path, registry: Registry, *wanted: str | Provider, nettrace_version: int = 4, **more: Any
) -> Iterator[Reader]:
    """A session while the block runs; then the file is there. Version 3 is NetPerf."""
    if nettrace_version == NETPERF:
        more["format"], nettrace_version = TraceFormat.NETPERF, 4
    session = EventSession(request(*wanted, **more), registry=registry, nettrace_version=nettrace_version).start()
    reader = Reader(session)
    taker = threading.Thread(target=reader.take_all, name="dotnetdiag test reader")
    taker.start()
    try:
        yield reader
    finally:
        session.stop()
        taker.join(LIMIT_S)
        assert not taker.is_alive()
        assert session.join(LIMIT_S)
    path.write_bytes(b"".join(reader.parts))
