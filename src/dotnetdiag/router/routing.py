"""Both sides of a router, in one event loop: who is there, and what is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.ports import PortMode
from dotnetdiag.router.commands import Commands
from dotnetdiag.router.findable import StandIn
from dotnetdiag.router.places import HURRY_S, Place, Places
from dotnetdiag.router.runtimes import Diallers, Listening
from dotnetdiag.router.side import Side, accept_all
from dotnetdiag.router.status import RoutedRuntime, RouterStatus, tell_status
from dotnetdiag.router.tasks import Tasks
from dotnetdiag.router.tools import DiallingTools, ListeningTool
from dotnetdiag.transport import Listener, parse_address
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.security import NO_SECURITY
from dotnetdiag.transport.sockets import SocketStream

MOST_ASKING = 64
"""Connections to the status socket."""
_Handle = Callable[[SocketStream, Place], Coroutine[Any, Any, None]]


class Routing:
    """From :meth:`open`, after which :meth:`close` is to be called even if it failed. ``tell`` is told what happens, ``overhear`` gets the bytes of
    commands. ``is_found_by_pid``: tools find the router by the pid of this process.
    """

    def __init__(
        self,
        tools: Side,
        runtimes: Side,
        *,
        each: bool,
        runtime_timeout_s: float | None,
        status_address: str,
        most_connections: int,
        is_found_by_pid: bool,
        tell: Callable[..., None],
        overhear: Callable[[int, bool, memoryview], None] | None,
    ) -> None:
        self._tools, self._runtimes = tools, runtimes
        self.tools_address, self.runtimes_address = str(tools.address), str(runtimes.address)
        self._each, self._status_address, self._is_found_by_pid = each, status_address, is_found_by_pid
        self._tell, self._told_unreachable = tell, ""
        self._tasks, self._commands = Tasks(), Commands(tell, overhear, runtimes_dial=runtimes.listens)
        self._diallers: Diallers | None = None
        self._listening: Listening | None = None
        if runtimes.listens:
            chooses = tools.listens and not each
            self._diallers = Diallers(runtimes, chooses=chooses, changed=self._changed, told=tell)
        else:
            self._listening = Listening(runtimes, self._unreachable)
        there = self._diallers or self._listening
        assert there is not None
        self._dialling = DiallingTools(
            tools, there, self._tasks, self._commands, timeout_s=runtime_timeout_s, tell=tell
        )
        self._tool = ListeningTool(tools, self._tasks, self._commands, failed=self._unreachable)
        self._tool_places = Places(most_connections)
        self._runtime_places = Places(most_connections, others=self._runtimes_held)
        self._stand_in_of_pid: StandIn | None = None
        self._listeners: list[Listener] = []
        self._own: dict[UUID, Listener] = {}
        self._known: dict[UUID, Advertise] = {}

    @property
    def commands(self) -> int:
        """How many are under way."""
        return len(self._commands)

    async def open(self) -> None:
        """Listen, and dial. Raises TransportError."""
        if self._diallers is not None:
            self.runtimes_address = await self._accept(self._runtimes, self._runtime_places, self._diallers.admit)
            self._tasks.begin(self._diallers.sweep())
        if self._tools.listens:
            self.tools_address = await self._accept(self._tools, self._tool_places, self._dialling.serve)
            if self._is_found_by_pid and isinstance(self._tools.address, UnixAddress):
                self._stand_in_of_pid = StandIn(self._tools.address.path)
        elif self._listening is not None:
            self._tasks.begin(self._tool.stand_in(self._listening))
        if self._status_address:
            side = Side(address=parse_address(self._status_address), mode=PortMode.LISTEN, security=NO_SECURITY)
            await self._accept(side, Places(MOST_ASKING), lambda stream, _: tell_status(stream, self.status))

    async def close(self) -> None:
        """End all."""
        for listener in (*self._listeners, *self._own.values()):
            listener.close()
        if self._stand_in_of_pid is not None:
            self._stand_in_of_pid.remove()
        await self._tasks.end()
        if self._diallers is not None:
            self._diallers.close()

    def status(self) -> RouterStatus:
        """Who is connected now."""
        table = None if self._diallers is None else self._diallers.table
        return RouterStatus(
            tools=self.tools_address,
            runtimes=self.runtimes_address,
            connected=tuple(
                RoutedRuntime(
                    cookie=str(cookie),
                    namespace_pid=advertise.pid,
                    is_ready=table is not None and table.waiting(cookie) is not None,
                    is_chosen=table is not None and table.chosen == cookie,
                    address=str(self._own[cookie].address) if cookie in self._own else "",
                )
                for cookie, advertise in self._known.items()
            ),
            commands=self._commands.status(),
            waiting_tools=self._dialling.waiting,
        )

    async def _accept(self, side: Side, places: Places, handle: _Handle) -> str:
        listener = await side.open()
        self._listeners.append(listener)
        self._tasks.begin(self._accept_all(listener, places, handle))
        return side.text_of(listener)

    async def _accept_all(self, listener: Listener, places: Places, handle: _Handle) -> None:
        """Handle each connection, until the listener is closed."""

        def take_in(stream: SocketStream) -> None:
            place = places.take()
            task = self._tasks.begin_with(handle(stream, place), stream)
            task.add_done_callback(lambda _: place.leave())
            if place.in_a_hurry:
                timer = asyncio.get_running_loop().call_later(HURRY_S, self._hurry, place, task, stream.address)
                task.add_done_callback(lambda _: timer.cancel())

        await accept_all(listener, take_in, places.has_room)

    def _hurry(self, place: Place, task: asyncio.Task[Any], address: str) -> None:
        if place.is_strangers and task.cancel():
            self._tell(
                what="refused", address=address, why=f"it has said nothing within {HURRY_S:g} s, and others wait"
            )

    def _runtimes_held(self) -> int:
        """Those that have dialled us and wait, or are used."""
        waiting = 0 if self._diallers is None else len(self._diallers.table)
        return waiting + (len(self._commands) if self._tools.listens else self._tool.offered)

    def _unreachable(self, why: str) -> None:
        """Told once, until it is for another reason."""
        if why != self._told_unreachable:
            self._told_unreachable = why
            self._tell(what="unreachable", why=why)

    def _changed(self) -> None:
        """A runtime has come, has dialled again, or is gone."""
        diallers = self._diallers
        assert diallers is not None
        there = {advertise.cookie: advertise for advertise in diallers.table.there}
        for cookie, advertise in there.items():
            if cookie not in self._known:
                self._known[cookie] = advertise
                if self._each:
                    self._tasks.begin(self._open_own(advertise))
                else:
                    self._tell(what="connected", cookie=str(cookie), namespace_pid=advertise.pid)
            if not self._tools.listens:
                self._tool.present(diallers, cookie)
        for cookie in [one for one in self._known if one not in there]:
            advertise = self._known.pop(cookie)
            if (listener := self._own.pop(cookie, None)) is not None:
                listener.close()
            self._tell(what="gone", cookie=str(cookie), namespace_pid=advertise.pid)

    async def _open_own(self, advertise: Advertise) -> None:
        assert isinstance(self._tools.address, UnixAddress)
        path = f"{self._tools.address.path}.{advertise.pid}-{advertise.cookie.hex[:8]}"
        side = Side(address=UnixAddress(path), mode=PortMode.LISTEN, security=NO_SECURITY)
        try:
            listener = await side.open()
        except DiagnosticsError as error:
            self._tell(what="connected", cookie=str(advertise.cookie), namespace_pid=advertise.pid, why=str(error))
            return
        if advertise.cookie not in self._known:
            listener.close()
            return
        self._own[advertise.cookie] = listener
        self._tell(what="connected", cookie=str(advertise.cookie), namespace_pid=advertise.pid, address=path)
        await self._accept_all(
            listener, self._tool_places, lambda stream, place: self._dialling.serve(stream, place, advertise.cookie)
        )
