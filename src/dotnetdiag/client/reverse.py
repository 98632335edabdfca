"""The owner's side of a reverse port: runtimes dial us (``DOTNET_DiagnosticPorts=ADDRESS``) and say who they are.

A runtime keeps one connection waiting here; it carries one command, then the runtime dials again. Rules (ipc-protocol.md §12):
the first 34 bytes come within 250 ms or the connection is dropped; the key is the cookie, not the pid; a newer connection of a
cookie replaces the older one; a dead one is not used.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from uuid import UUID

from dotnetdiag.errors import DiagnosticsError, ProtocolError, TransportError
from dotnetdiag.ipc.advertise import SIZE, Advertise
from dotnetdiag.transport import Deadline, Stream, listen

if TYPE_CHECKING:
    from dotnetdiag.transport import Address

ADVERTISE_TIMEOUT_S = 0.25
"""What the reference client allows on a local socket."""
RESUME_TIMEOUT_S = 1.0


class _Living(Protocol):
    def is_alive(self) -> bool: ...


S = TypeVar("S", bound=_Living)


class Waiting(Generic[S]):
    """The connections that wait, by cookie; no I/O. ``S`` is a stream of either kind."""

    def __init__(self) -> None:
        self._by_cookie: dict[UUID, tuple[Advertise, S]] = {}

    def admit(self, advertise: Advertise, stream: S) -> S | None:
        """Keep a connection; the older one of its cookie, which the caller closes."""
        replaced = self._by_cookie.pop(advertise.cookie, None)
        self._by_cookie[advertise.cookie] = (advertise, stream)
        return None if replaced is None else replaced[1]

    def first(self) -> Advertise | None:
        """Who has waited longest and still lives."""
        return next((advertise for advertise, stream in self._by_cookie.values() if stream.is_alive()), None)

    def peek(self, cookie: UUID) -> S | None:
        """The connection of a runtime, left where it is."""
        found = self._by_cookie.get(cookie)
        return None if found is None else found[1]

    def take(self, cookie: UUID) -> S | None:
        """The connection of a runtime, which is gone from here then; dead or alive."""
        found = self._by_cookie.pop(cookie, None)
        return None if found is None else found[1]

    def clear(self) -> list[S]:
        """All connections, for the caller to close."""
        left = [stream for _, stream in self._by_cookie.values()]
        self._by_cookie.clear()
        return left


def read_advertise(stream: Stream) -> Advertise:
    """The 34 bytes that a runtime sends first. Raises TimedOut, ProtocolError, TransportError."""
    deadline = Deadline(ADVERTISE_TIMEOUT_S)
    data = bytearray()
    while len(data) < SIZE:
        part = stream.receive(SIZE - len(data), deadline)
        if not part:
            raise ProtocolError(f"{len(data)} bytes are too few for an advertise of {SIZE}", where="advertise")
        data += part
    return Advertise.parse(bytes(data))


def resume_request() -> bytes:
    """What a runtime that nobody meant is sent, so that it does not wait at its start for ever."""
    from dotnetdiag.ipc.process import ResumeRuntime

    return ResumeRuntime().pack()


class ReverseServer:
    """A listening port for runtimes, with a thread that accepts them. Several threads may use it.

    Once a runtime was chosen by :meth:`first`, others that dial (children of the program inherit the port) are resumed
    and otherwise left alone: dotnet-trace leaves them suspended for ever.
    """

    def __init__(self, address: Address, *, allow_remote: bool = False) -> None:
        self.address = address
        self._listener = listen(address, allow_remote=allow_remote)
        self._waiting: Waiting[Stream] = Waiting()
        self._changed = threading.Condition()
        self._chosen: UUID | None = None
        self._resumed: set[UUID] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._accept_all, name="dotnetdiag port", daemon=True)
        self._thread.start()

    def first(self, deadline: Deadline) -> tuple[Advertise, int | None]:
        """The first runtime that waits, which is chosen from then on, and its pid here where the system tells it."""
        with self._changed:
            while (advertise := self._waiting.first()) is None:
                self._wait(deadline)
            self._chosen = advertise.cookie
            stream = self._waiting.peek(advertise.cookie)
            return advertise, None if stream is None else stream.peer_pid()

    def take(self, cookie: UUID, deadline: Deadline) -> Stream:
        """A living connection of one runtime; waits for it to dial again when it has none. Raises TimedOut."""
        with self._changed:
            while True:
                stream = self._waiting.take(cookie)
                if stream is None:
                    self._wait(deadline)
                elif stream.is_alive():
                    return stream
                else:
                    stream.close()

    def _wait(self, deadline: Deadline) -> None:
        if self._closed:
            raise TransportError("the port is closed", address=str(self.address))
        self._changed.wait(deadline.left("no runtime has connected", address=str(self.address)))

    def _accept_all(self) -> None:
        while not self._closed:
            try:
                stream = self._listener.accept(Deadline(None))
            except DiagnosticsError:
                break  # closed, or the system has no more descriptors: who waits is told by its deadline
            try:
                self._admit(read_advertise(stream), stream)
            except DiagnosticsError:
                stream.close()  # not a runtime; the port goes on

    def _admit(self, advertise: Advertise, stream: Stream) -> None:
        stranger = self._chosen is not None and advertise.cookie != self._chosen
        if stranger and advertise.cookie not in self._resumed:
            self._resumed.add(advertise.cookie)
            deadline = Deadline(RESUME_TIMEOUT_S)
            stream.send(resume_request(), deadline)
            while stream.receive(1 << 10, deadline):
                pass
            stream.close()
            return
        with self._changed:
            if self._closed:
                replaced: Stream | None = stream
            else:
                replaced = self._waiting.admit(advertise, stream)
            self._changed.notify_all()
        if replaced is not None:
            replaced.close()

    def close(self) -> None:
        """Stop listening and close what waits. A runtime keeps trying to dial; it is not harmed."""
        with self._changed:
            self._closed = True
            left = self._waiting.clear()
            self._changed.notify_all()
        self._listener.close()
        for stream in left:
            stream.close()
        self._thread.join(1.0)
