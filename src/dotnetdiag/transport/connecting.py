"""Making a connection to an address."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from dotnetdiag.errors import ConnectFailed, TimedOut, UsageError
from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.sockets import LONGEST_SUN_PATH, SocketStream, no_delay, reason
from dotnetdiag.transport.streams import Stream
from dotnetdiag.transport.waiting import Blocking, Pause, Ready, Steps, call_within, run

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_PROBLEM = "no connection"


def connect(address: Address, deadline: Deadline) -> Stream:
    """A connection to ``address``. Raises ``ConnectFailed`` with the system's ``errno``, or ``TimedOut``.

    A Unix path too long for a socket address is reached through ``/proc/self/fd`` on Linux.
    """
    return run(connecting(address), deadline)


def connecting(address: Address) -> Steps[Stream]:
    """The steps of ``connect``."""
    if isinstance(address, PipeAddress):
        return _connecting_pipe(address)
    return _connecting_unix(address) if isinstance(address, UnixAddress) else _connecting_tcp(address)


def look_up(address: TcpAddress, deadline: Deadline, *, flags: int = 0) -> list[tuple[Any, ...]]:
    """What ``getaddrinfo`` says of the address, ``*`` being any. Raises ``ConnectFailed`` or ``TimedOut``.

    A name is looked up in a thread, which is left alone when the deadline passes: the call cannot be ended.
    """
    host = None if address.host == "*" else address.host

    def ask(flags: int) -> list[tuple[Any, ...]]:
        return socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=flags)

    try:
        try:
            return ask(flags | socket.AI_NUMERICHOST)  # takes no time: nobody is asked
        except OSError:
            if host is None:
                raise
            return call_within(lambda: ask(flags), deadline, "the host was not found", str(address))
    except TimedOut:
        raise
    except (OSError, UnicodeError) as exc:
        text = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise ConnectFailed(f"the host is not known: {text}", address=str(address)) from exc


def _connecting_pipe(address: PipeAddress) -> Steps[Stream]:
    from dotnetdiag.transport import pipes

    stream: Stream = yield Blocking(lambda deadline: pipes.connect(address, deadline))
    return stream


def _connecting_unix(address: UnixAddress) -> Steps[Stream]:
    if not hasattr(socket, "AF_UNIX"):
        raise ConnectFailed("this system has no Unix sockets", address=str(address))
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as exc:  # no descriptor is left
        raise _connect_error(address, exc) from exc
    handle = -1
    try:
        connection.setblocking(False)
        path: str | bytes = os.fsencode(address.path)
        if len(path) > LONGEST_SUN_PATH:
            # The socket file itself, opened for its place only: also covers a name that is too long on its own.
            if not hasattr(os, "O_PATH"):
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            path = f"/proc/self/fd/{handle}"
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection.connect(path)
                return SocketStream(connection, address=str(address))
            except BlockingIOError:
                # The peer's backlog is full. Linux gives nothing to wait on here (the socket polls as writable).
                yield Pause(pause, _PROBLEM, str(address))
                pause = min(pause * 2, _LONGEST_PAUSE_S)
    except BaseException as exc:
        connection.close()
        if isinstance(exc, OSError):
            raise _connect_error(address, exc) from exc
        raise
    finally:
        if handle >= 0:
            os.close(handle)


def _connecting_tcp(address: TcpAddress) -> Steps[Stream]:
    if address.host == "*":
        raise UsageError(f"{address}: name the host to connect to; * is for listening")
    failure = OSError(errno.EADDRNOTAVAIL, "the host has no address")
    for family, kind, protocol, _, place in (yield Blocking(lambda deadline: look_up(address, deadline))):
        try:
            connection = socket.socket(family, kind, protocol)
        except OSError as exc:  # a family that this system does not have
            failure = exc
            continue
        try:
            connection.setblocking(False)
            code = connection.connect_ex(place)
            if code in (errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", errno.EINPROGRESS)):
                yield Ready(connection, True, _PROBLEM, str(address))
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                no_delay(connection)
                return SocketStream(connection, address=str(address))
            failure = OSError(code, os.strerror(code))
        except OSError as exc:
            failure = exc
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise _connect_error(address, failure)


def _connect_error(address: Address, exc: OSError) -> ConnectFailed:
    return ConnectFailed(reason(exc), address=str(address), errno=exc.errno)
