"""Addresses, discovery and byte streams over Unix sockets, named pipes and TCP.

May import ``errors``. Never ``ipc`` or ``nettrace``: this room moves bytes and does not know what they mean.
Every name is loaded when it is first used; asyncio is loaded only with ``dotnetdiag.transport.aio``, so that a
command that lists processes starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

# module of this room -> the names that it defines. The asyncio twins live in ``aio``, with the names of their sync models.
_PUBLIC = {
    "addresses": "Address PipeAddress TcpAddress UnixAddress parse_address",
    "deadline": "Deadline",
    "diagnosis": "Finding diagnose",
    "discovery": "Endpoint candidates endpoints",
    "streams": "Listener Stream",
    "sockets": "SocketListener SocketStream",
    "connecting": "connect",
    "listening": "listen",
    "suspension": "is_suspended",
    "aio": "AsyncListener AsyncStream",
}
__getattr__ = loader(globals(), {name: module for module, names in _PUBLIC.items() for name in names.split()})


if TYPE_CHECKING:
    from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress, parse_address
    from dotnetdiag.transport.aio import AsyncListener, AsyncStream
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
    "diagnose",
    "endpoints",
    "is_suspended",
    "listen",
    "parse_address",
]
