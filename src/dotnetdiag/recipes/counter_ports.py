"""Ports of ours at which runtimes come to be watched: any number of them, as they start (``DOTNET_DiagnosticPorts=ADDRESS``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from dotnetdiag.client import Client
from dotnetdiag.client.server import ConnectedRuntime, RuntimeServer
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.recipes.target import PARTING_S, Target
from dotnetdiag.recipes.watchdog import watched_over


class DialledPorts:
    """The ports of ``addresses`` that listen (``ADDRESS,listen``); others are left alone. ``resumes``: who waits there at its start is let run
    should this process be killed, and when the ports are closed before it was taken. ``timeout_s`` bounds each call of a client.
    """

    def __init__(self, addresses: Sequence[str], *, resumes: bool, timeout_s: float) -> None:
        self._targets = [target for target in (Target(port=one) for one in addresses) if target.listens]
        self._resumes, self._timeout_s = resumes, timeout_s
        self._opened = ExitStack()
        self._servers: list[RuntimeServer] = []
        self._taken: set[ConnectedRuntime] = set()
        self._addresses: dict[Client, str] = {}
        self.has_met = False
        """Whether anybody has come."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._targets)

    def address_of(self, client: Client) -> str | None:
        """The one to which its runtime has come; None for who has not."""
        return self._addresses.get(client)

    def open(self) -> None:
        """Listen. Raises TransportError for an address that is taken, and UsageError for one that no runtime can dial."""
        for target in self._targets:
            if self._resumes:
                self._opened.enter_context(watched_over(target.watched_address))
            self._servers.append(self._opened.enter_context(RuntimeServer(target.address, timeout_s=self._timeout_s)))

    def take(self) -> list[Client]:
        """Clients of those who have come since the last time. Does not wait."""
        there = {one: server.address for server in self._servers for one in server.runtimes}
        new = [one for one in there if one not in self._taken]
        self._taken = set(there)
        self._addresses = {one.client: address for one, address in there.items()}
        self.has_met |= bool(there)
        return [one.client for one in new]

    def close(self) -> None:
        """Listen no more. May be called again."""
        if self._resumes:
            for client in self.take():
                let_run(client)
        self._servers = []
        self._opened.close()


def let_run(client: Client) -> None:
    """Let a runtime run that waits at its start, which has come to us and which nobody will watch; it need not answer."""
    client.timeout_s = min(client.timeout_s, PARTING_S)
    with suppress(DiagnosticsError):
        client.resume()
