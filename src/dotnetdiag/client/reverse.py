"""The owner's side of a reverse port: runtimes dial us (``DOTNET_DiagnosticPorts=ADDRESS``) and say who they are.

What is decided about them is in ``ipc.waiting``; here is one thread that accepts, one that listens to connections which have not said yet
who they are (``hearing``), so that a silent one delays nobody, and a short-lived one for each runtime that is resumed. Who waits for one
is told of changes by a callback.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client.hearing import Hearing
from dotnetdiag.client.limits import Limits
from dotnetdiag.client.running import run
from dotnetdiag.errors import ConnectFailed, DiagnosticsError, ServerError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import SIZE as ADVERTISE_SIZE
from dotnetdiag.ipc.advertise import Advertise, receive_advertise
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations import startup
from dotnetdiag.ipc.waiting import Decision, WaitingRuntimes
from dotnetdiag.transport import Deadline, Stream, listen, processes
from dotnetdiag.transport.attempts import verify_target
from dotnetdiag.transport.dialable import check_dialable
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.streams import Closing
from dotnetdiag.transport.waiting import Change, Steps, start
from dotnetdiag.transport.waiting import run as drive

if TYPE_CHECKING:
    from dotnetdiag.transport import Address
    from dotnetdiag.transport.security import Security

ADVERTISE_TIMEOUT_S = 0.25
"""For all 34 bytes: what the reference client allows on a local socket (ipc-protocol.md §12)."""
REMOTE_ADVERTISE_TIMEOUT_S = 2.0
"""The same where runtimes come over a network: a packet that was lost is sent again meanwhile."""
IN_ORDER_S = 0.005
"""A runtime speaks as soon as it has connected. So long each is waited for before the next is accepted, so that the first is the first."""
RESUME_TIMEOUT_S = 1.0
SWEEP_S = 0.5
"""How often connections whose runtimes are gone are looked for."""
SHORTAGE_PAUSE_S = 0.1
"""Without free descriptors, or with too many connections that say nothing or are resumed, accepting waits this long."""
MOST_STRANGERS = 256
"""Connections that have not said yet who they are, at the same time. Those that come when half of these places are taken have ``HURRY_S`` for
certificate and token, so that others behind them get their turn soon, however many are silent.
"""
HURRY_S = ADVERTISE_TIMEOUT_S
MOST_RESUMED = 256
"""Runtimes that may be resumed at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialler:
    """A runtime that has dialled. ``pid`` is as this machine sees it, None where the system does not tell, or a relay stands between."""

    cookie: UUID
    namespace_pid: int
    pid: int | None
    started_ticks: int | None

    @classmethod
    def of(cls, advertise: Advertise, peer_pid: int | None) -> Self:
        """Who has said that at the other end of a connection."""
        pid = peer_pid if peer_pid and processes.is_number_of(advertise.pid, peer_pid) else None
        ticks = processes.start_time_ticks(pid) if pid else None
        return cls(cookie=advertise.cookie, namespace_pid=advertise.pid, pid=pid, started_ticks=ticks)


class ReversePort(Closing):
    """A listening port for runtimes. Several threads may use it.

    Once a runtime was chosen by :meth:`choose`, others that dial (children of the program inherit the port) are resumed and otherwise
    left alone: dotnet-trace leaves them suspended for ever.
    """

    def __init__(
        self,
        address: Address,
        deadline: Deadline | None = None,
        *,
        in_order: bool = True,
        security: Security | None = None,
    ) -> None:
        """``in_order``: runtimes come in the order in which they dial; a silent one delays those behind it by ``IN_ORDER_S``. ``security``: what
        they have to show; with all of it the port may be beyond loopback. Raises UsageError for an address that no runtime can dial.
        """
        check_dialable(address)
        if security is not None:
            check_usable(address, security)
        self.address, self._security = address, security
        self._in_order_s = IN_ORDER_S if in_order else 0.0
        self._runtimes: WaitingRuntimes[Stream] = WaitingRuntimes()
        self._lock = threading.RLock()
        self._observers: list[Callable[[], None]] = []
        self._talking: dict[threading.Thread, Stream] = {}
        self._strangers: set[threading.Thread] = set()
        self._hearing = Hearing(self._admit, size=ADVERTISE_SIZE, limit_s=ADVERTISE_TIMEOUT_S)
        self._diallers: dict[UUID, Dialler] = {}
        self._queues: defaultdict[UUID, deque[object]] = defaultdict(deque)
        self._closed, self._owner_pid = threading.Event(), os.getpid()
        self._thread = threading.Thread(target=self._accept_all, name="dotnetdiag port", daemon=True)
        is_secure = security is not None and security.is_complete
        self._listener = listen(address, allow_remote=is_secure, deadline=deadline)
        self.address = self._listener.address
        try:
            start(self._thread)
        except BaseException:  # nobody has this port yet
            self._closed.set()
            self._listener.close()
            raise

    def choose(self) -> Dialler | None:
        """The runtime that is meant, from the first call on that finds one."""
        self.check_open()
        with self._lock:
            self.check_open()
            chosen = self._runtimes.choose(methodcaller("is_quiet"))
            self._resume_others()
            return None if chosen is None else self._diallers[chosen.advertise.cookie]

    def diallers(self) -> tuple[Dialler, ...]:
        """The runtimes that are there, in the order in which they came; none once the port is closed."""
        if self.is_closed:
            return ()
        with self._lock:
            return tuple(self._diallers[one.cookie] for one in self._runtimes.there)

    def taking(self, dialler: Dialler, *, may_return: bool = True) -> Steps[Stream]:
        """Wait for a living connection of a runtime, for one command. Who waits longest gets the next one. Raises ConnectFailed, unless it
        ``may_return``, for one that is not there any more.
        """
        ticket = object()
        with self._lock:
            self._queues[dialler.cookie].append(ticket)

        def look() -> Stream | None:
            if dialler.pid:
                verify_target(dialler.pid, dialler.pid, dialler.started_ticks)
            with self._lock:
                self.check_open()
                if not may_return and self._diallers.get(dialler.cookie) != dialler:
                    raise ConnectFailed("the runtime is not there any more", address=str(self.address))
                return self._take(dialler.cookie) if self._queues[dialler.cookie][0] is ticket else None

        try:
            stream: Stream = yield Change(look, self.observed, "the runtime has not connected again", str(self.address))
            return stream
        finally:
            with self._lock:
                self._queues[dialler.cookie].remove(ticket)
                if not self._queues[dialler.cookie]:
                    del self._queues[dialler.cookie]
                self._notify()

    def _take(self, cookie: UUID) -> Stream | None:
        while (stream := self._runtimes.take(cookie)) is not None:
            if stream.is_quiet():
                return stream
            stream.close()
        return None

    @contextmanager
    def observed(self, observer: Callable[[], None]) -> Iterator[None]:
        """``observer`` is called, from another thread, whenever there may be something new to find."""
        with self._lock:
            self._observers.append(observer)
        try:
            yield
        finally:
            with self._lock:
                self._observers.remove(observer)

    @property
    def is_closed(self) -> bool:
        """Whether nobody can dial it any more; so it is in a forked child, which has not the threads."""
        return self._closed.is_set() or os.getpid() != self._owner_pid

    def check_open(self) -> None:
        """Raise TransportError when the port is closed."""
        if self.is_closed:
            raise TransportError("the port is closed", address=str(self.address))

    def close(self) -> None:
        """Stop listening and close what waits. A runtime keeps trying to dial; it is not harmed. May be called again."""
        if os.getpid() != self._owner_pid:
            return  # the fork has closed what a child must not keep
        with self._lock:
            self._closed.set()
            left = [*self._runtimes.clear(), *self._talking.values()]
            talking = tuple(self._talking)
            self._notify()
        self._listener.close()
        self._hearing.close()
        for stream in left:
            stream.close()
        for thread in (self._thread, *talking):
            thread.join(RESUME_TIMEOUT_S)

    def _notify(self) -> None:
        for observer in self._observers:
            observer()

    def _accept_all(self) -> None:
        swept = time.monotonic()
        while not self._closed.is_set():
            if self._has_room():
                self._accept_one()
            else:
                self._closed.wait(SHORTAGE_PAUSE_S)
            if time.monotonic() - swept >= SWEEP_S:
                swept = time.monotonic()
                self._drop_the_gone()

    def _has_room(self) -> bool:
        with self._lock:
            strangers, resumed = len(self._strangers), len(self._talking) - len(self._strangers)
        return strangers + len(self._hearing) < MOST_STRANGERS and resumed < MOST_RESUMED

    def _accept_one(self) -> None:
        try:
            stream = self._listener.accept(Deadline(SWEEP_S))
        except TimedOut:
            return
        except DiagnosticsError:  # closed, or the system has no more descriptors: it may have some again
            self._closed.wait(SHORTAGE_PAUSE_S)
            return
        heard = threading.Event()
        # to listen to others costs more than to listen to it
        if self._security is None and stream.has_arrived(ADVERTISE_SIZE):
            self._admit(heard, stream)
        else:
            self._hear(heard, stream)
            heard.wait(self._in_order_s)

    def _hear(self, heard: threading.Event, stream: Stream) -> None:
        """Listen to it until it has said who it is: together with others, where the system can do that and it has nothing to show before."""
        if sys.platform == "win32" or self._security is not None:
            with self._lock:
                self._talk(self._admit, heard, stream)
            return
        with suppress(TransportError):  # no more threads: the runtime dials again
            self._hearing.add(heard, stream)

    def _drop_the_gone(self) -> None:
        with self._lock:
            gone = self._runtimes.gone(methodcaller("is_quiet"))
            for cookie in self._runtimes.forget(lambda stream: stream.fileno() >= 0 and stream.is_alive()):
                self._diallers.pop(cookie, None)
            self._notify()  # the process of the chosen one may have ended
        for stream in gone:
            stream.close()

    def _talk(self, what: Callable[[Any, Stream], None], whom: object, stream: Stream) -> bool:
        """Call ``what`` in a thread of its own. With the lock held.

        False: the port is closed, or there are no more threads. The connection is closed then, and the runtime dials again.
        """
        thread = threading.Thread(
            target=self._talked, args=(what, whom, stream), name="dotnetdiag port talk", daemon=True
        )
        self._talking[thread] = stream
        if what == self._admit:
            self._strangers.add(thread)
        try:
            self.check_open()
            start(thread)
        except TransportError:
            del self._talking[thread]
            self._strangers.discard(thread)
            stream.close()
            return False
        return True

    def _talked(self, what: Callable[[Any, Stream], None], whom: object, stream: Stream) -> None:
        try:
            what(whom, stream)
        finally:
            with self._lock:
                thread = threading.current_thread()
                del self._talking[thread]
                self._strangers.discard(thread)

    def _admit(self, heard: threading.Event, stream: Stream) -> None:
        kept = False
        try:
            limit_s = ADVERTISE_TIMEOUT_S
            if self._security is not None:
                stream, limit_s = self._welcomed(stream, self._security), REMOTE_ADVERTISE_TIMEOUT_S
            advertise = run(Run(receive_advertise(stream)), _Accepted(stream), Limits(limit_s, None))
            dialler = Dialler.of(advertise, stream.peer_pid())
            with self._lock:
                if self._closed.is_set():
                    return
                self._diallers.setdefault(advertise.cookie, dialler)
                decision, replaced = self._runtimes.admit(advertise, stream)
                kept = True
                if decision is Decision.RESUME and not self._talk(self._resume, advertise.cookie, stream):
                    self._runtimes.not_resumed(advertise.cookie)
                self._notify()
            if replaced is not None:
                replaced.close()
        except DiagnosticsError:
            pass  # not a runtime; the port goes on
        finally:
            heard.set()
            if not kept:
                stream.close()

    def _welcomed(self, stream: Stream, security: Security) -> Stream:
        """The stream as it goes on once the peer has shown what it has to."""
        from dotnetdiag.transport.security import AUTHENTICATION_S, welcoming

        assert isinstance(stream, SocketStream)
        stream.keep_alive(sends_much=False)
        with self._lock:
            in_a_hurry = 2 * len(self._strangers) > MOST_STRANGERS
        welcomed = drive(welcoming(stream, security), Deadline(HURRY_S if in_a_hurry else AUTHENTICATION_S))
        with self._lock:
            self._talking[threading.current_thread()] = welcomed
            if not self._closed.is_set():
                return welcomed
        welcomed.close()
        raise TransportError("the port is closed", address=str(self.address))

    def _resume(self, cookie: UUID, stream: Stream) -> None:
        try:
            run(Run(startup.resume()), _Accepted(stream), Limits(RESUME_TIMEOUT_S, None))
        except ServerError:
            pass  # it has nothing to resume
        except DiagnosticsError:
            with self._lock:
                self._runtimes.not_resumed(cookie)
                self._resume_others()  # it may have dialled again meanwhile
            return
        finally:
            stream.close()
        with self._lock:
            self._runtimes.resumed(cookie)

    def _resume_others(self) -> None:
        """With the lock held."""
        for one in self._runtimes.to_resume():
            if not self._talk(self._resume, one.advertise.cookie, one.connection):
                self._runtimes.not_resumed(one.advertise.cookie)


def check_usable(address: Address, security: Security) -> None:
    """Raise UsageError for security that cannot be had, or is not enough."""
    from dotnetdiag.transport.addresses import TcpAddress
    from dotnetdiag.transport.security import check, require_secure

    if not isinstance(address, TcpAddress):
        raise UsageError(f"{address}: TLS and tokens are for TCP; a socket's file has its mode")
    require_secure(address, security, insecure=False)
    check(security)


class _Accepted:
    """The route to who has dialled us: its connection."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def dial(self, _: Deadline) -> Stream:
        return self._stream
