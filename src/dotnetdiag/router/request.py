"""A tool's request, whole: a runtime serves nobody else while it waits for the rest of one, and .NET Core 3.1 takes it in one piece only."""

from __future__ import annotations

import asyncio

from dotnetdiag.errors import ProtocolError, TransportError
from dotnetdiag.ipc.frames import HEADER_SIZE, MAX_MESSAGE_SIZE, FrameHeader
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import drive
from dotnetdiag.transport.sockets import SocketStream

REQUEST_S = 10.0
"""From the first byte of a request to its last."""


async def receive_request(tool: SocketStream, silence_s: float | None) -> bytes:
    """What a tool asks, as it came; ``b""`` when it has ended before it had said all, or has said nothing for ``silence_s``.

    Bytes that are no message of this protocol are given as they come: what answers to them is the runtime's affair.
    """
    data = bytearray(MAX_MESSAGE_SIZE)
    view, size = memoryview(data), 0
    deadline = Deadline(silence_s)
    try:
        while True:
            count = await drive(tool.receiving_into(view[size:]), deadline)
            if not count:
                return b""
            deadline = deadline if size else Deadline(REQUEST_S)
            size += count
            if size >= wanted(view[:size]):
                return bytes(view[:size])
    except TransportError:
        return b""


def wanted(data: memoryview) -> int:
    """How many bytes the request has that begins so; at least a header."""
    if len(data) < HEADER_SIZE:
        return HEADER_SIZE
    try:
        return FrameHeader.parse(data).size
    except ProtocolError:
        return len(data)


async def until_readable(stream: SocketStream) -> None:
    """Until the peer says something, or ends."""
    if stream.has_arrived():
        return
    loop, fd = asyncio.get_running_loop(), stream.fileno()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def until_not_quiet(stream: SocketStream) -> None:
    """Until a peer that speaks only when it is asked says something, or ends."""
    while stream.is_quiet():
        await until_readable(stream)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
