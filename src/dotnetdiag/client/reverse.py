"""The owner's side of a reverse port: runtimes dial us (``DOTNET_DiagnosticPorts=ADDRESS``) and say who they are.

What is decided about them is in ``ipc.waiting``; here is one thread that accepts, and a short-lived one for each connection that has
something to say, so that a silent one delays nobody. Both clients use this port: the asyncio one is told of changes by a callback.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from dotnetdiag.client.limits import Limits
from dotnetdiag.client.running import run
from dotnetdiag.errors import DiagnosticsError, ServerError, TimedOut, TransportError
from dotnetdiag.ipc import operations
from dotnetdiag.ipc.advertise import Advertise, receive_advertise
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.waiting import Decision, WaitingRuntimes
from dotnetdiag.transport import Deadline, Stream, listen

if TYPE_CHECKING:
    from dotnetdiag.transport import Address

T = TypeVar("T")
ADVERTISE_TIMEOUT_S = 0.25
"""For all 34 bytes: what the reference client allows on a local socket (ipc-protocol.md §12)."""
IN_ORDER_S = 0.005
"""A runtime speaks as soon as it has connected. So long each is waited for before the next is accepted, so that the first is the first."""
RESUME_TIMEOUT_S = 1.0
SWEEP_S = 0.5
"""How often connections whose runtimes are gone are looked for."""
SHORTAGE_PAUSE_S = 0.1
"""Without free descriptors, or with too many connections that say nothing, accepting waits this long."""
MOST_TALKING = 256
"""Connections that may be saying who they are, or be resumed, at the same time."""
LONGEST_WAIT_S = 86400.0
"""``Condition.wait`` takes no infinite number."""


class ReversePort:
    """A listening port for runtimes. Several threads may use it.

    Once a runtime was chosen by :meth:`choose`, others that dial (children of the program inherit the port) are resumed and otherwise
    left alone: dotnet-trace leaves them suspended for ever.
    """

    def __init__(self, address: Address, deadline: Deadline | None = None) -> None:
        self.address = address
        self._listener = listen(address, deadline=deadline)
        self._runtimes: WaitingRuntimes[Stream] = WaitingRuntimes()
        self._changed = threading.Condition()
        self._observers: list[Callable[[], None]] = []
        self._talking: dict[threading.Thread, Stream] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept_all, name="dotnetdiag port", daemon=True)
        self._thread.start()

    def choose(self) -> tuple[Advertise, int | None] | None:
        """The runtime that is meant, from the first call on that finds one, and its pid here where the system tells it."""
        with self._changed:
            self.check_open()
            chosen = self._runtimes.choose(_is_alive)
            self._resume_others()
            return None if chosen is None else (chosen.advertise, chosen.connection.peer_pid() or None)

    def take(self, cookie: UUID) -> Stream | None:
        """A living connection of one runtime; None when it has to dial again first."""
        with self._changed:
            self.check_open()
            while (stream := self._runtimes.take(cookie)) is not None:
                if stream.is_alive():
                    return stream
                stream.close()
            return None

    def wait(self, look: Callable[[], T | None], deadline: Deadline) -> T:
        """What ``look`` finds, as soon as it does. Raises TimedOut."""
        with self._changed:
            while (found := look()) is None:
                left = deadline.left("no runtime has connected", address=str(self.address))
                self._changed.wait(LONGEST_WAIT_S if left is None else min(left, LONGEST_WAIT_S))
            return found

    @contextmanager
    def observed(self, observer: Callable[[], None]) -> Iterator[None]:
        """``observer`` is called, from another thread, whenever there may be something new to find."""
        with self._changed:
            self._observers.append(observer)
        try:
            yield
        finally:
            with self._changed:
                self._observers.remove(observer)

    def check_open(self) -> None:
        """Raise TransportError when the port is closed."""
        if self._closed.is_set():
            raise TransportError("the port is closed", address=str(self.address))

    def close(self) -> None:
        """Stop listening and close what waits. A runtime keeps trying to dial; it is not harmed. May be called again."""
        with self._changed:
            self._closed.set()
            left = [*self._runtimes.clear(), *self._talking.values()]
            talking = tuple(self._talking)
            self._notify()
        self._listener.close()
        for stream in left:
            stream.close()
        for thread in (self._thread, *talking):
            thread.join(RESUME_TIMEOUT_S)

    def _notify(self) -> None:
        self._changed.notify_all()
        for observer in self._observers:
            observer()

    def _accept_all(self) -> None:
        swept = time.monotonic()
        while not self._closed.is_set():
            try:
                stream = self._listener.accept(Deadline(SWEEP_S))
            except TimedOut:
                pass
            except DiagnosticsError:  # closed, or the system has no more descriptors: it may have some again
                self._closed.wait(SHORTAGE_PAUSE_S)
            else:
                heard = threading.Event()
                with self._changed:
                    if self._closed.is_set():
                        stream.close()
                    else:
                        self._talk(self._admit, heard, stream)
                heard.wait(IN_ORDER_S)
            if time.monotonic() - swept >= SWEEP_S:
                swept = time.monotonic()
                self._drop_the_gone()
            while len(self._talking) >= MOST_TALKING and not self._closed.wait(SHORTAGE_PAUSE_S):
                pass

    def _drop_the_gone(self) -> None:
        with self._changed:
            gone = self._runtimes.gone(_is_alive)
        for stream in gone:
            stream.close()

    def _talk(self, what: Callable[..., None], *arguments: object) -> None:
        """Call ``what`` in a thread of its own; the connection is the last of its arguments. With the lock held."""
        thread = threading.Thread(target=self._talked, args=(what, arguments), name="dotnetdiag port talk", daemon=True)
        stream = arguments[-1]
        assert isinstance(stream, Stream)
        self._talking[thread] = stream
        try:
            thread.start()
        except RuntimeError:  # no more threads: the runtime dials again
            del self._talking[thread]
            stream.close()

    def _talked(self, what: Callable[..., None], arguments: tuple[object, ...]) -> None:
        try:
            what(*arguments)
        finally:
            with self._changed:
                del self._talking[threading.current_thread()]

    def _admit(self, heard: threading.Event, stream: Stream) -> None:
        kept = False
        try:
            advertise = run(Run(receive_advertise(stream)), lambda _: stream, Limits(ADVERTISE_TIMEOUT_S, None))
            with self._changed:
                if self._closed.is_set():
                    return
                decision, replaced = self._runtimes.admit(advertise, stream)
                kept = decision is Decision.KEEP
                self._notify()
            heard.set()
            if replaced is not None:
                replaced.close()
            if not kept:
                self._resume(advertise.cookie, stream)
        except DiagnosticsError:
            pass  # not a runtime; the port goes on
        finally:
            heard.set()
            if not kept:
                stream.close()

    def _resume(self, cookie: UUID, stream: Stream) -> None:
        try:
            run(Run(operations.resume()), lambda _: stream, Limits(RESUME_TIMEOUT_S, None))
        except ServerError:
            pass  # it has nothing to resume
        except DiagnosticsError:
            with self._changed:
                self._runtimes.not_resumed(cookie)
                self._resume_others()  # it may have dialled again meanwhile
            return
        finally:
            stream.close()
        with self._changed:
            self._runtimes.resumed(cookie)

    def _resume_others(self) -> None:
        """With the lock held."""
        for one in self._runtimes.to_resume():
            if self._closed.is_set():
                one.connection.close()
            else:
                self._talk(self._resume, one.advertise.cookie, one.connection)


def _is_alive(stream: Stream) -> bool:
    return stream.is_alive()
