"""The reverse server: a diagnostic port of ours that any number of runtimes dial (``DOTNET_DiagnosticPorts=ADDRESS``), as objects to hold.

What the port decides stands in ``ipc.waiting``. Here is who is there; ``server_aio`` has the other shell.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from dotnetdiag.client.client import Client
from dotnetdiag.client.limits import TIMEOUT_S
from dotnetdiag.client.reverse import Dialler, ReversePort
from dotnetdiag.client.routes import Route
from dotnetdiag.errors import TransportError
from dotnetdiag.transport import Deadline, Stream
from dotnetdiag.transport.addresses import parse_address
from dotnetdiag.transport.streams import Closing
from dotnetdiag.transport.waiting import Change, Steps, run

if TYPE_CHECKING:
    from dotnetdiag.ipc.operations.information import ProcessInformation
    from dotnetdiag.transport.security import Security

C = TypeVar("C")
R = TypeVar("R", bound="Connected[Any]")


class DiallerRoute(Route):
    """One of the runtimes that dial a port."""

    def __init__(self, port: ReversePort, dialler: Dialler) -> None:
        self._port, self._dialler = port, dialler

    def dialling(self) -> Steps[Stream]:
        return (yield from self._port.taking(self._dialler, may_return=False))

    def finding_pid(self, *, confirmed: bool = False) -> Steps[int | None]:  # noqa: ARG002 - it has said so
        yield from ()
        return self._dialler.pid

    def certain_pid(self) -> int | None:
        return self._dialler.pid


class Connected(Generic[C]):
    """What both shells know of a runtime that has dialled."""

    client: C

    def __init__(self, port: ReversePort, dialler: Dialler, client: C) -> None:
        self._port, self._dialler, self.client = port, dialler, client

    @property
    def cookie(self) -> UUID:
        """Which runtime it is: it says the same one whenever it dials, and in ``ProcessInfo``."""
        return self._dialler.cookie

    @property
    def pid(self) -> int | None:
        """Its process as this machine sees it; None where the system does not tell, or a relay stands between."""
        return self._dialler.pid

    @property
    def namespace_pid(self) -> int:
        """The pid that the runtime itself says: in a container often 1."""
        return self._dialler.namespace_pid

    @property
    def is_connected(self) -> bool:
        """Whether it is still there. That a process has ended is noticed about a second later."""
        return self._dialler in self._port.diallers()

    def __repr__(self) -> str:
        gone = "" if self.is_connected else ", gone"
        return f"<{type(self).__name__} pid {self.pid or self.namespace_pid}, cookie {self.cookie}{gone}>"


class ConnectedRuntime(Connected[Client]):
    """A runtime that has dialled a port of ours. ``client`` is one like any other: each command takes a connection of its own, which the
    runtime makes anew; who asks first gets it first.
    """

    _info: ProcessInformation | None = None

    @property
    def info(self) -> ProcessInformation:
        """What ``client.process_info()`` says, asked once. Raises what it raises."""
        self._info = self._info or self.client.process_info()
        return self._info

    @property
    def is_suspended(self) -> bool | None:
        """Whether it waits at startup, as ``client.is_suspended()`` finds now: None where that cannot be told."""
        return self.client.is_suspended()

    def resume(self) -> None:
        """Let it run; no effect on one that does."""
        self.client.resume()


class Presence(Generic[R]):
    """The runtimes of a port, each as one object for as long as it is there."""

    def __init__(self, port: ReversePort, timeout_s: float) -> None:
        self.port, self.timeout_s = port, timeout_s
        self._lock = threading.Lock()
        self._known: dict[Dialler, R] = {}

    def make(self, dialler: Dialler) -> R:
        """The shell's own object."""
        raise NotImplementedError

    def all(self) -> tuple[R, ...]:
        """Those that are there now."""
        with self._lock:
            self._known = {dialler: self._known.get(dialler) or self.make(dialler) for dialler in self.port.diallers()}
            return tuple(self._known.values())

    def arriving(self, given: set[R]) -> Steps[R | None]:
        """The first that is not among those given, which it joins; None once the port is closed."""

        def look() -> tuple[R | None] | None:
            there = self.all()
            given.intersection_update(there)
            for one in there:
                if one not in given:
                    return (one,)
            return (None,) if self.port.is_closed else None

        (found,) = yield Change(look, self.port.observed, "no runtime has connected", str(self.port.address))
        if found is not None:
            given.add(found)
        return found  # type: ignore[no-any-return]


class _SyncPresence(Presence[ConnectedRuntime]):
    def make(self, dialler: Dialler) -> ConnectedRuntime:
        client = Client(DiallerRoute(self.port, dialler), timeout_s=self.timeout_s)
        return ConnectedRuntime(self.port, dialler, client)


def opened(address: str, deadline: Deadline, security: Security | None) -> ReversePort:
    """The port of a server. Raises UsageError for an address that no runtime can dial."""
    return ReversePort(parse_address(address), deadline, in_order=False, security=security)


class RuntimeServer(Closing):
    """Listens on ``address`` (``/path`` or ``host:port``) for runtimes that were told to dial it, from the moment that it is made.

    ``for runtime in server:`` gives each as it comes, those that are there first, until the server is closed. A runtime that is
    suspended stays so until somebody resumes it. When the server is closed runtimes go on, and try to dial again. ``timeout_s`` bounds each
    call of the runtimes' clients, as in ``Client``.

    A socket is made with mode 0600; a stale one is replaced. With ``security`` who dials over TCP must show a certificate, a token, or both: a
    ``Router`` beside the runtimes does. Raises TransportError where another process listens, saying which, and UsageError for TCP beyond
    loopback without both. Several threads may use a server.
    """

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> None:
        self._presence = _SyncPresence(opened(address, Deadline(timeout_s), security), timeout_s)

    @property
    def address(self) -> str:
        """Where it listens, as runtimes take it."""
        return str(self._presence.port.address)

    @property
    def runtimes(self) -> tuple[ConnectedRuntime, ...]:
        """Those that are there now, in the order in which they came; the same object as long as one is there."""
        return self._presence.all()

    def wait(self, *, timeout_s: float | None = None) -> ConnectedRuntime:
        """The runtime that came first of those there, or the first to come. Raises TimedOut, and TransportError once it is closed."""
        found = run(self._presence.arriving(set()), Deadline(timeout_s))
        return not_closed(found, self.address)

    def __iter__(self) -> Iterator[ConnectedRuntime]:
        given: set[ConnectedRuntime] = set()
        while (one := run(self._presence.arriving(given), Deadline(None))) is not None:
            yield one

    def close(self) -> None:
        """Stop listening. May be called again, and from another thread: iterations end."""
        self._presence.port.close()

    def __repr__(self) -> str:
        return f"<RuntimeServer {self.address}: {len(self.runtimes)} runtimes>"


def listen(address: str, *, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> RuntimeServer:
    """A server for the runtimes that dial ``address``: ``with dd.listen("/run/app.sock") as server: for runtime in server: …``.

    See ``RuntimeServer``, which it makes; ``AsyncRuntimeServer`` is for asyncio. Raises TransportError, UsageError.
    """
    return RuntimeServer(address, timeout_s=timeout_s, security=security)


def not_closed(found: R | None, address: str) -> R:
    """What was waited for."""
    if found is None:
        raise TransportError("the port is closed", address=address)
    return found
