"""What keeps a runtime suspended at startup, and what lets it run.

A runtime that has ports waits until it was resumed over each of them that suspends it, and over its own socket too where
``DOTNET_DefaultDiagnosticPortSuspend`` says so; a resume over one does not count for the others (measured: 8.0.33 and 10.0.14). A port
where the runtime listens does not suspend it (ipc-protocol.md §21.5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, UnsupportedCommand
from dotnetdiag.transport import processes

PORTS_VARIABLE = "DOTNET_DiagnosticPorts"
OWN_SOCKET_VARIABLE = "DOTNET_DefaultDiagnosticPortSuspend"
_TRUE = re.compile(rb"-?(0[xX])?0*[1-9a-fA-F][0-9a-fA-F]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What a runtime waits for: a resume over ``port``, as it calls it, or over its own socket (None)."""

    pid: int
    port: str | None = None


def is_held(client: Client) -> bool | None:
    """Whether the runtime waits at startup; None where that cannot be told, False when it is gone."""
    try:
        return client.is_suspended()
    except DiagnosticsError:
        return False


def resume(client: Client, *, over: str | None = None, everywhere: bool = False) -> tuple[Hold, ...]:
    """Let a runtime run. What still holds it: nothing, where it runs or where that cannot be told.

    ``over``: the address of the port that the client is of, None for the runtime's own socket; ``everywhere``: over its own socket too,
    as for a program that we have started. Raises what ``Client.resume`` raises, but for .NET Core 3.x, which has nothing to resume.
    """
    try:
        client.resume()
    except UnsupportedCommand:
        return ()
    pid = client.target_pid()
    left = [hold for hold in holds(pid) if not _is_of(hold, over)]
    if not left or not is_held(client):
        return ()
    own = next((hold for hold in left if hold.port is None), None)
    if everywhere and own is not None:
        Client(own.pid).resume()
        left.remove(own)
    return tuple(left) if left and is_held(client) else ()


def holds(pid: int | None) -> tuple[Hold, ...]:
    """All that the runtime of a process waits for at its start; nothing where that cannot be seen."""
    environment = (processes.environ(pid) if pid is not None else None) or {}
    if pid is None:
        return ()
    found = [Hold(pid=pid, port=port) for port in _suspending_ports(environment)]
    if _TRUE.fullmatch(environment.get(OWN_SOCKET_VARIABLE.encode(), b"")):
        found.append(Hold(pid=pid))
    return tuple(found)


def _is_of(hold: Hold, over: str | None) -> bool:
    """Whether it is the port at that address, or the runtime's own socket."""
    is_own = over is None or os.path.basename(over).startswith("dotnet-diagnostic-")
    if hold.port is None or over is None or is_own:
        return hold.port is None and is_own
    return os.path.realpath(os.path.join(processes.cwd(hold.pid) or "", hold.port)) == os.path.realpath(over)


def _suspending_ports(environment: Mapping[bytes, bytes]) -> list[str]:
    """As the runtime reads them: empty parts are nothing, blanks count, the first word of a kind wins (``ipc.ports``)."""
    found = []
    for text in environment.get(PORTS_VARIABLE.encode(), b"").decode("utf-8", "replace").split(";"):
        address, *words = [part for part in text.split(",") if part] or [""]
        words = [word.lower() for word in words]
        suspends = next((word for word in words if word in ("suspend", "nosuspend")), "suspend")
        mode = next((word for word in words if word in ("connect", "listen")), "connect")
        if address and (mode, suspends) == ("connect", "suspend"):
            found.append(address)
    return found
