"""Streams and listeners over sockets.

Rule 1: sockets never block. Each ``*_nowait`` is one system call with its errors translated; whoever drives the steps waits.
Rule 2: ``close`` may come from another thread. It shuts the connection down, which wakes who waits, and the descriptor
is closed by the last user, so that a number that the system gave away again is never touched.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from dotnetdiag.errors import ConnectionEnded, TransportError, UsageError
from dotnetdiag.transport.addresses import Address, TcpAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.refcount import RefCount
from dotnetdiag.transport.streams import Listener, Stream
from dotnetdiag.transport.waiting import Ready, Steps, T, run

LONGEST_SUN_PATH = 107 if sys.platform.startswith("linux") else 103
"""Bytes of a path that fit into a socket address, besides the NUL."""

AF_UNIX = getattr(socket, "AF_UNIX", None)
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED)
_REASONS = {
    errno.ENOENT: "there is no such socket",
    errno.ECONNREFUSED: "nobody listens there",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOTSOCK: "this is no socket",
}


class SocketStream(Stream):
    """A stream over a connected socket, which it owns from now on."""

    def __init__(self, connection: socket.socket, *, address: str = "") -> None:
        connection.setblocking(False)
        self.address = address
        self._socket = connection
        self._refs = RefCount(connection.close)

    def send_nowait(self, data: memoryview) -> int:
        """How many bytes the system took. Raises ``BlockingIOError`` for none."""
        try:
            return self._socket.send(data, _NOSIGNAL)
        except BlockingIOError:
            raise
        except OSError as exc:
            raise self._send_error(exc) from exc

    def receive_nowait(self, view: memoryview) -> int:
        """How many bytes were there, 0 at the end. Raises ``BlockingIOError`` when there are none yet."""
        try:
            return self._socket.recv_into(view)
        except BlockingIOError:
            raise
        except OSError as exc:
            return self._end_of_stream(exc, 0)

    def send_descriptor_nowait(self, fd: int) -> None:
        """Raises ``BlockingIOError`` when it has to wait."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        try:
            self._socket.sendmsg([b"\0"], rights, _NOSIGNAL)
        except BlockingIOError:
            raise
        except OSError as exc:
            if exc.errno == errno.EBADF and not self._refs.closed:
                raise UsageError(f"descriptor {fd} is not open") from exc
            raise self._send_error(exc) from exc

    def receive_descriptor_nowait(self) -> int | None:
        """Raises ``BlockingIOError`` when it has to wait."""
        try:
            _, rights, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            raise
        except OSError as exc:
            return self._end_of_stream(exc, None)
        passed = [
            fd
            for level, kind, data in rights
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            for (fd,) in struct.iter_unpack("i", data[: len(data) // 4 * 4])
        ]
        for fd in passed[1:]:
            os.close(fd)
        return passed[0] if passed else None

    def sending(self, data: bytes | bytearray | memoryview) -> Steps[None]:
        rest = memoryview(data).cast("B")

        def attempt() -> None:
            nonlocal rest
            if rest:
                rest = rest[self.send_nowait(rest) :]
            if rest:
                raise BlockingIOError

        return self._steps(attempt, "the peer does not take the bytes", self._refuse, write=True)

    def receiving_into(self, view: memoryview) -> Steps[int]:
        if not len(view):
            raise UsageError("cannot receive 0 bytes")
        return self._steps(lambda: self.receive_nowait(view), "nothing arrived", lambda: 0)

    def sending_descriptor(self, fd: int) -> Steps[None]:
        self._check_unix()
        if fd < 0:
            raise UsageError(f"{fd} is no descriptor")
        problem = "the peer does not take the descriptor"
        return self._steps(lambda: self.send_descriptor_nowait(fd), problem, self._refuse, write=True)

    def receiving_descriptor(self) -> Steps[int | None]:
        self._check_unix()
        return self._steps(self.receive_descriptor_nowait, "no descriptor arrived", lambda: None)

    def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        run(self.sending(data), deadline, self.address)

    def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        return run(self.receiving_into(view), deadline, self.address)

    def send_descriptor(self, fd: int, deadline: Deadline) -> None:
        run(self.sending_descriptor(fd), deadline, self.address)

    def receive_descriptor(self, deadline: Deadline) -> int | None:
        return run(self.receiving_descriptor(), deadline, self.address)

    def is_alive(self) -> bool:
        if not self._refs.acquire():
            return False
        try:
            return not _hung_up(self._socket) and self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._refs.release()

    def peer_pid(self) -> int | None:
        if not hasattr(socket, "SO_PEERCRED") or self._socket.family != AF_UNIX or not self._refs.acquire():
            return None
        try:
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[0])
        except (OSError, struct.error):
            return None
        finally:
            self._refs.release()

    def fileno(self) -> int:
        return -1 if self._refs.closed else self._socket.fileno()

    def close(self) -> None:
        self._refs.close(lambda: _shutdown(self._socket))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address or self.fileno()}>"

    def _steps(
        self, attempt: Callable[[], T], problem: str, when_closed: Callable[[], T], *, write: bool = False
    ) -> Steps[T]:
        return _attempts(self._refs, attempt, Ready(self._socket, write, problem), when_closed)

    def _check_unix(self) -> None:
        if not hasattr(socket, "SCM_RIGHTS") or self._socket.family != AF_UNIX:
            raise self.no_descriptors()

    def _refuse(self) -> NoReturn:
        raise TransportError("the stream is closed", address=self.address)

    def _send_error(self, exc: OSError) -> TransportError:
        if self._refs.closed:
            return TransportError("the stream is closed", address=self.address)
        if exc.errno in _GONE:
            return ConnectionEnded("the peer closed the connection", address=self.address)
        return TransportError(f"sending failed: {reason(exc)}", address=self.address)

    def _end_of_stream(self, exc: OSError, end: T) -> T:
        if self._refs.closed or exc.errno in _GONE:
            return end
        raise TransportError(f"receiving failed: {reason(exc)}", address=self.address) from exc


class SocketListener(Listener):
    """Listens on a bound socket, which it owns. ``path`` is unlinked at the end if it is still ``identity``."""

    def __init__(
        self, bound: socket.socket, address: Address, *, path: str = "", identity: tuple[int, int] | None = None
    ) -> None:
        bound.setblocking(False)
        self.address = address
        self._socket, self._path, self._identity = bound, path, identity
        self._refs = RefCount(bound.close)

    def accept_nowait(self) -> Stream:
        """Raises ``BlockingIOError`` when nobody is waiting to be accepted."""
        try:
            connection, peer = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError) as exc:
            raise BlockingIOError from exc
        except OSError as exc:
            if self._refs.closed:
                self._refuse()
            raise TransportError(f"accepting failed: {reason(exc)}", address=str(self.address)) from exc
        if self._socket.family == AF_UNIX:
            return SocketStream(connection, address=str(self.address))
        no_delay(connection)
        return SocketStream(connection, address=str(_tcp_address(peer)))

    def accepting(self) -> Steps[Stream]:
        return _attempts(self._refs, self.accept_nowait, Ready(self._socket, False, "nobody connected"), self._refuse)

    def accept(self, deadline: Deadline) -> Stream:
        return run(self.accepting(), deadline, str(self.address))

    def fileno(self) -> int:
        return -1 if self._refs.closed else self._socket.fileno()

    def close(self) -> None:
        self._refs.close(self._end)

    def _refuse(self) -> NoReturn:
        raise TransportError("the listener is closed", address=str(self.address))

    def _end(self) -> None:
        if self._path and self._identity is not None and file_identity(self._path) == self._identity:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        _shutdown(self._socket)


def reason(exc: OSError) -> str:
    """Why a call on a socket failed, in words."""
    return _REASONS.get(exc.errno or 0) or exc.strerror or str(exc)


def no_delay(connection: socket.socket) -> None:
    """Send small messages at once."""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:  # the peer is gone already; whoever reads will see it
        pass


def file_identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file itself, also of a link; None when there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _attempts(refs: RefCount, attempt: Callable[[], T], wait: Ready, when_closed: Callable[[], T]) -> Steps[T]:
    """``attempt`` again and again until it does not raise ``BlockingIOError``. Nothing happens between it and the return."""
    if not refs.acquire():
        return when_closed()
    try:
        while not refs.closed:
            try:
                return attempt()
            except BlockingIOError:
                yield wait
        return when_closed()
    finally:
        refs.release()


def _hung_up(connection: socket.socket) -> bool:
    """Whether the peer closed or shut down, even when bytes of it still wait to be read."""
    if not hasattr(select, "poll"):
        return False
    poller = select.poll()
    poller.register(connection, getattr(select, "POLLRDHUP", 0))
    bad = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
    return any(events & bad for _, events in poller.poll(0))


def _shutdown(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _tcp_address(place: tuple[Any, ...]) -> TcpAddress:
    return TcpAddress(str(place[0]), int(place[1]))
