"""Addresses, discovery and byte streams over Unix sockets, named pipes and TCP.

May import ``errors``. Never ``ipc`` or ``nettrace``: this room moves bytes and does not know what they mean.
Every name is loaded when it is first used; asyncio is loaded only with ``dotnetdiag.transport.aio``, so that a
command that lists processes starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

# name -> module of this room that defines it. The asyncio twins live in ``aio``, with the names of their sync models.
_PUBLIC = {
    "Address": "addresses",
    "PipeAddress": "addresses",
    "TcpAddress": "addresses",
    "UnixAddress": "addresses",
    "parse_address": "addresses",
    "Deadline": "deadline",
    "Finding": "diagnosis",
    "diagnose": "diagnosis",
    "Endpoint": "discovery",
    "candidates": "discovery",
    "endpoints": "discovery",
    "connect_pid": "attempts",
    "Listener": "streams",
    "Stream": "streams",
    "SocketListener": "sockets",
    "SocketStream": "sockets",
    "connect": "connecting",
    "listen": "listening",
    "is_suspended": "suspension",
    "AsyncListener": "aio",
    "AsyncStream": "aio",
}
__getattr__ = loader(globals(), _PUBLIC)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


if TYPE_CHECKING:
    from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress, parse_address
    from dotnetdiag.transport.aio import AsyncListener, AsyncStream
    from dotnetdiag.transport.attempts import connect_pid
    from dotnetdiag.transport.connecting import connect
    from dotnetdiag.transport.deadline import Deadline
    from dotnetdiag.transport.diagnosis import Finding, diagnose
    from dotnetdiag.transport.discovery import Endpoint, candidates, endpoints
    from dotnetdiag.transport.listening import listen
    from dotnetdiag.transport.sockets import SocketListener, SocketStream
    from dotnetdiag.transport.streams import Listener, Stream
    from dotnetdiag.transport.suspension import is_suspended

__all__ = [
    "Address",
    "AsyncListener",
    "AsyncStream",
    "Deadline",
    "Endpoint",
    "Finding",
    "Listener",
    "PipeAddress",
    "SocketListener",
    "SocketStream",
    "Stream",
    "TcpAddress",
    "UnixAddress",
    "candidates",
    "connect",
    "connect_pid",
    "diagnose",
    "endpoints",
    "is_suspended",
    "listen",
    "parse_address",
]
