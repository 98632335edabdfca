"""What keeps a runtime suspended at startup, and what lets it run.

A runtime that has ports waits until it was resumed over each of them that suspends it; a resume over its own socket (by pid) does not
count for them (measured: 8.0.33 and 10.0.14).
"""

from __future__ import annotations

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import processes

PORTS_VARIABLE = "DOTNET_DiagnosticPorts"


def is_held(client: Client) -> bool | None:
    """Whether the runtime waits at startup; None where that cannot be told, False when it is gone."""
    try:
        return client.is_suspended()
    except DiagnosticsError:
        return False


def resume(client: Client) -> tuple[str, ...]:
    """Let the runtime run. The ports that still hold it, as ``ADDRESS`` or ``ADDRESS,connect`` for whoever resumes it over them."""
    client.resume()
    ports = suspending_ports(client.target_pid())
    return ports if ports and client.is_suspended() else ()


def suspending_ports(pid: int | None) -> tuple[str, ...]:
    """The ports of a process that its runtime is to be resumed over, as we would name them."""
    text = ((processes.environ(pid) if pid is not None else None) or {}).get(PORTS_VARIABLE.encode(), b"")
    found = []
    for port in text.decode("utf-8", "replace").split(";"):
        address, *words = (part.strip() for part in port.split(","))
        modes = {word.lower() for word in words}
        if address and "nosuspend" not in modes:
            found.append(address + (",connect" if "listen" in modes else ""))
    return tuple(found)
