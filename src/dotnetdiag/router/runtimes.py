"""The runtimes' side: a connection to a runtime, for one command.

Runtimes that dial us wait in the table of ``ipc.waiting``, which decides who is kept, resumed, dropped. A runtime that listens is dialled for
each command.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from operator import methodcaller
from typing import Protocol
from uuid import UUID, uuid4

from dotnetdiag.errors import ConnectionEnded, DiagnosticsError, ServerError, TransportError
from dotnetdiag.ipc.advertise import SIZE as ADVERTISE_SIZE
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo
from dotnetdiag.ipc.waiting import Decision, WaitingRuntimes
from dotnetdiag.router.places import Place
from dotnetdiag.router.side import FIRST_PAUSE_S, LONGER, LONGEST_PAUSE_S, Side
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.sockets import SocketStream

LOCAL_ADVERTISE_S, ADVERTISE_S = 0.25, 2.0
"""For all 34 bytes: what the reference client allows on a local socket; over a network a lost packet is sent again meanwhile."""
ANSWER_S = 1.0
"""For an answer to what we ask a runtime ourselves."""
SWEEP_S = 0.5
BACKEND_S = 5.0
"""For a runtime that is dialled for a tool's command, once it has been reached before."""


class Runtimes(Protocol):
    """Where tools' commands go."""

    async def take(self, cookie: UUID | None, deadline: Deadline) -> tuple[SocketStream, Advertise | None]:
        """A connection to a runtime, for one command. Raises TimedOut."""


class Diallers:
    """Runtimes that dial us. ``changed`` is called whenever one has come, dialled again or gone.

    With ``chooses`` commands that name no runtime go to one: the first of those there, until it is gone; all others are resumed once it
    was chosen, and whenever they dial. Without it nobody is resumed.
    """

    def __init__(self, side: Side, *, chooses: bool, changed: Callable[[], None], told: Callable[..., None]) -> None:
        self.side, self._chooses, self._changed, self._told = side, chooses, changed, told
        self.table: WaitingRuntimes[SocketStream] = WaitingRuntimes()
        self._waiting: defaultdict[UUID | None, deque[asyncio.Future[tuple[SocketStream, Advertise]]]]
        self._waiting = defaultdict(deque)
        self._settled = asyncio.Event()
        self._resuming: set[asyncio.Task[None]] = set()
        self.advertise_s = LOCAL_ADVERTISE_S if isinstance(side.address, UnixAddress) else ADVERTISE_S

    async def admit(self, accepted: SocketStream, place: Place) -> None:
        """Someone has dialled: one that says who it is is kept, or resumed, as the table decides; any other is hung up on."""
        stream: SocketStream | None = accepted
        try:
            stream = await self.side.welcome(accepted)
            advertise = Advertise.parse(await _receive(stream, ADVERTISE_SIZE, Deadline(self.advertise_s)))
            place.introduce()
            while self._is_chosen_away(advertise.cookie):
                await self._settled.wait()
            decision, older = self.table.admit(advertise, stream)
            if older is not None:
                older.close()
            if decision is Decision.RESUME:
                await self._resume(advertise.cookie, stream)
            else:
                stream = None  # it is the table's
            self._serve()
            self._changed()
        except DiagnosticsError as error:  # not a runtime, or gone
            self._told(what="refused", address=accepted.address, why=str(error))
        finally:
            if stream is not None:
                stream.close()

    async def take(self, cookie: UUID | None, deadline: Deadline) -> tuple[SocketStream, Advertise]:
        """A living connection of a runtime (None: the one that is chosen), for one command. Who waits longest gets the next one. Raises
        TimedOut.
        """
        ticket: asyncio.Future[tuple[SocketStream, Advertise]] = asyncio.get_running_loop().create_future()
        self._waiting[cookie].append(ticket)
        try:
            self._serve()
            while not ticket.done():
                await asyncio.wait(
                    [ticket], timeout=deadline.wait_s("no runtime has connected", address=str(self.side.address))
                )
            return ticket.result()
        except BaseException:
            if ticket.done() and not ticket.cancelled():
                ticket.result()[0].close()
            raise
        finally:
            with suppress(ValueError):
                self._waiting[cookie].remove(ticket)
            if not self._waiting[cookie]:
                del self._waiting[cookie]

    async def sweep(self) -> None:
        """Drop those who have gone, for ever."""
        while True:
            await asyncio.sleep(SWEEP_S)
            for stream in self.table.gone(methodcaller("is_quiet")):
                stream.close()
            forgotten = self.table.forget(_is_in_use)
            if self.table.chosen in forgotten:
                self.table.release()
            settled, self._settled = self._settled, asyncio.Event()
            settled.set()
            if forgotten:
                self._serve()
                self._changed()

    def close(self) -> None:
        """Hang up on all who wait; each dials again."""
        for task in self._resuming:
            task.cancel()
        for stream in self.table.clear():
            stream.close()

    def _is_chosen_away(self, cookie: UUID) -> bool:
        """Whether the chosen runtime has just hung up: it dials again, or is gone and another one is to be chosen. Until that is known
        nobody is resumed for its sake.
        """
        chosen = self.table.chosen
        return chosen is not None and chosen != cookie and self.table.is_away(chosen, _is_in_use)

    def _serve(self) -> None:
        """Give those who wait what has come."""
        for cookie, queue in self._waiting.items():
            for ticket in queue:
                if ticket.done():
                    continue
                taken = self._taken(cookie)
                if taken is None:
                    break
                ticket.set_result(taken)

    def _taken(self, cookie: UUID | None) -> tuple[SocketStream, Advertise] | None:
        while True:
            if cookie is not None:
                found = self.table.waiting(cookie)
            elif self._chooses:
                found = self.table.choose(methodcaller("is_quiet"))
                if found is not None:
                    self._resume_others()
            else:  # whoever waits longest; nobody is resumed for that
                found = next((one for one in self.table.all_waiting() if one.connection.is_quiet()), None)
            if found is None:
                return None
            stream = self.table.take(found.advertise.cookie)
            assert stream is not None
            if stream.is_quiet():
                return stream, found.advertise
            stream.close()

    def _resume_others(self) -> None:
        for one in self.table.to_resume():
            task = asyncio.get_running_loop().create_task(
                self._resume(one.advertise.cookie, one.connection, close=True)
            )
            self._resuming.add(task)
            task.add_done_callback(self._resuming.discard)

    async def _resume(self, cookie: UUID, stream: SocketStream, *, close: bool = False) -> None:
        try:
            ResumeRuntime().read_reply(await ask(stream, ResumeRuntime().pack()))
        except ServerError:
            pass  # it has nothing to resume
        except DiagnosticsError:
            self.table.not_resumed(cookie)
            return
        finally:
            if close:
                stream.close()
        self.table.resumed(cookie)
        self._told(what="resumed", cookie=str(cookie))


class Listening:
    """A runtime that listens: it is dialled for each command, and asked once which one it is."""

    def __init__(self, side: Side, failed: Callable[[str], None]) -> None:
        self.side, self._failed = side, failed
        self._stand_in = Advertise(cookie=uuid4(), pid=os.getpid())

    async def take(self, cookie: UUID | None, deadline: Deadline) -> tuple[SocketStream, None]:  # noqa: ARG002 - there is one
        """A new connection to it. Raises TimedOut."""
        return await self.side.dial_until_there(deadline, failed=self._failed), None

    async def advertise(self) -> Advertise:
        """What it would say if it dialled; of one that does not tell (.NET Core 3.1), our own pid and a cookie that stays."""
        pause = FIRST_PAUSE_S
        while True:
            stream = await self.side.dial_until_there(Deadline(None), failed=self._failed)
            try:
                said = ProcessInfo().read_reply(await ask(stream, ProcessInfo().pack()))
                return Advertise(cookie=said.cookie, pid=said.pid)
            except ServerError:
                return self._stand_in
            except DiagnosticsError:  # it ends, or is just beginning
                await asyncio.sleep(pause)
                pause = min(pause * LONGER, LONGEST_PAUSE_S)
            finally:
                stream.close()


async def hand_over(
    runtimes: Runtimes, request: bytes, cookie: UUID | None, deadline: Deadline
) -> tuple[SocketStream, Advertise | None]:
    """The runtime that has taken a request. One that has gone meanwhile has not. Raises TimedOut."""
    while True:
        runtime, advertise = await runtimes.take(cookie, deadline)
        try:
            await drive(runtime.sending(request), Deadline(BACKEND_S))
            return runtime, advertise
        except TransportError:
            runtime.close()
            deadline.wait_s("no runtime has taken the command")
        except BaseException:
            runtime.close()
            raise


async def ask(stream: SocketStream, request: bytes) -> Frame:
    """A runtime's answer to a question of our own. Raises TimedOut, ConnectionEnded, ProtocolError."""
    deadline = Deadline(ANSWER_S)
    await drive(stream.sending(request), deadline)
    reader = FrameReader()
    frame = None
    while frame is None:
        frame = reader.feed(await _receive(stream, reader.wanted, deadline))
    return frame


async def _receive(stream: SocketStream, size: int, deadline: Deadline) -> bytes:
    """Exactly so many bytes. Raises ConnectionEnded, TimedOut."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = await drive(stream.receiving_into(view), deadline)
        if not count:
            raise ConnectionEnded("the peer closed the connection", address=stream.address)
        view = view[count:]
    return bytes(data)


def _is_in_use(stream: SocketStream) -> bool:
    return stream.fileno() >= 0 and stream.is_alive()
