"""Who gets an answer: on a Unix socket, and over TCP within this machine, the same user, and root. Of a connection that shows a certificate
or a token ``transport.security`` decides, and of other machines whoever opened a port for them.
"""

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
    """Whether a peer that has come to this address gets an answer. Of a Unix socket's peer that the system does not name: no."""
    if not isinstance(address, UnixAddress) and caller.uid is None:
        return True
    return caller.uid in (ROOT, os.geteuid() if our_uid is None else our_uid)
