"""The ways to a runtime: by pid, by the address where it listens, by waiting for it at an address of ours."""

from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from dotnetdiag.client.limits import Limits
from dotnetdiag.client.running import run as perform
from dotnetdiag.errors import DiagnosticsError, TargetStopped, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.information import process_info
from dotnetdiag.transport import Deadline, Stream, processes
from dotnetdiag.transport.addresses import parse_address
from dotnetdiag.transport.attempts import connecting_pid, find_endpoints, verify_target
from dotnetdiag.transport.connecting import connecting
from dotnetdiag.transport.discovery import verify_peer
from dotnetdiag.transport.waiting import Blocking, Change, Steps, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dotnetdiag.client.reverse import Dialler, ReversePort
    from dotnetdiag.transport import Address, Endpoint


T = TypeVar("T")
DIAL_SLICE_S = 0.2
"""After so long, and then twice as long each time, the end of a session that finds no connection looks whether the session is still there."""


class Route:
    """How to reach one runtime: as steps for both clients, and performed for the synchronous one."""

    def dialling(self) -> Steps[Stream]:
        """Make a connection for one command."""
        raise NotImplementedError

    def dialling_stopped(self) -> Steps[Stream | None]:
        """Make one to a process that a signal has stopped: it hears what comes then when it goes on. None where that is not known to be so."""
        yield from ()
        return None

    def finding_pid(self, *, confirmed: bool = False) -> Steps[int | None]:
        """The runtime's process, as this machine sees it; None where the system does not tell. ``confirmed``: also where a peer that may be
        a relay answers nothing.
        """
        raise NotImplementedError

    def certain_pid(self) -> int | None:
        """The runtime's process, where nothing can stand between: by an address, the peer may be a relay (``ssh -L``, dsrouter)."""
        return None

    def close(self) -> None:
        """Release what the route holds; most hold nothing."""

    def dial(self, deadline: Deadline) -> Stream:
        """A connection."""
        return run(self.dialling(), deadline)

    def target_pid(self, deadline: Deadline, *, confirmed: bool = False) -> int | None:
        """The process."""
        return run(self.finding_pid(confirmed=confirmed), deadline)

    def look(self, function: Callable[[], T]) -> T:
        """What a function finds on this machine; it may block."""
        return function()


class ProcessIdentity:
    """Which process a pid stands for: the one that was found first. A number that was given away is not followed."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        if not isinstance(pid, int):
            raise UsageError(f"{pid!r} is neither a pid nor a route: connect() takes an address")
        if isinstance(pid, bool) or pid <= 0:
            raise UsageError(f"{pid} is not a valid process ID")
        self.pid, self.known = pid, known
        self.found: Endpoint | None = known[0] if known else None

    @property
    def started_ticks(self) -> int | None:
        """When the process that is meant started; None while nobody has been found."""
        return None if self.found is None else self.found.started_ticks

    def take_known(self) -> Sequence[Endpoint] | None:
        """The endpoints that were found before: first those that were given, and then the one that answered last."""
        known, self.known = self.known, None
        return known or (None if self.found is None else [self.found])

    def target_pid(self, deadline: Deadline) -> int | None:
        """The process as this machine sees it: ``pid`` may be its number in a container. None behind a router."""
        found = [self.found] if self.found is not None else find_endpoints(self.pid, deadline)
        if found and found[0].dsrouter:
            return None
        return found[0].pid if found else self.pid


class PidRoute(Route):
    """Goes to the endpoint that answered last, and looks for another where that takes no connection: a socket may move. The process must stay the
    same. (To look at each command was 1 ms of each, in a thread of its own, and some where others work beside.)
    """

    @classmethod
    def at(cls, known: Sequence[Endpoint]) -> PidRoute:
        """The route to the process whose endpoints these are."""
        if not known:
            raise UsageError("no endpoint was given")
        return cls(known[0].pid, known)

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        self._process = ProcessIdentity(pid, known)

    def dialling(self) -> Steps[Stream]:
        process = self._process
        ticks = process.started_ticks
        stream, process.found = yield from connecting_pid(process.pid, known=process.take_known(), started_ticks=ticks)
        return stream

    def dialling_stopped(self) -> Steps[Stream | None]:
        found = self._process.found
        if found is None:
            return None
        stream = yield from connecting(found.address)
        if verify_peer(found, stream.peer_pid()) is None:
            return stream
        stream.close()
        return None

    def finding_pid(self, *, confirmed: bool = False) -> Steps[int | None]:  # noqa: ARG002 - nothing stands between
        pid: int | None = yield Blocking(self._process.target_pid)
        return pid

    def certain_pid(self) -> int | None:
        found = self._process.found
        return None if found is None or found.dsrouter else found.pid


class AddressRoute(Route):
    """A runtime listens there (``DOTNET_DiagnosticPorts=ADDRESS,listen``, or its default socket)."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def dialling(self) -> Steps[Stream]:
        stream = yield from connecting(self.address)
        try:
            if pid := stream.peer_pid():
                verify_target(pid, pid, None)  # one that is stopped would take a connection, and never answer
        except BaseException:
            stream.close()
            raise
        return stream

    def finding_pid(self, *, confirmed: bool = False) -> Steps[int | None]:
        with (yield from connecting(self.address)) as stream:  # a connection without a command harms nobody
            pid = stream.peer_pid()
        if not pid:
            return None
        says_so = yield Blocking(lambda deadline: self._says_so(pid, deadline))
        return pid if says_so or (says_so is None and not confirmed) else None

    def _says_so(self, pid: int, deadline: Deadline) -> bool | None:
        """Whether the runtime says that it has this process. None: it cannot say (.NET Core 3.x), or does not in half of the time and
        at most 2 s: what the process is wanted for takes time too.
        """
        limits = Limits(min(deadline.left_s / 2, 2.0), None)
        try:
            return processes.is_number_of(perform(Run(process_info()), self, limits).pid, pid)
        except DiagnosticsError:
            return None


class ReverseRoute(Route):
    """The first runtime that dials us, and from then on only this one (by its cookie). We listen from :meth:`opening` or the first use on."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._port: ReversePort | None = None
        self._opening = threading.Lock()
        self._wanting = 0
        self._chosen: Dialler | None = None
        self._closed = False

    def opening(self) -> Steps[ReversePort]:
        """Listen. What is given up meanwhile, by all who wanted it, is closed again."""
        self._wanting += 1
        try:
            port: ReversePort = yield Blocking(self._open)
            return port
        finally:
            self._wanting -= 1

    def _open(self, deadline: Deadline) -> ReversePort:
        from dotnetdiag.client.reverse import ReversePort

        while not self._opening.acquire(timeout=deadline.wait_s("the port is not open yet", address=str(self.address))):
            pass  # deadline.wait_s raises when it is over
        try:
            if not self._closed:
                self._port = port = self._port or ReversePort(self.address, deadline)
                if self._wanting and not self._closed:  # ``close`` waits for nobody: it may have come meanwhile
                    return port
                self._port = None
                port.close()
            raise TransportError("the port is closed", address=str(self.address))
        finally:
            self._opening.release()

    def dialling(self) -> Steps[Stream]:
        port = yield from self.opening()
        chosen = yield self._choice(port)
        return (yield from port.taking(chosen))

    def finding_pid(self, *, confirmed: bool = False) -> Steps[int | None]:  # noqa: ARG002 - nothing stands between
        pid: int | None = (yield self._choice((yield from self.opening()))).pid
        return pid

    def _choice(self, port: ReversePort) -> Change:
        """Wait for the runtime that is meant."""

        def look() -> Dialler | None:
            self._chosen = self._chosen or port.choose()
            return self._chosen

        return Change(look, port.observed, "no runtime has connected", str(self.address))

    def certain_pid(self) -> int | None:
        return None if self._chosen is None else self._chosen.pid

    def close(self) -> None:
        self._closed = True
        if self._port is not None:
            self._port.close()


class WhileOpen:
    """A route for as long as a session's stream is open: then nobody waits for its end any more. A process that is stopped is told too: it ends the
    session when it goes on, also when nobody waits for that; one without events does not notice that nobody reads.
    """

    def __init__(self, route: Route, stream: Stream) -> None:
        self._route, self._stream = route, stream

    def dial(self, deadline: Deadline) -> Stream:
        """As of the route. Raises TransportError when the session is closed."""
        slice_s = DIAL_SLICE_S
        while self._stream.fileno() >= 0:
            try:
                connection = self._dial(Deadline(min(deadline.wait_s("no connection"), slice_s)))
            except TimedOut as error:
                if deadline.is_over:
                    raise TimedOut("no connection", address=error.address, timeout_s=deadline.timeout_s) from error
                slice_s *= 2  # dialling starts anew: on a machine that is busy it may need longer
            except (TargetStopped, TransportError) as error:
                shortage = getattr(error.__cause__, "errno", None) in (errno.EMFILE, errno.ENFILE)  # of descriptors
                if deadline.is_over or not (shortage or isinstance(error, TargetStopped)):
                    raise
                time.sleep(min(DIAL_SLICE_S, deadline.left_s))  # it may pass; who reads waits too, and gives up
            else:
                if self._stream.fileno() >= 0:
                    return connection
                connection.close()
        raise TransportError("the session is closed", address=self._stream.address)

    def _dial(self, deadline: Deadline) -> Stream:
        try:
            return self._route.dial(deadline)
        except TargetStopped:
            connection = run(self._route.dialling_stopped(), deadline)
            if connection is None:
                raise
            return connection

    look = Route.look


def route_to(address: str) -> Route:
    """The route that ``ADDRESS[,connect|listen]`` means; ``connect`` when nothing is said. Nothing is opened yet."""
    from dotnetdiag.ipc.ports import PortMode, parse_tool_port

    port = parse_tool_port(address if "," in address else address + ",connect")
    return (ReverseRoute if port.mode is PortMode.LISTEN else AddressRoute)(parse_address(port.address))
