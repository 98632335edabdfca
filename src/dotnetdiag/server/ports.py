"""What the environment says of a program's diagnostic ports (ipc-protocol.md §10.1, §10.3, §11)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.ports import RuntimePort, parse_runtime_ports
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import PIPE_PREFIX
from dotnetdiag.transport.discovery import tool_tmpdir
from dotnetdiag.transport.socket_names import socket_name

PREFIXES = ("DOTNET_", "COMPlus_")
"""The first that sets a variable counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """``enabled``: whether there is to be a server at all. ``suspend``: whether the default port suspends."""

    enabled: bool = True
    suspend: bool = False
    ports: tuple[RuntimePort, ...] = ()


def read_settings(environment: Mapping[str, str]) -> PortSettings:
    """As runtimes read them: numbers are hexadecimal, and what is none is 0, but for a switch, which then keeps its default."""
    switches = (_number(environment, name) for name in ("EnableDiagnostics", "EnableDiagnostics_IPC"))
    return PortSettings(
        enabled=0 not in switches,
        suspend=bool(_number(environment, "DefaultDiagnosticPortSuspend")),
        ports=parse_runtime_ports(_text(environment, "DiagnosticPorts")),
    )


def default_address(environment: Mapping[str, str] | None = None) -> str:
    """Where tools look for this process: in TMPDIR or /tmp, by its number and start. On Windows a pipe."""
    pid = os.getpid()
    if sys.platform == "win32":
        return f"{PIPE_PREFIX}dotnet-diagnostic-{pid}"
    folder = tool_tmpdir() if environment is None else environment.get("TMPDIR") or "/tmp"  # noqa: S108 - the rule
    return os.path.join(folder, socket_name(pid, processes.start_time_ticks(pid) or 0))


def _text(environment: Mapping[str, str], name: str) -> str:
    return next((environment[prefix + name] for prefix in PREFIXES if environment.get(prefix + name)), "")


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = _text(environment, name)
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None
