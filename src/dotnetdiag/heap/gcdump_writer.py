"""Writes ``.gcdump`` files, as PerfView, Visual Studio and dotnet-gcdump open them (gcdump.md §10), chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.heap import kernels
from dotnetdiag.heap.facts import NOT_DESCRIBED, NOT_TOLD, HeapFacts, Interop, Segment
from dotnetdiag.heap.fast_serialization import Serializer, Tag
from dotnetdiag.heap.graph import Graph
from dotnetdiag.heap.log_lines import MOST_SIZES, log_with
from dotnetdiag.heap.sharing import Shared, by_oneself
from dotnetdiag.heap.type_names import LIMITS, UNDEFINED

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_MODULES = 1
"""Of COM objects: the reference opens no file with more (gcdump.md §9), and all are left out then."""
_CHUNK = 1 << 18
"""Nodes of a piece. Of two million in pieces of half as many the threads wait for each other a tenth of the time, of twice as many for the file."""
_LARGEST = (1 << 31) - 1
_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_NODE_BYTES, _EDGE_BYTES = 15, 5
"""What a record takes at most, and each reference in it: a number has 5 bytes at most."""
_FIRST_PLACE = 2
"""Of a record: behind that of nothing, ``00 00``."""


class Writable(Protocol):
    """A file, open for bytes."""

    def write(self, data: bytes | memoryview, /) -> object: ...


def write_gcdump(graph: Graph, file: Writable, shared: Shared = by_oneself) -> None:
    """Write the file, front to back. Beside the graph it takes a few MB. ``shared`` acts on pieces in their order, perhaps with others' help: of
    two threads it takes two thirds of the time.

    What is missing of the heap (``completeness``) goes into the file's log, where :func:`read_gcdump` finds it again.

    UsageError for a heap that no such file can hold: records of 2 GiB and more, some 300 million objects. A size above 2^31 - 1 is written as
    that; the sum of all sizes is not cut, and where several are, the log has them, where :func:`read_gcdump` finds them again. Modules of COM
    objects are left out where there are several, with which the reference opens no file.
    """
    _Writer(graph, file.write, shared).write()


def modules_left_out(graph: Graph) -> int:
    """How many modules of COM objects the file has no place for."""
    interop = graph.facts.interop
    return 0 if interop is None or len(interop.modules) <= MOST_MODULES else len(interop.modules)


class _Writer:
    def __init__(self, graph: Graph, write: Callable[[bytes | memoryview], object], shared: Shared) -> None:
        self._graph, self._shared = graph, shared
        self._chunks = range(0, graph.nodes, _CHUNK)
        """The first node of each."""
        self._types = _FileTypes(graph)
        for first in self._chunks:
            kernels.first_sizes(*self._chunk(first), self._types.sizes)
        if _NODE_BYTES * graph.nodes + _EDGE_BYTES * graph.edges > _LARGEST - _FIRST_PLACE:
            size = max((place for _, place in self._measured()), default=_FIRST_PLACE)
            if size > _LARGEST:
                raise UsageError(
                    f"the records of {graph.nodes:,} objects take {size:,} bytes, a .gcdump has room for {_LARGEST:,}"
                )
        self._file = Serializer(write)

    def _chunk(self, first: int) -> tuple[Array, Array]:
        """(file's types, sizes) of some nodes."""
        sizes = self._graph.node_size[first : first + _CHUNK]
        return self._types.of(self._graph.node_type[first : first + _CHUNK], sizes), sizes

    def _measured(self) -> Iterator[tuple[Array, int]]:
        """(places of records, where the next begins)."""
        graph, place = self._graph, _FIRST_PLACE

        def measure(first: int) -> tuple[Array, int]:
            types, sizes = self._chunk(first)
            return kernels.measure_nodes(
                first, types, sizes, self._types.sizes, graph.edge_start, graph.edge_target, _FIRST_PLACE
            )

        for _, (offsets, end) in self._shared(self._chunks, measure):
            np.add(offsets, place - _FIRST_PLACE, out=offsets, where=offsets != 0)
            place += end - _FIRST_PLACE
            yield offsets, place
            if place > _LARGEST:
                return

    def write(self) -> None:
        file, facts = self._file, self._graph.facts
        file.begin("GCHeapDump", 10, 8)
        self._memory_graph()
        file.boolean(facts.pointer_size == 8)
        file.f32(facts.count_multiplier)
        file.f32(facts.size_multiplier)
        if facts.has_javascript:
            file.begin("JSHeapInfo", 0, 0)
            file.tag(Tag.END)
        else:
            file.tag(Tag.NULL)
        self._segments(facts)
        file.string(log_with(facts.log, self._graph.completeness.problems, self._cut_sizes()))
        file.number(_ticks(facts.collected), 8)
        file.string(facts.machine)
        file.string(facts.process)
        file.number(facts.pid)
        file.number(facts.commit_bytes, 8)
        file.number(facts.working_set_bytes, 8)
        multipliers = np.array(facts.multipliers, "<f4")
        if len(multipliers) == len(self._graph.type_name):
            multipliers = multipliers[self._types.origin]
        file.number(len(multipliers))
        file.raw(multipliers.tobytes())
        region = file.begin_region()
        self._interop(facts.interop)
        file.end_region(region)
        if facts.creation_tool is not None:
            file.tag(Tag.STRING)
            file.string(facts.creation_tool)
        file.tag(Tag.END)
        file.finish()

    def _cut_sizes(self) -> dict[int, int]:
        """Of the nodes whose records cannot say them, where there are several: one size is what the total has besides."""
        sizes = self._graph.node_size
        found = [
            np.flatnonzero(sizes[first : first + _CHUNK] > _LARGEST) + first for first in range(0, len(sizes), _CHUNK)
        ]
        nodes = np.concatenate([np.zeros(0, np.int64), *found])
        if not 1 < len(nodes) <= MOST_SIZES:
            return {}
        return dict(zip(nodes.tolist(), sizes[nodes].tolist(), strict=True))

    def _memory_graph(self) -> None:
        file, graph = self._file, self._graph
        file.begin("Graphs.MemoryGraph", 1, 0)
        file.number(graph.bytes, 8)
        file.number(graph.root)
        file.number(len(self._types.names))
        for name, size, module in zip(self._types.names, self._types.sizes.tolist(), self._types.modules, strict=True):
            file.string(name)
            file.number(size)
            file.string(module)
        file.number(graph.nodes)
        ends = []
        for offsets, end in self._measured():  # while those before are written
            ends.append(end)
            file.raw(offsets)
        file.number(ends[-1] if ends else _FIRST_PLACE)
        file.raw(b"\0\0")
        begins = [_FIRST_PLACE, *ends]

        def records(first: int) -> Array:
            types, sizes = self._chunk(first)
            size = begins[first // _CHUNK + 1] - begins[first // _CHUNK]
            return kernels.write_nodes(
                first, types, sizes, self._types.sizes, graph.edge_start, graph.edge_target, size
            )

        for _, made in self._shared(self._chunks, records):
            file.raw(made)
        file.number(graph.nodes)
        lacks_some = any(problem.endswith((NOT_TOLD, NOT_DESCRIBED)) for problem in graph.completeness.problems)
        for first in self._chunks:
            file.raw(self._addresses(first, lacks_some=lacks_some))
        file.tag(Tag.BYTE)
        file.boolean(graph.facts.pointer_size == 8)
        file.tag(Tag.END)

    def _addresses(self, first: int, *, lacks_some: bool) -> Array:
        """Those of nodes, but for interfaces of COM objects, which are native memory: who reads of one takes it for an object that was lost."""
        graph, last = self._graph, first + _CHUNK
        made = np.ascontiguousarray(graph.node_address[first:last], "<u8")
        nothing = np.flatnonzero(graph.node_type[first:last] == 0)
        starts = graph.edge_start[first : last + 1]
        foreign = nothing[(starts[nothing + 1] == starts[nothing]) & (graph.node_size[first:last][nothing] == 0)]
        if len(foreign) and not lacks_some:
            made = made.copy()
            made[foreign] = 0
        return made

    def _segments(self, facts: HeapFacts) -> None:
        file = self._file
        if not facts.segments and not facts.segments_bytes:
            file.tag(Tag.NULL)
            return
        file.begin("DotNetHeapInfo", 0, 0)
        file.number(facts.segments_bytes or sum(one.end - one.start for one in facts.segments), 8)
        file.number(len(facts.segments))
        for segment in facts.segments:
            file.begin("GCHeapDumpSegment", 1, 1)
            self._segment(segment)
        file.tag(Tag.END)

    def _segment(self, segment: Segment) -> None:
        for value in (segment.start, segment.end, *segment.ends):
            self._file.number(value, 8)
        self._file.tag(Tag.END)

    def _interop(self, interop: Interop | None) -> None:
        file = self._file
        total = 0 if interop is None else len(interop.rcws) + len(interop.ccws)
        if interop is None or not total:
            file.tag(Tag.NULL)
            return
        file.begin("InteropInfo", 0, 0)
        tables = (interop.rcws, interop.ccws, interop.interfaces)
        modules = () if modules_left_out(self._graph) else interop.modules
        for number in (total, *map(len, tables), len(modules)):
            file.number(number)
        for table in tables:
            file.raw(table.tobytes())
        for base, size, stamp, path in modules:
            file.number(base, 8)
            file.number(size)
            file.number(stamp)
            file.string(path)
        file.tag(Tag.END)


class _FileTypes:
    """The types of the file: those of the graph, and where names have sizes one more for each size that a type's objects have."""

    def __init__(self, graph: Graph) -> None:
        names, modules = graph.type_name.to_pylist(), graph.type_module.to_pylist()
        self.names: list[str | None] = [UNDEFINED, *names[1:]]
        self.modules: list[str | None] = [None, *modules[1:]]
        self.origin = list(range(len(self.names)))
        """The types of the graph that they are made of."""
        self._limits = np.array([limit for limit, _ in LIMITS], np.uint64)
        self._numbers = np.zeros((0, 0), np.uint32)
        if graph.facts.has_sizes_in_names:
            self._split(graph)
        self.sizes = np.full(len(self.names), -1, np.int32)
        self.sizes[0] = 0

    def _split(self, graph: Graph) -> None:
        count, steps = len(self.names), len(LIMITS) + 1
        used = np.zeros(count * steps, np.bool_)
        for first in range(0, graph.nodes, _CHUNK):
            sizes = graph.node_size[first : first + _CHUNK]
            large = np.flatnonzero(sizes > LIMITS[0][0])
            kinds = graph.node_type[first : first + _CHUNK][large].astype(np.int64)
            used[kinds * steps + self._step(sizes[large])] = True
        numbers = np.repeat(np.arange(count, dtype=np.uint32), steps).reshape(count, steps)
        for place in np.flatnonzero(used).tolist():
            kind, step = divmod(place, steps)
            if step and kind:
                numbers[kind, step] = len(self.names)
                self.names.append(f"{self.names[kind]} (Bytes > {LIMITS[step - 1][1]})")
                self.modules.append(self.modules[kind])
                self.origin.append(kind)
        self._numbers = numbers

    def _step(self, sizes: Array) -> Array:
        """0 of sizes that are not told, else the place of the limit, from 1 on: the first is passed, the others are reached."""
        reached: Array = np.searchsorted(self._limits, sizes, side="right")
        reached -= sizes == self._limits[0]
        return reached

    def of(self, types: Array, sizes: Array) -> Array:
        """The file's types of some nodes."""
        if not len(self._numbers):
            return types
        large = np.flatnonzero(sizes > LIMITS[0][0])
        if not len(large):
            return types
        made = types.copy()
        made[large] = self._numbers[types[large], self._step(sizes[large])]
        return made


def _ticks(moment: datetime | None) -> int:
    return 0 if moment is None else (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 10
