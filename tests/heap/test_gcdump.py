"""``.gcdump`` files are read and written as the reference does; what is cut off, damaged or lies is our error, or a part that says so."""

from __future__ import annotations

import io
import lzma
import struct
from array import array
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from tests.heap.help import heap_of, oracle_types, types_of
from tests.heap.made import gcdump, heap_from, made, with_pseudo_nodes
from tests.nettrace.recordings import data_of
from tests.shared import shared_part, skip_without

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.heap import Completeness, Heap, HeapFacts, Segment, kernels, read_gcdump, type_totals, write_gcdump
from dotnetdiag.heap.facts import Interop
from dotnetdiag.heap.gcdump_writer import modules_left_out
from dotnetdiag.heap.interop import CCW, INTERFACE, RCW

Array: TypeAlias = "np.ndarray[Any, Any]"


def fixture(name: str) -> bytes:
    folder = shared_part("fixtures")
    if folder is None:
        skip_without("the dump files of the reference")
    data = (folder / name).read_bytes()
    return lzma.decompress(data) if name.endswith(".xz") else data


def written(heap: Heap) -> bytes:
    file = io.BytesIO()
    write_gcdump(heap, file)
    return file.getvalue()


def same(one: Heap, other: Heap) -> bool:
    """Equal columns, types and facts."""
    names = ("node_size", "node_address", "node_generation", "edge_start", "edge_target")
    return (
        all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
        and [one.type_of(node) for node in range(one.nodes)] == [other.type_of(node) for node in range(other.nodes)]
        and types_of(one) == types_of(other)
        and (one.root, in_files(one.facts)) == (other.root, in_files(other.facts))
    )


def in_files(facts: HeapFacts) -> HeapFacts:
    """Those that a file has room for."""
    return replace(facts, interop=None, pause_ms=None, heap_bytes=None, command_line=None)


# real files -----------------------------------------------------------------------------------------------------------


def test_the_references_file_has_what_the_oracle_finds(tmp_path: Path) -> None:
    data = fixture("heap-10.gcdump")
    path = tmp_path / "x.gcdump"
    path.write_bytes(data)
    heap, (types, end) = read_gcdump(data), oracle_types("gcdump", path)
    assert types_of(heap) == types
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])
    assert heap.completeness.complete
    assert heap.facts.creation_tool == "dotnet-gcdump"


def test_perfviews_file_opens_that_dotnet_gcdump_cannot_and_is_written_so_that_it_can(tmp_path: Path) -> None:
    heap = read_gcdump(fixture("test2.gcdump.xz"))
    assert (heap.nodes, heap.facts.pointer_size, heap.facts.has_javascript) == (140_391, 4, False)
    assert heap.completeness.problems == (
        "12 objects are referred to and not described",
    )  # six more are interfaces of COM
    interop = heap.facts.interop
    assert interop is not None
    assert len(interop.modules) > 1
    assert {0, 1, 2, 3} >= set(np.unique(heap.node_generation[heap.node_address > 0]).tolist()) - {-1}
    again = read_gcdump(written(heap))
    assert same(heap, again)
    assert again.facts.interop is not None
    assert np.array_equal(again.facts.interop.rcws, interop.rcws)
    assert again.facts.interop.modules == ()  # with several the reference's reader fails
    assert modules_left_out(heap) == len(interop.modules)
    path = tmp_path / "ours.gcdump"
    path.write_bytes(written(heap))
    _, end = oracle_types("gcdump", path)
    assert (end["nodes"], end["edges"]) == (heap.nodes, heap.edges)


@pytest.mark.parametrize("name", ["heap-10.gcdump", "heap-10.nettrace"])
def test_what_is_written_the_oracle_reads_back_equal(name: str, tmp_path: Path) -> None:
    heap = read_gcdump(fixture(name)) if name.endswith(".gcdump") else heap_of(data_of(name))
    path = tmp_path / "ours.gcdump"
    path.write_bytes(written(heap))
    types, end = oracle_types("gcdump", path)
    assert types == types_of(heap)
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])
    assert same(heap, read_gcdump(path.read_bytes()))


def test_names_have_sizes_in_the_file_as_the_references(tmp_path: Path) -> None:
    from tests.live.test_reference_reader import oracle

    recording, ours = tmp_path / "x.nettrace", tmp_path / "ours.gcdump"
    recording.write_bytes(data_of("heap-10.nettrace"))
    ours.write_bytes(written(heap_of(data_of("heap-10.nettrace"))))

    def rows(verb: str, path: Path) -> set[tuple[Any, ...]]:
        return {tuple(row.values()) for row in oracle(verb, path)[:-1]}

    assert rows("heap", recording) == rows("gcdump", ours)


# what a file may say --------------------------------------------------------------------------------------------------


def test_everything_that_a_file_may_say_comes_back() -> None:
    heap = made()
    facts = replace(
        heap.facts,
        pointer_size=4,
        pid=77,
        process="Grüße 🜁",
        machine="m",
        log="one\ntwo",
        collected=datetime(2026, 3, 1, 12, 30, 15, 250, tzinfo=UTC),
        commit_bytes=1 << 40,
        working_set_bytes=5,
        count_multiplier=1.5,
        multipliers=array("f", range(len(heap.type_name))),
        has_javascript=True,
        creation_tool="x",
        segments=(Segment.of(2, 0x1000, 0x2000), Segment.of(3, 0x9000, 0x9800)),
        segments_bytes=0x1800,
        interop=Interop(
            rcws=np.ones(2, RCW), ccws=np.ones(1, CCW), interfaces=np.ones(3, INTERFACE), modules=((1, 2, 3, "ö"),)
        ),
    )
    heap = replace(heap, facts=facts)
    again = read_gcdump(written(heap))
    assert replace(again.facts, interop=None) == replace(facts, interop=None)
    assert again.facts.interop is not None
    assert again.facts.interop.modules == ((1, 2, 3, "ö"),)
    assert again.node_generation.tolist()[:3] == [2, 2, 2]


def test_one_object_beyond_31_bits_has_its_size_back() -> None:
    heap = made()
    sizes = heap.node_size.astype(np.uint64)
    sizes[1] = 4_800_000_024
    again = read_gcdump(written(replace(heap, node_size=sizes)))
    assert again.node_size.tolist() == sizes.tolist()
    assert again.completeness.complete


@pytest.mark.parametrize("compiled", [True, False])
def test_nodes_of_which_nothing_is_known_but_their_references_are_kept(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(kernels, "KERNELS", None)
    heap = made()
    types, sizes = heap.node_type.copy(), heap.node_size.copy()
    types[[1, 3, 4]], sizes[[1, 4]] = 0, 0
    heap = replace(heap, node_type=types, node_size=sizes)
    assert same(heap, read_gcdump(written(heap)))


LARGE = 1 << 31


def with_large(*large: int) -> Heap:
    heap = made()
    sizes = heap.node_size.astype(np.uint64)
    sizes[: len(large)] = large
    return replace(heap, node_size=sizes)


@pytest.mark.parametrize("log", [None, "one\ntwo\n"])
@pytest.mark.parametrize("large", [(LARGE, LARGE), (2_240_000_024, 16_777_216_024, LARGE - 1, LARGE)])
def test_several_objects_beyond_31_bits_have_their_sizes_back(
    large: tuple[int, ...], log: str | None, tmp_path: Path
) -> None:
    heap = with_large(*large)
    heap = replace(heap, facts=replace(heap.facts, log=log))
    again = read_gcdump(written(heap))
    assert again.node_size.tolist() == heap.node_size.tolist()
    assert again.completeness.complete
    assert again.facts.log == log
    assert written(again) == written(heap)
    path = tmp_path / "ours.gcdump"
    path.write_bytes(written(heap))
    _, end = oracle_types("gcdump", path)
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])


@pytest.mark.parametrize(
    "line",
    [
        b"0=2147483649 1=2147483648",
        b"0=2147483648 0=2147483648",
        b"0=2147483648 9=2147483648",
        b"0=2147483648 4=2147483648",
        b"0=2147483650 1=2147483646",
        b"0=-147483648 1=2147483648",
        b"0=2147483650 1           ",
    ],
)
def test_sizes_of_a_log_that_do_not_fit_are_not_believed(line: bytes) -> None:
    """Others' files, which have none, say so too."""
    data = written(with_large(LARGE, LARGE))
    told = b"0=2147483648 1=2147483648"
    assert data.count(told) == 1
    changed = read_gcdump(data.replace(told, line))
    assert changed.completeness.problems == ("2 objects are larger than their records can say, by 2 bytes together",)
    assert changed.node_size[:2].tolist() == [LARGE - 1] * 2


@pytest.mark.parametrize(
    "number", [0, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 20, (1 << 27) - 1, 1 << 27, -(1 << 27) - 1]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_numbers_of_every_length_come_back(number: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(kernels, "KERNELS", None)
    size = abs(number)
    starts, targets = np.array([0, 0], np.uint32), np.zeros(0, np.uint32)
    kinds, sizes = np.array([1], np.uint32), np.array([size], np.uint32)
    known = np.array([0, 7], np.int32)
    offsets, end = kernels.measure_nodes(0, kinds, sizes, known, starts, targets, 2)
    blob = np.concatenate(
        [np.zeros(2, np.uint8), kernels.write_nodes(0, kinds, sizes, known, starts, targets, end - 2)]
    )
    types, again, *_, wrong, astray, _ = kernels.read_nodes(blob, offsets, known)
    assert (types.tolist(), again.tolist(), wrong, astray) == ([1], [size], 0, 0)


def test_both_forms_read_and_write_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = heap_of(data_of("heap-10.nettrace"))
    compiled = written(heap)
    monkeypatch.setattr(kernels, "KERNELS", None)
    assert written(heap) == compiled
    assert same(heap, read_gcdump(compiled))


@pytest.mark.parametrize("version", [4, 5, 6, 7, 9, 10])
def test_older_versions_open(version: int) -> None:
    heap = read_gcdump(gcdump(version=version))
    assert [heap.type_of(node) for node in range(heap.nodes)] == ["Root", "A", "B"]
    assert heap.facts.pid == (0 if version == 4 else 42)


@pytest.mark.live
@pytest.mark.parametrize("version", [5, 6, 7, 9, 10])
def test_files_of_older_versions_are_what_the_oracle_takes_them_for(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.gcdump"
    path.write_bytes(gcdump(version=version))
    heap, (types, end) = read_gcdump(path.read_bytes()), oracle_types("gcdump", path)
    assert types_of(heap) == types
    assert (end["nodes"], end["bytes"]) == (heap.nodes, heap.bytes)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_objects_whose_addresses_are_cut_off_are_objects(left: int) -> None:
    data = written(
        with_pseudo_nodes(heap_from(["[.NET Roots]", "Small", "Large"], [(0, 1), (0, 2)], sizes=[0, 24, 90000]))
    )
    heap = read_gcdump(data[: data.index((0x1010).to_bytes(8, "little")) + 8 * left])
    assert not heap.completeness.complete
    assert heap.objects == 2
    assert heap.largest(1).values("type") == ["Large"]


@pytest.mark.parametrize(("version", "least"), [(3, 1), (8, 8), (12, 11)])
def test_versions_that_nobody_knows_are_refused(version: int, least: int) -> None:
    with pytest.raises(FormatError, match="GCHeapDump"):
        read_gcdump(gcdump(version=version, least=least))


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("offset_bytes", [4, 8])
def test_labels_of_eight_bytes_open(is_wide: bool, offset_bytes: int) -> None:
    heap = read_gcdump(gcdump(width=8, is_wide=is_wide, offset_bytes=offset_bytes))
    assert [heap.type_of(node) for node in range(heap.nodes)] == ["Root", "A", "B"]
    assert heap.node_address.tolist() == [0, 0x1000, 0x2000]


def test_types_without_names_have_their_numbers() -> None:
    heap = read_gcdump(gcdump(deferred=True))
    assert [heap.type_of(node) for node in range(heap.nodes)] == ["Root", "TypeID(0x77)[]", "B"]
    assert heap.type_module.to_pylist()[2] == "native.dll"


def test_what_newer_writers_add_is_passed_over() -> None:
    extras = b"\x0a" + b"\1\0\0\0" + b"\x0d" + b"\2\0\0\0xy" + b"\x08\x09" + b"\x0e" + b"\3\0\0\0abc"
    assert read_gcdump(gcdump(extras=extras)).nodes == 3


def test_what_is_missing_is_in_the_file_and_comes_back(tmp_path: Path) -> None:
    problems = ("3 events were lost", "a name of\ntwo lines")
    for log in (None, "", "one\ntwo\n"):
        heap = made()
        heap = replace(heap, facts=replace(heap.facts, log=log), completeness=Completeness(problems=problems))
        again = read_gcdump(written(heap))
        assert (again.facts.log, again.completeness.problems) == (log, ("3 events were lost", "a name of two lines"))
        assert read_gcdump(written(again)).completeness == again.completeness
    path = tmp_path / "ours.gcdump"
    path.write_bytes(written(heap))
    types, end = oracle_types("gcdump", path)
    assert types == types_of(heap)
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])


def test_a_part_of_a_file_stays_a_part_when_it_is_written() -> None:
    whole = fixture("heap-10.gcdump")
    part = read_gcdump(whole[:49_000])
    again = read_gcdump(written(part))
    assert not again.completeness.complete
    assert again.completeness.problems == part.completeness.problems
    assert b"not complete" not in written(read_gcdump(whole))


@pytest.mark.parametrize("suffix", ["(Bytes > 1K)", "(Bytes > 1K,Ptrs,ElemSize=4)", "(NoPtrs,ElemSize=16)"])
def test_what_stands_behind_a_name_for_the_size_is_none_of_it(suffix: str) -> None:
    data = gcdump(name=f"A[] {suffix}")
    heap = read_gcdump(data)
    assert [heap.type_of(node) for node in range(heap.nodes)] == ["Root", "A[]", "B"]
    assert read_gcdump(gcdump(name="A (Parts)")).type_of(1) == "A (Parts)"


def test_types_of_perfviews_file_are_not_split_by_size() -> None:
    heap = read_gcdump(fixture("test2.gcdump.xz"))
    names = heap.types.values("type")
    assert not [name for name in names if name is not None and "ElemSize=" in name]
    assert names.count("System.String[]") == 1


# what is cut off or lies ----------------------------------------------------------------------------------------------


def test_every_cut_is_our_error_or_a_part_that_says_so() -> None:
    data = written(made())
    parts = 0
    for size in range(len(data)):
        try:
            heap = read_gcdump(data[:size])
        except FormatError:
            continue
        parts += 1
        assert not heap.completeness.complete
        assert heap.nodes == made().nodes
        assert heap.retained[heap.root] >= 0
    assert parts > 50


@pytest.mark.parametrize("step", [1, 0x7F, 0x80, 0xFF])
def test_every_changed_byte_is_our_error_or_a_heap(step: int) -> None:
    data = written(made())
    for place in range(len(data)):
        lying = bytearray(data)
        lying[place] = (lying[place] + step) & 0xFF
        try:
            heap = read_gcdump(bytes(lying))
        except FormatError:
            continue
        assert heap.edge_target.max(initial=0) < heap.nodes
        assert heap.types is not None
        written(heap)


@pytest.mark.parametrize("what", ["types", "nodes", "blob", "root", "forward", "string"])
@pytest.mark.parametrize("lie", [-1, -2, 1 << 30, (1 << 31) - 1, -(1 << 31)])
def test_counts_that_lie_are_errors(what: str, lie: int) -> None:
    data, places = gcdump(places=True)
    place = places[what]
    with pytest.raises(FormatError):
        read_gcdump(data[:place] + struct.pack("<i", lie) + data[place + 4 :])


def test_records_that_overlap_do_not_multiply() -> None:
    """A thousand nodes whose records are the same one, of a thousand references."""
    record = b"\x02" + b"\x87\x68" + b"\x00" * 1000
    data = gcdump(blob=b"\0\0" + record, offsets=[2] * 1001)
    heap = read_gcdump(data)
    assert heap.edges <= len(record)
    assert not heap.completeness.complete


@pytest.mark.parametrize("compiled", [True, False])
def test_a_record_that_runs_into_the_next_is_told_of(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the second node says that it has two references, of which one is the type of the next record. Both ways to the types say so."""
    if not compiled:
        monkeypatch.setattr(kernels, "KERNELS", None)
    whole = b"\0\0" + b"\x02\x02\x01\x02" + b"\x04\x01\x01" + b"\x06\x00"
    for count, problem in ((1, None), (0, None), (2, "records overlap: they have 10 bytes together, and there are 9")):
        data = gcdump(blob=whole[:7] + bytes([count]) + whole[8:])
        heap = read_gcdump(data)
        assert ([problem] if problem else []) == [one for one in heap.completeness.problems if "overlap" in one]
        search = type_totals.of_file(memoryview(data))
        if compiled and search is not None and problem:
            search.search()
            search.prepare()
            assert search.totals() is None


def test_an_object_inside_of_itself_is_an_error() -> None:
    data, places = gcdump(places=True)
    place = places["javascript"]
    lying = data[:place] + b"\x02" + struct.pack("<I", 24) + data[place + 5 :]
    with pytest.raises(FormatError, match="inside of itself"):
        read_gcdump(lying)


def test_a_dump_without_a_graph_and_one_in_place_of_another_thing_are_errors() -> None:
    data, places = gcdump(places=True)
    graph = data.index(b"\x04\x04\x01", 30)
    with pytest.raises(FormatError, match="no graph"):
        read_gcdump(data[:graph] + b"\x01" + data[graph + 1 :])
    place = places["javascript"]  # and DotNetHeapInfo, which would be the graph
    lying = data[: place + 1] + b"\x02" + struct.pack("<I", graph) + data[place + 6 :]
    with pytest.raises(FormatError, match=r"is a Graphs\.MemoryGraph"):
        read_gcdump(lying)
    with pytest.raises(FormatError):
        read_gcdump(data[:24] + b"\x01\x06" + data[-12:])


def test_a_size_that_cannot_be_is_a_problem() -> None:
    data, places = gcdump(places=True)
    total = places["root"] - 8
    for told in (1 << 62, (1 << 63) - 1, 1 << 48):
        heap = read_gcdump(data[:total] + struct.pack("<q", told) + data[total + 8 :])
        assert heap.bytes == 24
        assert heap.completeness.problems == (f"nodes have 24 bytes, and {told:,} by the file's own account",)


def test_what_is_no_such_file_is_an_error() -> None:
    for data in (b"", b"x", b"\x14\0\0\0!FastSerialization.2", b"Nettrace" * 10):
        with pytest.raises(FormatError):
            read_gcdump(data)


def test_more_than_a_file_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.heap.gcdump_writer._LARGEST", 8)
    file = io.BytesIO()
    with pytest.raises(UsageError, match="has room for"):
        write_gcdump(made(), file)
    assert not file.getvalue()
