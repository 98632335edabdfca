"""A capture of what a tap has heard, as Wireshark and tcpdump open it: each connection becomes one of TCP over IPv4, whose packets are made up.

The tool is 127.0.0.1 with a port for each connection, the runtime 127.0.0.2 with the port ``RUNTIME_PORT``. Times are those of hearing.
Format: pcap 2.4 in nanoseconds, which hold every time that a float has, link type 101 (``LINKTYPE_RAW``): https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

import math
import struct
from typing import IO

import numpy as np

RUNTIME_PORT = 9000
FIRST_TOOL_PORT, TOOL_PORTS = 10_000, 50_000
SEGMENT_BYTES = 32_000
_TOOL, _RUNTIME = bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2))
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
_RECORD = struct.Struct("<IIII")
_IP = struct.Struct(">BBHHHBBH4s4s")
_TCP = struct.Struct(">HHIIBBHHH")
_FIN, _SYN, _PSH, _ACK = 0x01, 0x02, 0x08, 0x10
_SEQUENCE = 1 << 32


class PcapFile:
    """Written to ``file``, which stays its owner's. Raises what the file raises."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sent: dict[int, list[int]] = {}  # by connection: the next sequence number of tool and runtime
        self._ended: set[tuple[int, bool]] = set()
        file.write(_FILE_HEADER)

    def write(self, connection: int, from_tool: bool, data: bytes | memoryview, time_s: float) -> None:
        """Bytes that one side has said; none: it says no more."""
        if connection not in self._sent:
            self._open(connection, time_s)
        if not len(data):
            self._end(connection, from_tool, time_s)
        for at in range(0, len(data), SEGMENT_BYTES):
            piece = bytes(data[at : at + SEGMENT_BYTES])
            self._packet(connection, from_tool, _PSH | _ACK, piece, time_s)

    def close(self, connection: int, time_s: float) -> None:
        """The connection is closed."""
        if connection in self._sent:
            for from_tool in (True, False):
                self._end(connection, from_tool, time_s)
            del self._sent[connection]
            self._ended -= {(connection, True), (connection, False)}

    def _open(self, connection: int, time_s: float) -> None:
        self._sent[connection] = [1, 1]
        for from_tool, flags in ((True, _SYN), (False, _SYN | _ACK), (True, _ACK)):
            self._packet(connection, from_tool, flags, b"", time_s)

    def _end(self, connection: int, from_tool: bool, time_s: float) -> None:
        if (connection, from_tool) not in self._ended:
            self._ended.add((connection, from_tool))
            self._packet(connection, from_tool, _FIN | _ACK, b"", time_s)

    def _packet(self, connection: int, from_tool: bool, flags: int, data: bytes, time_s: float) -> None:
        sent = self._sent[connection]
        own, other = (0, 1) if from_tool else (1, 0)
        tool_port = FIRST_TOOL_PORT + connection % TOOL_PORTS
        ports = (tool_port, RUNTIME_PORT) if from_tool else (RUNTIME_PORT, tool_port)
        hosts = (_TOOL, _RUNTIME) if from_tool else (_RUNTIME, _TOOL)
        sequence = (sent[own] - (1 if flags & _SYN else 0)) % _SEQUENCE
        acknowledged = sent[other] % _SEQUENCE if flags & _ACK else 0
        tcp = bytearray(_TCP.pack(*ports, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0))
        pseudo = hosts[0] + hosts[1] + struct.pack(">HH", 6, len(tcp) + len(data))
        struct.pack_into(">H", tcp, 16, _checksum(pseudo + tcp + data))
        ip = bytearray(_IP.pack(0x45, 0, 20 + len(tcp) + len(data), 0, 0x4000, 64, 6, 0, *hosts))
        struct.pack_into(">H", ip, 10, _checksum(ip))
        size = len(ip) + len(tcp) + len(data)
        header = _RECORD.pack(*_seconds_and_nanoseconds(time_s), size, size)
        self._file.write(b"".join((header, ip, tcp, data)))
        sent[own] += len(data) + (1 if flags & _FIN else 0)


def _seconds_and_nanoseconds(time_s: float) -> tuple[int, int]:
    """The fraction is taken first: seconds since 1970 times 10⁹ are more than a float holds."""
    fraction, seconds = math.modf(max(0.0, time_s))
    carried, nanoseconds = divmod(round(fraction * 1e9), 1_000_000_000)
    return (int(seconds) + carried) % _SEQUENCE, nanoseconds


def _checksum(data: bytes | bytearray) -> int:
    """Of the Internet (RFC 1071): the complement of the sum of 16-bit words in one's complement."""
    if len(data) % 2:
        data = bytes(data) + b"\0"
    total = int(np.frombuffer(data, ">u2").sum(dtype=np.uint64))
    return 0xFFFF - (total % 0xFFFF or 0xFFFF)
