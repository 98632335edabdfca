"""The ways to a runtime: by pid, by the address where it listens, by waiting for it at an address of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dotnetdiag.errors import TransportError, UsageError
from dotnetdiag.transport import Deadline, Stream, connect, connect_pid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dotnetdiag.client.reverse import ReverseServer
    from dotnetdiag.ipc.advertise import Advertise
    from dotnetdiag.transport import Address, Endpoint


class Route(Protocol):
    """How to reach one runtime."""

    def dial(self, deadline: Deadline) -> Stream:
        """A connection for one command."""

    def target_pid(self, deadline: Deadline) -> int | None:
        """The runtime's process, as this machine sees it; None where the system does not tell."""

    def close(self) -> None:
        """Release what the route holds."""


class PidRoute:
    """Looks for the endpoint at each command: a socket may move, a process be replaced. ``known`` saves the first look."""

    def __init__(self, pid: int, known: Sequence[Endpoint] | None = None) -> None:
        if pid <= 0:
            raise UsageError(f"{pid} is not a valid process ID")
        self.pid, self.known = pid, known

    def dial(self, deadline: Deadline) -> Stream:
        known, self.known = self.known, None
        return connect_pid(self.pid, deadline, known=known)[0]

    def target_pid(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - a protocol has it
        return self.pid

    def close(self) -> None:
        pass


class AddressRoute:
    """A runtime listens there (``DOTNET_DiagnosticPorts=ADDRESS,listen``, or its default socket)."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def dial(self, deadline: Deadline) -> Stream:
        return connect(self.address, deadline)

    def target_pid(self, deadline: Deadline) -> int | None:
        stream = self.dial(deadline)  # a connection without a command harms nobody
        try:
            return stream.peer_pid()
        except TransportError:
            return None
        finally:
            stream.close()

    def close(self) -> None:
        pass


class ReverseRoute:
    """The first runtime that dials us, and from then on only this one (by its cookie)."""

    def __init__(self, server: ReverseServer) -> None:
        self.server = server
        self.advertise: Advertise | None = None
        self._pid: int | None = None

    def dial(self, deadline: Deadline) -> Stream:
        return self.server.take(self._known(deadline).cookie, deadline)

    def target_pid(self, deadline: Deadline) -> int | None:
        self._known(deadline)
        return self._pid

    def _known(self, deadline: Deadline) -> Advertise:
        if self.advertise is None:
            self.advertise, self._pid = self.server.first(deadline)
        return self.advertise

    def close(self) -> None:
        self.server.close()


def route_to(address: str) -> Route:
    """The route that ``ADDRESS[,connect|listen]`` means; ``connect`` when nothing is said. Listens at once."""
    from dotnetdiag.ipc.ports import PortMode, parse_tool_port
    from dotnetdiag.transport import parse_address

    port = parse_tool_port(address if "," in address else address + ",connect")
    parsed = parse_address(port.address)
    if port.mode is PortMode.CONNECT:
        return AddressRoute(parsed)
    from dotnetdiag.client.reverse import ReverseServer

    return ReverseRoute(ReverseServer(parsed))
