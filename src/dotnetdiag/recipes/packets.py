"""The TCP segments in a capture (pcap, pcapng), by the library ``dpkt`` (the extra ``pcap``).

Rule 1: packets that are no TCP over IP, or are broken, are passed over and counted; a file that breaks off gives what comes before.
Rule 2: a segment that IP (version 4) has sent in parts is put together, where all are there; of one whose parts are not, they are passed over.
Rule 3: no length in the file is taken on trust: nothing larger than ``LARGEST_BLOCK`` is read at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError, MissingDependency

PCAP_MAGICS = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
PCAPNG_MAGIC = b"\n\r\r\n"
LARGEST_BLOCK = 1 << 24
MOST_PARTED, PARTED_BYTES = 256, 1 << 16
"""Packets in parts of which something is lacking, at a time, and the most that one may have."""
_ETHERNET, _NULL, _LINUX_ANY, _LINUX_ANY_2 = 1, 0, 113, 276
_IP_ONLY = (12, 14, 101, 228, 229)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One packet. ``source`` and ``sink``: address and port. ``missing``: bytes behind ``data`` that it had, and the capture has not."""

    time_s: float
    source: tuple[bytes, int]
    sink: tuple[bytes, int]
    sequence: int
    begins: bool
    ends: bool
    resets: bool
    data: bytes
    missing: int


class Packets:
    """The segments of a capture in the file's order. ``passed_over``: packets that were none."""

    def __init__(self, file: IO[bytes], magic: bytes) -> None:
        try:
            self._dpkt = import_module("dpkt")
            module = import_module("dpkt.pcapng" if magic == PCAPNG_MAGIC else "dpkt.pcap")
        except ImportError as exc:
            raise MissingDependency("dpkt", extra="pcap", purpose="reading a capture") from exc
        self._errors = (self._dpkt.Error, ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error)
        self.passed_over = 0
        self._parted: dict[tuple[bytes, bytes, int, int], _Parted] = {}
        try:
            self._reader: Any = module.Reader(_Bounded(file))
            self._link_type = int(self._reader.datalink())
        except self._errors as exc:
            raise FormatError(f"this capture cannot be read: {exc}") from exc
        if self._link_type not in (_ETHERNET, _NULL, _LINUX_ANY, _LINUX_ANY_2, *_IP_ONLY):
            raise FormatError(
                f"captures of link type {self._link_type} are not read: only Ethernet, loopback, IP and `any`"
            )

    def __iter__(self) -> Iterator[Segment]:
        packets = iter(self._reader)
        while True:
            try:
                time_s, data = next(packets)
            except StopIteration:
                return
            except self._errors as exc:
                raise FormatError(f"the capture breaks off: {exc}") from exc
            try:
                segment = self._segment(float(time_s), data)
            except self._errors:
                segment = None
            if segment is None:
                self.passed_over += 1
            else:
                yield segment

    def _segment(self, time_s: float, data: bytes) -> Segment | None:
        dpkt, link = self._dpkt, self._link_type
        if link == _ETHERNET:
            packet = dpkt.ethernet.Ethernet(data).data
        elif link == _LINUX_ANY:
            packet = dpkt.sll.SLL(data).data
        elif link == _LINUX_ANY_2:
            packet = dpkt.sll2.SLL2(data).data
        else:
            if link == _NULL:
                data = data[4:]
            packet = (dpkt.ip6.IP6 if data[:1] and data[0] >> 4 == 6 else dpkt.ip.IP)(data)
        if not isinstance(packet, (dpkt.ip.IP, dpkt.ip6.IP6)):
            return None
        tcp = packet.data
        if isinstance(packet, dpkt.ip.IP) and (packet.mf or packet.offset):
            whole = self._whole(packet)
            if whole is None:
                return None
            tcp = dpkt.tcp.TCP(whole)
            size = len(packet)
        elif not isinstance(tcp, dpkt.tcp.TCP):
            return None
        elif isinstance(packet, dpkt.ip.IP):
            size = packet.len
        else:
            size = packet.plen and packet.plen + packet.__hdr_len__
        return Segment(
            time_s=time_s,
            source=(packet.src, tcp.sport),
            sink=(packet.dst, tcp.dport),
            sequence=tcp.seq,
            begins=bool(tcp.flags & dpkt.tcp.TH_SYN),
            ends=bool(tcp.flags & (dpkt.tcp.TH_FIN | dpkt.tcp.TH_RST)),
            resets=bool(tcp.flags & dpkt.tcp.TH_RST),
            data=bytes(tcp.data),
            missing=max(0, size - len(packet)),  # a size of 0: of a packet that the network card was to cut
        )

    def _whole(self, packet: Any) -> bytes | None:
        """What the parts of a packet are together, when this was the last of them."""
        if packet.p != self._dpkt.ip.IP_PROTO_TCP:
            return None
        key = packet.src, packet.dst, packet.id, packet.p
        parted = self._parted.setdefault(key, _Parted())
        if len(self._parted) > MOST_PARTED:
            del self._parted[next(iter(self._parted))]
        whole = parted.add(packet.offset * 8, bytes(packet.data), is_last=not packet.mf)
        if whole is not None:
            del self._parted[key]
            self.passed_over -= parted.count - 1  # the others were counted as they came
        return whole


class _Parted:
    """A packet that IP has sent in parts."""

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._size: int | None = None

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def add(self, offset: int, data: bytes, *, is_last: bool) -> bytes | None:
        """Take one; all of them, when they are all there."""
        if offset + len(data) > PARTED_BYTES:
            raise ValueError(f"a part that ends at {offset + len(data)}")
        self._parts[offset] = data
        if is_last:
            self._size = offset + len(data)
        if self._size is None:
            return None
        whole = b""
        while len(whole) < self._size:
            part = self._parts.get(len(whole))
            if not part:
                return None
            whole += part
        return whole


class _Bounded:
    """A file of which no more is read at once than can be meant."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.name = file, getattr(file, "name", "")

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LARGEST_BLOCK:
            raise ValueError(f"a block of {size} bytes")
        data = self._file.read(size)
        if data and len(data) < size:
            raise ValueError(f"{size} bytes are wanted, {len(data)} are left")
        return data
