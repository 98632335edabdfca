"""Sockets of runtimes that this machine's process list does not have: containers that share a folder, and not their processes.

A runtime there can be reached by the address of its socket, not by a pid: the number in the name is one of another namespace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.connecting import connect
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import DEFAULT_TMPDIR, tool_tmpdir
from dotnetdiag.transport.socket_names import parse_socket_name

INITIAL_NAMESPACE = 0xEFFFFFFC
"""The inode of the pid namespace in which every process of the machine is seen (Linux, include/linux/proc_ns.h)."""
LOOK_S = 0.2
MOST = 1000


def foreign_sockets(known: Collection[str] = (), folders: Iterable[str] | None = None) -> list[str]:
    """The paths of sockets with a runtime's name, but for the ``known``, where somebody of another pid namespace listens."""
    if sys.platform != "linux" or not _sees_a_part():
        return []
    places = dict.fromkeys(folders if folders is not None else (tool_tmpdir(), DEFAULT_TMPDIR))
    paths = [path for place in places for path in _sockets_in(place) if path not in known]
    return [path for path in paths[:MOST] if _is_foreign(path)]


def _sees_a_part() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino != INITIAL_NAMESPACE
    except OSError:
        return False


def _sockets_in(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if parse_socket_name(name) is not None]


def _is_foreign(path: str) -> bool:
    with suppress(DiagnosticsError), connect(UnixAddress(path), Deadline(LOOK_S)) as stream:
        return stream.peer_pid() == 0
    return False
