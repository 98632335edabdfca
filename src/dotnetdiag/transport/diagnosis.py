"""Why a process can or cannot be reached, as findings for people: what is so, and what to do about it.

Only what the operating system shows; what the protocol would tell (suspended, too old) is found out elsewhere.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import ConnectFailed, TimedOut, TransportError, UsageError
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.connecting import connect
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint, Search, tool_tmpdir, verify_peer
from dotnetdiag.transport.processes import PROC
from dotnetdiag.transport.socket_names import socket_name
from dotnetdiag.transport.sockets import LONGEST_SUN_PATH
from dotnetdiag.transport.views import ProcessView
from dotnetdiag.transport.waiting import call_within

CONNECT_TIMEOUT_S = 2.0
"""A runtime accepts in microseconds unless its one server thread is busy; longer would make a doctor slow."""
TIMEOUT_S = 5.0
"""For all that is looked at, connecting included."""

_CORECLR = re.compile(r"/(?:libcoreclr|libclrjit|coreclr|clrjit)\.(?:so|dylib|dll)$")
_VERSION = re.compile(r"/Microsoft\.NETCore\.App/(\d+)\.[^/]*/libcoreclr\.so$")
_THREAD_NAMES = (".NET ", "dotnet-")
_OFF = re.compile(rb"(?:0[xX])?0+")

# Which variables set to 0 switch the server off (ipc-protocol.md §21.5).
# 5, 6 and 7 were not measured: taken as 8, without _IPC.
_SWITCHES_31: tuple[bytes, ...] = (b"COMPlus_EnableDiagnostics",)
_SWITCHES_5: tuple[bytes, ...] = (b"DOTNET_EnableDiagnostics", b"COMPlus_EnableDiagnostics")
_SWITCHES_8: tuple[bytes, ...] = (*_SWITCHES_5, b"DOTNET_EnableDiagnostics_IPC", b"COMPlus_EnableDiagnostics_IPC")
_SWITCHES_NATIVE: tuple[bytes, ...] = (b"DOTNET_EnableDiagnostics",)


_CAPABILITIES = {"CAP_DAC_OVERRIDE": 1, "CAP_SYS_PTRACE": 19}
"""What is needed for processes of other users: to use their files, and to look into them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact. ``text`` and ``advice`` are one line each; ``advice`` is empty where nothing needs to be done."""

    code: str
    ok: bool
    """It is no obstacle; so for a warning."""
    text: str
    advice: str
    level: Literal["", "ok", "warning", "failure"] = ""
    """By default "ok" or "failure", as ``ok`` says."""

    def __post_init__(self) -> None:
        if not self.level:
            object.__setattr__(self, "level", "ok" if self.ok else "failure")
        if self.ok is (self.level == "failure"):
            raise UsageError(f"finding {self.code}: ok={self.ok} does not go with the level {self.level!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """What sort of .NET process it is."""

    dotnet: bool | None
    """None: we may not look closely enough to say."""
    native: bool = False
    """Ahead-of-time compiled: no libcoreclr in its memory map."""
    major: int | None = None
    """From the path of the shared runtime; None when self-contained or unreadable."""


def diagnose(
    pid: int,
    *,
    proc: Path = PROC,
    tmpdir: str | None = None,
    try_connect: Callable[[Endpoint], None] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> tuple[Finding, ...]:
    """What is found about the process, the most telling problem first among those that are not ok.

    ``try_connect`` raises ``ConnectFailed`` or another ``TransportError`` for an endpoint that does not answer; without
    it a connection is made and dropped, which no runtime minds. A folder that does not answer in time is a finding.
    """

    def look() -> tuple[Finding, ...]:
        search = Search(proc, tmpdir or tool_tmpdir())
        view = search.view(pid)
        if view is None or processes.is_zombie(pid, proc):
            return (_no_such_process(pid, search, ended=view is not None),)
        return tuple(_findings(view, search, try_connect or partial(_try_connect, Deadline(CONNECT_TIMEOUT_S))))

    try:
        return call_within(look, Deadline(timeout_s), "")
    except TimedOut:
        text = f"a folder where it may have its socket does not answer within {timeout_s:g} s"
        return (_failure("stalled-folder", text, "see what is mounted there: a file server may be gone"),)


def reason(findings: tuple[Finding, ...]) -> Finding:
    """The finding that best explains why there is no connection."""
    for finding in findings:
        if not finding.ok:
            return finding
    text = "no diagnostic endpoint answered, though nothing is wrong with it now"
    return _failure("unknown", text, "try again; it may have just started or ended")


def kind_of(pid: int, proc: Path = PROC) -> RuntimeKind:
    """What the memory map and the names of the threads say."""
    files = processes.mapped_files(pid, proc)
    runtime = [path for path in files or () if _CORECLR.search(path)]
    if runtime:
        versions = [int(match[1]) for path in runtime if (match := _VERSION.search(path)) is not None]
        return RuntimeKind(dotnet=True, major=versions[0] if versions else None)
    if any(name.startswith(_THREAD_NAMES) for name in processes.thread_names(pid, proc)):
        return RuntimeKind(dotnet=True, native=bool(files))
    return RuntimeKind(dotnet=False if files or processes.argv(pid, proc) == () else None)


def switched_off_by(environ: dict[bytes, bytes], kind: RuntimeKind) -> str | None:
    """The variable, as ``NAME=value``, that keeps this kind of runtime from having a diagnostic server; or None."""
    if kind.native:
        switches = _SWITCHES_NATIVE
    elif kind.major is None or kind.major >= 8:
        switches = _SWITCHES_8
    else:
        switches = _SWITCHES_5 if kind.major >= 5 else _SWITCHES_31
    for name in switches:
        if _OFF.fullmatch(environ.get(name, b"1")):
            return os.fsdecode(name + b"=" + environ[name])
    return None


def _fact(code: str, text: str) -> Finding:
    return Finding(code=code, ok=True, text=text, advice="")


def _failure(code: str, text: str, advice: str) -> Finding:
    return Finding(code=code, ok=False, text=text, advice=advice)


def _findings(view: ProcessView, search: Search, try_connect: Callable[[Endpoint], None]) -> Iterator[Finding]:
    pid, proc = view.pid, search.proc
    if processes.is_stopped(pid, proc):
        text = "is stopped (state T): it answers nothing until it is continued"
        yield _failure("stopped", text, f"continue it: kill -CONT {pid}")
        return
    endpoints = search.of(pid)
    failures: list[TransportError] = []
    for endpoint in endpoints:
        try:
            try_connect(endpoint)
        except TransportError as exc:
            failures.append(exc)
            continue
        yield from _unusual(view, search, endpoint)
        yield _fact("reachable", f"answers at {endpoint.address}")
        return
    kind = kind_of(pid, proc)
    if not kind.dotnet and any(endpoint.key == endpoint.started_ticks for endpoint in endpoints):
        kind = RuntimeKind(dotnet=True)  # it made that socket itself; others may be of earlier processes of its number
    if kind.dotnet is False:
        text = f"{processes.comm(pid, proc) or 'it'} is not a .NET process: no .NET runtime is loaded"
        advice = "choose another; a .NET process may be a child of a shell, a launcher or `dotnet run`"
        if _is_python(pid, proc):
            advice = "a Python program can be looked at when `python -m dotnetdiag.server` starts it; or choose another"
        yield _failure("not-dotnet", text, advice)
        return
    yield from _switched_off(processes.environ(pid, proc) or {}, kind)
    yield from _no_access(view, search)
    if failures:
        finding = _unanswered(failures, proc)
        if finding.code != "permission-denied" or not any(_no_access(view, search)):
            yield finding
    else:
        yield from _bad_tmpdir(view, search)
        yield _no_socket(view, search, kind)
    yield from _unusual(view, search, None)


def _no_such_process(pid: int, search: Search, *, ended: bool) -> Finding:
    if ended:
        text, advice = "has ended and waits for its parent to collect it", "nothing can be asked of it any more"
    elif inner := ", ".join(str(view.pid) for view in search.views.nested(pid)):
        text, advice = f"has this number only inside of a container; here it is {inner}", f"use {inner}"
    elif processes.is_hidden(pid, search.proc):
        return _hidden(search.proc)
    else:
        text = "no process of this number runs here"
        advice = "in a container, share the pid namespace of the process"
    return _failure("no-such-process", text, advice)


def _hidden(proc: Path) -> Finding:
    return _failure("hidden", f"exists, but {proc} hides it from this user", _access_advice(proc))


def _is_python(pid: int, proc: Path) -> bool:
    """By the name of its program, or that of its interpreter."""
    names = (processes.comm(pid, proc) or "", os.path.basename((processes.argv(pid, proc) or ("",))[0]))
    return any(name.startswith(("python", "pypy")) for name in names)


def _switched_off(environ: dict[bytes, bytes], kind: RuntimeKind) -> Iterator[Finding]:
    switch = switched_off_by(environ, kind)
    if switch is not None:
        advice = f"restart it without {switch.partition('=')[0]}"
        yield _failure("diagnostics-disabled", f"was started with {switch}", advice)


def _no_access(view: ProcessView, search: Search) -> Iterator[Finding]:
    """What permissions are missing, the widest first."""
    pid, proc = view.pid, search.proc
    theirs, ours = processes.uid(pid, proc), os.geteuid() if hasattr(os, "geteuid") else None
    if processes.is_hidden(pid, proc):
        yield _hidden(proc)
    elif theirs is not None and ours not in (None, theirs) and not processes.has_capability(1, proc):
        yield _failure("other-user", f"belongs to user {theirs}, and you are user {ours}", _access_advice(proc))
    elif view.elsewhere and view.root is None and processes.link(pid, "root", proc) is None:
        text = f"lives in another namespace, as {view.namespace_pid}, and {proc}/{pid}/root is closed to us"
        yield _failure("other-namespace", text, _access_advice(proc))
    else:
        denied = [path for path, _ in search.directories(view) if search.directory(path).denied]
        if denied and not search.of(pid):
            text = f"its socket may be in {denied[0]}, which we have no permission to list"
            yield _failure("permission-denied", text, _access_advice(proc))


def _unanswered(failures: list[TransportError], proc: Path) -> Finding:
    """Why no socket of it answers: by the best candidate's failure."""
    first = failures[0]
    many = f" ({len(failures)} were tried)" if len(failures) > 1 else ""
    number = first.errno if isinstance(first, ConnectFailed) else None
    if isinstance(first, TimedOut):
        code, text = "busy", f"does not take connections: {first}"
        advice = "its diagnostic server is busy with another client: try again later"
    elif number in (errno.ECONNREFUSED, errno.ENOENT):
        code, text = "stale-socket", f"no socket of it answers: {first}"
        advice = "its diagnostic server is gone: restart the process"
    elif number in (errno.EACCES, errno.EPERM):
        code, text, advice = "permission-denied", f"permission denied at {first.address}", _access_advice(proc)
    else:
        code, text = "no-connection", f"no socket of it can be used: {first}"
        advice = "see what holds that socket; connect by its path if it is what you want"
    return _failure(code, text + many, advice)


def _bad_tmpdir(view: ProcessView, search: Search) -> Iterator[Finding]:
    tmpdir = view.tmpdir
    if not tmpdir:
        return
    start = processes.start_time_ticks(view.pid, search.proc) or 0
    size = len(os.fsencode(f"{tmpdir.rstrip('/')}/{socket_name(view.namespace_pid, start)}"))
    if size > LONGEST_SUN_PATH:
        text = f"its TMPDIR makes a socket path of {size} bytes, and {LONGEST_SUN_PATH} fit"
        yield _failure("path-too-long", text, "restart it with a shorter TMPDIR")
    directory = next((path for path, _ in search.directories(view)), tmpdir)
    if not os.path.isdir(directory):
        text = f"its TMPDIR {tmpdir} does not exist, so the runtime made no socket"
        yield _failure("tmpdir-missing", text, "make the directory and restart the process")


def _no_socket(view: ProcessView, search: Search, kind: RuntimeKind) -> Finding:
    text = "has no diagnostic socket in " + ", ".join(dict.fromkeys(path for path, _ in search.directories(view)))
    if not view.readable:
        text += "; its environment, which may name another directory, cannot be read"
    elif kind.dotnet is None:
        text += "; whether it is a .NET process cannot be seen"
    advice = "try again, then restart it" if view.readable and kind.dotnet else _access_advice(search.proc)
    return _failure("no-socket", text, advice)


def _unusual(view: ProcessView, search: Search, endpoint: Endpoint | None) -> Iterator[Finding]:
    """What is unusual but no obstacle."""
    if view.elsewhere and (endpoint is not None or view.root is not None):
        yield _fact("other-namespace", f"lives in another namespace, where it is {view.namespace_pid}")
    tmpdir = view.tmpdir
    if tmpdir and tmpdir.rstrip("/") != search.tmpdir.rstrip("/"):
        yield _fact("other-tmpdir", f"its TMPDIR is {tmpdir}, ours {search.tmpdir}")
    if endpoint is not None and isinstance(endpoint.address, UnixAddress):
        size = len(os.fsencode(endpoint.address.path))
        if size > LONGEST_SUN_PATH:
            text = f"the path to its socket has {size} bytes, more than a socket address holds"
            advice = "other tools may fail; this one goes around it"
            yield Finding(code="path-too-long", ok=True, level="warning", text=text, advice=advice)


def _access_advice(proc: Path) -> str:
    """Who may do what we may not. Names no capability that we have."""
    missing = [name for name, number in _CAPABILITIES.items() if not processes.has_capability(number, proc)]
    if not missing:
        return "run as root of the host, outside of any container"
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        return "run as its user or as root"
    return "give this tool " + " and ".join(missing)


def _try_connect(deadline: Deadline, endpoint: Endpoint) -> None:
    with connect(endpoint.address, deadline) as stream:
        peer_pid = stream.peer_pid()
    if (wrong := verify_peer(endpoint, peer_pid)) is not None:
        raise wrong
