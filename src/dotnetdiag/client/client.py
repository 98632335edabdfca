"""The synchronous client; what it can be asked is in :mod:`.commands`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from dotnetdiag.client.commands import AtOnce, Commands
from dotnetdiag.client.limits import TIMEOUT_S, Limits
from dotnetdiag.client.routes import PidRoute, ReverseRoute, Route, WhileOpen, route_to
from dotnetdiag.client.running import run
from dotnetdiag.transport import Deadline
from dotnetdiag.transport import waiting as steps
from dotnetdiag.transport.streams import Closing

if TYPE_CHECKING:
    from dotnetdiag.ipc.exchange import Run
    from dotnetdiag.ipc.operations.sessions import StartedSession
    from dotnetdiag.transport import Endpoint


class Client(Commands, AtOnce, Closing):
    """Talks to one runtime. Every command is a connection of its own, so threads may share a client.

    ``timeout_s`` bounds each call: all connecting, sending and quick answers of it together. Answers that take long (dumps, profilers,
    hooks, the end of a session) have limits of their own, ``answer_timeout_s``.

    Every command raises TransportError where the runtime cannot be reached or breaks off, TimedOut (which is one) after its limit,
    ProtocolError for an answer that is none, and ServerError for a refusal, with the runtime's ``hresult``: UnsupportedCommand where it does not
    know the command, NotSupported where it was built without the feature. A client of a pid also raises ProcessNotFound, NoDiagnostics and
    TargetStopped. What is said of a command below is in addition to that. RequestRefused (DangerousRequest, NotPossible) and other UsageErrors
    mean that nothing was done to the target. After any error nothing stays open, and the client can be used again.
    """

    def __init__(self, target: int | Route, *, timeout_s: float = TIMEOUT_S) -> None:
        """``target``: a pid (also a container's own number where only one process has it), or a route to a runtime."""
        self._route: Route = target if isinstance(target, Route) else PidRoute(target)
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """A client of the runtime at ``ADDRESS[,connect|listen]`` (``/path``, ``host:port``; ``connect`` when nothing is said).

        ``listen``: we own the socket and runtimes started with ``DOTNET_DiagnosticPorts=ADDRESS`` dial it; the client is of
        the first one that does. Close such a client, or use it in a ``with`` block. TCP beyond loopback is not listened on.
        """
        route = route_to(address)
        if isinstance(route, ReverseRoute):
            try:
                steps.run(route.opening(), Deadline(timeout_s))
            except BaseException:
                route.close()
                raise
        return cls(route, timeout_s=timeout_s)

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> Self:
        """A client of the process of these endpoints, which have been found before, best first. It looks again when none answers."""
        return cls(PidRoute.at(known), timeout_s=timeout_s)

    def target_pid(self, *, timeout_s: float | None = TIMEOUT_S, confirmed: bool = False) -> int | None:
        """The runtime's process as this machine sees it; None where the system does not tell (TCP, other namespaces, behind a relay).

        Waits for the first runtime on a port of ours; ``None`` waits for ever. A peer at an address that does not say who it is (.NET Core
        3.x cannot) is taken for the runtime, unless the process must be ``confirmed``: it may be a relay.
        """
        return self._route.target_pid(Deadline(timeout_s), confirmed=confirmed)

    def close(self) -> None:
        """Release a port of ours. Others hold nothing between calls."""
        self._route.close()

    def _open(self, kind: str, started: StartedSession, end_timeout_s: float | None, **options: Any) -> Any:
        from dotnetdiag.client.session import TraceSession
        from dotnetdiag.client.user_events import UserEventsSession

        route = WhileOpen(self._route, started.connection)

        def perform(ending: Run[None]) -> None:
            run(ending, route, Limits(self.timeout_s, end_timeout_s))

        return {"TraceSession": TraceSession, "UserEventsSession": UserEventsSession}[kind](
            started, perform, target_pid=self._route.certain_pid(), **options
        )
