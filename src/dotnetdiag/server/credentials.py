"""Who gets an answer: on a Unix socket the same user, and root. Over TCP it is ``transport.security`` that decides."""

from __future__ import annotations

import os

from dotnetdiag.server.commands import Caller
from dotnetdiag.transport import Stream
from dotnetdiag.transport.addresses import Address, UnixAddress

ROOT = 0


def caller_of(stream: Stream, port: str) -> Caller:
    """As far as the system tells."""
    return Caller(address=stream.address, port=port, pid=stream.peer_pid(), uid=stream.peer_uid())


def may_ask(caller: Caller, address: Address, our_uid: int | None = None) -> bool:
    """Whether a peer at this address gets an answer. Of a Unix socket's peer that the system does not name: no."""
    if not isinstance(address, UnixAddress):
        return True
    return caller.uid in (ROOT, os.geteuid() if our_uid is None else our_uid)
