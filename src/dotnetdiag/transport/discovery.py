"""Finding the diagnostic endpoint of a process (ipc-protocol.md §10, dotnet-tools.md §2.5).

Rule 1: every directory that may hold the socket is looked into: the target's TMPDIR (relative: to its cwd; empty: /tmp,
and / for NativeAOT), /tmp, the tool's own temp directory; for a target with another view of the file system all this
below ``/proc/PID/root`` too, with symbolic links followed *inside* of it.
Rule 2: a socket whose key is the start time of a process belongs to that process, whoever else has the same number.
Rule 3: candidates are tried in order; whether a socket is alive is known by connecting to it, never by its age.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import AmbiguousName, ConnectFailed
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import PipeAddress, UnixAddress
from dotnetdiag.transport.directories import Directory, SocketFile
from dotnetdiag.transport.inside import resolve_inside
from dotnetdiag.transport.processes import PROC
from dotnetdiag.transport.socket_names import parse_pipe_name
from dotnetdiag.transport.views import ProcessView, Views, file_id

DEFAULT_TMPDIR = "/tmp"  # noqa: S108 - what the runtime uses when TMPDIR is unset
MOST_CANDIDATES = 64
"""Of one process; the best are tried. A pid that comes again and again leaves fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A socket or pipe that may be the endpoint of a process. Only connecting tells whether it is alive."""

    pid: int
    """As seen by us."""
    namespace_pid: int
    """The number in the socket's name: the pid in the target's own namespace."""
    address: UnixAddress | PipeAddress
    key: int = 0
    """Start time in clock ticks since boot; of a dsrouter in seconds since 1970; 0 for pipes."""
    modified_ns: int = 0
    other_namespace: bool = False
    """The target lives in another pid or mount namespace (or another root) than we do."""
    other_tmpdir: bool = False
    """The socket is not in our own temp directory."""
    dsrouter: bool = False
    started_ticks: int | None = None
    """When the process started that it was found for, in clock ticks since boot; None where there is no ``/proc``."""


def tool_tmpdir() -> str:
    """Our own temp directory, by the runtime's rule."""
    return os.environ.get("TMPDIR") or DEFAULT_TMPDIR


def endpoints(*, proc: Path = PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """Every candidate of every process that runs, by pid, best first. Sockets of processes that ended are left out."""
    if sys.platform == "win32":
        return pipe_endpoints(_pipe_names())
    search = Search(proc, tmpdir or tool_tmpdir())
    return [endpoint for pid in search.pids() for endpoint in search.of(pid)]


def candidates(pid: int, *, proc: Path = PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """What may be the endpoint of ``pid``, best first; empty when there is nothing.

    If no process that *we* know as ``pid`` has a candidate, ``pid`` may be the number that one process has in its own
    namespace. Raises ``AmbiguousName`` when several have it.
    """
    if sys.platform == "win32":
        return [endpoint for endpoint in endpoints() if endpoint.pid == pid]
    search = Search(proc, tmpdir or tool_tmpdir())
    if search.view(pid) is not None and (own := search.of(pid)):
        return own
    inner = [found for view in search.views.nested(pid) if (found := search.of(view.pid))]
    if len(inner) > 1:
        pids = tuple(sorted(found[0].pid for found in inner))
        shown = ", ".join(map(str, pids))
        raise AmbiguousName(f"process {pid} exists in several containers: choose one of {shown}", pids=pids)
    return inner[0] if inner else []


class Search:
    """One search. Directories and processes are looked at once, however many processes share them."""

    def __init__(self, proc: Path, tmpdir: str) -> None:
        self.proc, self.tmpdir = proc, tmpdir
        self.views = Views(proc)
        self._directories: dict[tuple[int, int] | str, Directory] = {}
        self._claimed: dict[int, dict[int | None, list[int]]] = {}

    def view(self, pid: int) -> ProcessView | None:
        """How the process sees the world; None when there is none of this number (that of a mere thread is none)."""
        is_process = processes.exists(pid, self.proc) or not os.path.isdir(self.proc)
        return self.views.of(pid) if is_process else None

    def of(self, pid: int) -> list[Endpoint]:
        """The candidates of one process, best first."""
        view = self.views.of(pid)
        if view is None:
            return []
        found: dict[tuple[int, int], Endpoint] = {}
        start: int | None = None
        own_places = {file_id(path) for path in self.own_directories(view)} if view.nested else set()
        for path, inside in self.directories(view):
            directory = self.directory(path)
            if not directory.may_hold(view.namespace_pid):
                continue
            start = processes.start_time_ticks(pid, self.proc) if start is None else start
            place = file_id(path)
            private = not view.nested or (inside and place not in own_places)
            for file in directory.of(view.namespace_pid, start):
                name = file.name
                if file.identity in found or not (
                    private if name.dsrouter else name.key == start or (private and self._is_free(view, file))
                ):
                    continue
                found[file.identity] = Endpoint(
                    pid=pid,
                    namespace_pid=name.pid,
                    address=UnixAddress(f"{path.rstrip('/')}/{file.filename}"),
                    key=name.key,
                    modified_ns=file.modified_ns,
                    other_namespace=view.elsewhere,
                    dsrouter=name.dsrouter,
                    other_tmpdir=place != self._tool_place
                    and not (inside and path == f"{view.root}{self.tmpdir.rstrip('/')}"),
                    started_ticks=start,
                )
        return ranked(found.values(), start)[:MOST_CANDIDATES]

    def directories(self, view: ProcessView) -> Iterator[tuple[str, bool]]:
        """(directory, whether it is reached through the process's own root), in the order they are looked into."""
        if view.root is not None:
            for path in self._wanted(view):
                if (inside := resolve_inside(view.root, path)) is not None:
                    yield inside, True
        for path in self.own_directories(view):
            yield path, False

    def own_directories(self, view: ProcessView) -> list[str]:
        """The same in our own view, with our own temp directory."""
        return list(dict.fromkeys([*self._wanted(view), self.tmpdir]))

    def directory(self, path: str) -> Directory:
        """What is in a directory."""
        place = file_id(path) or path
        if place not in self._directories:
            self._directories[place] = Directory(path)
        return self._directories[place]

    def pids(self) -> list[int]:
        """Every pid that may have a candidate. Without ``/proc``: those in our temp directory and in /tmp that answer to a signal."""
        if os.path.isdir(self.proc):
            return list(processes.iter_pids(self.proc))
        return sorted({pid for path in (self.tmpdir, DEFAULT_TMPDIR) for pid in self.directory(path).pids})

    @cached_property
    def _tool_place(self) -> tuple[int, int] | None:
        return file_id(self.tmpdir)

    def _wanted(self, view: ProcessView) -> list[str]:
        """The directories by the target's own rules, as absolute paths in its own view."""
        tmpdir = view.tmpdir
        wanted = []
        if tmpdir is None or tmpdir.startswith("/"):
            wanted += [tmpdir] if tmpdir else []
        elif tmpdir == "":
            wanted += [DEFAULT_TMPDIR, "/"]  # NativeAOT takes the empty text for what it is (ipc-protocol.md §21.5)
        elif (cwd := processes.cwd(view.pid, self.proc)) is not None and cwd.startswith("/"):
            wanted += [f"{cwd.rstrip('/')}/{tmpdir}"]
        return [*wanted, DEFAULT_TMPDIR]

    def _is_free(self, view: ProcessView, file: SocketFile) -> bool:
        """Whether no other process of the same number claims the socket. Its key is wrong for this one: it was made
        by an earlier process, or keys are unknown or shifted there (0, time namespaces).
        """
        return all(pid == view.pid for pid in self._claims(file.name.pid).get(file.name.key, ()))

    def _claims(self, namespace_pid: int) -> dict[int | None, list[int]]:
        """Start times of the processes which have this number, each with those processes. Found once: anybody may leave
        thousands of sockets in /tmp.
        """
        if namespace_pid not in self._claimed:
            claimed: dict[int | None, list[int]] = {}
            for pid in processes.iter_pids(self.proc):
                if (other := self.views.of(pid)) is not None and other.namespace_pid == namespace_pid:
                    claimed.setdefault(processes.start_time_ticks(pid, self.proc), []).append(pid)
            self._claimed[namespace_pid] = claimed
        return self._claimed[namespace_pid]


def ranked(found: Iterable[Endpoint], start: int | None) -> list[Endpoint]:
    """Best first: a dsrouter no older than every plain socket, the one with the process's start time, the newest."""
    everything = list(found)
    newest = max((endpoint.modified_ns for endpoint in everything if not endpoint.dsrouter), default=0)

    def order(endpoint: Endpoint) -> tuple[int, int]:
        if endpoint.dsrouter and endpoint.modified_ns >= newest:
            return 0, -endpoint.modified_ns
        live = not endpoint.dsrouter and endpoint.key == start
        return 1 if live else 2, -endpoint.modified_ns

    return sorted(everything, key=order)


def verify_peer(endpoint: Endpoint, peer_pid: int | None) -> ConnectFailed | None:
    """The error when somebody else than the process that was meant has answered (``Stream.peer_pid``).

    A directory may be shared between containers that do not see each other's processes, so a socket's name proves
    nothing. 0 is a process outside of our namespace, None a system that does not tell: no objection.
    """
    if peer_pid is None or peer_pid == endpoint.pid:
        return None
    whose = f"process {peer_pid}" if peer_pid else "a process of another namespace"
    return ConnectFailed(f"the socket belongs to {whose}", address=str(endpoint.address))


def pipe_endpoints(names: Iterable[str]) -> list[Endpoint]:
    """The candidates among the names of the pipes of a Windows machine, by pid, a dsrouter's before the plain one."""
    found = [
        Endpoint(pid=parsed.pid, namespace_pid=parsed.pid, address=PipeAddress(name), dsrouter=parsed.dsrouter)
        for name in names
        if (parsed := parse_pipe_name(name)) is not None
    ]
    return sorted(found, key=lambda endpoint: (endpoint.pid, not endpoint.dsrouter))


def _pipe_names() -> list[str]:
    try:
        return os.listdir("\\\\.\\pipe\\")
    except OSError:
        return []
