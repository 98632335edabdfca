"""The names of diagnostic sockets and pipes (ipc-protocol.md §10.1)."""

from __future__ import annotations

import re
from typing import NamedTuple

_SOCKET = re.compile(r"dotnet-diagnostic-(?P<router>dsrouter-)?(?P<pid>[0-9]{1,10})-(?P<key>[0-9]{1,20})-socket")
_PIPE = re.compile(r"dotnet-diagnostic-(?P<router>dsrouter-)?(?P<pid>[0-9]{1,10})(?P<key>)")


class SocketName(NamedTuple):
    """``pid`` is that of the process's own namespace; ``key`` its start time in clock ticks since boot, 0 where unknown.

    A dsrouter has its start time in seconds since 1970 there, a pipe has no key: 0.
    """

    pid: int
    key: int
    dsrouter: bool = False


def socket_name(pid: int, key: int) -> str:
    """The name of a runtime's socket."""
    return f"dotnet-diagnostic-{pid}-{key}-socket"


def router_socket_name(pid: int, started_s: int) -> str:
    """The name of a router's socket: tools find it by the router's pid. ``started_s``: in seconds since 1970."""
    return f"dotnet-diagnostic-dsrouter-{pid}-{started_s}-socket"


def parse_socket_name(name: str) -> SocketName | None:
    """None when it is no name of a diagnostic socket."""
    return _parse(_SOCKET.fullmatch(name))


def parse_pipe_name(name: str) -> SocketName | None:
    """The same for a named pipe of Windows."""
    return _parse(_PIPE.fullmatch(name))


def _parse(match: re.Match[str] | None) -> SocketName | None:
    return match and SocketName(int(match["pid"]), int(match["key"] or 0), match["router"] is not None)
