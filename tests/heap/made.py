"""Small heaps and files made by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, overload

import numpy as np

from dotnetdiag.events.columns import Text
from dotnetdiag.heap import Completeness, Heap, HeapFacts
from dotnetdiag.heap.holders import is_pseudo_node
from dotnetdiag.table import Table


def heap_from(
    types: Sequence[str],
    edges: Sequence[tuple[int, int]],
    *,
    sizes: Sequence[int] | None = None,
    root: int = 0,
    modules: Sequence[str | None] | None = None,
) -> Heap:
    """A heap of nodes with these types, in their order; sizes are 10, 20, … where none are given."""
    names = ["UNDEFINED", *dict.fromkeys(types)]
    count = len(types)
    ordered = sorted(edges, key=lambda edge: edge[0])
    starts = np.searchsorted([source for source, _ in ordered], range(count + 1)).astype(np.uint32)
    return Heap(
        node_type=np.array([names.index(name) for name in types], np.uint32),
        node_size=np.array(sizes or [10 * (number + 1) for number in range(count)], np.uint32),
        node_address=np.array([0x1000 + 0x10 * number for number in range(count)], np.uint64),
        node_generation=np.full(count, -1, np.int8),
        edge_start=starts,
        edge_target=np.array([target for _, target in ordered], np.uint32),
        type_name=Text.from_pylist(names),
        type_module=Text.from_pylist([None, *(modules or ["app.dll"] * (len(names) - 1))]),
        root=root,
        roots=Table({"node": [], "kind": [], "flags": [], "root_id": [], "name": []}),
        facts=HeapFacts(creation_tool="made", has_sizes_in_names=False),
        completeness=Completeness(),
    )


def made() -> Heap:
    """Five nodes: a root, a list of two, and two that share one."""
    return heap_from(["Root", "A", "B", "A", "C"], [(0, 1), (1, 3), (0, 2), (2, 4), (3, 4), (4, 4)])


def holding(leaked: int, *, others: int = 0) -> Heap:
    """A constant cache of 50 arrays, and a list that leaks them."""
    types = ["Root", *["Other"] * others, "Constant", "Leak", *["Byte[]"] * (50 + leaked)]
    first = 1 + others
    edges = [(0, node) for node in range(1, first + 2)]
    edges += [(first, first + 2 + number) for number in range(50)]
    edges += [(first + 1, first + 52 + number) for number in range(leaked)]
    return heap_from(types, edges, sizes=[10] * len(types))


def two_of_one_name(held_by: str, first: int, second: int) -> Heap:
    """``first`` objects ``Foo`` of a.dll, held by that one, and ``second`` of b.dll, held by HolderB."""
    holders = ["HolderA", "HolderB", "HolderC"]
    types = ["[.NET Roots]", *holders, *["a"] * first, *["b"] * second]
    edges = [(0, 1), (0, 2), (0, 3)]
    edges += [(1 + holders.index(held_by), 4 + number) for number in range(first)]
    edges += [(2, 4 + first + number) for number in range(second)]
    modules = [None, *["app.dll"] * 3, "a.dll", "b.dll"]
    heap = with_pseudo_nodes(heap_from(types, edges, sizes=[0, *[24] * (len(types) - 1)], modules=modules))
    names = ["Foo" if name in ("a", "b") else name for name in heap.type_name.to_pylist()]
    return replace(heap, type_name=Text.from_pylist(names))


def with_pseudo_nodes(heap: Heap) -> Heap:
    """The same, with no address of what holds roots."""
    is_pseudo = [is_pseudo_node(name) for name in heap.type_name.to_pylist()]
    return replace(heap, node_address=np.where(np.array(is_pseudo)[heap.node_type], 0, heap.node_address))


def advice(heap: Heap, kind: str) -> list[tuple[str, int, int]]:
    """(subject, count, bytes) of what advice says of one kind."""
    return [(row["subject"], row["count"], row["bytes"]) for row in heap.advice if row["kind"] == kind]


class _File:
    def __init__(self, width: int) -> None:
        self.data = bytearray()
        self.width = width
        self.places: dict[str, int] = {}
        self.forward: list[int] = []

    def i32(self, value: int, name: str = "") -> None:
        if name:
            self.places[name] = len(self.data)
        self.data += struct.pack("<i", value)

    def count(self, value: int, is_wide: bool, name: str = "") -> None:
        if name:
            self.places[name] = len(self.data)
        self.data += struct.pack("<q" if is_wide else "<i", value)

    def text(self, text: str | None, name: str = "") -> None:
        self.i32(-1 if text is None else len(text), name)
        self.data += (text or "").encode()

    def begin(self, name: str, version: int, least: int) -> None:
        self.data += b"\x04\x04\x01"
        self.i32(version)
        self.i32(least)
        self.text(name)
        self.data += b"\x06"

    def label(self, place: int) -> None:
        self.data += place.to_bytes(self.width, "little")


@overload
def gcdump(
    *, version: int = ..., least: int | None = ..., width: int = ..., is_wide: bool = ..., offset_bytes: int = ...,
    deferred: bool = ..., name: str = ..., extras: bytes = ..., blob: bytes = ..., offsets: Sequence[int] = ..., places: Literal[True],
) -> tuple[bytes, dict[str, int]]: ...  # fmt: skip
@overload
def gcdump(
    *, version: int = ..., least: int | None = ..., width: int = ..., is_wide: bool = ..., offset_bytes: int = ...,
    deferred: bool = ..., name: str = ..., extras: bytes = ..., blob: bytes = ..., offsets: Sequence[int] = ...,
    places: Literal[False] = ...,
) -> bytes: ...  # fmt: skip
def gcdump(
    *,
    version: int = 10,
    least: int | None = None,
    width: int = 4,
    is_wide: bool = False,
    offset_bytes: int = 4,
    deferred: bool = False,
    name: str = "A",
    extras: bytes = b"",
    blob: bytes = b"\0\0" + b"\x02\x02\x01\x02" + b"\x04\x01\x01" + b"\x06\x00",
    offsets: Sequence[int] = (2, 6, 9),
    places: bool = False,
) -> bytes | tuple[bytes, dict[str, int]]:
    """A file of three nodes, Root with A and B, and A with B, by the document and not by our writer. ``name`` is that of A;
    with ``places`` also where counts stand.
    """
    file = _File(width)
    file.i32(20)
    file.data += b"!FastSerialization.1"
    file.begin("GCHeapDump", version, (8 if version >= 9 else 4) if least is None else least)
    file.begin("Graphs.MemoryGraph", 1, int(deferred))
    file.data += struct.pack("<q", 24)
    file.i32(0, "root")
    file.i32(4, "types")
    for called, size in (("UNDEFINED", 0), ("Root", 0), (None if deferred else name, 8), ("B", 16)):
        file.text(called, "string")
        file.i32(size)
        file.text(None)
    file.count(len(offsets), is_wide, "nodes")
    for offset in offsets:
        file.data += offset.to_bytes(offset_bytes, "little")
    file.i32(len(blob), "blob")
    file.data += blob
    if deferred:
        _deferred(file)
    file.count(len(offsets), is_wide)
    for number in range(len(offsets)):
        file.data += struct.pack("<Q", 0x1000 * number)
    file.data += b"\x08\x01\x06"
    _fields(file, version, extras)
    file.data += b"\x06\x06"
    table = len(file.data)
    file.i32(len(file.forward))
    for place in file.forward:
        file.label(place)
    trailer = len(file.data)
    file.places["forward"] = table
    file.label(table)
    file.label(trailer)
    return (bytes(file.data), file.places) if places else bytes(file.data)


def _deferred(file: _File) -> None:
    file.i32(len(file.forward))
    file.i32(3)
    for number in range(3):
        file.i32(0x77 if number == 2 else 0)
        if number == 2:
            file.begin("Graphs.Module", 0, 0)
            file.text("native.dll")
            file.data += bytes(8 + 8 + 8)  # a size of eight bytes
            file.text(None)
            file.data += bytes(16 + 4) + b"\x06"
        else:
            file.data += b"\x01"
        file.text("[]" if number == 2 else None)
    file.data += b"\x06"
    file.forward.append(len(file.data))


def _process(file: _File, version: int) -> None:
    file.text("log")
    file.data += struct.pack("<q", 0)
    file.text(None)
    file.text("app")
    file.i32(42)
    file.data += bytes(16)
    if version >= 9:  # Microsoft's reader refuses older ones that have them
        file.i32(0, "multipliers")


def _fields(file: _File, version: int, extras: bytes) -> None:
    if version >= 9 or version == 8:
        file.data += b"\x01" + struct.pack("<ff", 1, 1)
        file.places["javascript"] = len(file.data)
        file.data += b"\x01\x01"
        _process(file, version)
        if version >= 10:
            file.data += b"\x0c"
            file.i32(len(file.forward))
            file.data += b"\x01"
            file.forward.append(len(file.data))
            file.data += b"\x0d"
            file.text("x")
            file.data += extras
        return
    file.data += bytes(24) + b"\x01"
    if version >= 5:
        _process(file, version)
    if version >= 6:
        file.i32(1)
        file.data += b"\x01"
    if version >= 7:
        file.data += b"\x01"
