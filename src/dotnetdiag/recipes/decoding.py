"""Explain captured bytes of the protocol: from a text with hex, from the bytes themselves, or from a capture of TCP."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import FormatError, InputError, UsageError
from dotnetdiag.recipes.hex_text import ACCEPTED, LONGEST_LINE, hex_pieces
from dotnetdiag.recipes.packets import PCAP_MAGICS, PCAPNG_MAGIC, Packets, Segment
from dotnetdiag.recipes.tcp_way import TcpWay
from dotnetdiag.router.conversations import Conversations, ExplainedField, ExplainedMessage, Heard, mixed_conversation

__all__ = ["ExplainedField", "ExplainedMessage", "Heard", "decode"]

PIECE_BYTES = 1 << 16
MOST_CONNECTIONS = 4096
"""Of a capture, at the same time."""
LARGEST_PORT = 65535
_TEXT = frozenset(b"\t\n\r\f") | frozenset(range(32, 127)) | frozenset(range(128, 256))


def decode(path: str | Path, *, port: int | None = None) -> Iterator[Heard]:
    """What was said, message by message, while the file is read.

    A text is searched for hex (``hex_pieces``). Other bytes are taken as they are: what both sides have said, one after the other. Of a
    capture, connections whose first bytes are of another protocol are left out; with ``port`` those of other ports are, and no others. Bytes that
    are no message are told as such, and never raised.

    Raises InputError for a file that cannot be read, FormatError for one in which there is nothing to explain or for a capture that breaks
    off, UsageError for a port that is none or a file that is no capture, MissingDependency without ``dpkt`` for a capture.
    """
    if port is not None and not 0 < port <= LARGEST_PORT:
        raise UsageError(f"a port is a number from 1 to {LARGEST_PORT}")
    try:
        with open(path, "rb") as file:
            assert isinstance(file, io.BufferedReader)
            start = file.peek(PIECE_BYTES)[:PIECE_BYTES]
            magic = start[:4]
            is_anything = False
            try:
                for heard in _heard(file, start, magic, port):
                    is_anything = True
                    yield heard
            except FormatError as error:
                raise FormatError(error.problem, where=str(path)) from error
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), error.strerror or str(error)) from error
    if not is_anything:
        hint = f"; a text may have {ACCEPTED}" if start and _is_text(start) else ""
        raise FormatError(f"nothing here is of the diagnostic protocol{hint}", where=str(path))


def _heard(file: IO[bytes], start: bytes, magic: bytes, port: int | None) -> Iterator[Heard]:
    if magic in (*PCAP_MAGICS, PCAPNG_MAGIC):
        return _captured(Packets(file, magic), port)
    if port is not None:
        raise UsageError("a port is for captures, and this file is none")
    return _mixed(_hex(file) if _is_text(start) else _raw(file))


def _is_text(start: bytes) -> bool:
    return _TEXT.issuperset(start)


def _raw(file: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    while data := file.read(PIECE_BYTES):
        yield False, data


def _hex(file: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    def lines() -> Iterator[str]:
        while line := file.readline(LONGEST_LINE):
            yield line.decode("utf-8", "replace")

    return hex_pieces(lines())


def _mixed(pieces: Iterator[tuple[bool, bytes]]) -> Iterator[Heard]:
    """Of a file that holds one conversation, or pieces of several."""
    conversation = mixed_conversation()
    for begins, data in pieces:
        said = conversation.cut() if begins else []
        for message in said + conversation.feed(0, data):
            yield Heard(connection=1, time_s=None, message=message)
    for message in conversation.end():
        yield Heard(connection=1, time_s=None, message=message)


# -- captures


@dataclass(slots=True, kw_only=True)
class _Connection:
    """A TCP connection; way 0 is that of ``first``, who is seen first. ``is_ours``: None until its first bytes are explained; ``shown``: its
    number among those that are told of, 0 before; ``time_s``: of its last packet.
    """

    number: int
    first: tuple[bytes, int]
    is_ours: bool | None
    shown: int = 0
    time_s: float | None = None
    ways: tuple[TcpWay, TcpWay] = field(default_factory=lambda: (TcpWay(), TcpWay()))
    ended: set[int] = field(default_factory=set)

    @property
    def is_ending(self) -> bool:
        """Whether one side says no more, though a part of what it has said may be missing."""
        return bool(self.ended) or any(way.knows_its_end for way in self.ways)


class _Capture:
    """The connections of a capture, of which those of this protocol are numbered in the order of their first message."""

    def __init__(self, port: int | None) -> None:
        self._port = port
        self._connections: dict[frozenset[tuple[bytes, int]], _Connection] = {}
        self._conversations = Conversations(knows_sides=False)
        self._number = self._shown = 0

    def take(self, segment: Segment) -> Iterator[Heard]:
        if self._port is not None and self._port not in (segment.source[1], segment.sink[1]):
            return
        key = frozenset((segment.source, segment.sink))
        connection = self._connections.get(key)
        if segment.begins and connection is not None and connection.is_ending:  # the port is used again
            yield from self._close(self._connections.pop(key))
            connection = None
        if connection is None:
            self._number += 1
            is_ours = True if self._port is not None else None
            connection = _Connection(number=self._number, first=segment.source, is_ours=is_ours)
            self._connections[key] = connection
            if len(self._connections) > MOST_CONNECTIONS:
                oldest = next(iter(self._connections))
                yield from self._close(self._connections.pop(oldest))
        connection.time_s = segment.time_s
        number = 0 if segment.source == connection.first else 1
        way = connection.ways[number]
        if segment.begins:
            way.begin(segment.sequence + 1)
            return
        if connection.is_ours is False and not segment.ends:
            return
        yield from self._parts(connection, number, way.feed(segment.sequence, segment.data, segment.missing))
        if segment.ends and not segment.resets:
            way.finish(segment.sequence + len(segment.data) + segment.missing)
        if number not in connection.ended and (way.has_ended or (segment.resets and not way.has_hole)):
            connection.ended.add(number)
            if segment.resets:
                connection.ended.add(1 - number)
            yield from self._ours(connection, self._conversations.feed(connection.number, number, b"", segment.time_s))
            if len(connection.ended) == 2:
                yield from self._close(self._connections.pop(key))

    def end(self) -> Iterator[Heard]:
        while self._connections:
            yield from self._close(self._connections.pop(next(iter(self._connections))))

    def _close(self, connection: _Connection) -> Iterator[Heard]:
        for number, way in enumerate(connection.ways):
            yield from self._parts(connection, number, way.end())
            if number not in connection.ended and not way.has_ended:
                yield from self._parts(connection, number, [None])
        yield from self._ours(connection, self._conversations.end(connection.number, connection.time_s))

    def _parts(self, connection: _Connection, way: int, parts: Iterable[bytes | int | None]) -> Iterator[Heard]:
        """Bytes of a way, and how many are missing between them; None: all that follow."""
        time_s = connection.time_s
        for part in parts:
            if connection.is_ours is False:
                return
            if isinstance(part, bytes):
                said = self._conversations.feed(connection.number, way, part, time_s)
            else:
                said = self._conversations.gap(connection.number, way, part, time_s)
            yield from self._ours(connection, said)

    def _ours(self, connection: _Connection, said: list[Heard]) -> Iterator[Heard]:
        """What is told of a connection: nothing of one that begins with bytes of another protocol."""
        for heard in said:
            if connection.is_ours is None:
                connection.is_ours = heard.message.kind != "bytes"
            if connection.is_ours:
                if not connection.shown:
                    self._shown += 1
                    connection.shown = self._shown
                yield Heard(connection=connection.shown, time_s=heard.time_s, message=heard.message)


def _captured(packets: Packets, port: int | None) -> Iterator[Heard]:
    capture = _Capture(port)
    try:
        for segment in packets:
            yield from capture.take(segment)
    except FormatError:
        yield from capture.end()  # what came before it broke off
        raise
    yield from capture.end()
