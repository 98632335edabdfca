"""Where a diagnostic endpoint is: a Unix socket, a TCP port or a named pipe.

Rule: ``parse_address(str(address)) == address`` on every platform, whatever the address.
Texts: ipc-protocol.md §13 (``uds:``, ``namedpipe:``), §16 (``tcp://``, ``net.tcp://``, ``*:port``).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TypeAlias

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError

PIPE_PREFIX = "\\\\.\\pipe\\"
LARGEST_PORT = 65535

_HOST_PORT = re.compile(r"(?P<host>\[[^\[\]\s]+\]|[^\[\]:/\\\s]*):(?P<port>[^:/\\]*)")
_WHAT = "address"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket. ``path`` may hold undecodable bytes as ``os.fsdecode`` makes them; relative is to our cwd."""

    path: str

    def __post_init__(self) -> None:
        if not self.path:
            raise GrammarError(_WHAT, self.path, 0, "the socket path is empty")
        if "\0" in self.path:
            raise GrammarError(_WHAT, self.path, self.path.index("\0"), "a NUL in the socket path")
        try:
            os.fsencode(self.path)
        except UnicodeEncodeError as exc:
            raise GrammarError(_WHAT, self.path, exc.start, "no path can hold this character") from exc

    def __str__(self) -> str:
        plain = self.path.startswith("/") and not self.path.startswith("//")
        scheme = "uds://" if self.path.startswith("///") else "uds:"  # three slashes after a scheme are one
        return self.path if plain else scheme + self.path


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port. ``host`` is a name, an IPv4 or (without brackets) an IPv6 address, or ``*`` for any."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not self.host or re.search(r"[\[\]/\\\s\0]", self.host):
            raise GrammarError(_WHAT, self.host, 0, "this is no host name")
        if not 0 <= self.port <= LARGEST_PORT:
            raise GrammarError(_WHAT, str(self.port), 0, f"a port is a number from 0 to {LARGEST_PORT}")

    @property
    def is_loopback(self) -> bool:
        """Whether it says of itself that it is this machine and nothing else: ``localhost``, or a number. Nobody is asked."""
        from ipaddress import ip_address

        try:
            number = ip_address(self.host)
        except ValueError:
            return self.host.lower() == "localhost"
        return (getattr(number, "ipv4_mapped", None) or number).is_loopback

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PipeAddress:
    """A Windows named pipe of this machine. ``name`` is without the ``\\\\.\\pipe\\`` in front."""

    name: str

    def __post_init__(self) -> None:
        if not self.name or "\0" in self.name:
            raise GrammarError(_WHAT, self.name, 0, "this is no pipe name")

    def __str__(self) -> str:
        return PIPE_PREFIX + self.name


Address: TypeAlias = UnixAddress | TcpAddress | PipeAddress


def parse_address(text: str, *, platform: str = sys.platform) -> Address:
    """The address that ``text`` means. Raises ``GrammarError``.

    A bare word that is no ``host:port`` is a Unix socket path, on Windows (``platform`` "win32") a pipe name.
    """
    if not text.strip():
        raise GrammarError(_WHAT, text, 0, "the address is empty")
    if "\0" in text:
        raise GrammarError(_WHAT, text, text.index("\0"), "an address holds no NUL")
    for scheme, parse in _SCHEMES.items():
        if text.lower().startswith(scheme):
            return parse(text, len(scheme))
    if text.lower().startswith(PIPE_PREFIX):
        return _pipe(text, 0)
    if "://" in text:
        raise GrammarError(_WHAT, text, 0, "unknown scheme; there are tcp://, uds: and namedpipe:")
    if "/" in text or "\\" in text:
        return UnixAddress(text)
    if ":" in text:
        return _tcp(text, 0)
    return PipeAddress(text) if platform == "win32" else UnixAddress(text)


def _unix(text: str, start: int) -> UnixAddress:
    path = text[start:]
    if not path:
        raise GrammarError(_WHAT, text, start, "a socket path is missing")
    if path.startswith("///"):  # unix:///path, as in URLs
        path = path[2:]
    return UnixAddress(path)


def _pipe(text: str, start: int) -> PipeAddress:
    name = text[start:]
    if name.lower().startswith(PIPE_PREFIX):
        start += len(PIPE_PREFIX)
    if not text[start:]:
        raise GrammarError(_WHAT, text, start, "a pipe name is missing")
    return PipeAddress(text[start:])


def _tcp(text: str, start: int) -> TcpAddress:
    rest = text[start:]
    if start and rest.endswith("/"):
        rest = rest[:-1]
    found = _HOST_PORT.fullmatch(rest)
    if found is None:
        hint = "write host:port, or [address]:port for IPv6"
        raise GrammarError(_WHAT, text, start, hint + ("" if start else ", or uds:path for a socket"))
    host, port = found["host"].strip("[]"), found["port"]
    if not host:
        raise GrammarError(_WHAT, text, start, "a host is missing; * stands for any")
    at = start + found.start("port")
    if not (port.isascii() and port.isdigit()):
        hint = "" if start else "; write uds:path for a socket of this name"
        raise GrammarError(_WHAT, text, at, "the port is no number" + hint)
    if len(port) > 5 or int(port) > LARGEST_PORT:
        raise GrammarError(_WHAT, text, at, f"a port is a number from 0 to {LARGEST_PORT}")
    return TcpAddress(host, int(port))


_SCHEMES: dict[str, Callable[[str, int], Address]] = {
    **dict.fromkeys(("uds:", "unix:", "file:"), _unix),
    **dict.fromkeys(("tcp://", "net.tcp://"), _tcp),
    "namedpipe:": _pipe,
}
