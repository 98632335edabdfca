"""Recordings of heap sessions made event by event, with what no runtime at hand sends: 32-bit pointers, COM, thread statics, losses."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

from dotnetdiag.heap.bulk_events import (
    CCWS,
    DEPENDENT,
    EDGES,
    GC_START,
    GC_STOP,
    HEAP_STATS,
    NODES,
    RANGE,
    RCWS,
    RESTARTED,
    ROOTS,
    RUNDOWN,
    RUNTIME,
    STATICS,
    SUSPENDING,
    TYPES,
)
from dotnetdiag.nettrace import Metadata, Writer

_VERSIONS = {GC_START: 2, GC_STOP: 1, HEAP_STATS: 2, RESTARTED: 1, SUSPENDING: 1}
_MODULE_RUNDOWN = 154
_CLR = struct.pack("<H", 0)


def z16(text: str) -> bytes:
    return text.encode("utf-16-le") + b"\0\0"


class Session:
    """Events in the order of the calls, a microsecond each. ``blocks`` are numbered by themselves unless told otherwise."""

    def __init__(self, *, pointer_size: int = 8, process_id: int = 77) -> None:
        self._pointer = "<I" if pointer_size == 4 else "<Q"
        self._file = io.BytesIO()
        self._writer = Writer(self._file, pointer_size=pointer_size, process_id=process_id)
        self._kinds: dict[tuple[str, int], int] = {}
        self._time = 0
        self.next = dict.fromkeys((ROOTS, DEPENDENT, NODES, EDGES), 0)

    def event(self, number: int, payload: bytes, *, provider: str = RUNTIME, thread: int = 1) -> None:
        kind = self._kinds.get((provider, number))
        if kind is None:
            kind = self._kinds[provider, number] = len(self._kinds) + 1
            metadata = Metadata(
                metadata_id=kind, provider=provider, event_id=number, version=_VERSIONS.get(number, 0), declared=False
            )
            self._writer.add_metadata(metadata)
        self._time += 1000
        self._writer.write_event(kind, self._time, payload, thread=thread)

    def _p(self, value: int) -> bytes:
        return struct.pack(self._pointer, value)

    # the collection ---------------------------------------------------------------------------------------------------

    def start(self, count: int = 1, *, depth: int = 2, kind: int = 0, thread: int = 1) -> None:
        self.next = dict.fromkeys(self.next, 0)
        self.event(SUSPENDING, struct.pack("<IIH", 1, count, 0), thread=thread)
        self.event(GC_START, struct.pack("<IIIIHQ", count, depth, 1, kind, 0, 0), thread=thread)

    def stop(self, count: int = 1, *, thread: int = 1, has_roots: bool = True) -> None:
        """The end; roots come before it, be they none."""
        if has_roots and self.next[NODES] and not self.next[ROOTS]:
            self.roots([])
        self.event(GC_STOP, struct.pack("<IIH", count, 2, 0), thread=thread)
        self.event(
            HEAP_STATS, struct.pack("<10QIIIH", *[10] * 10, 0, 0, 0, 0) + struct.pack("<QQ", 5, 5), thread=thread
        )
        self.event(RESTARTED, _CLR, thread=thread)

    # blocks -----------------------------------------------------------------------------------------------------------

    def block(self, number: int, rows: Sequence[bytes], *, index: int | None = None, count: int | None = None) -> None:
        index = self.next[number] if index is None else index
        self.next[number] = index + 1
        head = struct.pack("<IIH", index, len(rows) if count is None else count, 0)
        self.event(number, head + b"".join(rows))

    def nodes(self, rows: Sequence[tuple[int, int, int, int]], *, index: int | None = None) -> None:
        """(address, size, type, edges) of each."""
        self.block(NODES, [self._p(row[0]) + struct.pack("<QQQ", *row[1:]) for row in rows], index=index)

    def edges(self, targets: Sequence[int], *, index: int | None = None) -> None:
        self.block(EDGES, [self._p(target) + bytes(4) for target in targets], index=index)

    def roots(self, rows: Sequence[tuple[int, int, int, int]], *, index: int | None = None) -> None:
        """(object, kind, flags, id) of each."""
        packed = [self._p(row[0]) + struct.pack("<BI", row[1], row[2]) + self._p(row[3]) for row in rows]
        self.block(ROOTS, packed, index=index)

    def dependent(self, rows: Sequence[tuple[int, int]]) -> None:
        """(key, value) of each."""
        self.block(DEPENDENT, [self._p(key) + self._p(value) + self._p(0x33) for key, value in rows])

    def types(self, rows: Sequence[tuple[int, str]], *, module: int = 0xA0, flags: int = 0) -> None:
        """(id, name) of each."""
        packed = [
            struct.pack("<QQIIB", number, module, 0x20, flags, 0x12) + z16(name) + struct.pack("<I", 0)
            for number, name in rows
        ]
        self.event(TYPES, struct.pack("<I", len(rows)) + _CLR + b"".join(packed))

    def statics(self, rows: Sequence[tuple[int, int, int, str]]) -> None:
        """(object, type, flags, field) of each."""
        packed = [struct.pack("<QQQI", 0x77, row[0], row[1], row[2]) + z16(row[3]) for row in rows]
        self.event(STATICS, struct.pack("<IQ", len(rows), 1) + _CLR + b"".join(packed))

    def ccws(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """(object, type, IUnknown) of each."""
        packed = [struct.pack("<QQQQIII", 0, *row, 1, 0, 0) for row in rows]
        self.event(CCWS, struct.pack("<I", len(rows)) + _CLR + b"".join(packed))

    def rcws(self, rows: Sequence[tuple[int, int]]) -> None:
        """(object, IUnknown) of each."""
        packed = [struct.pack("<QQQQII", row[0], 1, row[1], 0, 1, 0) for row in rows]
        self.event(RCWS, struct.pack("<I", len(rows)) + _CLR + b"".join(packed))

    def range(self, generation: int, start: int, length: int, *, thread: int = 1) -> None:
        payload = struct.pack("<B", generation) + self._p(start) + struct.pack("<QQ", length, length) + _CLR
        self.event(RANGE, payload, thread=thread)

    def module(self, number: int, path: str) -> None:
        payload = struct.pack("<QQII", number, 1, 0, 0) + z16(path) + z16("") + _CLR
        self.event(_MODULE_RUNDOWN, payload, provider=RUNDOWN)

    def lose(self, events: int) -> None:
        self._writer.add_dropped(1, events)

    def data(self) -> bytes:
        self._writer.close()
        return self._file.getvalue()


A, B, C = 0x1000, 0x1020, 0x1040


def usual(session: Session, *, count: int = 1) -> Session:
    """Three objects, A with B and C, B with C; A is held by the stack."""
    session.start(count)
    session.types([(1, "App.A"), (2, "App.List`1[App.B]")])
    session.roots([(A, 0, 0, 0x55)])
    session.nodes([(A, 24, 1, 2), (B, 2_000_000, 2, 1), (C, 40, 1, 0)])
    session.edges([B, C, C])
    session.stop(count)
    session.module(0xA0, "/app/app.dll")
    return session
