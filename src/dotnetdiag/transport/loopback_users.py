"""Whose the other end of a TCP connection within this machine is, as Linux lists its sockets (``/proc/net/tcp``, ``tcp6``)."""

from __future__ import annotations

import socket
import struct

TABLES = {socket.AF_INET: ("/proc/net/tcp", "/proc/net/tcp6"), socket.AF_INET6: ("/proc/net/tcp6", "/proc/net/tcp")}
NOBODY = -1
"""There is no such socket any more, or no program has it."""


def is_loopback(host: str) -> bool:
    """Whether an address as sockets give it is one of this machine alone."""
    from ipaddress import ip_address  # where a port of the network is asked for, and no socket of a file

    number = ip_address(host.partition("%")[0])
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback


def loopback_user(connection: socket.socket) -> int | None:
    """The user whose socket is connected to this one; ``NOBODY`` when it is closed already. None where it is another machine's, or the
    system does not tell. One that is closed, and one that was not accepted yet, belong to nobody: the table says user 0 of them.
    """
    try:
        ours, theirs = connection.getsockname(), connection.getpeername()
    except OSError:
        return NOBODY
    if not is_loopback(theirs[0]):
        return None
    wanted = {_entry(theirs, ours, family) for family in TABLES}
    told = False
    for path in TABLES.get(connection.family, ()):
        try:
            with open(path, encoding="ascii") as table:
                told = True
                next(table, None)
                for line in table:
                    words = line.split()
                    if len(words) > 9 and " ".join(words[1:3]) in wanted:
                        return int(words[7]) if words[9] != "0" else NOBODY
        except OSError:
            continue
    return NOBODY if told else None


def _entry(local: tuple[str, int], remote: tuple[str, int], family: int) -> str:
    """Both ends as the table of a family has them; empty where it cannot have them."""
    try:
        return " ".join(f"{_number(end[0], family)}:{end[1]:04X}" for end in (local, remote))
    except ValueError:
        return ""


def _number(host: str, family: int) -> str:
    from ipaddress import ip_address

    number = ip_address(host.partition("%")[0])
    mapped = getattr(number, "ipv4_mapped", None)
    if family == socket.AF_INET:
        number = mapped or number
        if number.version != 4:
            raise ValueError(host)
    elif number.version == 4:
        number = ip_address(f"::ffff:{number}")
    raw = number.packed
    words = struct.unpack(f"={len(raw) // 4}I", raw)  # in the byte order of the machine
    return "".join(f"{word:08X}" for word in words)
