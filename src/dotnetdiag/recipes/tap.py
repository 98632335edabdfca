"""Stand between tools and a runtime, and tell what both say."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import OutputError
from dotnetdiag.recipes.backlog import Backlog
from dotnetdiag.recipes.outputs import check_outputs
from dotnetdiag.recipes.pcap_file import PcapFile
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target
from dotnetdiag.router.conversations import RUNTIME, TOOL, Conversations, Heard
from dotnetdiag.router.router import Router
from dotnetdiag.router.status import RouterEvent
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.attempts import connecting_pid
from dotnetdiag.transport.waiting import run

__all__ = ["Heard", "RouterEvent", "TapOptions", "tap"]

LOOK_S = 0.1
FIND_S = 10.0
"""For a runtime to be found."""
RUNTIME_S = 5.0
"""A tool waits so long for a runtime that listens; for one that dials us, which may have to be started, ``DIALLER_S``."""
DIALLER_S = 600.0
BACKLOG_BYTES = 64 << 20
THING_BYTES = 1 << 10
"""What a message takes in memory, besides several times its own size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TapOptions:
    """``target``: a pid, a name or a port. ``listen``: where tools are to connect, by default a path of its own in the folder for temporary files.
    ``pcap``: a capture of all that is said, streams included; what is there is overwritten with ``force`` only.
    """

    target: Target
    listen: str = ""
    pcap: Path | None = None
    force: bool = False


def tap(
    options: TapOptions,
    *,
    stop: Stop,
    listening: Callable[[Router], None] = lambda _: None,
    on_heard: Callable[[Heard], None] = lambda _: None,
    on_event: Callable[[RouterEvent], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> None:
    """Forward what tools say at our address to the runtime, and what it answers, and tell both, until ``stop``.

    The runtime's own socket stays as it is. ``listening`` is told when tools can connect; ``on_heard`` each message, ``on_event`` who comes and goes
    (``RouterEvent``), in their order and in this thread. Who is slow to take them holds up no tool, and loses what is more than ``BACKLOG_BYTES``
    behind: an event ``lost`` says how many. A stream of events is counted, not told. Descriptors (of user_events) are not forwarded.
    ``on_warning`` is told once, on a line, when the capture takes no more; the tap goes on without it.

    Raises TargetError for a runtime that is not there, TransportError for an address that is taken, OutputError for a capture that could not
    be written to its end, once all else is done, and what ``Router`` raises.
    """
    port, timeout_s = _runtime_port(options.target)
    with _pcap(options) as pcap:
        ear = _Ear(pcap)
        with Router(
            tools=f"{options.listen or _default_address()},listen",
            runtimes=port,
            runtime_timeout_s=timeout_s,
            on_event=ear.on_event,
            on_bytes=ear.on_bytes,
        ) as router:
            listening(router)
            while not (stop.is_stopping or stop.is_cancelled or router.wait(0)):
                ear.tell(on_heard, on_event, LOOK_S)
                if pcap is not None and (why := pcap.maybe_news()):
                    on_warning(f"{why}; the tap goes on without a capture")
        ear.tell(on_heard, on_event, 0)


def _default_address() -> str:
    return os.path.join(tempfile.gettempdir(), f"dotnetdiag-tap-{os.getpid()}")


def _runtime_port(target: Target) -> tuple[str, float]:
    """Where the runtime is, as a router takes it, and how long a tool waits for it."""
    if target.port is not None:
        return target.port, DIALLER_S if target.listens else RUNTIME_S
    pid = target.pid
    if pid is None:
        from dotnetdiag.recipes.processes import find_pid

        assert target.name is not None
        pid = find_pid(target.name)
    stream, endpoint = run(connecting_pid(pid), Deadline(FIND_S))
    stream.close()
    return f"{endpoint.address},connect", RUNTIME_S


@contextmanager
def _pcap(options: TapOptions) -> Iterator[_Capture | None]:
    """The capture, which only its owner can read: it holds command lines and the environment."""
    if options.pcap is None:
        yield None
        return
    check_outputs([options.pcap], force=options.force)
    try:
        fd = os.open(options.pcap, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise OutputError(str(options.pcap), error.strerror or str(error)) from error
    capture = _Capture(options.pcap, fd)
    try:
        yield capture
    finally:
        capture.close()
    if capture.error is not None:
        raise capture.error


class _Capture:
    """A pcap that ends where its file takes no more: ``error`` says why."""

    def __init__(self, path: Path, fd: int) -> None:
        self.error: OutputError | None = None
        self._is_told = False
        self._path, self._file = path, os.fdopen(fd, "wb", buffering=1 << 18)
        self._pcap = PcapFile(self._file)

    def write(self, connection: int, from_tool: bool, data: memoryview, time_s: float) -> None:
        self._attempt(lambda: self._pcap.write(connection, from_tool, data, time_s))

    def end(self, connection: int, time_s: float) -> None:
        self._attempt(lambda: self._pcap.close(connection, time_s))
        self._attempt(self._file.flush)

    def maybe_news(self) -> OutputError | None:
        """Why it has ended, once; None before, and after."""
        if self.error is None or self._is_told:
            return None
        self._is_told = True
        return self.error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)

    def _attempt(self, write: Callable[[], None]) -> None:
        if self.error is None:
            try:
                write()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = self.error or OutputError(str(self._path), error.strerror or str(error))


class _Ear:
    """What the router's thread hears, explained there, and kept for ours."""

    def __init__(self, capture: _Capture | None) -> None:
        self._capture = capture
        self._conversations = Conversations(knows_sides=True)
        self._backlog: Backlog[Heard | RouterEvent] = Backlog(BACKLOG_BYTES)

    def on_bytes(self, number: int, from_tool: bool, data: memoryview) -> None:
        now = time.time()
        if self._capture is not None:
            self._capture.write(number, from_tool, data, now)
        self._put(self._conversations.feed(number, TOOL if from_tool else RUNTIME, data, now))

    def on_event(self, event: RouterEvent) -> None:
        if event.what == "ended" and event.number is not None:
            now = time.time()
            if self._capture is not None:
                self._capture.end(event.number, now)
            self._put(self._conversations.end(event.number, now))
        self._backlog.put(event, THING_BYTES)

    def _put(self, said: list[Heard]) -> None:
        for heard in said:
            size = sum(field.size for field in heard.message.fields)
            self._backlog.put(heard, THING_BYTES + 4 * size + THING_BYTES // 2 * len(heard.message.fields))

    def tell(self, on_heard: Callable[[Heard], None], on_event: Callable[[RouterEvent], None], wait_s: float) -> None:
        things, lost = self._backlog.take(wait_s)
        for thing in things:
            if isinstance(thing, Heard):
                on_heard(thing)
            else:
                on_event(thing)
        if lost:
            on_event(RouterEvent(what="lost", seconds=0.0, why=f"{lost} messages, which nobody took in time"))
