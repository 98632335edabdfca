"""Captures made by tests, with ``dpkt`` and not with our writer."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable

import dpkt

TOOL, RUNTIME = ("127.0.0.1", 40000), ("127.0.0.1", 9000)
Said = tuple[bool, bytes]
"""Whether the tool says it, and the bytes."""


def ip_packets(
    said: Iterable[Said], *, port: int = RUNTIME[1], tool_port: int = TOOL[1], ends: bool = True
) -> list[bytes]:
    """The packets of a connection: a handshake, a segment each, the ends."""
    sequence = {True: 1000, False: 2**32 - 10}  # the runtime's numbers begin anew soon
    packets = []

    def add(from_tool: bool, flags: int, data: bytes = b"") -> None:
        ports = (tool_port, port) if from_tool else (port, tool_port)
        tcp = dpkt.tcp.TCP(sport=ports[0], dport=ports[1], seq=sequence[from_tool] % 2**32, flags=flags, data=data)
        packet = dpkt.ip.IP(src=b"\x7f\0\0\1", dst=b"\x7f\0\0\1", p=dpkt.ip.IP_PROTO_TCP, data=tcp)
        packet.len = 20 + len(tcp)
        packets.append(bytes(packet))
        sequence[from_tool] += len(data) + bool(flags & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_FIN))

    add(True, dpkt.tcp.TH_SYN)
    add(False, dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK)
    for from_tool, data in said:
        add(from_tool, dpkt.tcp.TH_ACK, data)
    if ends:
        add(False, dpkt.tcp.TH_FIN | dpkt.tcp.TH_ACK)
        add(True, dpkt.tcp.TH_FIN | dpkt.tcp.TH_ACK)
    return packets


def in_parts(packet: bytes, size: int = 24) -> list[bytes]:
    """As IP sends it where it is too long for a link. ``size``: of a part, a multiple of 8."""
    header, body = bytearray(packet[:20]), packet[20:]
    made = []
    for at in range(0, len(body), size):
        part = body[at : at + size]
        struct.pack_into(">H", header, 2, 20 + len(part))
        struct.pack_into(">HH", header, 4, 77, at // 8 | (0x2000 if at + size < len(body) else 0))
        made.append(bytes(header) + part)
    return made


def ip6_packets(said: Iterable[Said]) -> list[bytes]:
    """The same over IPv6, to be had in a capture without a link (101)."""
    made = []
    for packet in map(dpkt.ip.IP, ip_packets(said)):
        tcp = bytes(packet.data)
        made.append(
            bytes(dpkt.ip6.IP6(src=bytes(15) + b"\1", dst=bytes(15) + b"\1", nxt=6, plen=len(tcp), data=packet.data))
        )
    return made


def frame(packet: bytes, link_type: int) -> bytes:
    """The packet as captures of this link type have it."""
    if link_type == 1:
        return bytes(12) + b"\x08\0" + packet
    if link_type == 113:
        return struct.pack(">HHH8sH", 0, 772, 6, bytes(8), 0x0800) + packet
    if link_type == 276:
        return struct.pack(">HHIHBB8s", 0x0800, 0, 1, 772, 0, 6, bytes(8)) + packet
    return (b"\2\0\0\0" if link_type == 0 else b"") + packet


def pcap(packets: Iterable[bytes], *, link_type: int = 1) -> bytes:
    """A file of them, a second apart."""
    file = io.BytesIO()
    writer = dpkt.pcap.Writer(file, linktype=link_type, snaplen=1 << 17)
    for number, packet in enumerate(packets):
        writer.writepkt(frame(packet, link_type), ts=1_700_000_000 + number)
    return file.getvalue()


def pcapng(packets: Iterable[bytes]) -> bytes:
    """The same in the newer format."""
    file = io.BytesIO()
    writer = dpkt.pcapng.Writer(file, linktype=1)
    for number, packet in enumerate(packets):
        writer.writepkt(frame(packet, 1), ts=1_700_000_000 + number)
    return file.getvalue()
