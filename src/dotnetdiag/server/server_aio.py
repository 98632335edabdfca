"""The server for asyncio: connections are tasks of the loop on which it was used first; commands run in threads all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

from dotnetdiag.errors import TransportError
from dotnetdiag.ipc.ports import parse_runtime_ports
from dotnetdiag.server.ages import NEWEST, Age
from dotnetdiag.server.commands import Commands
from dotnetdiag.server.dispatch import Problem
from dotnetdiag.server.serving import DRAIN_S, OPEN_S, Serving, log_problem
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.security import NO_SECURITY, Security
from dotnetdiag.transport.waiting import Steps


class AsyncDiagnosticServer(Serving):
    """``DiagnosticServer`` for asyncio: ``async with AsyncDiagnosticServer(commands) as server: await server.listen()``.

    It answers as long as its loop runs, and does not while that is held up.
    """

    def __init__(
        self,
        commands: Commands,
        *,
        age: Age = NEWEST,
        legacy: bool = False,
        resumed: Callable[[], None] | None = None,
        problem: Problem = log_problem,
    ) -> None:
        super().__init__(commands, age=age, legacy=legacy, resumed=resumed, problem=problem)
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(
        self,
        address: str | None = None,
        *,
        suspend: bool = False,
        security: Security = NO_SECURITY,
        insecure: bool = False,
    ) -> str:
        """As ``DiagnosticServer.listen``."""
        return await drive(self._listening(address, suspend, security, insecure), Deadline(OPEN_S))

    async def connect(
        self, address: str, *, suspend: bool = False, security: Security = NO_SECURITY, insecure: bool = False
    ) -> None:
        """As ``DiagnosticServer.connect``."""
        self._dial(address, suspend, security, insecure)

    async def open_ports(self, text: str, *, security: Security = NO_SECURITY) -> int:
        """As ``DiagnosticServer.open_ports``."""
        return await drive(self._opening(parse_runtime_ports(text), security), Deadline(None))

    async def open_environment(
        self, environment: Mapping[str, str] | None = None, *, security: Security = NO_SECURITY
    ) -> bool:
        """As ``DiagnosticServer.open_environment``."""
        return await drive(self._opening_all(environment, security), Deadline(None))

    async def wait_until_resumed(self, *, timeout_s: float | None = None) -> None:
        """As ``DiagnosticServer.wait_until_resumed``."""
        await drive(self._resuming(), Deadline(timeout_s))

    async def aclose(self, *, drain_s: float = DRAIN_S) -> None:
        """As ``DiagnosticServer.close``."""
        if self.is_serving:
            try:
                with suppress(TransportError):
                    await drive(self._ending(), Deadline(drain_s))
            finally:
                tasks = tuple(self._tasks)
                for task in tasks:
                    task.cancel()
                self._end()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _spawn(self, steps: Steps[None], deadline: Deadline) -> None:
        ending = asyncio.current_task()
        if ending in self._tasks and ending.cancelling():  # its loop ends: nobody would wait for what begins now
            steps.close()
            raise TransportError("the event loop of this server ends")
        task = asyncio.get_running_loop().create_task(self._drive(steps, deadline))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:  # closed, or its loop has ended without that: then some were cancelled before they began
            self._is_closed = True
            self.remove_sockets()
            self._end()

    async def _drive(self, steps: Steps[None], deadline: Deadline) -> None:
        try:
            await drive(steps, deadline)
        except Exception as exc:
            self._failed(exc)

    def _abandon(self) -> None:
        self._tasks.clear()
