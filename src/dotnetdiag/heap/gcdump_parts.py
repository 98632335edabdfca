"""What stands where in a ``.gcdump``, of dotnet-gcdump, PerfView or ours (gcdump.md §2, §3, §8): its facts, and where the records of its
nodes are, which are not read here.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.errors import FormatError
from dotnetdiag.heap.facts import HeapFacts, Interop, Segment
from dotnetdiag.heap.fast_serialization import Deserializer, Read, Tag, TypeObject

VERSION, OLDEST_TAGGED, OLDEST = 10, 9, 4
MAX_SEGMENTS = 1 << 20
_NOTHING = memoryview(b"")
_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_WIDTHS = ((False, 4), (True, 4), (False, 8), (True, 8))
"""Of the counts of nodes and addresses, 4 or 8 bytes, and of the places of records: the first is what all files have that labels of 4 bytes."""


@dataclass(slots=True)
class GraphParts:
    """What Graphs.MemoryGraph has. ``offsets`` are ``nodes`` numbers of ``offset_bytes`` each, ``addresses`` of 8 bytes, and fewer where the end
    of the file is missing; both lie in the file, these from ``addresses_at`` on.
    """

    total_bytes: int = 0
    root: int = 0
    names: list[str | None] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("i"))
    modules: list[str | None] = field(default_factory=list)
    nodes: int = 0
    offset_bytes: int = 4
    offsets: memoryview = _NOTHING
    blob: memoryview = _NOTHING
    addresses: memoryview = _NOTHING
    addresses_at: int = 0
    is_64_bit: bool = True


@dataclass(slots=True)
class _Segments:
    """What DotNetHeapInfo has."""

    size: int = 0
    segments: tuple[Segment, ...] = ()


def read_parts(view: memoryview) -> tuple[GraphParts, HeapFacts, list[str]]:
    """(the graph, the facts, what is missing at the end) of the bytes of a file. FormatError for what is no such file, or is damaged."""
    first: FormatError | None = None
    for is_wide, offset_bytes in _WIDTHS:
        try:
            return _Reader(view, is_wide, offset_bytes).parts()
        except FormatError as error:
            first = first or error
        if len(view) < 16 or int.from_bytes(view[-8:], "little") != len(view) - 16:
            break  # labels of 4 bytes: there is only one form
    assert first is not None
    raise first


class _Reader:
    def __init__(self, view: memoryview, is_wide: bool, offset_bytes: int) -> None:
        self._is_wide, self._offset_bytes = is_wide, offset_bytes
        self._graph: GraphParts | None = None
        readers: dict[str, Read] = {
            "GCHeapDump": self._dump,
            "Graphs.MemoryGraph": self._memory_graph,
            "Graphs.Module": self._module,
            "InteropInfo": self._interop,
            "JSHeapInfo": self._javascript,
            "DotNetHeapInfo": self._heap_info,
            "GCHeapDumpSegment": self._segment,
        }
        self._file = Deserializer(view, readers)

    def parts(self) -> tuple[GraphParts, HeapFacts, list[str]]:
        """As :func:`read_parts`."""
        problems: list[str] = []
        facts = HeapFacts()
        try:
            facts = self._file.object("the dump", expected="GCHeapDump")
            if self._file.cursor.u8("tag") != Tag.END:
                raise self._file.cursor.fail("no end behind the last object")
        except FormatError as error:
            if self._graph is None or not self._file.cut:
                raise
            facts = replace(facts, pointer_size=8 if self._graph.is_64_bit else 4)
            problems.append(f"the rest of the file cannot be read, or is missing: {error}")
        graph = self._graph
        if graph is None:
            raise self._file.cursor.fail("no dump is in it")
        del self._file, self._graph  # it has our methods: a cycle, which would hold the file until it is found
        return graph, facts, problems

    # objects ----------------------------------------------------------------------------------------------------------

    def _check(self, kind: TypeObject, version: int, oldest: int) -> None:
        if kind.min_reader > 0 and (kind.min_reader > version or kind.version < oldest):
            raise self._file.cursor.fail(
                f"{kind.name} of version {kind.version} for readers from {kind.min_reader} on; known are {oldest} to {version}"
            )

    def _dump(self, file: Deserializer, kind: TypeObject) -> HeapFacts:
        self._check(kind, VERSION, OLDEST)
        if kind.version == 8 or kind.version < OLDEST:
            raise file.cursor.fail(f"GCHeapDump of version {kind.version}: no reader knows it")
        file.object("the graph", expected="Graphs.MemoryGraph")
        if self._graph is None:
            raise file.cursor.fail("the dump has no graph")
        facts = HeapFacts(pointer_size=8 if self._graph.is_64_bit else 4)
        return self._dump_fields(file, facts) if kind.version >= OLDEST_TAGGED else self._old(file, kind, facts)

    def _dump_fields(self, file: Deserializer, facts: HeapFacts) -> HeapFacts:
        cursor = file.cursor
        file.boolean("Is64Bit")
        count, size = file.f32("AverageCountMultiplier"), file.f32("AverageSizeMultiplier")
        javascript = file.object("JSHeapInfo", expected="JSHeapInfo")
        segments = file.object("DotNetHeapInfo", expected="DotNetHeapInfo") or _Segments()
        facts = self._process(file, replace(facts, count_multiplier=count, size_multiplier=size))
        interop = None
        if file.maybe_tagged(Tag.SKIP):
            end = file.forward()
            interop = file.object("InteropInfo", expected="InteropInfo")
            if cursor.position > end:
                raise cursor.fail(f"InteropInfo is longer than its region, which ends at 0x{end:x}")
            cursor.position = end
        tool = file.string("CreationTool") if file.maybe_tagged(Tag.STRING) else None
        file.end_object()
        return replace(
            facts,
            has_javascript=javascript is not None,
            segments=segments.segments,
            segments_bytes=segments.size,
            interop=interop,
            creation_tool=tool,
        )

    def _process(self, file: Deserializer, facts: HeapFacts, *, has_multipliers: bool = True) -> HeapFacts:
        """Fields 7 to 14; the last is of version 9 and later."""
        cursor = file.cursor
        log = file.string("CollectionLog")
        ticks = cursor.i64("TimeCollected")
        machine, process = file.string("MachineName"), file.string("ProcessName")
        pid = cursor.i32("ProcessID")
        commit, working_set = cursor.i64("TotalProcessCommit"), cursor.i64("TotalProcessWorkingSet")
        multipliers = (file.singles(file.count(4, "multipliers"), "multipliers") or ()) if has_multipliers else ()
        return replace(
            facts,
            log=log,
            collected=_moment(ticks),
            machine=machine,
            process=process,
            pid=pid,
            commit_bytes=commit,
            working_set_bytes=working_set,
            multipliers=multipliers,
        )

    def _old(self, file: Deserializer, kind: TypeObject, facts: HeapFacts) -> HeapFacts:
        """Versions 4 to 7."""
        segments, *_ = (file.cursor.i64("bytes") for _ in range(3))
        file.boolean("all")
        facts = replace(facts, segments_bytes=segments)
        if kind.version >= 5:
            facts = self._process(file, facts, has_multipliers=False)
        if kind.version >= 6:
            for _ in range(file.count(1, "objects")):
                file.object("an object")
        if kind.version >= 7:
            file.boolean("is64")
        file.end_object()
        return facts

    def _memory_graph(self, file: Deserializer, kind: TypeObject) -> GraphParts:
        self._check(kind, 1, 0)
        cursor, graph = file.cursor, GraphParts()
        graph.total_bytes, graph.root = cursor.i64("TotalSize"), cursor.i32("RootIndex")
        self._types(file, graph)
        nodes = file.count(self._offset_bytes, "nodes", wide=self._is_wide)
        graph.nodes, graph.offset_bytes = nodes, self._offset_bytes
        graph.offsets = cursor.view(nodes * self._offset_bytes, "nodes")
        size = cursor.i32("size of the records")
        here = min(max(size, 0), cursor.left)
        graph.blob = cursor.view(here, "records")
        if size < 0 or (here < size and not file.cut):
            raise cursor.fail(f"records of {size:,} bytes, {here:,} left")
        if file.width == 8 and bytes(graph.blob[:2]) != b"\0\0":
            raise FormatError("records do not begin with that of nothing", offset=cursor.offset)
        if not 0 <= graph.root < nodes:
            raise cursor.fail(f"the root is node {graph.root:,} of {nodes:,}")
        self._graph = graph
        if here < size:
            raise cursor.fail(f"records of {size:,} bytes, {here:,} left")
        self._behind_records(file, kind, graph, nodes)
        return graph

    def _types(self, file: Deserializer, graph: GraphParts) -> None:
        for _ in range(file.count(12, "types")):
            graph.names.append(file.string("name of a type"))
            graph.sizes.append(file.cursor.i32("size of a type"))
            graph.modules.append(file.string("module of a type"))

    def _behind_records(self, file: Deserializer, kind: TypeObject, graph: GraphParts, nodes: int) -> None:
        cursor = file.cursor
        if kind.min_reader >= 1:
            self._deferred(file, graph)
        before = cursor.position
        told = cursor.i64("addresses") if self._is_wide else cursor.i32("addresses")
        if told != nodes:
            cursor.position = before
            raise FormatError(f"{told:,} addresses of {nodes:,} nodes", offset=cursor.offset, where=cursor.where)
        here = min(nodes, cursor.left // 8)
        graph.addresses_at = cursor.position
        graph.addresses = cursor.view(8 * here, "addresses")
        if here < nodes:
            raise cursor.fail(f"{nodes - here:,} of {nodes:,} addresses are missing")
        graph.is_64_bit = file.maybe_tagged(Tag.BYTE) and file.boolean("Is64Bit")
        file.end_object()

    def _deferred(self, file: Deserializer, graph: GraphParts) -> None:
        """Types of .NET Native, which have numbers instead of names."""
        end = file.forward()
        for number in range(file.count(9, "deferred types")):
            type_id = file.cursor.i32("type")
            module = file.object("module", expected="Graphs.Module")
            suffix = file.string("suffix")
            if number < len(graph.names) and graph.names[number] is None:
                graph.names[number] = f"TypeID(0x{type_id & 0xFFFFFFFF:x}){suffix or ''}"
                graph.modules[number] = module
        if file.cursor.u8("end of deferred types") != Tag.END or file.cursor.position > end:
            raise file.cursor.fail("deferred types do not end where they should")
        file.cursor.position = end

    def _module(self, file: Deserializer, _: TypeObject) -> str | None:
        """The path; the size is 4 or 8 bytes wide, which only the end of the object tells."""
        cursor = file.cursor
        path = file.string("path")
        cursor.skip(8, "ImageBase")
        after = cursor.position
        for size in (4, 8):
            cursor.position = after
            with suppress(FormatError):
                cursor.skip(size + 8, "Size and BuildTime")
                file.string("PdbName")
                cursor.skip(16 + 4, "PdbGuid and PdbAge")
                if file.maybe_tagged(Tag.END):
                    return path
        raise cursor.fail("a module without an end")

    def _javascript(self, file: Deserializer, _: TypeObject) -> bool:
        file.end_object()
        return True

    def _heap_info(self, file: Deserializer, _: TypeObject) -> _Segments:
        size = file.cursor.i64("SizeOfAllSegments")
        count = file.count(1, "segments")
        if count > MAX_SEGMENTS:
            raise file.cursor.fail(f"{count:,} segments")
        segments = [file.object("segment", expected="GCHeapDumpSegment") for _ in range(count)]
        file.end_object()
        return _Segments(size, tuple(one for one in segments if one is not None))

    def _segment(self, file: Deserializer, kind: TypeObject) -> Segment:
        self._check(kind, 1, 0)
        start, end, *ends = file.numbers(7 if kind.version >= 1 else 6, "Q", "segment")
        file.end_object()
        return Segment(start=start, end=end, **{f"gen{number}_end": value for number, value in enumerate(ends)})

    def _interop(self, file: Deserializer, _: TypeObject) -> Interop | None:
        cursor = file.cursor
        if cursor.i32("COM objects") == 0:
            file.end_object()
            return None
        import numpy as np

        from dotnetdiag.heap.interop import CCW, INTERFACE, RCW

        numbers = [cursor.i32(what) for what in ("RCWs", "CCWs", "interfaces", "modules")]
        tables = []
        for number, kind in zip(numbers, (RCW, CCW, INTERFACE), strict=False):
            if not 0 <= number <= cursor.left // kind.itemsize:
                raise cursor.fail(f"{number:,} rows of {kind.itemsize} bytes do not fit into {cursor.left:,} bytes")
            tables.append(np.frombuffer(cursor.view(number * kind.itemsize, "COM objects"), kind).copy())
        if not 0 <= numbers[3] <= cursor.left // 20:
            raise cursor.fail(f"{numbers[3]:,} modules do not fit into {cursor.left:,} bytes")
        modules = tuple(
            (cursor.u64("base"), cursor.u32("size"), cursor.u32("time stamp"), file.string("path"))
            for _ in range(numbers[3])
        )
        file.end_object()
        return Interop(rcws=tables[0], ccws=tables[1], interfaces=tables[2], modules=modules)


def _moment(ticks: int) -> datetime | None:
    """100 ns steps since the year 1; None for none."""
    try:
        return _EPOCH + timedelta(microseconds=ticks // 10) if ticks > 0 else None
    except OverflowError:
        return None
