"""Route between tools and runtimes until told to stop, and ask a running router who is connected."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError, TransportError
from dotnetdiag.recipes.security import security_of
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.router.router import Router
from dotnetdiag.router.status import RouterEvent
from dotnetdiag.router.websocket import is_websocket
from dotnetdiag.transport import Deadline, TcpAddress, connect, parse_address
from dotnetdiag.transport.security import NO_SECURITY

LOOK_S = 0.1
MOST_EVENTS = 10_000
ANSWER_S = 5.0
LARGEST_STATUS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterOptions:
    """As of ``Router``. ``tools`` empty: they find us by our pid. The files are those of ``security_of``, for ``secured`` sides."""

    tools: str = ""
    runtimes: str
    certificate: str = ""
    key: str = ""
    ca: str = ""
    token_file: str = ""
    secured: tuple[str, ...] = ("tools", "runtimes")
    insecure: bool = False
    each: bool = False
    runtime_timeout_s: float | None = None
    status_address: str = ""


def route(
    options: RouterOptions,
    *,
    stop: Stop,
    listening: Callable[[Router], None] = lambda _: None,
    on_event: Callable[[RouterEvent], None] = lambda _: None,
) -> None:
    """Route until ``stop``. ``listening`` is told when peers can dial, ``on_event`` what happens, both in this thread: who is slow to take it
    delays nobody, and loses what is more than ``MOST_EVENTS`` behind. Raises what ``Router`` raises.
    """
    events = _Events()
    security = security_of(
        certificate=options.certificate, key=options.key, ca=options.ca, token_file=options.token_file
    )
    with Router(
        tools=options.tools,
        runtimes=options.runtimes,
        tools_security=security if "tools" in options.secured else NO_SECURITY,
        runtimes_security=security if "runtimes" in options.secured else NO_SECURITY,
        insecure=options.insecure,
        each=options.each,
        runtime_timeout_s=options.runtime_timeout_s,
        status_address=options.status_address,
        on_event=events.put,
    ) as router:
        listening(router)
        while not (stop.is_stopping or stop.is_cancelled or router.wait(0)):
            events.tell(on_event, LOOK_S)
    events.tell(on_event, 0)


def kind_of(address: str) -> str:
    """``"tcp"``, ``"web socket"``, or ``"path"`` of a Unix socket or a named pipe. Raises GrammarError."""
    if is_websocket(address):
        return "web socket"
    return "tcp" if isinstance(parse_address(address), TcpAddress) else "path"


class _Events:
    """What has happened and was not told yet."""

    def __init__(self) -> None:
        self._queue: queue.Queue[RouterEvent] = queue.Queue(MOST_EVENTS)
        self._lost = 0

    def put(self, event: RouterEvent) -> None:
        """Never waits."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._lost += 1

    def tell(self, on_event: Callable[[RouterEvent], None], wait_s: float) -> None:
        """All that is there; the first is waited for."""
        try:
            event = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
            while True:
                on_event(event)
                if self._lost:
                    lost, self._lost = self._lost, 0
                    on_event(RouterEvent(what="lost", seconds=event.seconds, why=f"{lost} events, which nobody took"))
                event = self._queue.get_nowait()
        except queue.Empty:
            pass


def router_status(address: str) -> dict[str, Any]:
    """What the router says that has its status socket at ``address``. Raises TransportError, FormatError."""
    deadline = Deadline(ANSWER_S)
    with connect(parse_address(address), deadline) as stream:
        data = bytearray()
        while part := stream.receive(1 << 16, deadline):
            data += part
            if len(data) > LARGEST_STATUS:
                raise TransportError("this says too much for a router", address=address)
    try:
        status = json.loads(data)
        if not isinstance(status, dict) or not {"connected", "commands", "tools", "runtimes"} <= status.keys():
            raise ValueError("it has not what a status has")
    except ValueError as exc:
        raise FormatError(f"this is no router's status: {exc}", where=address) from exc
    return status
