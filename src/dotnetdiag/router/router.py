"""The router: tools on the one side, runtimes on the other, and who dials whom on each.

==============  ======================================  =========================================================
tools           runtimes                                what is forwarded
==============  ======================================  =========================================================
they dial us    they dial us (advertise taken off)      each command to a connection of the runtime that is chosen
they dial us    they listen                             each command over a connection that is made for it
we dial one     they dial us                            each connection of each runtime, with its advertise
we dial one     one listens                             each command; the advertise is made up
==============  ======================================  =========================================================
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import command_name
from dotnetdiag.ipc.frames import FrameHeader
from dotnetdiag.ipc.ports import PortMode, parse_tool_port
from dotnetdiag.ipc.waiting import Waiting
from dotnetdiag.router.findable import StandIn, default_address
from dotnetdiag.router.link import PIECE_BYTES, Link
from dotnetdiag.router.places import HURRY_S, Place, Places
from dotnetdiag.router.request import receive_request, until_not_quiet, until_readable
from dotnetdiag.router.runtimes import BACKEND_S, Diallers, Listening
from dotnetdiag.router.side import FIRST_PAUSE_S, LONGER, LONGEST_PAUSE_S, Side, accept_all
from dotnetdiag.router.status import RoutedCommand, RoutedRuntime, RouterEvent, RouterStatus, tell_status
from dotnetdiag.router.websocket import WebSocketAddress, WebSocketStream, is_websocket, parse_websocket
from dotnetdiag.transport import Deadline, Listener, parse_address
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.dialable import check_dialable
from dotnetdiag.transport.security import AUTHENTICATION_S, NO_SECURITY, Security
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.streams import Closing
from dotnetdiag.transport.waiting import start

SILENT_TOOL_S = 10.0
"""A tool that has dialled has something to ask. One that says nothing for so long is hung up on."""
MOST_CONNECTIONS = 1024
"""Of each side. More wait in the system's queue until one has ended."""
MOST_ASKING = 64
"""Connections to the status socket."""
LOOK_S = 0.5
"""How often a tool that waits is looked at, once it has said more than its request, or ended its half."""
AT_ONCE_S = AUTHENTICATION_S + 1.0
WHY_HUNG_UP = "it wants TLS, a certificate that it knows, or another token; or it has just ended"
"""A peer does not say why, and with TLS 1.3 not even whether it takes a certificate: it closes the connection."""
MOST_DIALS = 16
"""Attempts to dial a tool at the same time."""
CLOSE_S = 5.0
_Handle = Callable[[SocketStream, Place], Coroutine[Any, Any, None]]


@dataclass(slots=True, kw_only=True)
class _Command:
    """A command under way."""

    number: int
    name: str
    tool_pid: int | None
    advertise: Advertise | None
    began: float
    link: Link

    @property
    def cookie(self) -> str:
        return "" if self.advertise is None else str(self.advertise.cookie)


class Router(Closing):
    """Forwards the connections of diagnostic tools to runtimes they cannot reach, from the moment that it is made until ``close``.

    ``tools`` and ``runtimes`` say where the peers are and who dials whom: ``"ADDRESS,listen"`` (they dial us; the default) or
    ``"ADDRESS,connect"``; an address is a path, ``host:port``, or ``ws://host:port/path``. Without ``tools`` they find the router by the pid of
    this process, as dotnet-trace does with ``-p``. TCP beyond loopback needs a ``Security`` for that side,
    or ``insecure``.

    With both sides dialling us, tools reach one runtime: the first of those there, until it is gone; the others are resumed. ``each``
    gives every runtime a socket of its own instead, beside that of the tools (``PATH.PID-COOKIE``), and resumes nobody. A tool waits
    ``runtime_timeout_s`` for a runtime, by default for ever. ``status_address``: a socket that answers with the status, a line of JSON.
    Each side takes ``most_connections`` at a time, 256 of them of peers that have not shown yet who they are.
    ``on_event`` is called for what happens, in the router's thread, which does nothing else meanwhile; ``status`` and ``close`` may be called
    there. What it raises does not stop the router, nor the events to come: ``wait`` raises it, or ``close``; of several the first.
    ``on_bytes`` is called likewise with the bytes of commands, as they are forwarded: the command's number, whether the tool says them, and the
    bytes, which are gone after the call (none: that side has ended).

    Raises TransportError for an address that is taken, UsageError for what makes no sense. Several threads may use a router.
    """

    def __init__(
        self,
        *,
        tools: str = "",
        runtimes: str,
        tools_security: Security = NO_SECURITY,
        runtimes_security: Security = NO_SECURITY,
        insecure: bool = False,
        each: bool = False,
        runtime_timeout_s: float | None = None,
        status_address: str = "",
        most_connections: int = MOST_CONNECTIONS,
        on_event: Callable[[RouterEvent], None] = lambda _: None,
        on_bytes: Callable[[int, bool, memoryview], None] | None = None,
    ) -> None:
        self._has_default_address = not tools
        self._tools = _side(tools or default_address(), tools_security, insecure, of_tools=True)
        self._runtimes = _side(runtimes, runtimes_security, insecure, of_tools=False)
        if each and not (
            self._tools.listens and self._runtimes.listens and isinstance(self._tools.address, UnixAddress)
        ):
            raise UsageError("sockets for each runtime: where tools and runtimes dial us, and tools dial a path")
        Deadline(runtime_timeout_s)  # raises UsageError
        self._each, self._runtime_timeout_s = each, runtime_timeout_s
        self._status_address, self._on_event, self._on_bytes = status_address, on_event, on_bytes
        self._began = time.monotonic()
        self._commands: dict[int, _Command] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._tool_places = Places(most_connections)
        self._runtime_places = Places(most_connections, others=self._runtimes_held)
        self._offered: set[SocketStream] = set()
        self._told_unreachable = ""
        self._listeners: list[Listener] = []
        self._own: dict[UUID, Listener] = {}
        self._forwarded: dict[UUID, asyncio.Task[Any]] = {}
        self._known: dict[UUID, Advertise] = {}
        self._waiting_tools = 0
        self._opened: Future[None] = Future()
        self._is_closed = threading.Event()
        self._news = threading.Condition()
        self._on_event_error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="dotnetdiag routing", daemon=True)
        start(self._thread)
        self._opened.result()

    @property
    def tools_address(self) -> str:
        """Where tools are: with the port that the system chose, where it did."""
        return self._tools_address

    @property
    def runtimes_address(self) -> str:
        """Where runtimes are."""
        return self._runtimes_address

    @property
    def description(self) -> str:
        """Where it can be dialled, and whom it dials: ``listening on /tmp/tools for tools, dialling tcp://127.0.0.1:9000 for runtimes``."""
        sides = (
            (self._tools.listens, self._tools_address, "tools"),
            (self._runtimes.listens, self._runtimes_address, "runtimes"),
        )
        listening = " and ".join(f"{address} for {whom}" for listens, address, whom in sides if listens) or "nothing"
        dialling = " and ".join(f"{address} for {whom}" for listens, address, whom in sides if not listens)
        return f"listening on {listening}" + (f", dialling {dialling}" if dialling else "")

    def status(self) -> RouterStatus:
        """Who is connected now. Raises TransportError once it is closed, TimedOut when ``on_event`` keeps it from answering for ``CLOSE_S``."""
        if self._is_own_thread:
            return self._status()
        if not self._thread.is_alive():  # in a forked child, too
            raise TransportError("the router is closed")
        answer: Future[RouterStatus] = Future()

        def give() -> None:
            try:
                answer.set_result(self._status())
            except BaseException as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(give)
            return answer.result(CLOSE_S)
        except (RuntimeError, TimeoutError) as exc:
            if isinstance(exc, TimeoutError) and not self._is_closed.is_set():
                raise TimedOut("on_event takes too long: no status", timeout_s=CLOSE_S) from exc
            raise TransportError("the router is closed") from exc

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the router is closed; whether it is. Raises what ``on_event`` has raised, as soon as it has and once, and UsageError in
        ``on_event``, where nothing can be waited for.
        """
        if self._is_own_thread and timeout_s != 0:
            raise UsageError("on_event cannot wait for its own router: call wait in another thread")
        if not self._thread.is_alive():  # in a forked child, too, which has not the thread
            self._raise_of_on_event()
            return True
        limit = Deadline(timeout_s)
        with self._news:
            while True:
                self._news.wait_for(
                    lambda: self._is_closed.is_set() or self._on_event_error is not None,
                    None if timeout_s is None else limit.left_s,
                )
                self._raise_of_on_event()  # still locked: of several that wait one gets it, and the others wait on
                if self._is_closed.is_set() or limit.is_over:
                    return self._is_closed.is_set()

    def close(self) -> None:
        """End all: nobody can dial any more, commands under way are cut off. May be called again, and from another thread; in ``on_event`` it
        does not wait for the end. Raises what ``on_event`` has raised, once it is closed, unless ``wait`` has.
        """
        self._close()
        if not self._is_own_thread:
            self._raise_of_on_event()

    def __exit__(self, *problem: object) -> None:
        if problem[0] is None:
            self.close()
        else:
            self._close()  # what ends the block is the error to see

    def _close(self) -> None:
        if not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # it has just ended
            self._loop.call_soon_threadsafe(self._main.cancel)
        if not self._is_own_thread:
            self._thread.join(CLOSE_S)

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _raise_of_on_event(self) -> None:
        with self._news:
            error, self._on_event_error = self._on_event_error, None
        if error is not None:
            raise error

    def __repr__(self) -> str:
        state = "closed" if self._is_closed.is_set() else f"{len(self._commands)} commands under way"
        return f"<Router {self.tools_address} - {self.runtimes_address}: {state}>"

    # -- in the router's thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(
                loop_factory=asyncio.SelectorEventLoop
            ) as runner:  # Windows' other one cannot watch sockets
                runner.run(self._live())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            with self._news:
                self._is_closed.set()
                self._news.notify_all()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None
        self._main = main
        self._buffer = memoryview(bytearray(PIECE_BYTES))
        self._dials = asyncio.Semaphore(MOST_DIALS)
        self._tools_address, self._runtimes_address = str(self._tools.address), str(self._runtimes.address)
        self._diallers: Diallers | None = None
        self._stand_in_of_pid: StandIn | None = None
        try:
            await self._open()
            self._opened.set_result(None)
            await asyncio.get_running_loop().create_future()
        finally:
            await self._end()

    async def _open(self) -> None:
        if self._runtimes.listens:
            diallers = Diallers(
                self._runtimes, chooses=self._tools.listens and not self._each, changed=self._changed, told=self._tell
            )
            self._diallers = diallers
            self._runtimes_address = await self._accept(self._runtimes, self._runtime_places, diallers.admit)
            self._begin(diallers.sweep())
        else:
            self._listening = Listening(self._runtimes, self._unreachable)
        if self._tools.listens:
            self._tools_address = await self._accept(self._tools, self._tool_places, self._serve)
            if self._has_default_address and isinstance(self._tools.address, UnixAddress):
                self._stand_in_of_pid = StandIn(self._tools.address.path)
        elif not self._runtimes.listens:
            self._begin(self._stand_in(self._listening))
        if self._status_address:
            side = Side(address=parse_address(self._status_address), mode=PortMode.LISTEN, security=NO_SECURITY)
            await self._accept(side, Places(MOST_ASKING), lambda stream, _: tell_status(stream, self._status))

    async def _accept(self, side: Side, places: Places, handle: _Handle) -> str:
        listener = await side.open()
        self._listeners.append(listener)
        self._begin(self._accept_all(listener, places, handle))
        return side.text_of(listener)

    async def _end(self) -> None:
        for listener in (*self._listeners, *self._own.values()):
            listener.close()
        if self._stand_in_of_pid is not None:
            self._stand_in_of_pid.remove()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(tuple(self._tasks))
        if self._diallers is not None:
            self._diallers.close()

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, DiagnosticsError):
            self._loop.call_exception_handler({"message": "a defect of the router", "exception": error})

    def _begin_with(self, work: Coroutine[Any, Any, Any], *streams: SocketStream) -> asyncio.Task[Any]:
        """Streams that are the work's to close; one that is cancelled before it has begun does not."""

        def close(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                for stream in streams:
                    stream.close()

        task = self._begin(work)
        task.add_done_callback(close)
        return task

    async def _accept_all(self, listener: Listener, places: Places, handle: _Handle) -> None:
        """Handle each connection, until the listener is closed."""

        def take_in(stream: SocketStream) -> None:
            place = places.take()
            task = self._begin_with(handle(stream, place), stream)
            task.add_done_callback(lambda _: place.leave())
            if place.in_a_hurry:
                timer = self._loop.call_later(HURRY_S, self._hurry, place, task, stream.address)
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
        return waiting + (len(self._commands) if self._tools.listens else len(self._offered))

    def _unreachable(self, why: str) -> None:
        """Told once, until it is for another reason."""
        if why != self._told_unreachable:
            self._told_unreachable = why
            self._tell(what="unreachable", why=why)

    # -- tools that dial us

    async def _serve(self, accepted: SocketStream, place: Place, cookie: UUID | None = None) -> None:
        """A tool has dialled: when it has said what it wants, a runtime is looked for."""
        tool = accepted
        try:
            tool = await self._tools.welcome(accepted)
            request = await receive_request(tool, SILENT_TOOL_S)
            if request:
                place.introduce()
                deadline = Deadline(self._runtime_timeout_s)
                self._waiting_tools += 1
                try:
                    found = await self._while_there(tool, self._hand_over(request, cookie, deadline))
                finally:
                    self._waiting_tools -= 1
                if found is not None:
                    await self._forward(tool, *found, request)
        except DiagnosticsError as error:
            self._tell(what="refused", address=tool.address, why=str(error))
        finally:
            tool.close()

    async def _hand_over(
        self, request: bytes, cookie: UUID | None, deadline: Deadline
    ) -> tuple[SocketStream, Advertise | None]:
        """The runtime that has taken a request. One that has gone meanwhile has not. Raises TimedOut."""
        runtimes = self._diallers or self._listening
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

    async def _while_there(
        self, tool: SocketStream, work: Coroutine[Any, Any, tuple[SocketStream, Advertise | None]]
    ) -> tuple[SocketStream, Advertise | None] | None:
        """What comes of the work; None: the tool has hung up before."""
        task: asyncio.Task[tuple[SocketStream, Advertise | None]] = self._begin(work)
        watch: asyncio.Task[None] = self._begin(until_readable(tool))
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
        return tool.has_hung_up() or not (isinstance(self._tools.address, UnixAddress) or tool.is_alive())

    async def _forward(
        self, tool: SocketStream, runtime: SocketStream, advertise: Advertise | None, request: bytes
    ) -> None:
        """A command from its request on, which the runtime has, to its end."""
        try:
            number = next(self._numbers)
            overhear = None if self._on_bytes is None else partial(self._overhear, self._on_bytes, number)
            link = Link(tool, runtime, self._buffer, overhear)
            command = _Command(
                number=number,
                name=_name_of(request),
                tool_pid=tool.peer_pid() or None,
                advertise=advertise,
                began=time.monotonic(),
                link=link,
            )
            link.to_runtime.moved = len(request)
            self._commands[command.number] = command
            self._tell(
                what="began",
                number=command.number,
                command=command.name,
                cookie=command.cookie,
                tool_pid=command.tool_pid,
            )
            if overhear is not None:
                if self._diallers is not None and advertise is not None:
                    overhear(False, memoryview(advertise.pack()))
                overhear(True, memoryview(request))
            try:
                await link.run()
            finally:
                del self._commands[command.number]
                self._tell(
                    what="ended",
                    number=command.number,
                    command=command.name,
                    cookie=command.cookie,
                    tool_pid=command.tool_pid,
                    bytes_to_tool=link.to_tool.moved,
                    bytes_to_runtime=link.to_runtime.moved,
                    why=link.why or "the router was closed",
                )
        finally:
            runtime.close()

    # -- tools that we dial

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
                    tool = await self._tools.dial_until_there(
                        Deadline(None), failed=self._unreachable, is_wanted=is_wanted
                    )
                try:
                    if runtime is None:
                        waiting = diallers.table.waiting(cookie)
                        runtime = diallers.table.take(cookie)
                        if runtime is None:
                            return
                        self._offered.add(runtime)
                        del self._forwarded[cookie]  # its next connection is one of its own
                    if waiting is None or not runtime.is_quiet():
                        return
                    began = time.monotonic()
                    with suppress(TransportError):
                        await drive(tool.sending(waiting.advertise.pack()), Deadline(BACKEND_S))
                        if request := await self._first_of(tool, runtime):
                            await drive(runtime.sending(request), Deadline(BACKEND_S))
                            await self._forward(tool, runtime, waiting.advertise, request)
                            return
                    if time.monotonic() - began < AT_ONCE_S and runtime.is_quiet():
                        self._unreachable(f"{self._tools_address} hangs up without a word: {WHY_HUNG_UP}")
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
        asked = self._begin(receive_request(tool, None))
        gone = self._begin(until_not_quiet(runtime))  # it says nothing before it was asked
        try:
            await asyncio.wait([asked, gone], return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else b""
        finally:
            for task in (asked, gone):
                task.cancel()
            await asyncio.wait([asked, gone])

    async def _stand_in(self, runtime: Listening) -> None:
        """Dial the tool as the runtime would that listens, and again whenever a command was taken."""
        pause = FIRST_PAUSE_S
        while True:
            advertise = await runtime.advertise()
            while True:
                tool = await self._tools.dial_until_there(Deadline(None), failed=self._unreachable)
                request = b""
                try:
                    await drive(tool.sending(advertise.pack()), Deadline(BACKEND_S))
                    request = await receive_request(tool, None)
                    taken = await self._hand_over(request, None, Deadline(BACKEND_S)) if request else None
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
                self._begin_with(self._forward_and_close(tool, taken[0], advertise, request), tool, taken[0])

    async def _forward_and_close(
        self, tool: SocketStream, runtime: SocketStream, advertise: Advertise, request: bytes
    ) -> None:
        try:
            await self._forward(tool, runtime, advertise, request)
        finally:
            tool.close()

    # -- who is there

    def _changed(self) -> None:
        """A runtime has come, has dialled again, or is gone."""
        diallers = self._diallers
        assert diallers is not None
        there = {advertise.cookie: advertise for advertise in diallers.table.there}
        for cookie, advertise in there.items():
            if cookie not in self._known:
                self._known[cookie] = advertise
                if self._each:
                    self._begin(self._open_own(advertise))
                else:
                    self._tell(what="connected", cookie=str(cookie), namespace_pid=advertise.pid)
            if not self._tools.listens and cookie not in self._forwarded and diallers.table.waiting(cookie) is not None:
                self._forwarded[cookie] = task = self._begin(self._present(diallers, cookie))
                task.add_done_callback(lambda task, cookie=cookie: self._presented(cookie, task))  # type: ignore[misc]
        for cookie in [one for one in self._known if one not in there]:
            advertise = self._known.pop(cookie)
            if (listener := self._own.pop(cookie, None)) is not None:
                listener.close()
            self._tell(what="gone", cookie=str(cookie), namespace_pid=advertise.pid)

    def _presented(self, cookie: UUID, task: asyncio.Task[Any]) -> None:
        if self._forwarded.get(cookie) is task:
            del self._forwarded[cookie]
        if not task.cancelled():
            task.exception()  # it was a DiagnosticsError: the peer is gone

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
            listener, self._tool_places, lambda stream, place: self._serve(stream, place, advertise.cookie)
        )

    def _status(self) -> RouterStatus:
        now, table = time.monotonic(), None if self._diallers is None else self._diallers.table
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
            commands=tuple(
                RoutedCommand(
                    number=one.number,
                    command=one.name,
                    tool_pid=one.tool_pid,
                    cookie=one.cookie,
                    seconds=round(now - one.began, 3),
                    bytes_to_tool=one.link.to_tool.moved,
                    bytes_to_runtime=one.link.to_runtime.moved,
                )
                for one in self._commands.values()
            ),
            waiting_tools=self._waiting_tools,
        )

    def _tell(self, *, what: str, **facts: Any) -> None:
        event = RouterEvent(what=what, seconds=round(time.monotonic() - self._began, 3), **facts)
        try:
            self._on_event(event)
        except BaseException as error:  # it is the caller's: nothing of ours ends for it, not even at SystemExit
            self._keep(error)

    def _overhear(
        self, on_bytes: Callable[[int, bool, memoryview], None], number: int, is_tools: bool, data: memoryview
    ) -> None:
        try:
            on_bytes(number, is_tools, data)
        except BaseException as error:  # as of on_event
            self._keep(error)

    def _keep(self, error: BaseException) -> None:
        """What the caller's function has raised."""
        with self._news:
            self._on_event_error = self._on_event_error or error
            self._news.notify_all()


def _side(text: str, security: Security, insecure: bool, *, of_tools: bool) -> Side:
    port = parse_tool_port(text)
    parse = parse_websocket if is_websocket(port.address) else parse_address
    address = parse(port.address)
    if port.mode is PortMode.LISTEN and not of_tools and not isinstance(address, WebSocketAddress):
        check_dialable(address)
    return Side(address=address, mode=port.mode, security=security, insecure=insecure, of_tools=of_tools)


async def _discard(task: asyncio.Task[tuple[SocketStream, Advertise | None]]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        task.result()[0].close()


def _name_of(request: bytes) -> str:
    try:
        header = FrameHeader.parse(request)
    except DiagnosticsError:
        return "?"
    return command_name(header.command_set << 8 | header.command_id)
