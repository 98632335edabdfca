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
    "aio": "AsyncStream",
}
__getattr__ = loader(globals(), {name: module for module, names in _PUBLIC.items() for name in names.split()})

if TYPE_CHECKING:
    from dotnetdiag.transport.addresses import Address as Address
    from dotnetdiag.transport.addresses import PipeAddress as PipeAddress
    from dotnetdiag.transport.addresses import TcpAddress as TcpAddress
    from dotnetdiag.transport.addresses import UnixAddress as UnixAddress
    from dotnetdiag.transport.addresses import parse_address as parse_address
    from dotnetdiag.transport.aio import AsyncStream as AsyncStream
    from dotnetdiag.transport.connecting import connect as connect
    from dotnetdiag.transport.deadline import Deadline as Deadline
    from dotnetdiag.transport.diagnosis import Finding as Finding
    from dotnetdiag.transport.diagnosis import diagnose as diagnose
    from dotnetdiag.transport.discovery import Endpoint as Endpoint
    from dotnetdiag.transport.discovery import candidates as candidates
    from dotnetdiag.transport.discovery import endpoints as endpoints
    from dotnetdiag.transport.listening import listen as listen
    from dotnetdiag.transport.sockets import SocketListener as SocketListener
    from dotnetdiag.transport.sockets import SocketStream as SocketStream
    from dotnetdiag.transport.streams import Listener as Listener
    from dotnetdiag.transport.streams import Stream as Stream
    from dotnetdiag.transport.suspension import is_suspended as is_suspended
