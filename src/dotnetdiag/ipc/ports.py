"""Diagnostic port texts: what a runtime reads from ``DOTNET_DiagnosticPorts``, and what tools take as a diagnostic port.

Source: ipc-protocol.md §11 (as the runtime parses it, measured in §21) and §13.
"""

from __future__ import annotations

from enum import Enum

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError


class PortMode(Enum):
    """Who dials: ``CONNECT``: the speaker of the text connects; ``LISTEN``: it waits."""

    CONNECT = "connect"
    LISTEN = "listen"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePort:
    """One port of ``DOTNET_DiagnosticPorts``."""

    address: str
    mode: PortMode
    suspend: bool


def parse_runtime_ports(text: str) -> tuple[RuntimePort, ...]:
    """All ports of a ``DOTNET_DiagnosticPorts`` value, read exactly as the runtime does.

    Empty parts are skipped; the first part is always the address; tags in any case; unknown ones are ignored; the first of a kind wins;
    blanks are not trimmed.
    """
    ports = []
    for entry in text.split(";"):
        parts = [part for part in entry.split(",") if part]
        if not parts:
            continue
        tags = [tag.lower() for tag in parts[1:]]
        mode = next((tag for tag in tags if tag in ("connect", "listen")), "connect")
        suspend = next((tag for tag in tags if tag in ("suspend", "nosuspend")), "suspend")
        ports.append(RuntimePort(address=parts[0], mode=PortMode(mode), suspend=suspend == "suspend"))
    return tuple(ports)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPort:
    """``ADDRESS[,connect|listen]``, as tools take it. ``LISTEN``: we own the socket and the runtime connects to it."""

    address: str
    mode: PortMode = PortMode.LISTEN

    def __str__(self) -> str:
        return f"{self.address},{self.mode.value}"


def parse_tool_port(text: str) -> ToolPort:
    """Raises GrammarError: at most two parts, the second ``connect`` or ``listen``."""
    address, comma, tag = text.partition(",")
    if not address:
        raise GrammarError("diagnostic port", text, 0, "the address is missing")
    try:
        mode = PortMode(tag.strip().lower()) if comma else PortMode.LISTEN
    except ValueError:
        raise GrammarError(
            "diagnostic port", text, len(address) + 1, "after the comma stands 'connect' or 'listen'"
        ) from None
    return ToolPort(address=address, mode=mode)
