"""Listening on an address, and what has to be out of the way first."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
import time
from typing import Any

from dotnetdiag.errors import ConnectFailed, InsecureAddress, TransportError
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress
from dotnetdiag.transport.connecting import connecting, look_up
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.sockets import LONGEST_SUN_PATH, SocketListener, file_identity, reason
from dotnetdiag.transport.streams import Listener
from dotnetdiag.transport.waiting import Blocking, Pause, Steps, run

BACKLOG = 1024
"""Hundreds of runtimes may dial at once. The system may allow fewer."""
SOCKET_MODE = 0o600
YOUNG_S = 1.0
"""A server binds its socket before it listens on it: a file that is younger than this and refuses is no stale one yet."""
AGAIN_S = 0.02
BOUND_SOCKETS = "/proc/net/unix"


def listen(address: Address, *, allow_remote: bool = False, deadline: Deadline | None = None) -> Listener:
    """Listen on ``address``.

    A Unix socket is made with mode 0600 and never wider; a stale file of the name is replaced, a live one is refused
    with ``TransportError``, and so is a file that is no socket. On close the file goes, if it is still ours. A file that
    may be about to be listened on is waited for, at most ``YOUNG_S``; looking up a host's name has no limit but ``deadline``.
    TCP beyond loopback raises ``UsageError`` unless ``allow_remote``: whoever connects may run code in the target.
    """
    return run(listening(address, allow_remote=allow_remote), deadline or Deadline(None))


def listening(address: Address, *, allow_remote: bool = False) -> Steps[Listener]:
    """The steps of ``listen``."""
    if isinstance(address, PipeAddress):
        from dotnetdiag.transport import pipes

        return pipes.listen(address)
    if isinstance(address, UnixAddress):
        return (yield from _listening_unix(address))
    places = yield Blocking(lambda deadline: look_up(address, deadline, flags=socket.AI_PASSIVE))
    is_local = address.host != "*" and all(_is_loopback(str(place[4][0])) for place in places)
    if not is_local and not allow_remote:
        raise InsecureAddress(str(address))
    return _listen_tcp(address, places)


def remove_stale(address: UnixAddress, path: str) -> Steps[None]:
    """Remove the socket at ``path`` that nobody holds any more; raise ``TransportError`` for anything else that stands there."""
    waited_s = 0.0
    while True:
        try:
            status = os.lstat(path)
        except OSError:
            return  # nothing there; what else is wrong, bind will say
        if not stat.S_ISSOCK(status.st_mode):
            raise TransportError("cannot listen: a file that is no socket has this name", address=str(address))
        if (holder := _holder(address, path)) is not None:
            raise TransportError(f"cannot listen: {holder} listens there already", address=str(address))
        if waited_s >= YOUNG_S or not 0 <= time.time() - status.st_mtime < YOUNG_S:
            break
        yield Pause(AGAIN_S, "the socket is not free", str(address))
        waited_s += AGAIN_S
    if _is_bound(path):
        raise TransportError("cannot listen: another process has bound it and does not listen", address=str(address))
    if file_identity(path) == (status.st_dev, status.st_ino):
        try:
            os.unlink(path)
        except OSError as exc:
            text = f"cannot listen: the stale socket cannot be removed: {reason(exc)}"
            raise TransportError(text, address=str(address)) from exc


def _holder(address: UnixAddress, path: str) -> str | None:
    """Who accepts connections at ``path``; None: nobody, or nothing is there any more."""
    steps = connecting(UnixAddress(path))
    try:
        next(steps)
    except StopIteration as done:
        with done.value as stream:
            pid = stream.peer_pid()
        if not pid:
            return "another process"
        name = processes.comm(pid)
        if name is None and not processes.exists(pid):  # SO_PEERCRED tells who has called listen()
            return f"a process that has the socket of process {pid}, which has ended,"
        return f"process {pid} ({name or '?'})"
    except ConnectFailed as exc:
        if exc.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None
        raise TransportError(f"cannot listen: {exc.problem}", address=str(address)) from exc
    finally:
        steps.close()
    return "another process"  # its queue of connections is full


def _is_bound(path: str) -> bool:
    """Whether a living, unconnected socket was bound by this very path (``connected`` ones keep the name of their listener)."""
    try:
        with open(BOUND_SOCKETS, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return False
    unconnected, wanted = b"01", os.fsencode(path)
    entries = (fields for line in lines if len(fields := line.split(None, 7)) == 8)
    return any(entry[5] == unconnected and entry[7] == wanted for entry in entries)


def _listening_unix(address: UnixAddress) -> Steps[Listener]:
    if not hasattr(socket, "AF_UNIX"):
        raise TransportError("this system has no Unix sockets", address=str(address))
    try:
        path = os.path.abspath(address.path)
    except OSError as exc:
        raise TransportError("our working directory is gone; give an absolute path", address=str(address)) from exc
    yield from remove_stale(address, path)
    bound = made = None
    try:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _bind_unix(bound, path)
        made = file_identity(path)
        bound.listen(BACKLOG)
        return SocketListener(bound, address, path=path, identity=made)
    except BaseException as exc:
        if bound is not None:
            bound.close()
        if made is not None and file_identity(path) == made:
            os.unlink(path)
        if isinstance(exc, OSError):
            why = "there is no such folder" if exc.errno == errno.ENOENT else reason(exc)
            raise TransportError(f"cannot listen: {why}", address=str(address)) from exc
        raise


def _bind_unix(bound: socket.socket, path: str) -> None:
    handle, place = -1, os.fsencode(path)
    try:
        if len(place) > LONGEST_SUN_PATH and hasattr(os, "O_PATH"):
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


def _listen_tcp(address: TcpAddress, places: list[tuple[Any, ...]]) -> SocketListener:
    anywhere = address.host == "*"
    failure = OSError(errno.EADDRNOTAVAIL, "the host has no address")
    # for "any", IPv6 with IPv4 in it comes first; for a name, the resolver's order
    for family, kind, protocol, _, place in sorted(places, key=lambda p: anywhere and p[0] != socket.AF_INET6):
        bound = None
        try:
            bound = socket.socket(family, kind, protocol)
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            elif hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not anywhere))
            bound.bind(place)
            bound.listen(BACKLOG)
            return SocketListener(bound, TcpAddress(address.host, int(bound.getsockname()[1])))
        except OSError as exc:
            if bound is not None:
                bound.close()
            failure = exc
    raise TransportError(f"cannot listen: {reason(failure)}", address=str(address)) from failure


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        number = ip_address(host)
    except ValueError:
        return False
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback
