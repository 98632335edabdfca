"""The asyncio client; what it can be asked is in :mod:`.commands`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from dotnetdiag.client.commands import Awaited, Commands
from dotnetdiag.client.limits import TIMEOUT_S, Limits
from dotnetdiag.client.routes import PidRoute, Route, route_to
from dotnetdiag.client.running import run_async
from dotnetdiag.client.session_aio import AsyncTraceSession, AsyncUserEventsSession
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.transport import Deadline, Endpoint
from dotnetdiag.transport.aio import AsyncStream, drive, in_thread
from dotnetdiag.transport.waiting import T


class AsyncRoute:
    """What performs a route's steps on the loop."""

    def __init__(self, route: Route) -> None:
        self.route = route

    async def dial(self, deadline: Deadline) -> AsyncStream:
        return AsyncStream(await drive(self.route.dialling(), deadline))

    async def target_pid(self, deadline: Deadline, *, confirmed: bool = False) -> int | None:
        pid: int | None = await drive(self.route.finding_pid(confirmed=confirmed), deadline)
        return pid

    async def look(self, function: Callable[[], T]) -> T:
        return await in_thread(function)


class AsyncClient(Commands, Awaited):
    """``Client`` for asyncio: the same commands, to be awaited; closed by ``aclose``, or by ``async with``. They raise what those of ``Client``
    raise; one that is cancelled leaves nothing open.
    """

    def __init__(self, target: int | Route, *, timeout_s: float = TIMEOUT_S) -> None:
        self._route: AsyncRoute = AsyncRoute(target if isinstance(target, Route) else PidRoute(target))
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """As ``Client.connect``; with ``listen`` the port is made at the first call."""
        return cls(route_to(address), timeout_s=timeout_s)

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> Self:
        """As ``Client.at``."""
        return cls(PidRoute.at(known), timeout_s=timeout_s)

    async def target_pid(self, *, timeout_s: float | None = TIMEOUT_S, confirmed: bool = False) -> int | None:
        """As ``Client.target_pid``."""
        return await self._route.target_pid(Deadline(timeout_s), confirmed=confirmed)

    async def aclose(self) -> None:
        """As ``Client.close``."""
        await in_thread(self._route.route.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _open(self, kind: str, started: StartedSession, end_timeout_s: float | None, **options: Any) -> Any:
        async def perform(ending: Run[None]) -> None:
            await run_async(ending, self._route, Limits(self.timeout_s, end_timeout_s))

        kinds: dict[str, Any] = {"TraceSession": AsyncTraceSession, "UserEventsSession": AsyncUserEventsSession}
        return kinds[kind](started, perform, target_pid=self._route.route.certain_pid(), **options)
