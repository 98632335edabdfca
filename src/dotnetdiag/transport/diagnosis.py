"""Why a process can or cannot be reached, as findings for people: what is so, and what to do about it.

Only what the operating system shows; what the protocol would tell (suspended, too old) is found out elsewhere.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dotnetdiag.errors import ConnectFailed, TimedOut, TransportError
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint, Search, View, tool_tmpdir, wrong_peer
from dotnetdiag.transport.processes import PROC
from dotnetdiag.transport.streams import LONGEST_SUN_PATH, connect

CONNECT_TIMEOUT_S = 2.0
"""A runtime accepts in microseconds unless its one server thread is busy; longer would make a doctor slow."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact. ``text`` and ``advice`` are one line each; ``advice`` is empty where nothing needs to be done."""

    code: str
    ok: bool
    text: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
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
) -> tuple[Finding, ...]:
    """What is found about the process, the most telling problem first among those that are not ok.

    ``try_connect`` raises ``ConnectFailed`` or another ``TransportError`` for an endpoint that does not answer; without
    it a connection is made and dropped, which no runtime minds.
    """
    tmpdir = tmpdir or tool_tmpdir()
    search = Search(proc, tmpdir)
    view = search.view(pid) if processes.exists(pid, proc) else None
    if view is None or processes.is_zombie(pid, proc):
        return (_no_such_process(pid, search, ended=view is not None),)
    return tuple(_findings(view, search, try_connect or _try_connect))


def reason(findings: tuple[Finding, ...]) -> Finding:
    """The finding that best explains why there is no connection."""
    for finding in findings:
        if not finding.ok:
            return finding
    return Finding(
        code="unknown",
        ok=False,
        text="no diagnostic endpoint answered, though nothing is wrong with it now",
        advice="try again; it may have just started or ended",
    )


def kind_of(pid: int, proc: Path = PROC) -> Kind:
    """What the memory map and the names of the threads say."""
    files = processes.mapped_files(pid, proc)
    if files:
        runtime = [path for path in files if _CORECLR.search(path)]
        if runtime:
            versions = [int(found[1]) for path in runtime if (found := _VERSION.search(path)) is not None]
            return Kind(dotnet=True, major=versions[0] if versions else None)
    if any(name.startswith(_THREAD_NAMES) for name in processes.thread_names(pid, proc)):
        return Kind(dotnet=True, native=bool(files))
    return Kind(dotnet=False if files or not processes.argv(pid, proc) else None)


def switched_off_by(environ: dict[bytes, bytes], kind: Kind) -> str | None:
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


def _findings(view: View, search: Search, try_connect: Callable[[Endpoint], None]) -> Iterator[Finding]:
    pid, proc = view.pid, search.proc
    endpoints = search.of(pid)
    failures: list[TransportError] = []
    for endpoint in endpoints:
        try:
            try_connect(endpoint)
        except TransportError as exc:
            failures.append(exc)
            continue
        yield from _about(view, search, endpoint)
        yield Finding(code="reachable", ok=True, text=f"answers at {endpoint.address}", advice="")
        return
    kind = Kind(dotnet=True) if endpoints else kind_of(pid, proc)
    if kind.dotnet is False:
        yield Finding(
            code="not-dotnet",
            ok=False,
            text=f"{processes.comm(pid, proc) or 'it'} is not a .NET process: no .NET runtime is loaded",
            advice="choose another; a .NET process may be a child of a shell, a launcher or `dotnet run`",
        )
        return
    environ = processes.environ(pid, proc)
    if environ is not None:
        yield from _switched_off(environ, kind_of(pid, proc) if endpoints else kind)
    yield from _other_user(view, proc)
    yield from _unreadable_root(view, proc)
    if endpoints:
        finding = _unanswered(failures)
        if finding.code != "permission-denied" or not any(_other_user(view, proc)):
            yield finding
    else:
        yield from _bad_tmpdir(view, search)
        yield _no_socket(view, search, kind)
    yield from _about(view, search, None)


def _no_such_process(pid: int, search: Search, *, ended: bool) -> Finding:
    if ended:
        text, advice = "has ended and waits for its parent to collect it", "nothing can be asked of it any more"
    elif inner := search.nested_views(pid):
        shown = ", ".join(str(view.pid) for view in inner)
        text, advice = f"has this number only inside of a container; here it is {shown}", f"use {shown}"
    else:
        text, advice = (
            "is not running here",
            "`dotnetdiag ps` lists what can be reached; in a container, share its pid namespace",
        )
    return Finding(code="no-such-process", ok=False, text=text, advice=advice)


def _switched_off(environ: dict[bytes, bytes], kind: Kind) -> Iterator[Finding]:
    switch = switched_off_by(environ, kind)
    if switch is not None:
        yield Finding(
            code="diagnostics-disabled",
            ok=False,
            text=f"was started with {switch}",
            advice=f"restart it without {switch.partition('=')[0]}",
        )


def _other_user(view: View, proc: Path) -> Iterator[Finding]:
    theirs, ours = processes.uid(view.pid, proc), os.geteuid() if hasattr(os, "geteuid") else None
    if theirs is not None and ours not in (None, 0, theirs):
        yield Finding(
            code="other-user",
            ok=False,
            text=f"belongs to user {theirs}, and you are user {ours}",
            advice=f"run as that user or as root: sudo -u '#{theirs}'" if theirs else "run as root: sudo",
        )


def _unreadable_root(view: View, proc: Path) -> Iterator[Finding]:
    if view.elsewhere and view.root is None and processes.link(view.pid, "root", proc) is None:
        yield Finding(
            code="other-namespace",
            ok=False,
            text=f"lives in another namespace, as {view.namespace_pid}, and /proc/{view.pid}/root is closed to us",
            advice="run as root with CAP_SYS_PTRACE, or inside of the container",
        )


def _unanswered(failures: list[TransportError]) -> Finding:
    """Why no socket of it answers: by the best candidate's failure."""
    first = failures[0]
    many = f" ({len(failures)} were tried)" if len(failures) > 1 else ""
    number = first.errno if isinstance(first, ConnectFailed) else None
    if isinstance(first, TimedOut):
        code, text = "busy", f"does not take connections: {first}"
        advice = "its one server thread is occupied (a dump, a silent client) or it is stopped: try again later"
    elif number in (errno.ECONNREFUSED, errno.ENOENT):
        code, text = "stale-socket", f"no socket of it answers: {first}"
        advice = "its diagnostic server is gone, or a stale file kept it from starting: remove that and restart it"
    elif number in (errno.EACCES, errno.EPERM):
        code, text, advice = "permission-denied", str(first), "run as its user or as root"
    else:
        code, text = "no-connection", f"no socket of it can be used: {first}"
        advice = "see what holds that socket; connect by its path if it is what you want"
    return Finding(code=code, ok=False, text=text + many, advice=advice)


def _bad_tmpdir(view: View, search: Search) -> Iterator[Finding]:
    tmpdir = view.tmpdir
    if not tmpdir:
        return
    start = processes.start_time_ticks(view.pid, search.proc) or 0
    name = f"{tmpdir.rstrip('/')}/dotnet-diagnostic-{view.namespace_pid}-{start}-socket"
    if len(os.fsencode(name)) > LONGEST_SUN_PATH:
        yield Finding(
            code="path-too-long",
            ok=False,
            text=f"its TMPDIR makes a socket path of {len(os.fsencode(name))} bytes, and {LONGEST_SUN_PATH} fit",
            advice="restart it with a shorter TMPDIR",
        )
    directory = next((path for path, _ in search.directories(view)), tmpdir)
    if not os.path.isdir(directory):
        yield Finding(
            code="tmpdir-missing",
            ok=False,
            text=f"its TMPDIR {tmpdir} does not exist, so the runtime made no socket",
            advice="make the directory and restart the process",
        )


def _no_socket(view: View, search: Search, kind: Kind) -> Finding:
    looked = ", ".join(dict.fromkeys(path for path, _ in search.directories(view)))
    if not view.readable:
        advice = f"its environment cannot be read: set your TMPDIR to what it uses, or {_more_power()}"
    elif kind.dotnet is None:
        advice = f"it may be no .NET process: to find out, {_more_power()}"
    else:
        advice = "it may be starting or ending, or its socket was deleted: try again, then restart it"
    return Finding(code="no-socket", ok=False, text=f"has no diagnostic socket in {looked}", advice=advice)


def _about(view: View, search: Search, endpoint: Endpoint | None) -> Iterator[Finding]:
    """What is unusual but no obstacle."""
    if view.elsewhere and (endpoint is not None or view.root is not None):
        where = f"lives in another namespace, where it is {view.namespace_pid}"
        yield Finding(code="other-namespace", ok=True, text=where, advice="")
    tmpdir = view.tmpdir
    if tmpdir and tmpdir.rstrip("/") != search.tmpdir.rstrip("/"):
        yield Finding(code="other-tmpdir", ok=True, text=f"its TMPDIR is {tmpdir}, ours {search.tmpdir}", advice="")
    if endpoint is not None and isinstance(endpoint.address, UnixAddress):
        size = len(os.fsencode(endpoint.address.path))
        if size > LONGEST_SUN_PATH:
            text = f"the path to its socket has {size} bytes, more than a socket address holds"
            yield Finding(
                code="path-too-long", ok=True, text=text, advice="other tools may fail; this one goes around it"
            )


def _more_power() -> str:
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "give this tool CAP_SYS_PTRACE (in a container: of the host)"
    return "run as its user or as root"


def _try_connect(endpoint: Endpoint) -> None:
    with connect(endpoint.address, Deadline(CONNECT_TIMEOUT_S)) as stream:
        peer_pid = stream.peer_pid()
    if (wrong := wrong_peer(endpoint, peer_pid)) is not None:
        raise wrong
