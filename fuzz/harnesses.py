"""What is fuzzed: each harness takes any bytes and must come back, or raise an error of ours.

A harness returns what it saw, in a few words or numbers: an input that shows something new is kept and mutated further.
"""

from __future__ import annotations

import io
import json
import random
import re
import zlib
from collections.abc import Callable, Hashable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from fuzz.structured import with_a_lie
from tests.analysis.test_exceptions import CATCH, CATCH_OVER, in_order, of, throw
from tests.analysis.test_gc import collection
from tests.analysis.test_jit import compiled
from tests.analysis.test_tasks import awaits, done, operation
from tests.analysis.test_thread_pool import adjusted, begun, queued, worker
from tests.analysis.test_waits import gets, wants
from tests.analysis.traces import allocation_sample, allocation_tick, traced
from tests.assemblies.test_debug_directory import CODEVIEW, EMBEDDED, codeview, image, packed
from tests.assemblies.test_sequence_points import SIMPLE, TWO_DOCUMENTS, pdb
from tests.heap.made import gcdump, made
from tests.heap.sessions import Session, usual
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL

from dotnetdiag import events
from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.report import Report
from dotnetdiag.assemblies.debug_directory import DebugDirectory
from dotnetdiag.assemblies.sequence_points import PortablePdb
from dotnetdiag.cli.shown import KINDS, show
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.events.layout import Count
from dotnetdiag.heap import Heap, HeapFold, read_gcdump, write_gcdump
from dotnetdiag.heap.type_totals import TypeTotals, of_file
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.environment import EnvironmentBlock
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.ports import parse_runtime_ports, parse_tool_port
from dotnetdiag.ipc.requests import ALL_REQUESTS, parse_request
from dotnetdiag.nettrace import HeaderColumns, LossCounter, Metadata, Reader, Writer, read, rewrite, scan
from dotnetdiag.nettrace.type_count import count_types
from dotnetdiag.providers.text import parse_event_filter, parse_providers
from dotnetdiag.recipes.heap_reports import report, type_rows
from dotnetdiag.trace.trace import Trace

Seen = Hashable
_DIGITS = re.compile(r"(0x)?[0-9a-f]*\d[0-9a-f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """``run`` is called with any bytes; ``seeds`` are where the inputs come from, and ``mutations`` what is made of them,
    besides changes of any bytes.
    """

    run: Callable[[bytes], Seen]
    seeds: Callable[[], list[bytes]]
    mutations: tuple[Callable[[random.Random, Sequence[bytes]], bytes], ...] = ()


def _words(text: str | None) -> str:
    return _DIGITS.sub("N", text or "")[:80]


def _size(count: int) -> int:
    return count.bit_length()


# traces ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _traces() -> list[bytes]:
    found = list(SMALL.values())
    for name in recordings():
        data = data_of(name)
        found.append(data[: 24 << 10])  # the opening and the first blocks
        blocks = [block for block in scan(data).blocks if block.end - block.offset < 16 << 10]
        kinds = {block.kind: block for block in blocks}
        opening = data[: scan(data).blocks[0].end]
        found.append(opening + b"".join(data[block.offset : block.end] for block in kinds.values()))
    return found


def reader(data: bytes) -> Seen:
    """Whole, by batches, by counts and fed in pieces: no harm, and all agree."""
    contents = read(data)
    scanned = scan(data)
    counts = scanned.counts()
    ids, numbers = np.unique(contents.headers.metadata_id, return_counts=True)
    assert {number: events for number, (events, _) in counts.items()} == dict(
        zip(ids.tolist(), numbers.tolist(), strict=True)
    )
    quick, counter = count_types(memoryview(data)), LossCounter()
    assert quick is None or dict(quick.by_type) == counts, (quick, counts)
    counter.feed(data)
    lost = counter.close()
    assert lost is None or lost.lost == contents.lost.total, (lost, contents.lost.total)
    batches = [batch.headers for batch in scanned.iter_batches()]
    assert HeaderColumns.concatenate(batches).equals(contents.headers) or not len(contents)
    piece = 1 + zlib.crc32(data) % 4099
    stream, rows = Reader(block_limit=1 << 40), 0  # the usual limit is of streams alone
    for at in range(0, len(data), piece):
        rows += sum(len(batch) for batch in stream.feed(data[at : at + piece]))
    rows += sum(len(batch) for batch in stream.close())
    assert rows == len(contents), (rows, len(contents))
    assert stream.damage == contents.damage
    contents.order()
    for number, metadata in list(contents.metadata.items())[:20]:
        chosen = np.flatnonzero(contents.headers.metadata_id == number)[:50]
        columns = contents.headers[chosen]
        table = events.decode(events.resolve(metadata), contents.buffer, columns.payload_offset, columns.payload_length)
        table.to_pylist()
    found = (
        _size(len(contents)),
        _size(len(contents.metadata)),
        _size(contents.lost.total),
        contents.segment_starts.size,
    )
    return contents.format, _words(contents.damage), *found, *sorted(_words(line)[:30] for line in contents.warnings)


def writer(data: bytes) -> Seen:
    """What was read can be written, or cannot and is refused; what was written reads as the same."""
    contents = read(data)
    said: list[Seen] = []
    if contents.info is None:
        return contents.format, _words(contents.damage)
    for version in (4, 5, 6):
        out = io.BytesIO()
        try:
            rewrite(contents, Writer.like(out, contents.info, version=version))
        except UsageError as error:
            said.append(_words(str(error)))
            continue
        again = read(out.getvalue())
        assert again.complete, again.damage
        assert len(again) == len(contents)
        assert again.headers.time.tolist() == contents.headers.time.tolist()
        assert [again.payload(row) for row in range(min(20, len(again)))] == [
            contents.payload(row) for row in range(min(20, len(again)))
        ]
        said.append(version)
    return contents.format, _size(len(contents)), *said


# payloads -------------------------------------------------------------------------------------------------------------

_FIXED = [kind for kind in events.Kind if kind < events.Kind.PAD]
_COUNTED = (events.Kind.TEXT16, events.Kind.TEXT8, events.Kind.BYTES)
_PLAIN = (events.Kind.VARINT, events.Kind.VARUINT, events.Kind.Z16, events.Kind.Z8, events.Kind.OPAQUE)


def _layout(source: random.Random, depth: int, numbers: list[str]) -> events.Layout:
    turn = source.random()
    if turn < 0.45 or depth > 3:
        return events.Layout(kind=source.choice(_FIXED))
    if turn < 0.6:
        return events.Layout(kind=source.choice(_PLAIN))
    if turn < 0.65:
        return events.Layout(kind=events.Kind.PAD, count=source.randrange(9))
    if turn < 0.8:
        return events.Layout(kind=events.Kind.STRUCT, fields=_fields(source, depth + 1))
    ways = [Count.FIXED, Count.U16, Count.U32, *([Count.FIELD] if numbers else [])]
    if depth == 0:
        ways += [Count.REL, Count.DATA]
    way = source.choice(ways)
    count = source.randrange(5) if way is Count.FIXED else 0
    name = source.choice(numbers) if way is Count.FIELD else ""
    if turn < 0.9:
        return events.Layout(kind=source.choice(_COUNTED), count_at=way, count=count, count_field=name)
    element = _layout(source, depth + 1 if way not in (Count.REL, Count.DATA) else 9, [])
    return events.Layout(kind=events.Kind.LIST, count_at=way, count=count, count_field=name, element=element)


def _fields(source: random.Random, depth: int) -> tuple[events.SchemaField, ...]:
    made: list[events.SchemaField] = []
    numbers: list[str] = []
    for number in range(source.randrange(1, 7)):
        layout = _layout(source, depth, numbers)
        name = f"f{number}"
        if layout.kind in (events.Kind.U1, events.Kind.U2, events.Kind.U4, events.Kind.U8, events.Kind.VARUINT):
            numbers.append(name)
        made.append(events.SchemaField(name=name, layout=layout))
    return tuple(made)


@lru_cache(maxsize=1)
def _known() -> list[Metadata]:
    found = []
    for name in recordings():
        if name.endswith(".nettrace"):
            found += list(scan(data_of(name)).metadata.values())
    return found


def payload(data: bytes) -> Seen:
    """Any payload under any layout, a known event's or one made up."""
    source = random.Random(zlib.crc32(data[:8]))
    content = np.frombuffer(data, np.uint8)[8:]
    if source.random() < 0.5 and _known():
        schema = events.resolve(source.choice(_known()), source.choice((4, 8)))
    else:
        fields = _fields(source, 0)
        schema = events.EventSchema(
            provider="Fuzz", event_id=1, version=0, name="Fuzz", manifest_name="Fuzz", fields=fields
        )
    rows = source.randrange(1, 6)
    edges = np.sort(np.array([source.randrange(len(content) + 1) for _ in range(2 * rows)], np.int64))
    starts, lengths = edges[0::2], edges[1::2] - edges[0::2]
    lazy = source.random() < 0.5
    table = events.decode(schema, content, starts, lengths, lazy_text=lazy)
    listed = table.to_pylist()
    assert len(listed) == rows
    if source.random() < 0.2:
        assert events.concat_tables([table, table]).to_pylist() == [*listed, *listed] or "nan" in repr(listed)
    kinds = tuple(sorted({field.layout.kind.name for field in schema.fields}))
    return kinds, table.undecodable_count, table.remainder is None


def _payload_seeds() -> list[bytes]:
    source = random.Random(3)
    found = [source.randbytes(8) + bytes(range(64)) * 2 for _ in range(50)]
    for name in recordings()[:6]:
        contents = read(data_of(name))
        for row in range(0, len(contents), max(1, len(contents) // 40)):
            found.append(source.randbytes(8) + contents.payload(row))
    return found


# protocol -------------------------------------------------------------------------------------------------------------


def _attempt(act: Callable[[], object]) -> str:
    try:
        return type(act()).__name__
    except DiagnosticsError as error:
        return f"{type(error).__name__}: {_words(str(error))[:50]}"


def messages(data: bytes) -> Seen:
    """Bytes as whatever may arrive on a connection."""
    said = [
        _attempt(lambda: Frame.parse(data)),
        _attempt(lambda: parse_request(Frame.parse(data))),
        _attempt(lambda: ErrorReply.parse(data)),
        _attempt(lambda: Advertise.parse(data)),
        _attempt(lambda: EnvironmentBlock.parse(data)),
    ]
    kind = ALL_REQUESTS[zlib.crc32(data) % len(ALL_REQUESTS)]
    said.append(_attempt(lambda: kind.REPLY.parse(data)))

    def again() -> object:
        request = parse_request(Frame.parse(data))
        packed = request.pack()
        assert parse_request(Frame.parse(packed)) == request
        return request.read_reply(Frame.parse(data)) if isinstance(request, kind) else request

    said.append(_attempt(again))
    frames, piece = FrameReader(), 1 + len(data) % 7

    def fed() -> object:
        found = None
        for at in range(0, len(data), piece):
            found = frames.feed(data[at : at + piece]) or found
        return found

    said.append(_attempt(fed))
    return tuple(said)


def _message_seeds() -> list[bytes]:
    found = [ErrorReply(hresult=0x80131384, text="no such command").pack(), b""]
    found.append(Advertise(cookie=UUID(int=7), pid=42).pack())
    found.append(EnvironmentBlock(entries=("A=b", "PATH=/bin")).pack())
    text = "path".encode("utf-16-le") + b"\0\0"
    body = len(text).to_bytes(4, "little") + text + bytes(64)
    for kind in ALL_REQUESTS:
        for size in (0, 4, 8, 20, len(body)):
            payload = body[:size]
            found.append(Frame(command_set=kind.COMMAND >> 8, command_id=kind.COMMAND & 0xFF, payload=payload).pack())
            found.append(Frame(command_set=0xFF, command_id=0, payload=payload).pack())
    return found


def texts(data: bytes) -> Seen:
    """What users type: providers, filters, ports."""
    text = data.decode("utf-8", "replace")[:2000]

    return tuple(
        _attempt(act)
        for act in (
            lambda: parse_providers(text),
            lambda: parse_event_filter(text),
            lambda: parse_runtime_ports(text),
            lambda: parse_tool_port(text),
        )
    )


TEXTS = (
    "Microsoft-Windows-DotNETRuntime:GC+Loader:Informational,System.Net.Http:0xFF:5",
    'A:0:4:FilterAndPayloadSpecs="X/Y\r\nZ";k=v,B',
    'p:1:2:a="q,:;=\\u0041"',
    "/tmp/port,connect,nosuspend;host:9000,listen,suspend",
    "127.0.0.1:5000,connect",
    "[::1]:7,listen",
    "name:1,2,-3",
)


# heaps ----------------------------------------------------------------------------------------------------------------


def _heap_seeds() -> list[bytes]:
    files = [gcdump(), gcdump(version=4), gcdump(version=7), gcdump(width=8), gcdump(deferred=True)]
    written = io.BytesIO()
    write_gcdump(made(), written)
    sessions = [usual(Session(pointer_size=size)).data() for size in (4, 8)]
    return [*files, written.getvalue(), *sessions, usual(usual(Session()), count=2).data()]


def _totals(data: bytes) -> TypeTotals | None:
    """What the records say as they lie there, before anything is known of them."""
    search = of_file(memoryview(data))
    if search is None:
        return None
    search.search()
    search.prepare()
    return search.totals()


def heaps(data: bytes) -> Seen:
    """A ``.gcdump``, or a recording of heap sessions: what comes of it fits together, can be asked, and is written and read again."""
    if data[4:8] == b"!Fas":
        totals = _totals(data)
        found: tuple[Heap, ...] = (read_gcdump(data),)
        assert totals is None or report(totals) == {**report(found[0]), "types": type_rows(found[0])}
    else:
        fold, trace = HeapFold(), Trace(data, name="fuzz")
        for window in trace.windows(fold.wants):
            fold.feed(window)
        found = fold.result()
    said: list[Hashable] = []
    for heap in found:
        assert len(heap.edge_start) == heap.nodes + 1
        assert heap.edges == int(heap.edge_start[-1])
        assert not heap.edges or int(heap.edge_target.max()) < heap.nodes
        tables = (heap.types, heap.by_module, heap.by_namespace, heap.generations, heap.tree(), heap.advice, heap.roots)
        file = io.BytesIO()
        write_gcdump(heap, file)
        again = read_gcdump(file.getvalue())
        assert (again.nodes, again.edges) == (heap.nodes, heap.edges)
        said += [*(_size(len(table)) for table in tables), _size(heap.nodes), _size(heap.edges)]
        said += [_words(problem)[:30] for problem in heap.completeness.problems]
    return tuple(said)


# reports --------------------------------------------------------------------------------------------------------------


def _report_seeds() -> list[bytes]:
    """One of the events of most questions, besides the openings of recordings; and all of a small one."""
    seen: list[Any] = [*in_order(throw("no"), of(CATCH, "A"), of(CATCH_OVER), throw("no more"))]
    for at in range(4):
        ms = 10.0 * at + 10
        seen += [*collection(ms, at + 1, (1, 2, 3, 4, 5, 60, 70, 80)), *compiled(ms + 2, at, f"M{at}", 10)]
        seen += [awaits(ms + 3, at + 1, at, "A.M"), operation(ms + 3.5, at + 1, "T"), done(ms + 4, at + 1)]
        seen += [allocation_tick(ms + 5, f"A{at}", 100, 10), allocation_sample(ms + 5.5, f"A{at}", 10)]
        seen += [
            wants(ms + 6, 1, "A.M"),
            gets(ms + 7, 1, 1.0),
            queued(ms + 7, 1, at + 1, "A.M"),
            begun(ms + 8, 2, at + 1),
        ]
        seen += [adjusted(ms + 8.5, 4, 6), worker(ms + 8.6, 4)]
    made = traced(*sorted(seen, key=lambda one: one.ms)).raw
    recorded = [*_traces(), data_of(next(name for name in recordings() if name.startswith("gccollect")))]
    return [*[bytes(made.buffer)] * len(recorded), *recorded]


def reports(data: bytes) -> Seen:
    """A recording: every question to it is answered, shown, and written as JSON."""
    made = everything(Trace(data, name="fuzz")).reports
    said: list[Hashable] = []
    with redirect_stdout(io.StringIO()):
        for kind, one in made.items():
            if isinstance(one, Report):
                json.dumps(one.to_json(), allow_nan=False, default=str)
            if kind in KINDS:
                show(kind, one, 5)
            said += [kind, *(_words(note)[:30] for note in getattr(one, "notes", ()))]
    return tuple(said)


# assemblies -----------------------------------------------------------------------------------------------------------


def _pdb_seeds() -> list[bytes]:
    portable = pdb((1, SIMPLE), (0, TWO_DOCUMENTS), (1, b""))
    beside, inside = image((CODEVIEW, codeview())), image((CODEVIEW, codeview()), (EMBEDDED, packed(portable)))
    return [portable, beside, inside]


def pdbs(data: bytes) -> Seen:
    """A PDB, or an assembly that has one: its first methods, or a ValueError."""
    try:
        if data[:2] == b"MZ":
            directory = DebugDirectory(data)
            inside = directory.embedded_pdb()
            if inside is None:
                return directory.pdb_id is None
            data = inside
        read_pdb = PortablePdb(data)
        points = [point for row in range(8) for point in read_pdb.points(0x06000000 + row)]
        return _size(len(points)), len({read_pdb.document(point.document) for point in points})
    except ValueError as error:
        return _words(str(error))


HARNESSES: dict[str, Harness] = {
    "reader": Harness(run=reader, seeds=_traces, mutations=(with_a_lie,)),
    "writer": Harness(run=writer, seeds=_traces, mutations=(with_a_lie,)),
    "payload": Harness(run=payload, seeds=_payload_seeds),
    "messages": Harness(run=messages, seeds=_message_seeds),
    "reports": Harness(run=reports, seeds=_report_seeds, mutations=(with_a_lie,)),
    "heaps": Harness(run=heaps, seeds=_heap_seeds),
    "texts": Harness(run=texts, seeds=lambda: [text.encode() for text in TEXTS]),
    "pdbs": Harness(run=pdbs, seeds=_pdb_seeds),
}
