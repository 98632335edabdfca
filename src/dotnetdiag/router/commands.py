"""The commands under way: each from its request on, which the runtime has, to its end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import command_name
from dotnetdiag.ipc.frames import FrameHeader
from dotnetdiag.router.link import PIECE_BYTES, Link
from dotnetdiag.router.status import RoutedCommand
from dotnetdiag.transport.sockets import SocketStream


@dataclass(slots=True, kw_only=True)
class _Command:
    """A command under way."""

    number: int
    name: str
    tool_pid: int | None
    advertise: Advertise | None
    began: float
    link: Link

    @property
    def cookie(self) -> str:
        return "" if self.advertise is None else str(self.advertise.cookie)


class Commands:
    """``tell`` is told when one begins and ends. ``overhear`` gets their bytes: the command's number, whether the tool says them, and they;
    of runtimes that dial us also who says that it is there.
    """

    def __init__(
        self,
        tell: Callable[..., None],
        overhear: Callable[[int, bool, memoryview], None] | None,
        *,
        runtimes_dial: bool,
    ) -> None:
        self._tell, self._overhear, self._runtimes_dial = tell, overhear, runtimes_dial
        self._buffer = memoryview(bytearray(PIECE_BYTES))
        self._under_way: dict[int, _Command] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._under_way)

    def status(self) -> tuple[RoutedCommand, ...]:
        """Those that are under way now."""
        now = time.monotonic()
        return tuple(
            RoutedCommand(
                number=one.number,
                command=one.name,
                tool_pid=one.tool_pid,
                cookie=one.cookie,
                seconds=round(now - one.began, 3),
                bytes_to_tool=one.link.to_tool.moved,
                bytes_to_runtime=one.link.to_runtime.moved,
            )
            for one in self._under_way.values()
        )

    async def forward(
        self, tool: SocketStream, runtime: SocketStream, advertise: Advertise | None, request: bytes
    ) -> None:
        """A command from its request on, which the runtime has, to its end."""
        try:
            number = next(self._numbers)
            overhear = None if self._overhear is None else partial(self._overhear, number)
            link = Link(tool, runtime, self._buffer, overhear)
            command = _Command(
                number=number,
                name=_name_of(request),
                tool_pid=tool.peer_pid() or None,
                advertise=advertise,
                began=time.monotonic(),
                link=link,
            )
            link.to_runtime.moved = len(request)
            self._under_way[command.number] = command
            self._tell(
                what="began",
                number=command.number,
                command=command.name,
                cookie=command.cookie,
                tool_pid=command.tool_pid,
            )
            if overhear is not None:
                if self._runtimes_dial and advertise is not None:
                    overhear(False, memoryview(advertise.pack()))
                overhear(True, memoryview(request))
            try:
                await link.run()
            finally:
                del self._under_way[command.number]
                self._tell(
                    what="ended",
                    number=command.number,
                    command=command.name,
                    cookie=command.cookie,
                    tool_pid=command.tool_pid,
                    bytes_to_tool=link.to_tool.moved,
                    bytes_to_runtime=link.to_runtime.moved,
                    why=link.why or "the router was closed",
                )
        finally:
            runtime.close()


def _name_of(request: bytes) -> str:
    try:
        header = FrameHeader.parse(request)
    except DiagnosticsError:
        return "?"
    return command_name(header.command_set << 8 | header.command_id)
