"""Who comes to a diagnostic port, and who goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client.server import ConnectedRuntime, RuntimeServer
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.recipes.processes import command_line
from dotnetdiag.recipes.resumption import let_run
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target

if TYPE_CHECKING:
    from dotnetdiag.transport.security import Security

LOOK_S = 0.1
ASK_TIMEOUT_S = 2.0
"""A runtime that says nothing holds up what is told of the others for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A runtime has connected to a port, or is ``gone``: ``what``. ``seconds`` since the port was opened; ``pid`` as this machine sees it,
    None where it does not, ``namespace_pid`` as the runtime does. ``suspended``: whether it waits at startup, None where that cannot be
    told. Unknown texts are ``""``; ``problem`` says why it told nothing.
    """

    what: str
    seconds: float
    pid: int | None
    namespace_pid: int
    cookie: str
    name: str = ""
    runtime_version: str = ""
    suspended: bool | None = None
    command_line: str = ""
    problem: str = ""
    runtime: str = ""
    """``.NET 9.0.22``, ``Python 3.11.7``."""


def visits(
    address: str,
    *,
    duration: float | str | None = None,
    resume: bool = False,
    stop: Stop | None = None,
    security: Security | None = None,
    listening: Callable[[str], None] = lambda _: None,
) -> Iterator[Visit]:
    """Listen on ``address`` and tell of each runtime that comes and goes, for ``duration`` (seconds, or a text such as ``"30s"``) or until
    ``stop``. With ``resume`` those that wait at startup are let run once they were told of; others stay suspended, also when the port is
    closed. ``listening`` is told when runtimes can dial; ``security``: as of ``RuntimeServer``. Raises TransportError for an address that is taken,
    UsageError for a wrong one,
    GrammarError for a duration that is none.
    """
    duration_s = seconds_of(duration)
    target = Target(port=address)
    if not target.listens:
        raise UsageError(f"{address}: runtimes dial us here; we do not dial")
    known: dict[ConnectedRuntime, Visit] = {}
    with RuntimeServer(target.address, timeout_s=ASK_TIMEOUT_S, security=security) as server:
        listening(server.address)
        began = time.monotonic()
        while stop is None or not (stop.is_stopping or stop.is_cancelled):
            now = time.monotonic() - began
            there = server.runtimes
            for runtime in [one for one in known if one not in there]:
                left = known.pop(runtime)
                yield Visit(
                    what="gone",
                    seconds=now,
                    pid=left.pid,
                    namespace_pid=left.namespace_pid,
                    cookie=left.cookie,
                    name=left.name,
                    runtime_version=left.runtime_version,
                    command_line=left.command_line,
                    runtime=left.runtime,
                )
            for runtime in there:
                if runtime not in known:
                    known[runtime] = visit = _visit(runtime, now)
                    yield visit
                    if resume:
                        let_run(runtime)
            if duration_s is not None and now >= duration_s:
                return
            time.sleep(LOOK_S)


def _visit(runtime: ConnectedRuntime, seconds: float) -> Visit:
    name = version = command = problem = described = ""
    suspended = None
    try:
        information = runtime.info
        name, version, command = information.entry_assembly, information.runtime_version, information.command_line
        described = information.runtime
        suspended = runtime.is_suspended
    except DiagnosticsError as error:
        problem = str(error)
    return Visit(
        what="connected",
        seconds=seconds,
        pid=runtime.pid,
        namespace_pid=runtime.namespace_pid,
        cookie=str(runtime.cookie),
        name=name,
        runtime_version=version,
        suspended=suspended,
        command_line=command_line(runtime.pid) or command,
        problem=problem,
        runtime=described,
    )
