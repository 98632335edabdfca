"""What keeps a runtime suspended at startup, and what lets it run.

A runtime that has ports waits until it was resumed over each of them that suspends it, and over its own socket too where
``DOTNET_DefaultDiagnosticPortSuspend`` says so; a resume over one does not count for the others (measured: 8.0.33 and 10.0.14). A port
where the runtime listens does not suspend it (ipc-protocol.md §21.5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, TimedOut, UnsupportedCommand
from dotnetdiag.transport import processes

PORTS_VARIABLE = "DOTNET_DiagnosticPorts"
OWN_SOCKET_VARIABLE = "DOTNET_DefaultDiagnosticPortSuspend"
OLD_NAMES = {name: name.replace("DOTNET_", "COMPlus_") for name in (PORTS_VARIABLE, OWN_SOCKET_VARIABLE)}
"""Taken by every runtime where the new name is not set."""
_TRUE = re.compile(rb"[ \t]*[-+]?(0[xX])?0*[1-9a-fA-F]")
"""Numbers of settings are hexadecimal, and may have anything behind them (measured: 8.0.33 and 10.0.14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What a runtime waits for: a resume over ``port``, as it calls it, or over its own socket (None)."""

    pid: int
    port: str | None = None


def is_held(client: Client) -> bool | None:
    """Whether the runtime waits at startup; None where that cannot be told, False when it is gone, and where its threads do not tell and its
    environment has nothing that would hold it: of .NET Core 3.x, which never waits, the threads have no names.
    """
    try:
        held = client.is_suspended()
        if held is None and _has_no_holds(client.target_pid(confirmed=True)):
            return False
        return held
    except TimedOut:  # it is stopped, or busy
        return None
    except DiagnosticsError:
        return False


def resume(client: Client, *, over: str | None = None) -> tuple[Hold, ...]:
    """Let a runtime run. What still holds it: nothing, where it runs or where that cannot be told.

    ``over``: the address of the port that the client is of, None for the runtime's own socket. Raises what ``Client.resume`` raises, but
    for .NET Core 3.x, which has nothing to resume.
    """
    try:
        client.resume()
    except UnsupportedCommand:
        return ()
    pid = client.target_pid()
    left = [hold for hold in holds(pid) if not _is_of(hold, over)]
    return tuple(left) if left and is_held(client) else ()


def holds(pid: int | None) -> tuple[Hold, ...]:
    """All that the runtime of a process waits for at its start; nothing where that cannot be seen."""
    environment = (processes.environ(pid) if pid is not None else None) or {}
    if pid is None:
        return ()
    found = [Hold(pid=pid, port=port) for port in _suspending_ports(environment)]
    if _TRUE.match(_setting(environment, OWN_SOCKET_VARIABLE)):
        found.append(Hold(pid=pid))
    return tuple(found)


def _has_no_holds(pid: int | None) -> bool:
    """For certain: the environment can be seen."""
    return pid is not None and processes.environ(pid) is not None and not holds(pid)


def _is_of(hold: Hold, over: str | None) -> bool:
    """Whether it is the port at that address, or the runtime's own socket."""
    is_own = over is None or os.path.basename(over).startswith("dotnet-diagnostic-")
    if hold.port is None or over is None or is_own:
        return hold.port is None and is_own
    return os.path.realpath(os.path.join(processes.cwd(hold.pid) or "", hold.port)) == os.path.realpath(over)


def _setting(environment: Mapping[bytes, bytes], name: str) -> bytes:
    """A variable, under its old name where it has not the new one."""
    return environment.get(name.encode(), environment.get(OLD_NAMES[name].encode(), b""))


def _suspending_ports(environment: Mapping[bytes, bytes]) -> list[str]:
    """As the runtime reads them: empty parts are nothing, blanks count, the first word of a kind wins (``ipc.ports``)."""
    found = []
    for text in _setting(environment, PORTS_VARIABLE).decode("utf-8", "replace").split(";"):
        address, *words = [part for part in text.split(",") if part] or [""]
        words = [word.lower() for word in words]
        suspends = next((word for word in words if word in ("suspend", "nosuspend")), "suspend")
        mode = next((word for word in words if word in ("connect", "listen")), "connect")
        if address and (mode, suspends) == ("connect", "suspend"):
            found.append(address)
    return found
