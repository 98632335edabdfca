"""Who is connected, as values that can be printed, and a socket that tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from dotnetdiag._dataclasses import as_dict, dataclass
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.sockets import SocketStream

TELL_S = 5.0
"""For one who asks to take the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRuntime:
    """A runtime that dials the router. ``namespace_pid`` as it says itself; ``is_ready``: it has dialled for the next command;
    ``is_chosen``: tools that name no runtime reach this one. ``address``: its own socket, where it has one.
    """

    cookie: str
    namespace_pid: int
    is_ready: bool
    is_chosen: bool
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedCommand:
    """A command under way: ``command`` as the protocol names it, the process of the tool where it can be seen, the cookie of the runtime where
    it has said one. ``seconds`` since it began; bytes so far each way.
    """

    number: int
    command: str
    tool_pid: int | None
    cookie: str
    seconds: float
    bytes_to_tool: int
    bytes_to_runtime: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStatus:
    """Who is connected to a router at a moment. ``waiting_tools``: they have asked something, and no runtime has taken it yet."""

    tools: str
    runtimes: str
    connected: tuple[RoutedRuntime, ...]
    commands: tuple[RoutedCommand, ...]
    waiting_tools: int

    def to_dict(self) -> dict[str, object]:
        """The same for JSON."""
        return as_dict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterEvent:
    """What has happened: ``what`` is ``connected`` or ``gone`` (a runtime), ``began`` or ``ended`` (a command), ``refused`` (somebody who had to
    show more, or said nothing), ``resumed`` (a runtime, for nobody), ``unreachable`` (whom we dial), ``lost`` (events that nobody took).
    ``seconds`` since the router began; ``why`` it has ended.
    """

    what: str
    seconds: float
    cookie: str = ""
    namespace_pid: int | None = None
    address: str = ""
    number: int | None = None
    command: str = ""
    tool_pid: int | None = None
    bytes_to_tool: int | None = None
    bytes_to_runtime: int | None = None
    why: str = ""

    @property
    def text(self) -> str:
        """The same for people, on a line."""
        who = {
            "connected": f"runtime {self.namespace_pid}, cookie {self.cookie} {self.address or self.why}".rstrip(),
            "gone": f"runtime {self.namespace_pid}, cookie {self.cookie}",
            "resumed": f"runtime with cookie {self.cookie}",
            "began": f"{self.command} (number {self.number}), process {self.tool_pid or '?'}",
            "ended": f"{self.command} (number {self.number}), {self.bytes_to_tool} bytes to the tool: {self.why}",
            "refused": f"{self.address}: {self.why}",
            "unreachable": self.why,
            "lost": self.why,
        }
        return f"{self.what}: {who[self.what]}"


async def tell_status(stream: SocketStream, status: Callable[[], RouterStatus]) -> None:
    """One line of JSON for who has dialled, and the end."""
    try:
        with suppress(DiagnosticsError):
            await drive(stream.sending(json.dumps(status().to_dict()).encode() + b"\n"), Deadline(TELL_S))
    finally:
        stream.close()
