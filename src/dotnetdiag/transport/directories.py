"""The diagnostic sockets in one directory."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from typing import NamedTuple

from dotnetdiag.transport.socket_names import SocketName, parse_socket_name, socket_name

SETTLED_NS = 2_000_000_000
"""A directory that was last changed so long ago tells of the next change by another time: clocks of file systems are that coarse."""
MOST_LISTED = 64
"""Directories whose names are kept."""


class SocketFile(NamedTuple):
    """A socket file. Several processes may know it by several paths."""

    filename: str
    name: SocketName
    modified_ns: int
    identity: tuple[int, int]


class Directory:
    """A directory. Only the sockets of pids that are asked for are looked at: killed processes leave theirs behind,
    a thousand on a busy build machine, and looking at all of them took 20 ms.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: Mapping[str, list[str]] = {}
        self._files: dict[tuple[int, int | None], list[SocketFile]] = {}
        self.denied = False
        """We have no permission to list it. A socket whose whole name is known can still be found."""
        try:
            self._names = _listed(path)
        except OSError as exc:
            self.denied = isinstance(exc, PermissionError)

    @property
    def pids(self) -> set[int]:
        """The pids in the names."""
        names = (parse_socket_name(filename) for filenames in self._names.values() for filename in filenames)
        return {name.pid for name in names if name is not None}

    def may_hold(self, pid: int) -> bool:
        """Whether there may be a socket of this pid."""
        return self.denied or str(pid) in self._names

    def of(self, pid: int, key: int | None = None) -> list[SocketFile]:
        """The sockets of one pid. ``key`` is for a directory that cannot be listed."""
        found = self._files.get((pid, key))
        if found is None:
            filenames = self._names.get(str(pid), [])
            if self.denied and key is not None:
                filenames = [socket_name(pid, key)]
            found = self._files[pid, key] = [file for name in filenames if (file := self._look(name)) is not None]
        return found

    def _look(self, filename: str) -> SocketFile | None:
        name = parse_socket_name(filename)
        try:
            status = os.lstat(f"{self._path}/{filename}")
        except OSError:
            return None
        if name is None or not stat.S_ISSOCK(status.st_mode):
            return None
        return SocketFile(filename, name, status.st_mtime_ns, (status.st_dev, status.st_ino))


class _Listing(NamedTuple):
    changed_ns: int
    names: Mapping[str, list[str]]


_listings: dict[tuple[int, int], _Listing] = {}


def _listed(path: str) -> Mapping[str, list[str]]:
    """The names of sockets in a directory by the pid in them, as they stand there. Raises OSError.

    They are kept while the directory does not change. ``listdir`` takes the interpreter's lock anew for each name: fifty
    threads that each looked for a socket among 12,000 names took minutes, and take seconds with this.
    """
    status = os.stat(path)
    place = (status.st_dev, status.st_ino)
    kept = _listings.get(place)
    if kept is not None and kept.changed_ns == status.st_ctime_ns:
        return kept.names
    names: dict[str, list[str]] = {}
    for filename in os.listdir(path):
        if filename.startswith("dotnet-diagnostic-"):  # taken apart only when it is asked for
            names.setdefault(filename.rsplit("-", 3)[1], []).append(filename)
    if time.time_ns() - status.st_ctime_ns > SETTLED_NS:
        if len(_listings) >= MOST_LISTED:
            _listings.clear()
        _listings[place] = _Listing(status.st_ctime_ns, names)
    else:
        _listings.pop(place, None)
    return names
