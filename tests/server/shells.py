"""Both shells behind one face, for tests that hold for both: the asyncio one runs in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dotnetdiag.ipc.frames import HEADER_SIZE
from dotnetdiag.server.commands import Commands
from dotnetdiag.server.server import DiagnosticServer
from dotnetdiag.server.server_aio import AsyncDiagnosticServer
from dotnetdiag.server.serving import ServerStatus
from dotnetdiag.transport.security import NO_SECURITY, Security

PATIENCE_S = 20.0
"""What takes longer hangs."""
SHELLS = ("threads", "asyncio")


class Served:
    """A server of one of the shells. ``problems`` are the lines that it told."""

    def __init__(self, shell: str, commands: Commands, **options: Any) -> None:
        self.problems: list[str] = []
        options = {"problem": lambda line, error: self.problems.append(line), **options}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.server: DiagnosticServer | AsyncDiagnosticServer
        if shell == "asyncio":
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="loop of the server")
            self._thread.start()
            self.server = AsyncDiagnosticServer(commands, **options)
        else:
            self.server = DiagnosticServer(commands, **options)

    def listen(self, address: Path | str | None, *, suspend: bool = False, security: Security = NO_SECURITY) -> str:
        given = None if address is None else str(address)
        where: str = self._result(self.server.listen, given, suspend=suspend, security=security)
        return where

    def connect(self, address: Path | str, *, suspend: bool = False) -> None:
        self._result(self.server.connect, str(address), suspend=suspend)

    def open_ports(self, text: str) -> int:
        count: int = self._result(self.server.open_ports, text)
        return count

    def open_environment(self, environment: dict[str, str]) -> bool:
        enabled: bool = self._result(self.server.open_environment, environment)
        return enabled

    def wait_until_resumed(self, timeout_s: float | None = PATIENCE_S) -> None:
        self._result(self.server.wait_until_resumed, timeout_s=timeout_s)

    @property
    def status(self) -> ServerStatus:
        return self.server.status

    def close(self, drain_s: float = PATIENCE_S) -> None:
        if isinstance(self.server, DiagnosticServer):
            self.server.close(drain_s=drain_s)
        else:
            self._result(self.server.aclose, drain_s=drain_s)

    def end(self) -> None:
        """Close it, and what belongs to the test."""
        self.close(drain_s=0)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            self._loop.close()

    def _result(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        given = call(*arguments, **options)
        if self._loop is None:
            return given
        return asyncio.run_coroutine_threadsafe(given, self._loop).result(PATIENCE_S)


def dial(address: str | Path, data: bytes = b"") -> socket.socket:
    """A connection to a server, on which the bytes were sent."""
    text = str(address)
    if text.startswith("tcp://"):
        host, _, port = text.removeprefix("tcp://").rpartition(":")
        made = socket.create_connection((host, int(port)), PATIENCE_S)
    else:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE_S)
        made.connect(text)
    if data:
        made.sendall(data)
    return made


def read_all(connection: socket.socket) -> bytes:
    """To the end."""
    data = bytearray()
    while part := connection.recv(65536):
        data += part
    return bytes(data)


def take(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or all to the end."""
    data = bytearray()
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return bytes(data)


def read_message(connection: socket.socket) -> bytes:
    """One message, and no byte behind it."""
    head = take(connection, HEADER_SIZE)
    return head + take(connection, int.from_bytes(head[14:16], "little") - HEADER_SIZE)


def ask(address: str | Path, data: bytes) -> bytes:
    """All that is answered."""
    with dial(address, data) as connection:
        return read_all(connection)
