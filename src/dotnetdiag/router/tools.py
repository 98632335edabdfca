"""The tools' side: what each asks, and the runtime that has it.

Tools that dial us say what they ask, and wait for a runtime. A tool that listens is dialled in the place of runtimes, and then says it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from uuid import UUID

from dotnetdiag.errors import DiagnosticsError, TransportError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.waiting import Waiting
from dotnetdiag.router.commands import Commands
from dotnetdiag.router.places import Place
from dotnetdiag.router.request import receive_request, until_not_quiet, until_readable
from dotnetdiag.router.runtimes import BACKEND_S, Diallers, Listening, Runtimes, hand_over
from dotnetdiag.router.side import FIRST_PAUSE_S, LONGER, LONGEST_PAUSE_S, Side
from dotnetdiag.router.tasks import Tasks
from dotnetdiag.router.websocket import WebSocketStream
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.security import AUTHENTICATION_S
from dotnetdiag.transport.sockets import SocketStream

SILENT_TOOL_S = 10.0
"""A tool that has dialled has something to ask. One that says nothing for so long is hung up on."""
LOOK_S = 0.5
"""How often a tool that waits is looked at, once it has said more than its request, or ended its half."""
AT_ONCE_S = AUTHENTICATION_S + 1.0
WHY_HUNG_UP = "it wants TLS, a certificate that it knows, or another token; or it has just ended"
"""A peer does not say why, and with TLS 1.3 not even whether it takes a certificate: it closes the connection."""
MOST_DIALS = 16
"""Attempts to dial a tool at the same time."""


class DiallingTools:
    """Tools that dial us, and wait ``timeout_s`` at most for one of ``runtimes``."""

    def __init__(
        self,
        side: Side,
        runtimes: Runtimes,
        tasks: Tasks,
        commands: Commands,
        *,
        timeout_s: float | None,
        tell: Callable[..., None],
    ) -> None:
        self._side, self._runtimes, self._tasks, self._commands = side, runtimes, tasks, commands
        self._runtime_timeout_s, self._tell = timeout_s, tell
        self.waiting = 0
        """How many wait now."""

    async def serve(self, accepted: SocketStream, place: Place, cookie: UUID | None = None) -> None:
        """A tool has dialled: when it has said what it wants, a runtime is looked for."""
        tool = accepted
        try:
            tool = await self._side.welcome(accepted)
            request = await receive_request(tool, SILENT_TOOL_S)
            if request:
                place.introduce()
                deadline = Deadline(self._runtime_timeout_s)
                self.waiting += 1
                try:
                    found = await self._while_there(tool, hand_over(self._runtimes, request, cookie, deadline))
                finally:
                    self.waiting -= 1
                if found is not None:
                    await self._commands.forward(tool, *found, request)
        except DiagnosticsError as error:
            self._tell(what="refused", address=tool.address, why=str(error))
        finally:
            tool.close()

    async def _while_there(
        self, tool: SocketStream, work: Coroutine[Any, Any, tuple[SocketStream, Advertise | None]]
    ) -> tuple[SocketStream, Advertise | None] | None:
        """What comes of the work; None: the tool has hung up before."""
        task: asyncio.Task[tuple[SocketStream, Advertise | None]] = self._tasks.begin(work)
        watch: asyncio.Task[None] = self._tasks.begin(until_readable(tool))
        try:
            while not task.done():
                awaited = {task} if watch.done() else {task, watch}
                await asyncio.wait(
                    awaited, timeout=LOOK_S if watch.done() else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not task.done() and self._is_gone(tool):
                    await _discard(task)
                    return None
            return task.result()
        except asyncio.CancelledError:
            await _discard(task)
            raise
        finally:
            watch.cancel()
            try:
                await asyncio.wait([watch])  # before others watch the tool
            except asyncio.CancelledError:
                await _discard(task)
                raise

    def _is_gone(self, tool: SocketStream) -> bool:
        """Whether a tool that waits can take nothing any more. TCP does not tell that from the end of its half."""
        if isinstance(tool, WebSocketStream):
            tool.answer()
        return tool.has_hung_up() or not (isinstance(self._side.address, UnixAddress) or tool.is_alive())


class ListeningTool:
    """A tool that listens. ``failed`` is told why it cannot be dialled."""

    def __init__(self, side: Side, tasks: Tasks, commands: Commands, *, failed: Callable[[str], None]) -> None:
        self._side, self._tasks, self._commands, self._failed = side, tasks, commands, failed
        self._dials = asyncio.Semaphore(MOST_DIALS)
        self._offered: set[SocketStream] = set()
        self._presenting: dict[UUID, asyncio.Task[Any]] = {}

    @property
    def offered(self) -> int:
        """How many connections of runtimes are its own: it was told of them, or uses them."""
        return len(self._offered)

    def present(self, diallers: Diallers, cookie: UUID) -> None:
        """Have it dialled for a runtime that waits, once for each of its connections."""
        if cookie not in self._presenting and diallers.table.waiting(cookie) is not None:
            self._presenting[cookie] = task = self._tasks.begin(self._present(diallers, cookie))
            task.add_done_callback(lambda task: self._presented(cookie, task))

    def _presented(self, cookie: UUID, task: asyncio.Task[Any]) -> None:
        if self._presenting.get(cookie) is task:
            del self._presenting[cookie]
        if not task.cancelled():
            task.exception()  # it was a DiagnosticsError: the peer is gone

    async def _present(self, diallers: Diallers, cookie: UUID) -> None:
        """Dial the tool for a runtime that waits, say which one it is, and forward what the tool wants of it. A tool that hangs up is dialled
        again; the runtime keeps its connection meanwhile: it would dial again at once, thousands of times a second.
        """
        runtime: SocketStream | None = None
        waiting: Waiting[SocketStream] | None = None
        pause = FIRST_PAUSE_S

        def is_wanted() -> bool:
            return diallers.table.waiting(cookie) is not None if runtime is None else runtime.is_quiet()

        try:
            while True:
                async with self._dials:
                    tool = await self._side.dial_until_there(Deadline(None), failed=self._failed, is_wanted=is_wanted)
                try:
                    if runtime is None:
                        waiting = diallers.table.waiting(cookie)
                        runtime = diallers.table.take(cookie)
                        if runtime is None:
                            return
                        self._offered.add(runtime)
                        del self._presenting[cookie]  # its next connection is one of its own
                    if waiting is None or not runtime.is_quiet():
                        return
                    began = time.monotonic()
                    with suppress(TransportError):
                        await drive(tool.sending(waiting.advertise.pack()), Deadline(BACKEND_S))
                        if request := await self._first_of(tool, runtime):
                            await drive(runtime.sending(request), Deadline(BACKEND_S))
                            await self._commands.forward(tool, runtime, waiting.advertise, request)
                            return
                    if time.monotonic() - began < AT_ONCE_S and runtime.is_quiet():
                        self._failed(f"{self._side.address} hangs up without a word: {WHY_HUNG_UP}")
                finally:
                    tool.close()
                await asyncio.sleep(pause)
                pause = min(pause * LONGER, LONGEST_PAUSE_S)
        finally:
            if runtime is not None:
                self._offered.discard(runtime)
                runtime.close()

    async def _first_of(self, tool: SocketStream, runtime: SocketStream) -> bytes:
        """What the tool asks; ``b""`` when it has hung up, or the runtime has."""
        asked = self._tasks.begin(receive_request(tool, None))
        gone = self._tasks.begin(until_not_quiet(runtime))  # it says nothing before it was asked
        try:
            await asyncio.wait([asked, gone], return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else b""
        finally:
            for task in (asked, gone):
                task.cancel()
            await asyncio.wait([asked, gone])

    async def stand_in(self, runtime: Listening) -> None:
        """Dial the tool as the runtime would that listens, and again whenever a command was taken."""
        pause = FIRST_PAUSE_S
        while True:
            advertise = await runtime.advertise()
            while True:
                tool = await self._side.dial_until_there(Deadline(None), failed=self._failed)
                request = b""
                try:
                    await drive(tool.sending(advertise.pack()), Deadline(BACKEND_S))
                    request = await receive_request(tool, None)
                    taken = await hand_over(runtime, request, None, Deadline(BACKEND_S)) if request else None
                except DiagnosticsError:
                    taken = None
                except BaseException:
                    tool.close()
                    raise
                if taken is None:
                    tool.close()
                    await asyncio.sleep(pause)
                    pause = min(pause * LONGER, LONGEST_PAUSE_S)
                    if request:
                        break  # the runtime is gone: another one may come
                    continue
                pause = FIRST_PAUSE_S
                self._tasks.begin_with(self._forward_and_close(tool, taken[0], advertise, request), tool, taken[0])

    async def _forward_and_close(
        self, tool: SocketStream, runtime: SocketStream, advertise: Advertise, request: bytes
    ) -> None:
        try:
            await self._commands.forward(tool, runtime, advertise, request)
        finally:
            tool.close()


async def _discard(task: asyncio.Task[tuple[SocketStream, Advertise | None]]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        task.result()[0].close()
