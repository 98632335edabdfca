"""A message that has come to a scripted runtime."""

from __future__ import annotations

from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.commands import command_name
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.legacy import LegacyRequest, RequestType, is_legacy, parse_legacy_request
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.requests import UnknownRequest, parse_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message that came. ``command``: its name, ``0x0299`` for a code without one, ``""`` for what is no message. ``data``: all of its
    bytes. ``request``: None where they make no sense to us.
    """

    command: str
    data: bytes
    request: Request[Any] | LegacyRequest | None = None


def asked_by(data: bytes) -> Asked:
    """What the bytes ask."""
    request: Request[Any] | UnknownRequest | LegacyRequest | None
    if is_legacy(data):
        name = RequestType(int.from_bytes(data[:4], "little")).name
        try:
            request = parse_legacy_request(data)
        except ProtocolError:
            request = None
        return Asked(command=name, data=data, request=request)
    try:
        frame = Frame.parse(data)
    except ProtocolError:
        return Asked(command="", data=data)
    try:
        request = parse_request(frame)
    except ProtocolError:
        request = None
    known = None if isinstance(request, UnknownRequest) else request
    return Asked(command=command_name(frame.code), data=data, request=known)
