"""Small traces made by hand: method, module and mapping events, and tables of stacks."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.nettrace import HeaderColumns, Metadata, StackTable, ThreadInfo, TraceInfo
from dotnetdiag.trace.symbols import Symbols, build_symbols

Array: TypeAlias = "np.ndarray[Any, Any]"
RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"


def z16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"


def s8(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<H", len(raw)) + raw


def varuint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@dataclass
class MadeTrace:
    """Events in the order of the calls; ``symbols()`` reads them."""

    pointer_size: int = 8
    events: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    kinds: dict[tuple[str, int, str, int], int] = field(default_factory=dict)
    threads: dict[int, ThreadInfo] = field(default_factory=dict)

    def event(
        self,
        provider: str,
        number: int,
        payload: bytes,
        time: int,
        *,
        name: str = "",
        version: int = 1,
        thread: int = 1,
    ) -> None:
        kind = self.kinds.setdefault((provider, number, name, version), len(self.kinds) + 1)
        self.events.append((kind, time, thread, payload))

    def process(self, thread: int, process_id: int) -> None:
        self.threads[thread] = ThreadInfo(index=thread, process_id=process_id, os_thread_id=process_id)

    def method(
        self,
        start: int,
        size: int,
        name: str,
        *,
        event: tuple[str, int] = (RUNDOWN, 144),
        time: int = 0,
        method_id: int | None = None,
        type_name: str = "Some.Type",
        signature: str = "void  ()",
        module: int = 1,
        verbose: bool = True,
        version: int = 1,
        thread: int = 1,
    ) -> None:
        """A method event; the id is made of the name unless it is given."""
        number = method_id if method_id is not None else sum(name.encode()) * 64
        payload = struct.pack("<QQQIII", number, module, start, size, 0x6000001, 8)
        if verbose:
            payload += z16(type_name) + z16(name) + z16(signature)
        payload += b"\0\0" if version else b""
        self.event(*event, payload, time, version=version, thread=thread)

    def load(self, start: int, size: int, name: str, time: int, **more: Any) -> None:
        self.method(start, size, name, event=(RUNTIME, 143), time=time, **more)

    def unload(self, start: int, size: int, name: str, time: int, **more: Any) -> None:
        self.method(start, size, name, event=(RUNTIME, 144), time=time, **more)

    def module(
        self, number: int, path: str, *, time: int = 0, event: tuple[str, int] = (RUNDOWN, 154), thread: int = 1
    ) -> None:
        payload = struct.pack("<QQII", number, 7, 8, 0) + z16(path) + z16("") + b"\0\0"
        self.event(*event, payload, time, thread=thread)

    def entry_point(self, start: int, name: str, method_id: int, *, thread: int = 1) -> None:
        payload = struct.pack("<Q", method_id) + z16("Some.Type") + z16(name) + z16("void  ()")
        self.event(RUNTIME, 159, payload + struct.pack("<QH", start, 0), 0, thread=thread)

    def begin(self) -> None:
        """The runtime starts."""
        self.event(RUNTIME, 187, b"", 0)

    def mapping(
        self,
        number: int,
        start: int,
        end: int,
        path: str,
        *,
        offset: int = 0,
        metadata: str = "",
        thread: int = 1,
        time: int = 0,
    ) -> None:
        payload = b"".join(map(varuint, (number, start, end, offset))) + s8(path) + varuint(0) + s8(metadata) + s8("")
        self.event("Universal.System", 3, payload, time, name="ProcessMapping", version=0, thread=thread)

    def symbol(self, mapping: int, start: int, end: int, name: str, *, thread: int = 1) -> None:
        payload = b"".join(map(varuint, (1, mapping, start, end))) + s8(name)
        self.event("Universal.System", 4, payload, 0, name="ProcessSymbol", version=0, thread=thread)

    # what build_symbols reads

    @property
    def buffer(self) -> Array:
        return np.frombuffer(b"".join(payload for *_, payload in self.events) + b"\0", np.uint8)

    @property
    def headers(self) -> HeaderColumns:
        headers = HeaderColumns.allocate(len(self.events))
        at = 0
        for row, (kind, time, thread, payload) in enumerate(self.events):
            headers.metadata_id[row], headers.time[row], headers.thread[row] = kind, time, thread
            headers.payload_offset[row], headers.payload_length[row] = at, len(payload)
            at += len(payload)
        return headers

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        return {
            kind: Metadata(metadata_id=kind, provider=provider, event_id=number, name=name, version=version)
            for (provider, number, name, version), kind in self.kinds.items()
        }

    @property
    def info(self) -> TraceInfo | None:
        return TraceInfo(start_ns=0, sync_ticks=0, frequency=10**9, pointer_size=self.pointer_size)

    def symbols(self) -> Symbols:
        return build_symbols(self, self.buffer)


def names_at(symbols: Symbols, addresses: Sequence[int], times: Sequence[int] | None = None, **more: Any) -> list[str]:
    """What the addresses are called, as instruction pointers."""
    where = np.array(addresses, np.uint64)
    when = None if times is None else np.array(times, np.int64)
    exact = more.pop("exact", np.ones(len(where), np.bool_))
    return [symbols.frame_name(frame) for frame in symbols.resolve(where, when, exact=exact, **more)]


def table_of(*stacks: Sequence[int], pointer_size: int = 8) -> StackTable:
    """A table with these stacks, leaf first, as ids 1, 2, ..."""
    table = StackTable(pointer_size)
    for stack in stacks:
        table.intern(np.array(stack, "<u8" if pointer_size == 8 else "<u4").tobytes())
    return table
