"""List the runtimes that can be reached, each asked who it is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Protocol

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client import Client
from dotnetdiag.errors import (
    AmbiguousName,
    DiagnosticsError,
    ProcessNotFound,
    TargetError,
    UnsupportedCommand,
    UsageError,
    near,
)
from dotnetdiag.table.result import HasTable
from dotnetdiag.transport import processes as system
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint, endpoints
from dotnetdiag.transport.foreign import foreign_sockets
from dotnetdiag.transport.waiting import call_within, start

if TYPE_CHECKING:
    from dotnetdiag.table import Table

# A healthy runtime answers in a few milliseconds; one that is busy with a dump must not hold up the list. A process that is younger than
# ``YOUNG_S`` (1 s) may be about to listen, and time must be left to say why it does not.
ASK_TIMEOUT_S = 1.5
# Looking for all sockets takes some milliseconds; a folder on a dead file server would hold it for ever.
LIST_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One runtime. ``pid`` is as we see it, ``namespace_pid`` as the runtime does; unknown texts are ``""``, numbers None."""

    pid: int
    namespace_pid: int
    name: str
    entry_assembly: str
    runtime_version: str
    uptime_s: float | None
    command_line: str
    other_namespace: bool
    address: str
    problem: str = ""
    runtime: str = ""
    """``.NET 9.0.22``, ``Python 3.11.7``."""


class Processes(HasTable, list[Process]):
    """A list of runtimes, and a table of them."""

    def table(self) -> Table:
        """A row for each, with the fields of :class:`Process`."""
        from dotnetdiag.table import Table

        columns = [field.name for field in fields(Process)]
        return Table.of_rows([asdict(one) for one in self], columns=columns, title="processes", units={"uptime_s": "s"})


def list_processes(*, timeout_s: float = ASK_TIMEOUT_S) -> Processes:
    """Every runtime with a diagnostic endpoint, sorted by name and pid. They are asked in parallel.

    Raises TransportError for want of threads or descriptors.
    """
    best: dict[int, list[Endpoint]] = {}
    problem = "a folder where a process may have its socket does not answer"
    for endpoint in call_within(endpoints, Deadline(LIST_TIMEOUT_S), problem):
        best.setdefault(endpoint.pid, []).append(endpoint)
    found: list[Process] = []
    failures: list[DiagnosticsError] = []

    def describe(known: list[Endpoint]) -> None:
        try:
            found.append(_describe(known, timeout_s))
        except TargetError:
            pass  # it has ended, or is another program with the number of an earlier runtime
        except DiagnosticsError as error:  # it cannot be looked at, for want of descriptors: nor can others
            failures.append(error)

    threads = [threading.Thread(target=describe, args=(each,), daemon=True) for each in best.values()]
    for thread in threads:
        start(thread)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Processes(sorted(found, key=lambda process: (process.name, process.pid)))


def list_foreign_sockets(known: Iterable[Process] = ()) -> list[str]:
    """Sockets of runtimes that have no pid here, since they run in another pid namespace that shares a folder with ours, and are none of
    the ``known``: what ``Client.connect(PATH + ",connect")`` takes.
    """
    addresses = {one.address for one in known}
    return call_within(
        lambda: foreign_sockets(addresses), Deadline(LIST_TIMEOUT_S), "the folder of sockets does not answer"
    )


def command_line(pid: int | None) -> str:
    """As the system has it, ``""`` where it does not say. A runtime that is suspended at startup knows its own without arguments."""
    return " ".join(system.argv(pid) or ()) if pid is not None else ""


def find_pid(name: str) -> int:
    """The pid of the one runtime whose process name or entry assembly is ``name``. Raises ProcessNotFound, AmbiguousName, UsageError."""
    if not name:
        raise UsageError("an empty name means no process")
    found = [(p.pid, (p.name, p.entry_assembly)) for p in list_processes()]
    known = {one for _, names in found for one in names if one}
    pids = [pid for pid, names in found if name in names]
    if not pids:  # dotnet-trace does not mind the case
        pids = [pid for pid, names in found if name.casefold() in map(str.casefold, names)]
    if not pids:
        alike = near(name, known)
        raise ProcessNotFound(
            f"There is no active process with the given name: {name}"
            + (f"; near: {', '.join(alike)}" if alike else ""),
            code="no-such-process",
        )
    if len(pids) > 1:
        listed = ", ".join(map(str, sorted(pids)))
        raise AmbiguousName(
            f"There are more than one active processes with the given name: {name} ({listed})", pids=tuple(pids)
        )
    return pids[0]


def _describe(known: list[Endpoint], timeout_s: float) -> Process:
    endpoint = known[0]
    entry = version = problem = command = runtime = ""
    try:
        information = Client.at(known, timeout_s=timeout_s).process_info()
        entry, version = information.entry_assembly, information.runtime_version
        command, runtime = information.command_line, information.runtime
    except UnsupportedCommand:
        runtime = ".NET Core 3.x"
        version = "3.x"  # the only runtimes with an endpoint that do not know the command (ipc-protocol.md §21.6)
    except TargetError as error:
        if isinstance(error, ProcessNotFound) or error.code == "not-dotnet":
            raise
        problem = str(error)
    except DiagnosticsError as error:
        problem = str(error)
    argv = system.argv(endpoint.pid) or ()
    uptime_s = system.uptime_s(endpoint.pid)
    return Process(
        pid=endpoint.pid,
        namespace_pid=endpoint.namespace_pid,
        name=program_of(endpoint.pid, argv) or "?",
        entry_assembly=entry or entry_assembly_of(argv),
        runtime_version=version,
        uptime_s=None if uptime_s is None else round(uptime_s, 3),
        command_line=command_line(endpoint.pid) or command,
        other_namespace=endpoint.other_namespace,
        address=str(endpoint.address),
        problem=problem,
        runtime=runtime,
    )


class _HasRuntime(Protocol):
    @property
    def runtime(self) -> str: ...

    @property
    def runtime_version(self) -> str: ...


def runtime_text(one: _HasRuntime) -> str:
    """For lists of what is .NET, mostly: the version alone, and the name with it for anything else."""
    return one.runtime_version if one.runtime.startswith(".NET") else one.runtime or one.runtime_version


_MAJOR_DIGITS = 6


def runtime_major(one: _HasRuntime) -> int | None:
    """The version of .NET as far as the first point; None for anything else."""
    text = one.runtime_version.partition(".")[0]
    is_version = text.isascii() and text.isdecimal() and len(text) < _MAJOR_DIGITS
    return int(text) if is_version and one.runtime.startswith(".NET") else None


def program_of(pid: int, argv: Sequence[str]) -> str:
    """The name of a process's program, ``""`` where the system does not say."""
    return (argv[0].rpartition("/")[2] if argv else "") or system.comm(pid) or ""


def is_called(name: str, names: Iterable[str]) -> bool:
    """Whether one of these is the name that somebody gave, in any case. Empty ones are nobody's."""
    return name.casefold() in {one.casefold() for one in names if one}


def names_of_nobody(names: Sequence[str]) -> list[str]:
    """Those of the names that no runtime has, as the system calls them: none is asked."""
    if not names:
        return []
    there: list[str] = []
    problem = "a folder where a process may have its socket does not answer"
    for pid in {one.pid for one in call_within(endpoints, Deadline(LIST_TIMEOUT_S), problem)}:
        argv = system.argv(pid) or ()
        there += (program_of(pid, argv), entry_assembly_of(argv))
    return [name for name in names if not is_called(name, there)]


def entry_assembly_of(argv: Sequence[str]) -> str:
    """As the command line has it: the DLL that ``dotnet`` was given, or the program itself (an apphost is called as its assembly)."""
    if not argv:
        return ""
    program = argv[0].rpartition("/")[2]
    if program in ("dotnet", "dotnet.exe"):
        program = next((word.rpartition("/")[2] for word in argv[1:] if word.lower().endswith(".dll")), "")
    return program.removesuffix(".dll").removesuffix(".exe")
