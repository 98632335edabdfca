"""The ways to a runtime: by pid, by the address where it listens, by waiting for it at an address of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.errors import TargetStopped, UsageError
from dotnetdiag.transport import Deadline, Stream, candidates, connect, connect_pid
from dotnetdiag.transport.attempts import verify_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dotnetdiag.client.reverse import ReversePort
    from dotnetdiag.ipc.advertise import Advertise
    from dotnetdiag.transport import Address, Endpoint


class Route:
    """How to reach one runtime."""

    def dial(self, deadline: Deadline) -> Stream:
        """A connection for one command."""
        raise NotImplementedError

    def target_pid(self, deadline: Deadline) -> int | None:
        """The runtime's process, as this machine sees it; None where the system does not tell."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the route holds; most hold nothing."""


class ProcessIdentity:
    """Which process a pid stands for: the one that was found first. A number that was given away is not followed."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        if isinstance(pid, bool) or not isinstance(pid, int) or pid <= 0:
            raise UsageError(f"{pid} is not a valid process ID")
        self.pid, self.known = pid, known
        self.found: Endpoint | None = known[0] if known else None

    @property
    def started_ticks(self) -> int | None:
        """When the process that is meant started; None while nobody has been found."""
        return None if self.found is None else self.found.started_ticks

    def take_known(self) -> Sequence[Endpoint] | None:
        """The endpoints that were found before; once: they may be out of date later."""
        known, self.known = self.known, None
        return known

    def target_pid(self) -> int:
        """The process as this machine sees it: ``pid`` may be its number in a container."""
        if self.found is None:
            found = candidates(self.pid)
            return found[0].pid if found else self.pid
        return self.found.pid


class PidRoute(Route):
    """Looks for the endpoint at each command: a socket may move. The process must stay the same."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        self._process = ProcessIdentity(pid, known)

    def dial(self, deadline: Deadline) -> Stream:
        process = self._process
        stream, process.found = connect_pid(
            process.pid, deadline, known=process.take_known(), started_ticks=process.started_ticks
        )
        return stream

    def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - the base has it
        return self._process.target_pid()


class AddressRoute(Route):
    """A runtime listens there (``DOTNET_DiagnosticPorts=ADDRESS,listen``, or its default socket)."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def dial(self, deadline: Deadline) -> Stream:
        stream = connect(self.address, deadline)
        try:
            refuse_stopped(stream.peer_pid())
        except TargetStopped:
            stream.close()
            raise
        return stream

    def target_pid(self, deadline: Deadline) -> int | None:
        with connect(self.address, deadline) as stream:  # a connection without a command harms nobody
            return stream.peer_pid() or None


class ReverseRoute(Route):
    """The first runtime that dials us, and from then on only this one (by its cookie)."""

    def __init__(self, port: ReversePort) -> None:
        self.port = port
        self._chosen: tuple[Advertise, int | None] | None = None

    def dial(self, deadline: Deadline) -> Stream:
        cookie = self._choose(deadline)[0].cookie
        return self.port.wait(lambda: self.port.take(cookie), deadline)

    def target_pid(self, deadline: Deadline) -> int | None:
        return self._choose(deadline)[1]

    def _choose(self, deadline: Deadline) -> tuple[Advertise, int | None]:
        if self._chosen is None:
            self._chosen = self.port.wait(self.port.choose, deadline)
        return self._chosen

    def close(self) -> None:
        self.port.close()


def refuse_stopped(pid: int | None) -> None:
    """Raise TargetStopped for a process that would take a connection, and never answer."""
    if pid:
        verify_target(pid, pid, None)


def parse_port(address: str) -> tuple[Address, bool]:
    """``ADDRESS[,connect|listen]``: the address, and whether we are to listen there; ``connect`` when nothing is said."""
    from dotnetdiag.ipc.ports import PortMode, parse_tool_port
    from dotnetdiag.transport import parse_address

    port = parse_tool_port(address if "," in address else address + ",connect")
    return parse_address(port.address), port.mode is PortMode.LISTEN


def route_to(address: str, deadline: Deadline) -> Route:
    """The route that ``ADDRESS[,connect|listen]`` means. Listens at once."""
    parsed, listens = parse_port(address)
    if not listens:
        return AddressRoute(parsed)
    from dotnetdiag.client.reverse import ReversePort

    return ReverseRoute(ReversePort(parsed, deadline))
