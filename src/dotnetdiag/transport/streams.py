"""Byte streams and listeners over sockets, for threads; the steps here are shared by the asyncio twins in ``aio``.

Rule 1: sockets never block. Each ``*_nowait`` is one system call with its errors translated; waiting is somebody
else's business (``poll`` here, the event loop in ``aio``), so the two shells hold no decision of their own.
Rule 2: ``close`` may come from another thread. It shuts the connection down, which wakes who waits, and the descriptor
is closed by the last one who leaves, so that a number that was given away again is never touched.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import struct
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TransportError, UsageError
from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress
from dotnetdiag.transport.deadline import Deadline

LONGEST_SUN_PATH = 107 if sys.platform.startswith("linux") else 103
"""Bytes of a path that fit into a socket address, besides the NUL."""

BACKLOG = 128
SOCKET_MODE = 0o600

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED)
_REASONS = {
    errno.ENOENT: "there is no such socket",
    errno.ECONNREFUSED: "nobody listens there",
    errno.EACCES: "permission denied: run as the user of the other process, or as root",
    errno.EPERM: "permission denied: run as the user of the other process, or as root",
    errno.ENOTSOCK: "this is no socket",
}


class Stream(ABC):
    """A connection that carries bytes both ways. One reader and one writer may use it at the same time."""

    address: str

    @abstractmethod
    def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        """Send all of ``data``, in one piece where the system takes it.

        Raises ``ConnectionEnded`` when the peer is gone and ``TimedOut``; then an unknown part of it has been sent.
        """

    @abstractmethod
    def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        """Wait for bytes and put them into ``view``; how many, 0 at the end of the stream.

        A reset by the peer is an end too (ipc-protocol.md §21.3), and so is ``close``.
        After ``TimedOut`` nothing is lost and the stream can be used again.
        """

    def receive(self, size: int, deadline: Deadline) -> bytes:
        """Wait for 1 to ``size`` bytes; ``b""`` at the end of the stream. As ``receive_into`` otherwise."""
        if size < 1:
            raise UsageError(f"cannot receive {size} bytes")
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.receive_into(memoryview(buffer), deadline)])

    def send_descriptor(self, fd: int, deadline: Deadline) -> None:  # noqa: ARG002 - a protocol has it
        """Pass the open file ``fd`` to the peer, with one byte of data that carries it. Unix sockets only."""
        raise TransportError("a descriptor can be passed over a Unix socket only", address=self.address)

    def receive_descriptor(self, deadline: Deadline) -> int | None:  # noqa: ARG002 - a protocol has it
        """The counterpart: the caller owns the descriptor. None when the byte came without one, or at the end."""
        raise TransportError("a descriptor can be passed over a Unix socket only", address=self.address)

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor or handle; -1 when closed."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the peer still holds its end. Takes no bytes, never waits."""

    def peer_pid(self) -> int | None:
        """Who made the other end; 0: a process that our pid namespace does not show; None: the system does not say."""
        return None

    @abstractmethod
    def close(self) -> None:
        """End the connection; whoever waits in ``receive`` sees the end of the stream. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Listener(ABC):
    """Waits for connections. ``address`` is the real one, with the port that the system chose."""

    address: Address

    @abstractmethod
    def accept(self, deadline: Deadline) -> Stream:
        """The next connection. Raises ``TimedOut``, and ``TransportError`` once the listener is closed."""

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor or handle; -1 when closed."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening; whoever waits in ``accept`` is woken. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Usage:
    """Counts who is using a resource, so that ``free`` is called once: after ``shut``, by the last one to leave."""

    __slots__ = ("_count", "_free", "_lock", "closed")

    def __init__(self, free: Callable[[], object]) -> None:
        self._free, self._lock, self._count = free, threading.Lock(), 0
        self.closed = False

    def enter(self) -> bool:
        """False when it is shut; otherwise ``leave`` must follow."""
        with self._lock:
            if not self.closed:
                self._count += 1
            return not self.closed

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            last = self.closed and self._count == 0
        if last:
            self._free()

    def shut(self, wake: Callable[[], object]) -> None:
        """Nobody gets in from now on; ``wake`` must make those who are in leave. Does nothing the second time."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._count += 1
        try:
            wake()
        finally:
            self.leave()


class SocketStream(Stream):
    """A stream over a connected socket, which it owns from now on."""

    def __init__(self, connection: socket.socket, *, address: str = "") -> None:
        connection.setblocking(False)
        self.address = address
        self._socket = connection
        self._usage = Usage(connection.close)

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
            if self._usage.closed or exc.errno in _GONE:
                return 0
            raise TransportError(f"receiving failed: {_reason(exc)}", address=self.address) from exc

    def send_descriptor_nowait(self, fd: int) -> None:
        """Raises ``BlockingIOError`` when it has to wait."""
        if not hasattr(socket, "SCM_RIGHTS") or self._socket.family != getattr(socket, "AF_UNIX", None):
            super().send_descriptor(fd, Deadline(None))
        if fd < 0:
            raise UsageError(f"{fd} is no descriptor")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        try:
            self._socket.sendmsg([b"\0"], rights, _NOSIGNAL)
        except BlockingIOError:
            raise
        except OSError as exc:
            if exc.errno == errno.EBADF and not self._usage.closed:
                raise UsageError(f"descriptor {fd} is not open") from exc
            raise self._send_error(exc) from exc

    def receive_descriptor_nowait(self) -> int | None:
        """Raises ``BlockingIOError`` when it has to wait."""
        if not hasattr(socket, "SCM_RIGHTS") or self._socket.family != getattr(socket, "AF_UNIX", None):
            super().receive_descriptor(Deadline(None))
        try:
            _, rights, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            raise
        except OSError as exc:
            if self._usage.closed or exc.errno in _GONE:
                return None
            raise TransportError(f"receiving failed: {_reason(exc)}", address=self.address) from exc
        passed = [
            fd
            for level, kind, data in rights
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            for (fd,) in struct.iter_unpack("i", data[: len(data) // 4 * 4])
        ]
        for fd in passed[1:]:
            os.close(fd)
        return passed[0] if passed else None

    def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        self._enter_to_send()
        try:
            rest = memoryview(data).cast("B")
            while rest:
                try:
                    rest = rest[self.send_nowait(rest) :]
                except BlockingIOError:
                    wait_for(self._socket, True, deadline, "the peer does not take the bytes", self.address)
        finally:
            self._usage.leave()

    def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        if not len(view):
            raise UsageError("cannot receive 0 bytes")
        if not self._usage.enter():
            return 0
        try:
            while True:
                try:
                    return self.receive_nowait(view)
                except BlockingIOError:
                    wait_for(self._socket, False, deadline, "nothing arrived", self.address)
        finally:
            self._usage.leave()

    def send_descriptor(self, fd: int, deadline: Deadline) -> None:
        self._enter_to_send()
        try:
            while True:
                try:
                    self.send_descriptor_nowait(fd)
                    return
                except BlockingIOError:
                    wait_for(self._socket, True, deadline, "the peer does not take the descriptor", self.address)
        finally:
            self._usage.leave()

    def receive_descriptor(self, deadline: Deadline) -> int | None:
        if not self._usage.enter():
            return None
        try:
            while True:
                try:
                    return self.receive_descriptor_nowait()
                except BlockingIOError:
                    wait_for(self._socket, False, deadline, "no descriptor arrived", self.address)
        finally:
            self._usage.leave()

    def is_alive(self) -> bool:
        if not self._usage.enter():
            return False
        try:
            if _hung_up(self._socket):
                return False
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._usage.leave()

    def peer_pid(self) -> int | None:
        if not hasattr(socket, "SO_PEERCRED") or not self._usage.enter():
            return None
        try:
            if self._socket.family != socket.AF_UNIX:
                return None
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[0])
        except (OSError, struct.error):
            return None
        finally:
            self._usage.leave()

    def fileno(self) -> int:
        return -1 if self._usage.closed else self._socket.fileno()

    def close(self) -> None:
        self._usage.shut(lambda: _shutdown(self._socket))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address or self.fileno()}>"

    def _enter_to_send(self) -> None:
        if not self._usage.enter():
            raise TransportError("the stream is closed", address=self.address)

    def _send_error(self, exc: OSError) -> TransportError:
        if self._usage.closed:
            return TransportError("the stream is closed", address=self.address)
        if exc.errno in _GONE:
            return ConnectionEnded("the peer closed the connection", address=self.address)
        return TransportError(f"sending failed: {_reason(exc)}", address=self.address)


class SocketListener(Listener):
    """Listens on a bound socket, which it owns. ``path`` is unlinked at the end if it is still ``identity``."""

    def __init__(
        self, bound: socket.socket, address: Address, *, path: str = "", identity: tuple[int, int] | None = None
    ) -> None:
        bound.setblocking(False)
        self.address = address
        self._socket, self._path, self._identity = bound, path, identity
        self._usage = Usage(bound.close)

    def accept_nowait(self) -> SocketStream:
        """Raises ``BlockingIOError`` when nobody is waiting to be accepted."""
        try:
            connection, peer = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError) as exc:
            raise BlockingIOError from exc
        except OSError as exc:
            if self._usage.closed:
                raise self.closed_error() from None
            raise TransportError(f"accepting failed: {_reason(exc)}", address=str(self.address)) from exc
        if self._socket.family == getattr(socket, "AF_UNIX", None):
            return SocketStream(connection, address=str(self.address))
        _no_delay(connection)
        return SocketStream(connection, address=str(_tcp_address(peer)))

    def accept(self, deadline: Deadline) -> Stream:
        if not self._usage.enter():
            raise self.closed_error()
        try:
            while True:
                try:
                    return self.accept_nowait()
                except BlockingIOError:
                    wait_for(self._socket, False, deadline, "nobody connected", str(self.address))
                if self._usage.closed:
                    raise self.closed_error()
        finally:
            self._usage.leave()

    def closed_error(self) -> TransportError:
        return TransportError("the listener is closed", address=str(self.address))

    def fileno(self) -> int:
        return -1 if self._usage.closed else self._socket.fileno()

    def close(self) -> None:
        self._usage.shut(self._end)

    def _end(self) -> None:
        if self._path and self._identity is not None and _identity(self._path) == self._identity:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        _shutdown(self._socket)


# --- connecting: the steps, and the driver that waits with poll ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Writable:
    """Wait until ``socket`` is writable."""

    socket: socket.socket


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look the host up: send back what ``getaddrinfo`` answers."""

    host: str
    port: int


Step = Writable | Pause | Resolve
Connecting = Generator[Step, Any, SocketStream]


def connecting(address: Address) -> Connecting:
    """The steps to a connection. Closing the generator, at any step, leaves nothing open."""
    if isinstance(address, UnixAddress):
        return _connecting_unix(address)
    if isinstance(address, TcpAddress):
        return _connecting_tcp(address)
    raise UsageError(f"{address}: a named pipe is no socket")


def connect(address: Address, deadline: Deadline) -> Stream:
    """A connection to ``address``. Raises ``ConnectFailed`` with the system's ``errno``, or ``TimedOut``.

    A Unix path too long for a socket address is reached through ``/proc/self/fd`` on Linux.
    Looking up a host name may take longer than the deadline; numbers do not.
    """
    if isinstance(address, PipeAddress):
        from dotnetdiag.transport import pipes

        return pipes.connect(address, deadline)
    steps = connecting(address)
    text = str(address)
    try:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                stream: SocketStream = done.value
                return stream
            left = deadline.left("no connection", address=text)
            answer = None
            if isinstance(step, Writable):
                wait_for(step.socket, True, deadline, "no connection", text)
            elif isinstance(step, Pause):
                threading.Event().wait(step.seconds if left is None else min(left, step.seconds))
            else:
                try:
                    answer = socket.getaddrinfo(step.host, step.port, type=socket.SOCK_STREAM)
                except (OSError, UnicodeError) as exc:
                    raise lookup_error(address, exc) from exc
    finally:
        steps.close()


def lookup_error(address: Address, exc: Exception) -> ConnectFailed:
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return ConnectFailed(f"the host is not known: {reason}", address=str(address))


def _connecting_unix(address: UnixAddress) -> Connecting:
    if not hasattr(socket, "AF_UNIX"):
        raise ConnectFailed("this system has no Unix sockets", address=str(address))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = -1
    try:
        connection.setblocking(False)
        path: str | bytes = os.fsencode(address.path)
        if len(path) > LONGEST_SUN_PATH:
            # The socket file itself, opened for its place only: also covers a name that is too long on its own.
            if not hasattr(os, "O_PATH"):
                raise _connect_error(address, OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)))
            try:
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError as exc:
                raise _connect_error(address, exc) from exc
            path = f"/proc/self/fd/{handle}"
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection.connect(path)
            except BlockingIOError:
                # The peer's backlog is full. Linux gives nothing to wait on here (the socket polls as writable).
                yield Pause(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
            except OSError as exc:
                raise _connect_error(address, exc) from exc
            else:
                return SocketStream(connection, address=str(address))
    except BaseException:
        connection.close()
        raise
    finally:
        if handle >= 0:
            os.close(handle)


def _connecting_tcp(address: TcpAddress) -> Connecting:
    if address.host == "*":
        raise UsageError(f"{address}: name the host to connect to; * is for listening")
    failure: OSError | None = None
    for family, kind, protocol, _, place in (yield Resolve(address.host, address.port)):
        try:
            connection = socket.socket(family, kind, protocol)
        except OSError as exc:  # a family that this system does not have
            failure = exc
            continue
        try:
            connection.setblocking(False)
            code = connection.connect_ex(place)
            if code in (errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", errno.EINPROGRESS)):
                yield Writable(connection)
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                _no_delay(connection)
                return SocketStream(connection, address=str(address))
            failure = OSError(code, os.strerror(code))
        except OSError as exc:
            failure = exc
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise _connect_error(address, failure or OSError(errno.EADDRNOTAVAIL, "the host has no address"))


def _connect_error(address: Address, exc: OSError) -> ConnectFailed:
    return ConnectFailed(_reason(exc), address=str(address), errno=exc.errno)


# --- listening -------------------------------------------------------------------------------------------------------


def listen(address: Address, *, allow_remote: bool = False) -> Listener:
    """Listen on ``address``.

    A Unix socket is made with mode 0600 and never wider; a stale file of the name is replaced, a live one is refused
    with ``TransportError``, and so is a file that is no socket. On close the file goes, if it is still ours.
    TCP beyond loopback raises ``UsageError`` unless ``allow_remote``: whoever connects may run code in the target.
    """
    if isinstance(address, PipeAddress):
        from dotnetdiag.transport import pipes

        return pipes.listen(address)
    return listen_socket(address, allow_remote=allow_remote)


def listen_socket(address: UnixAddress | TcpAddress, *, allow_remote: bool = False) -> SocketListener:
    """As ``listen``, for sockets."""
    if isinstance(address, UnixAddress):
        return _listen_unix(address)
    return _listen_tcp(address, allow_remote)


def _listen_unix(address: UnixAddress) -> SocketListener:
    if not hasattr(socket, "AF_UNIX"):
        raise TransportError("this system has no Unix sockets", address=str(address))
    path = os.path.abspath(address.path)
    _make_way(address, path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made = None
    try:
        _bind_unix(bound, path)
        made = _identity(path)
        bound.listen(BACKLOG)
        return SocketListener(bound, address, path=path, identity=made)
    except BaseException as exc:
        bound.close()
        if made is not None and _identity(path) == made:
            os.unlink(path)
        if isinstance(exc, OSError) and not isinstance(exc, TransportError):
            raise TransportError(f"cannot listen: {_reason(exc)}", address=str(address)) from exc
        raise


def _bind_unix(bound: socket.socket, path: str) -> None:
    handle, place = -1, os.fsencode(path)
    try:
        if len(place) > LONGEST_SUN_PATH:
            if not hasattr(os, "O_PATH"):
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            handle = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            place = os.fsencode(f"/proc/self/fd/{handle}/{os.path.basename(path)}")
            if len(place) > LONGEST_SUN_PATH:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if sys.platform.startswith("linux"):
            os.fchmod(bound.fileno(), SOCKET_MODE)  # Linux makes the file with the mode of the socket
            bound.bind(place)
        else:
            before = os.umask(0o177)  # of the whole process, for the moment of the call: other systems have no better
            try:
                bound.bind(place)
            finally:
                os.umask(before)
    finally:
        if handle >= 0:
            os.close(handle)


def _make_way(address: UnixAddress, path: str) -> None:
    """Remove a stale socket at ``path``; raise ``TransportError`` for anything else that stands there."""
    try:
        found = os.lstat(path)
    except OSError:
        return  # nothing there; what else is wrong, bind will say
    if not stat.S_ISSOCK(found.st_mode):
        raise TransportError("cannot listen: a file that is no socket has this name", address=str(address))
    steps = _connecting_unix(UnixAddress(path))
    try:
        next(steps)
    except StopIteration as done:
        done.value.close()
    except ConnectFailed as exc:
        if exc.errno == errno.ENOENT:
            return
        if exc.errno != errno.ECONNREFUSED:
            raise TransportError(f"cannot listen: {exc.problem}", address=str(address)) from exc
        if _identity(path) == (found.st_dev, found.st_ino):
            try:
                os.unlink(path)
            except OSError as problem:
                text = f"cannot listen: the stale socket cannot be removed: {_reason(problem)}"
                raise TransportError(text, address=str(address)) from problem
        return
    finally:
        steps.close()
    raise TransportError("cannot listen: somebody listens there already", address=str(address))


def _listen_tcp(address: TcpAddress, allow_remote: bool) -> SocketListener:
    host = None if address.host == "*" else address.host
    try:
        places = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as exc:
        raise lookup_error(address, exc) from exc
    if not allow_remote and (host is None or not all(_is_loopback(str(place[4][0])) for place in places)):
        raise UsageError(
            f"{address}: listening beyond loopback needs authentication, and this protocol has none:"
            " listen on 127.0.0.1 and tunnel to it, or allow it explicitly"
        )
    failure: OSError | None = None
    # for "any", IPv6 with IPv4 in it comes first; for a name, the resolver's order
    for family, kind, protocol, _, place in sorted(places, key=lambda p: host is None and p[0] != socket.AF_INET6):
        try:
            bound = socket.socket(family, kind, protocol)
        except OSError as exc:
            failure = exc
            continue
        try:
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            elif hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host is not None))
            bound.bind(place)
            bound.listen(BACKLOG)
            return SocketListener(bound, TcpAddress(address.host, int(bound.getsockname()[1])))
        except OSError as exc:
            bound.close()
            failure = exc
        except BaseException:
            bound.close()
            raise
    reason = _reason(failure) if failure is not None else "the host has no address"
    raise TransportError(f"cannot listen: {reason}", address=str(address)) from failure


# --- helpers ---------------------------------------------------------------------------------------------------------


def wait_for(connection: socket.socket, write: bool, deadline: Deadline, problem: str, address: str) -> None:
    """Wait until a call on ``connection`` would not block. Raises ``TimedOut`` with ``problem``."""
    while True:
        left = deadline.left(problem, address=address)
        fd = connection.fileno()
        if hasattr(select, "poll"):
            poller = select.poll()
            poller.register(fd, select.POLLOUT if write else select.POLLIN)
            ready = bool(poller.poll(None if left is None else left * 1000))
        else:
            one = [fd]
            ready = any(select.select([] if write else one, one if write else [], one, left))
        if ready:
            return


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


def _no_delay(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:  # the peer is gone already; whoever reads will see it
        pass


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_loopback(host: str) -> bool:
    try:
        return socket.inet_pton(socket.AF_INET, host)[0] == 127
    except OSError:
        pass
    try:
        number = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return False
    return number == b"\0" * 15 + b"\1" or number[:13] == b"\0" * 10 + b"\xff\xff\x7f"


def _tcp_address(place: tuple[Any, ...]) -> TcpAddress:
    return TcpAddress(str(place[0]), int(place[1]))


def _reason(exc: OSError) -> str:
    return _REASONS.get(exc.errno or 0) or exc.strerror or str(exc)
