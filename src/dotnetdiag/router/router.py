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
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from dotnetdiag.errors import TimedOut, TransportError, UsageError
from dotnetdiag.ipc.ports import PortMode, parse_tool_port
from dotnetdiag.router.findable import default_address
from dotnetdiag.router.routing import Routing
from dotnetdiag.router.side import Side
from dotnetdiag.router.status import RouterEvent, RouterStatus
from dotnetdiag.router.websocket import WebSocketAddress, is_websocket, parse_websocket
from dotnetdiag.transport import Deadline, parse_address
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.dialable import check_dialable
from dotnetdiag.transport.security import NO_SECURITY, Security
from dotnetdiag.transport.streams import Closing
from dotnetdiag.transport.waiting import start

MOST_CONNECTIONS = 1024
"""Of each side. More wait in the system's queue until one has ended."""
CLOSE_S = 5.0


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
        self._tools = _side(tools or default_address(), tools_security, insecure, of_tools=True)
        self._runtimes = _side(runtimes, runtimes_security, insecure, of_tools=False)
        if each and not (
            self._tools.listens and self._runtimes.listens and isinstance(self._tools.address, UnixAddress)
        ):
            raise UsageError("sockets for each runtime: where tools and runtimes dial us, and tools dial a path")
        Deadline(runtime_timeout_s)  # raises UsageError
        self._on_event = on_event
        self._began = time.monotonic()
        self._routing = Routing(
            self._tools,
            self._runtimes,
            each=each,
            runtime_timeout_s=runtime_timeout_s,
            status_address=status_address,
            most_connections=most_connections,
            is_found_by_pid=not tools,
            tell=self._tell,
            overhear=None if on_bytes is None else partial(self._overhear, on_bytes),
        )
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
        return self._routing.tools_address

    @property
    def runtimes_address(self) -> str:
        """Where runtimes are."""
        return self._routing.runtimes_address

    @property
    def description(self) -> str:
        """Where it can be dialled, and whom it dials: ``listening on /tmp/tools for tools, dialling tcp://127.0.0.1:9000 for runtimes``."""
        sides = (
            (self._tools.listens, self.tools_address, "tools"),
            (self._runtimes.listens, self.runtimes_address, "runtimes"),
        )
        listening = " and ".join(f"{address} for {whom}" for listens, address, whom in sides if listens) or "nothing"
        dialling = " and ".join(f"{address} for {whom}" for listens, address, whom in sides if not listens)
        return f"listening on {listening}" + (f", dialling {dialling}" if dialling else "")

    def status(self) -> RouterStatus:
        """Who is connected now. Raises TransportError once it is closed, TimedOut when ``on_event`` keeps it from answering for ``CLOSE_S``."""
        if self._is_own_thread:
            return self._routing.status()
        if not self._thread.is_alive():  # in a forked child, too
            raise TransportError("the router is closed")
        answer: Future[RouterStatus] = Future()

        def give() -> None:
            try:
                answer.set_result(self._routing.status())
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
        state = "closed" if self._is_closed.is_set() else f"{self._routing.commands} commands under way"
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
        try:
            await self._routing.open()
            self._opened.set_result(None)
            await asyncio.get_running_loop().create_future()
        finally:
            await self._routing.close()

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
