"""Streams and listeners over sockets.

Rule 1: sockets never block. Each ``*_nowait`` is one system call; whoever drives the steps waits.
Rule 2: ``close`` may come from another thread. It shuts the connection down, which wakes who waits, and the descriptor
is closed by the last user, so that a number that the system gave away again is never touched.
Rule 3: a forked child has a copy of the descriptor, and closes no more than that: the connection, or the listening, is its parent's.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import ClassVar, NoReturn

from dotnetdiag.errors import ConnectionEnded, TransportError, UsageError
from dotnetdiag.transport.addresses import Address, TcpAddress
from dotnetdiag.transport.deadline import LONGEST_WAIT_S, Deadline
from dotnetdiag.transport.forks import close_in_forked_child
from dotnetdiag.transport.loopback_users import loopback_user
from dotnetdiag.transport.refcount import RefCount
from dotnetdiag.transport.streams import Closing, Listener, Stream
from dotnetdiag.transport.waiting import Ready, Steps, T, is_ready

LONGEST_SUN_PATH = 107 if sys.platform.startswith("linux") else 103
"""Bytes of a path that fit into a socket address, besides the NUL."""

PROBE_AFTER_S, PROBE_EVERY_S, PROBES = 15, 5, 3
NO_ANSWER_S = 120
"""A machine that has acknowledged nothing of what it was sent for so long is gone; one whose reader takes nothing for so long as well."""

AF_UNIX = getattr(socket, "AF_UNIX", None)
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED)
_REASONS = {
    errno.ENOENT: "there is no such socket",
    errno.ECONNREFUSED: "nobody listens there",
    errno.EACCES: "permission denied: run as the user of the other process",
    errno.EPERM: "permission denied: run as the user of the other process",
    errno.ENOTSOCK: "this is no socket",
}


class SocketEnd(Closing):
    """What a stream and a listener have in common: a socket, which they own from now on."""

    def __init__(self, owned: socket.socket) -> None:
        owned.setblocking(False)
        self._socket, self._owner_pid = owned, os.getpid()
        self._refs = RefCount(owned.close)

    def fileno(self) -> int:
        return -1 if self._refs.closed else self._socket.fileno()

    def detach(self) -> socket.socket:
        """The socket, which is the caller's from now on; this must not be used any more, but may be closed."""
        return socket.socket(fileno=self._socket.detach())

    def goes_on_as(self, connection: socket.socket) -> None:
        """What became of a socket that was detached: ``close`` shuts it down, so that whoever waits on it is woken; it stays its owner's."""
        self._socket = connection
        if self._refs.closed:
            self._end()

    def close(self) -> None:
        self._refs.close(self._end if os.getpid() == self._owner_pid else self._socket.close)

    def _end(self) -> None:
        try:
            socket.socket.shutdown(
                self._socket, socket.SHUT_RDWR
            )  # that of TLS would take the handshake from under who makes it
        except OSError:
            pass


class SocketStream(SocketEnd, Stream):
    """A stream over a connected socket."""

    IS_PLAIN: ClassVar[bool] = True
    """Whether the bytes of the socket are those of the stream."""

    def __init__(self, connection: socket.socket, *, address: str = "") -> None:
        super().__init__(connection)
        self.address = address

    def sending(self, data: bytes | bytearray | memoryview) -> Steps[None]:
        rest = memoryview(data).cast("B")

        def send_all() -> None:
            nonlocal rest
            rest = rest[self.send_nowait(rest) if rest else 0 :]
            if rest:
                raise BlockingIOError

        return self._sending(send_all, "the peer does not take the bytes")

    def receiving_into(self, view: memoryview) -> Steps[int]:
        if not len(view):
            raise UsageError("cannot receive 0 bytes")
        return self._receiving(lambda: self.receive_nowait(view), 0, "nothing arrived")

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send what the system takes at once: how many bytes. Raises BlockingIOError for none, and OSError."""
        return self._socket.send(data, _NOSIGNAL)

    def receive_nowait(self, view: memoryview) -> int:
        """Take what is there: how many bytes, 0 at the end. Raises BlockingIOError when nothing is, and OSError."""
        return self._socket.recv_into(view)

    def receive_many(self, view: memoryview, seconds: float, quiet_s: float) -> int:
        """As :func:`fill_into` in one call; 0 also where there is no such call, nothing came, or the next receive tells why."""
        from dotnetdiag.transport.kernels import KERNELS  # not for who receives an answer of some bytes

        if KERNELS is None or not self._refs.acquire():
            return 0
        try:
            size: int = KERNELS.fill(self._socket.fileno(), view, _microseconds(seconds), _microseconds(quiet_s))
            return size
        finally:
            self._refs.release()

    def end_sending(self) -> None:
        """Tell the peer that no more bytes come. What it sends can still be received."""
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
        except OSError:  # it is gone already
            pass

    def has_hung_up(self) -> bool:
        """Whether the peer has closed both ways: nobody is left who could take bytes. Over TCP that is seen only once some were sent."""
        if not hasattr(select, "poll") or not self._refs.acquire():
            return self._refs.closed
        try:
            poller = select.poll()
            poller.register(self._socket, 0)
            return any(events & (select.POLLHUP | select.POLLERR) for _, events in poller.poll(0))
        finally:
            self._refs.release()

    def keep_alive(self, *, sends_much: bool) -> None:
        """Have the system notice a TCP peer that vanished. To one to which we ``send much``: ``NO_ANSWER_S`` after the first byte that it
        has not acknowledged. One that mostly sends to us is asked whether it is still there, when it is silent: 30 s. Linux has one of
        the two at a time: a TCP_USER_TIMEOUT counts for the asking too (tcp(7)).
        """
        options = {
            "TCP_KEEPIDLE": PROBE_AFTER_S,
            "TCP_KEEPINTVL": PROBE_EVERY_S,
            "TCP_KEEPCNT": PROBES,
            "TCP_USER_TIMEOUT": NO_ANSWER_S * 1000 if sends_much else 0,
        }
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in options.items():
                if hasattr(socket, name):  # Linux has all of them
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        except OSError:  # the peer is gone already; whoever reads will see it
            pass

    def sending_descriptor(self, fd: int) -> Steps[None]:
        if self._socket.family != AF_UNIX or not hasattr(socket, "SCM_RIGHTS"):
            return super().sending_descriptor(fd)
        if fd < 0:
            raise UsageError(f"{fd} is no descriptor")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]

        def send_nowait() -> None:
            try:
                self._socket.sendmsg([b"\0"], rights, _NOSIGNAL)
            except OSError as exc:
                if exc.errno == errno.EBADF and not self._refs.closed:
                    raise UsageError(f"descriptor {fd} is not open") from exc
                raise

        return self._sending(send_nowait, "the peer does not take the descriptor")

    def has_unsent(self) -> bool:
        """Whether the system holds bytes that a peer on another machine has not acknowledged (Linux; False elsewhere, and of files)."""
        if self._refs.closed or self._socket.family == AF_UNIX or not sys.platform.startswith("linux"):
            return False
        import fcntl
        import termios

        held = bytearray(4)
        try:
            fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, held)
        except OSError:
            return False
        return any(held)

    def is_alive(self) -> bool:
        if not self._refs.acquire():
            return False
        try:
            # of TLS too it is the connection that counts: what OpenSSL would make of the bytes takes them
            return not _hung_up(self._socket) and socket.socket.recv(self._socket, 1, socket.MSG_PEEK) != b""
        except OSError as exc:
            return isinstance(exc, BlockingIOError)
        finally:
            self._refs.release()

    def has_arrived(self, size: int = 1) -> bool:
        if not self._refs.acquire():
            return False
        try:
            if not is_ready(self._socket.fileno(), False, 0):
                return False
            there = size if size == 1 else len(self._socket.recv(size, socket.MSG_PEEK))
            return there in (0, size)
        except OSError:
            return True  # it is reset: that is its end
        finally:
            self._refs.release()

    def peer_pid(self) -> int | None:
        credentials = self._credentials()
        return None if credentials is None else credentials[0]

    def peer_uid(self) -> int | None:
        if (credentials := self._credentials()) is not None:
            return credentials[1]
        if not self._refs.acquire():
            return None
        try:
            if self._socket.family != AF_UNIX:
                return loopback_user(self._socket)
            return _effective_uid(self._socket.fileno())
        finally:
            self._refs.release()

    def _credentials(self) -> tuple[int, int] | None:
        """Process and user of the other end, as Linux tells them."""
        if not hasattr(socket, "SO_PEERCRED") or self._socket.family != AF_UNIX or not self._refs.acquire():
            return None
        try:
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
            pid, uid, _ = struct.unpack("iII", credentials)
            return pid, uid
        except (OSError, struct.error):
            return None
        finally:
            self._refs.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address or self.fileno()}>"

    def _sending(self, attempt: Callable[[], None], problem: str) -> Steps[None]:
        def fail(exc: OSError | None) -> NoReturn:
            if exc is None or self._refs.closed:
                raise TransportError("the stream is closed", address=self.address)
            if exc.errno in _GONE:
                raise ConnectionEnded("the peer closed the connection", address=self.address) from exc
            raise TransportError(f"sending failed: {reason(exc)}", address=self.address) from exc

        return _attempts(self._refs, attempt, fail, Ready(self._socket, True, problem, self.address))

    def _receiving(self, attempt: Callable[[], T], end: T, problem: str) -> Steps[T]:
        def fail(exc: OSError | None) -> T:
            if exc is None or self._refs.closed or exc.errno in _GONE:
                return end
            raise TransportError(f"receiving failed: {reason(exc)}", address=self.address) from exc

        return _attempts(self._refs, attempt, fail, Ready(self._socket, False, problem, self.address))


def fill_into(stream: Stream, view: memoryview, deadline: Deadline, quiet_s: float) -> int:
    """As its ``receive_into``, and what comes behind that, until ``view`` is full, nothing came for ``quiet_s`` (all waits together), or the stream
    ends, which its next ``receive`` tells.

    In one call where there are compiled loops: a thread that has to have the interpreter's lock after each 200 KB of 270 MB waits for it half of the
    time, and the peer with it; it still waited a third of the time when it had to have it some times for each 3 MB. Raises UsageError for a
    time that is none.
    """
    quiet_s = Deadline(quiet_s).left_s
    if isinstance(stream, SocketStream) and stream.IS_PLAIN:
        size = stream.receive_many(view, deadline.left_s, quiet_s)
        if size:
            return size
    size, waits = stream.receive_into(view, deadline), Deadline(quiet_s)
    while 0 < size < len(view):
        try:
            count = stream.receive_into(view[size:], waits)
        except TransportError:  # nothing came, or what the next receive tells
            break
        if not count:
            break
        size += count
    return size


def _microseconds(seconds: float) -> int:
    return int(min(max(seconds, 0.0), LONGEST_WAIT_S) * 1e6)


class SocketListener(SocketEnd, Listener):
    """Listens on a bound socket. ``path`` is unlinked at the end if it is still ``identity``."""

    def __init__(
        self, bound: socket.socket, address: Address, *, path: str = "", identity: tuple[int, int] | None = None
    ) -> None:
        super().__init__(bound)
        close_in_forked_child(self)
        self.address, self._path, self._identity = address, path, identity

    def socket_file(self) -> tuple[str, tuple[int, int]] | None:
        return None if not self._path or self._identity is None else (self._path, self._identity)

    def accepting(self) -> Steps[Stream]:
        def accept_nowait() -> Stream:
            try:
                connection, peer = self._socket.accept()
            except ConnectionAbortedError as exc:  # by a client that did not wait
                raise BlockingIOError from exc
            if self._socket.family == AF_UNIX:
                stream = SocketStream(connection, address=str(self.address))
            else:
                no_delay(connection)
                stream = SocketStream(connection, address=str(TcpAddress(str(peer[0]), int(peer[1]))))
            close_in_forked_child(stream)
            return stream

        def fail(exc: OSError | None) -> NoReturn:
            if exc is None or self._refs.closed:
                raise TransportError("the listener is closed", address=str(self.address))
            raise TransportError(f"accepting failed: {reason(exc)}", address=str(self.address)) from exc

        wait = Ready(self._socket, False, "nobody connected", str(self.address))
        return _attempts(self._refs, accept_nowait, fail, wait)

    def _end(self) -> None:
        if self._path and self._identity is not None and file_identity(self._path) == self._identity:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        super()._end()


def reason(exc: OSError) -> str:
    """Why a call on a socket failed, in words."""
    return _REASONS.get(exc.errno or 0) or exc.strerror or str(exc)


def no_delay(connection: socket.socket) -> None:
    """Send small messages at once."""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:  # the peer is gone already; whoever reads will see it
        pass


def _effective_uid(fd: int) -> int | None:
    """Of a Unix socket's peer, on macOS and the BSDs."""
    import ctypes

    try:
        ask = ctypes.CDLL(None).getpeereid
    except (OSError, TypeError, AttributeError):
        return None
    uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
    return None if ask(fd, ctypes.byref(uid), ctypes.byref(gid)) else uid.value


def file_identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file itself, also of a link; None when there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _attempts(refs: RefCount, attempt: Callable[[], T], fail: Callable[[OSError | None], T], wait: Ready) -> Steps[T]:
    """``attempt`` until it does not raise ``BlockingIOError``; then its result, or what ``fail`` makes of its error, None:
    the resource is closed. Nothing happens between a successful attempt and the return.
    """
    if not refs.acquire():
        return fail(None)
    try:
        while not refs.closed:
            try:
                return attempt()
            except BlockingIOError:
                yield wait
            except OSError as exc:
                return fail(exc)
        return fail(None)
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
