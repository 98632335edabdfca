"""The diagnostic sockets in one directory."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from dotnetdiag.transport.socket_names import SocketName, parse_socket_name, socket_name


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
        self._names: dict[str, list[str]] = {}
        self._files: dict[tuple[int, int | None], list[SocketFile]] = {}
        self.denied = False
        """We have no permission to list it. A socket whose whole name is known can still be found."""
        try:
            filenames = os.listdir(path)
        except OSError as exc:
            self.denied, filenames = isinstance(exc, PermissionError), []
        for filename in filenames:
            if filename.startswith("dotnet-diagnostic-"):  # taken apart only when it is asked for
                self._names.setdefault(filename.rsplit("-", 3)[1], []).append(filename)

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
