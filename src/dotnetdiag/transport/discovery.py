"""Finding the diagnostic endpoint of a process (ipc-protocol.md §10, peers.md §2.5).

Rule 1: every directory that may hold the socket is looked into: the target's TMPDIR (relative: to its cwd; empty: /tmp,
and / for NativeAOT), /tmp, the tool's own temp directory; for a target with another view of the file system all this
below ``/proc/PID/root`` too, with symbolic links followed *inside* of it.
Rule 2: a socket whose key is the start time of a process belongs to that process, whoever else has the same number.
Rule 3: candidates are tried in order; whether a socket is alive is known by connecting to it, never by its age.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dotnetdiag.errors import AmbiguousName, ConnectFailed, NoDiagnostics, ProcessNotFound
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import PipeAddress, UnixAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.processes import PROC
from dotnetdiag.transport.streams import Stream, connect

DEFAULT_TMPDIR = "/tmp"  # noqa: S108 - what the runtime uses when TMPDIR is unset
YOUNG_S = 1.0
"""A runtime binds its socket before it listens on it: one that refuses this soon after it was made is asked again."""
AGAIN_S = 0.02
MOST_LINKS = 40
"""Symbolic links followed in one path: the kernel's own limit."""

_SOCKET = re.compile(r"dotnet-diagnostic-(?P<router>dsrouter-)?(?P<pid>[0-9]{1,10})-(?P<key>[0-9]{1,20})-socket")
_PIPE = re.compile(r"dotnet-diagnostic-(?P<router>dsrouter-)?(?P<pid>[0-9]{1,10})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A socket or pipe that may be the endpoint of a process. Only connecting tells whether it is alive."""

    pid: int
    """As seen by us."""
    namespace_pid: int
    """The number in the socket's name: the pid in the target's own namespace."""
    address: UnixAddress | PipeAddress
    key: int
    """Start time in clock ticks since boot; of a dsrouter in seconds since 1970; 0 for pipes."""
    modified_ns: int
    other_namespace: bool
    """The target lives in another pid or mount namespace (or another root) than we do."""
    other_tmpdir: bool
    """The socket is not in our own temp directory."""
    dsrouter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How one process sees the world, as far as it matters for finding its socket."""

    pid: int
    namespace_pid: int
    nested: bool
    """It has another pid in a namespace of its own."""
    root: str | None
    """Its root directory as we reach it, when that is not ours; None when its root is ours or out of reach."""
    elsewhere: bool
    """Another pid namespace, mount namespace or root than ours."""
    readable: bool
    """Whether we may read its environment."""
    tmpdir: str | None
    """As it stands in its environment; None when unset or unreadable."""


@dataclass(frozen=True, slots=True)
class _File:
    """A socket file found in a directory, which several processes may know by several paths."""

    name: str
    namespace_pid: int
    key: int
    modified_ns: int
    identity: tuple[int, int]
    dsrouter: bool


def tool_tmpdir() -> str:
    """Our own temp directory, by the runtime's rule."""
    return os.environ.get("TMPDIR") or DEFAULT_TMPDIR


def endpoints(*, proc: Path = PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """Every candidate of every process that runs, by pid, best first. Sockets of processes that ended are left out."""
    if sys.platform == "win32":
        return pipe_endpoints(_pipe_names())
    search = Search(proc, tmpdir or tool_tmpdir())
    if not os.path.isdir(proc):
        return search.without_proc()
    return [found for pid in processes.iter_pids(proc) for found in search.of(pid)]


def candidates(pid: int, *, proc: Path = PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """What may be the endpoint of ``pid``, best first; empty when there is nothing.

    If no process that *we* know as ``pid`` has a candidate, ``pid`` may be the number that one process has in its own
    namespace. Raises ``AmbiguousName`` when several have it.
    """
    if sys.platform == "win32":
        return [found for found in pipe_endpoints(_pipe_names()) if found.pid == pid]
    search = Search(proc, tmpdir or tool_tmpdir())
    if not os.path.isdir(proc):
        return [found for found in search.without_proc() if found.pid == pid]
    if processes.exists(pid, proc) and (found := search.of(pid)):
        return found
    inner = [found for view in search.nested_views(pid) if (found := search.of(view.pid))]
    if len(inner) > 1:
        pids = tuple(sorted(found[0].pid for found in inner))
        shown = ", ".join(map(str, pids))
        raise AmbiguousName(f"process {pid} exists in several containers: choose one of {shown}", pids=pids)
    return inner[0] if inner else []


def connect_pid(
    pid: int,
    deadline: Deadline,
    *,
    proc: Path = PROC,
    tmpdir: str | None = None,
    known: Sequence[Endpoint] | None = None,
) -> tuple[Stream, Endpoint]:
    """A connection to the process, and the endpoint that it goes to. ``known``: its candidates, when they were looked for just now.

    Raises ``ProcessNotFound``, ``AmbiguousName``, ``TimedOut``, or ``NoDiagnostics`` with a line that says why and
    what to do.
    """
    plan = Attempts(pid, proc=proc, tmpdir=tmpdir, known=known)
    while True:
        for endpoint in plan.endpoints:
            try:
                stream = connect(endpoint.address, deadline)
            except ConnectFailed as exc:
                plan.failed(endpoint, exc)
                continue
            if plan.accepts(endpoint, stream.peer_pid()):
                return stream, endpoint
            stream.close()
        if not plan.is_starting:
            raise plan.error()
        deadline.left(f"process {pid} does not listen yet")
        time.sleep(AGAIN_S)
        plan.look_again()


class Attempts:
    """The decisions of ``connect_pid``, without its I/O: what to try, what counts, and what to say in the end."""

    def __init__(
        self, pid: int, *, proc: Path = PROC, tmpdir: str | None = None, known: Sequence[Endpoint] | None = None
    ) -> None:
        self.pid, self.proc, self.tmpdir = pid, proc, tmpdir
        self.endpoints = list(known) if known is not None else candidates(pid, proc=proc, tmpdir=tmpdir)
        self.failures: dict[Endpoint, ConnectFailed] = {}

    def failed(self, endpoint: Endpoint, error: ConnectFailed) -> None:
        self.failures[endpoint] = error

    def accepts(self, endpoint: Endpoint, peer_pid: int | None) -> bool:
        """Whether who answered is the process that was meant. Not judged beside another ``/proc`` than ours."""
        wrong = wrong_peer(endpoint, peer_pid) if self.proc == PROC else None
        if wrong is not None:
            self.failed(endpoint, wrong)
        return wrong is None

    @property
    def is_starting(self) -> bool:
        """Whether the process, or a candidate that refused, is so young that its runtime may be about to listen. A
        process that has made no socket yet may have one that an earlier process of its number left.
        """
        if any(failure.errno not in (errno.ECONNREFUSED, errno.ENOENT) for failure in self.failures.values()):
            return False
        age_s, now = processes.uptime_s(self.pid, self.proc), time.time_ns()
        return (age_s is not None and age_s < YOUNG_S) or any(
            0 <= now - endpoint.modified_ns < YOUNG_S * 1e9 for endpoint in self.failures
        )

    def look_again(self) -> None:
        """Before all are tried again."""
        self.endpoints = candidates(self.pid, proc=self.proc, tmpdir=self.tmpdir)
        self.failures.clear()

    def error(self) -> ProcessNotFound | NoDiagnostics:
        """Why no endpoint answered, as one line."""
        from dotnetdiag.transport import diagnosis

        failures = self.failures

        def repeat(endpoint: Endpoint) -> None:
            if endpoint in failures:
                raise failures[endpoint]

        pid = self.endpoints[0].pid if self.endpoints else self.pid
        wrong = diagnosis.reason(diagnosis.diagnose(pid, proc=self.proc, tmpdir=self.tmpdir, try_connect=repeat))
        text = f"process {self.pid}: {wrong.text}; {wrong.advice}"
        kind = ProcessNotFound if wrong.code == "no-such-process" else NoDiagnostics
        return kind(text, pid=self.pid)


class Search:
    """One search. Directories and processes are looked at once, however many processes share them."""

    def __init__(self, proc: Path, tmpdir: str) -> None:
        self.proc, self.tmpdir = proc, tmpdir
        self._views: dict[int, View | None] = {}
        self._directories: dict[tuple[int, int], Directory] = {}
        self._our_mounts = processes.link("self", "ns/mnt", proc)
        self._our_pids = processes.link("self", "ns/pid", proc)
        self._our_root = _place(f"{proc}/self/root") or _place("/")

    def view(self, pid: int) -> View | None:
        """How the process sees the world; None when there is no such process."""
        if pid not in self._views:
            self._views[pid] = self._look(pid)
        return self._views[pid]

    def of(self, pid: int) -> list[Endpoint]:
        """The candidates of one process, best first."""
        view = self.view(pid)
        if view is None:
            return []
        found: dict[tuple[int, int], Endpoint] = {}
        start: int | None = None
        own_places = {_place(path) for path in self.own_directories(view)} if view.nested else set()
        for path, inside in self.directories(view):
            place = _place(path)
            private = not view.nested or (inside and place not in own_places)
            for file in self._files(path, place, view.namespace_pid):
                if file.identity in found:
                    continue
                start = processes.start_time_ticks(pid, self.proc) if start is None else start
                if not (private if file.dsrouter else file.key == start or (private and self._is_free(view, file))):
                    continue
                found[file.identity] = Endpoint(
                    pid=pid,
                    namespace_pid=view.namespace_pid,
                    address=UnixAddress(f"{path.rstrip('/')}/{file.name}"),
                    key=file.key,
                    modified_ns=file.modified_ns,
                    other_namespace=view.elsewhere,
                    other_tmpdir=place != self._tool_place and not (inside and path == f"{view.root}{self._tool_text}"),
                    dsrouter=file.dsrouter,
                )
        return ranked(found.values(), start)

    def directories(self, view: View) -> Iterator[tuple[str, bool]]:
        """(directory, whether it is reached through the process's own root), in the order they are looked into."""
        if view.root is not None:
            for path in self._wanted(view):
                if (inside := resolve_inside(view.root, path)) is not None:
                    yield inside, True
        for path in self.own_directories(view):
            yield path, False

    def own_directories(self, view: View) -> list[str]:
        """The same in our own view, with our own temp directory."""
        return list(dict.fromkeys([*self._wanted(view), self.tmpdir]))

    def nested_views(self, namespace_pid: int) -> list[View]:
        """The processes which have this number in a namespace of their own."""
        views = (self.view(pid) for pid in processes.iter_pids(self.proc))
        return [view for view in views if view is not None and view.nested and view.namespace_pid == namespace_pid]

    def without_proc(self) -> list[Endpoint]:
        """On systems that have no ``/proc``: our temp directory and /tmp, the processes that answer to a signal."""
        found: dict[tuple[int, int], Endpoint] = {}
        for path in dict.fromkeys([self.tmpdir, DEFAULT_TMPDIR]):
            place = _place(path)
            for pid in self._directory(path, place).pids:
                for file in self._files(path, place, pid) if _answers(pid) else ():
                    found.setdefault(
                        file.identity,
                        Endpoint(
                            pid=pid,
                            namespace_pid=pid,
                            address=UnixAddress(f"{path.rstrip('/')}/{file.name}"),
                            key=file.key,
                            modified_ns=file.modified_ns,
                            other_namespace=False,
                            other_tmpdir=place != self._tool_place,
                            dsrouter=file.dsrouter,
                        ),
                    )
        pids = sorted({endpoint.pid for endpoint in found.values()})
        return [best for pid in pids for best in ranked((e for e in found.values() if e.pid == pid), None)]

    @property
    def _tool_text(self) -> str:
        return self.tmpdir.rstrip("/")

    @cached_property
    def _tool_place(self) -> tuple[int, int] | None:
        return _place(self.tmpdir)

    def _look(self, pid: int) -> View | None:
        proc = self.proc
        mounts, pids = processes.link(pid, "ns/mnt", proc), processes.link(pid, "ns/pid", proc)
        numbers: tuple[int, ...] | None = (pid,)
        if pids is None or pids != self._our_pids:
            numbers = processes.namespace_pids(pid, proc)
        if numbers is None:
            return None
        root = f"{proc}/{pid}/root"
        place = _place(root)
        elsewhere = place is not None and place != self._our_root
        if mounts is not None and self._our_mounts is not None:
            elsewhere = elsewhere or mounts != self._our_mounts
        nested = len(numbers) > 1
        environ = processes.read(pid, "environ", proc)
        tmpdir = None if environ is None else processes.variable(environ, b"TMPDIR")
        return View(
            pid=pid,
            namespace_pid=numbers[-1],
            nested=nested,
            root=root if place is not None and (elsewhere or (nested and mounts is None)) else None,
            elsewhere=elsewhere or nested,
            readable=environ is not None,
            tmpdir=None if tmpdir is None else os.fsdecode(tmpdir),
        )

    def _wanted(self, view: View) -> list[str]:
        """The directories by the target's own rules, as absolute paths in its own view."""
        tmpdir = view.tmpdir
        wanted = []
        if tmpdir is None or tmpdir.startswith("/"):
            wanted += [tmpdir] if tmpdir else []
        elif tmpdir == "":
            wanted += [DEFAULT_TMPDIR, "/"]  # NativeAOT takes the empty text for what it is (§21.5)
        elif (cwd := processes.cwd(view.pid, self.proc)) is not None and cwd.startswith("/"):
            wanted += [f"{cwd.rstrip('/')}/{tmpdir}"]
        return [*wanted, DEFAULT_TMPDIR]

    def _directory(self, path: str, place: tuple[int, int] | None) -> Directory:
        if place is None:
            return Directory(path, ())
        if place not in self._directories:
            self._directories[place] = Directory.read(path)
        return self._directories[place]

    def _files(self, path: str, place: tuple[int, int] | None, pid: int) -> list[_File]:
        """The sockets in a directory whose names have this pid."""
        return self._directory(path, place).of(pid)

    def _is_free(self, view: View, file: _File) -> bool:
        """Whether no other process of the same number claims the socket. Its key is wrong for this one: it was made
        by an earlier process, or keys are unknown or shifted there (0, time namespaces).
        """
        return not any(
            processes.start_time_ticks(pid, self.proc) == file.key
            for pid in processes.iter_pids(self.proc)
            if pid != view.pid and (other := self.view(pid)) is not None and other.namespace_pid == file.namespace_pid
        )


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


def wrong_peer(endpoint: Endpoint, peer_pid: int | None) -> ConnectFailed | None:
    """The error when somebody else than the process that was meant has answered (``Stream.peer_pid``).

    A directory may be shared between containers that do not see each other's processes, so a socket's name proves
    nothing. 0 is a process outside of our namespace, None a system that does not tell: no objection.
    """
    if peer_pid is None or peer_pid == endpoint.pid:
        return None
    whose = f"process {peer_pid}" if peer_pid else "a process of another namespace"
    return ConnectFailed(f"the socket belongs to {whose}", address=str(endpoint.address))


class Directory:
    """The diagnostic sockets in one directory. Only those of pids that are asked for are looked at: killed processes leave theirs
    behind, a thousand on a busy build machine, and looking at all of them took 20 ms.
    """

    def __init__(self, path: str, names: Iterable[str]) -> None:
        self._path = path
        self._names: dict[int, list[re.Match[str]]] = {}
        self._files: dict[int, list[_File]] = {}
        for name in names:
            match = _SOCKET.fullmatch(name)
            if match is not None:
                self._names.setdefault(int(match["pid"]), []).append(match)

    @classmethod
    def read(cls, path: str) -> Directory:
        """Empty when it cannot be read."""
        try:
            return cls(path, os.listdir(path))
        except OSError:
            return cls(path, ())

    @property
    def pids(self) -> Iterable[int]:
        """The pids in the names."""
        return self._names

    def of(self, pid: int) -> list[_File]:
        """The sockets of one pid."""
        found = self._files.get(pid)
        if found is None:
            found = self._files[pid] = [file for match in self._names.get(pid, ()) if (file := self._look(pid, match))]
        return found

    def _look(self, pid: int, match: re.Match[str]) -> _File | None:
        try:
            status = os.lstat(f"{self._path}/{match.string}")
        except OSError:
            return None
        if not stat.S_ISSOCK(status.st_mode):
            return None
        return _File(
            name=match.string,
            namespace_pid=pid,
            key=int(match["key"]),
            modified_ns=status.st_mtime_ns,
            identity=(status.st_dev, status.st_ino),
            dsrouter=match["router"] is not None,
        )


def resolve_inside(root: str, path: str) -> str | None:
    """``path`` below ``root``, as a process whose root that is sees it: links and ``..`` never lead out.

    A part that does not exist is kept, so that opening the path says so. None after 40 links.
    """
    rest = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            del done[-1:]
            continue
        try:
            target = os.readlink("/".join([root, *done, part]))
        except (OSError, ValueError):
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            return None
        if target.startswith("/"):
            done.clear()
        rest.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return "/".join([root, *done])


def pipe_endpoints(names: Iterable[str]) -> list[Endpoint]:
    """The candidates among the names of the pipes of a Windows machine, by pid, a dsrouter's before the plain one."""
    found = [
        Endpoint(
            pid=int(match["pid"]),
            namespace_pid=int(match["pid"]),
            address=PipeAddress(name),
            key=0,
            modified_ns=0,
            other_namespace=False,
            other_tmpdir=False,
            dsrouter=match["router"] is not None,
        )
        for name in names
        if (match := _PIPE.fullmatch(name)) is not None
    ]
    return sorted(found, key=lambda endpoint: (endpoint.pid, not endpoint.dsrouter))


def _pipe_names() -> list[str]:
    try:
        return os.listdir("\\\\.\\pipe\\")
    except OSError:
        return []


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
