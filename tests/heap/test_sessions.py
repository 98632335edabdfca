"""What heap sessions may hold beside the usual: several dumps, losses, COM, narrow pointers, and what does not fit together."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.heap.help import heap_of, heaps_of, oracle_types, types_of
from tests.heap.sessions import A, B, C, Session, usual, z16
from tests.heap.test_gcdump import written
from tests.nettrace.recordings import data_of

from dotnetdiag.heap import Completeness, Heap, HeapFold, Segment, kernels, read_gcdump, walk
from dotnetdiag.heap.bulk_events import EDGES, NODES, ROOTS, STATICS, layout
from dotnetdiag.heap.facts import NOT_DESCRIBED, NOT_TOLD, Interop
from dotnetdiag.heap.growing import Growing
from dotnetdiag.heap.interop import CCW, INTERFACE, RCW
from dotnetdiag.heap.kernels import AddressIndex, Interner
from dotnetdiag.heap.sharing import by_oneself
from dotnetdiag.heap.walk import Walk
from dotnetdiag.nettrace.parallel import in_order
from dotnetdiag.trace.trace import Trace

pytestmark = pytest.mark.usefixtures("form")


def children(heap: Heap, name: str) -> list[str]:
    """Types of what the nodes of a type refer to."""
    names = [heap.type_of(node) for node in range(heap.nodes)]
    return [names[child] for node in range(heap.nodes) if names[node] == name for child in heap.references(node)]


@pytest.mark.parametrize("pointer_size", [4, 8])
def test_the_usual_session_is_a_complete_heap(pointer_size: int, tmp_path: Any) -> None:
    data = usual(Session(pointer_size=pointer_size)).data()
    heap = heap_of(data)
    assert heap.completeness.problems == ()
    assert heap.facts.pointer_size == pointer_size
    assert [tuple(row.values())[:4] for row in heap.types][:2] == [
        ("App.List<App.B>", "/app/app.dll", 1, 2_000_000),
        ("App.A", "/app/app.dll", 2, 64),
    ]
    assert heap.references(0).tolist() == [1, 2]
    assert heap.facts.heap_bytes == 45
    assert heap.facts.pause_ms == pytest.approx(0.008)
    path = tmp_path / "x.nettrace"
    path.write_bytes(data)
    types, end = oracle_types("heap", path)
    assert types == types_of(heap)
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])


@pytest.mark.parametrize("pointer_size", [4, 8])
@pytest.mark.parametrize("objects", [0, 1, 3, 1000, 600_000])
def test_memory_at_hand_changes_nothing(objects: int, pointer_size: int) -> None:
    """However much it is, and also where it is left in the middle: of two dumps the first has it."""
    data = usual(usual(Session(pointer_size=pointer_size), count=4), count=5).data()
    expected = heaps_of(data)
    for lasts in (0, 2, 1000):
        left = iter(range(lasts))
        fold = HeapFold()
        fold.have_ready(objects, lambda left=left: next(left, None) is not None)  # type: ignore[misc] # of this turn
        for window in Trace(data).windows(fold.wants):
            fold.feed(window)
        made = fold.result()
        assert [one.types.to_pylist() for one in made] == [one.types.to_pylist() for one in expected]
        for one, other in zip(made, expected, strict=True):
            assert np.array_equal(one.edge_target, other.edge_target)
            assert np.array_equal(one.node_address, other.node_address)
            assert one.completeness == other.completeness


def test_every_dump_of_a_session_is_a_heap_of_its_own() -> None:
    session = usual(Session(), count=4)
    session.start(5, depth=0)
    session.stop(5)
    session.start(6)
    session.stop(6)  # of everything, and without a walk
    session.start(7)
    session.roots([(B, 2, 0, 0)])
    session.nodes([(B, 16, 1, 0)])
    session.edges([])
    session.stop(7)
    first, second = heaps_of(session.data())
    assert (first.bytes, second.bytes) == (2_000_064, 16)
    assert first.completeness.complete
    assert second.completeness.complete  # types are those of the first


def test_a_collection_on_other_threads_is_one_walk() -> None:
    session = Session()
    session.start(1, thread=9)
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 0)])
    session.edges([])
    session.stop(1, thread=8)
    assert heap_of(session.data()).completeness.complete


def pauses_of(session: Session) -> list[tuple[float, bool]]:
    """In µs."""
    fold = HeapFold()
    for window in Trace(session.data(), name="recording").windows(fold.wants):
        fold.feed(window)
    return [(round(1000 * ms), known) for ms, known in fold.pauses()]


def test_a_walk_whose_end_was_lost_stood_still_until_its_last_block_at_least() -> None:
    session = Session()
    session.start()
    for _ in range(5):
        session.nodes([(A, 24, 1, 0)])
    for number in range(100):  # what is told when the program runs again
        session.module(number, "/app/app.dll")
    assert pauses_of(session) == [(6, False)]
    whole = usual(usual(Session(), count=1), count=2)
    assert pauses_of(whole) == [(8, True), (8, True)]


def test_a_collection_whose_objects_were_all_lost_has_a_pause_too() -> None:
    session = Session()
    session.start()
    session.stop()
    assert pauses_of(session) == [(4, True)]


def test_roots_hang_where_the_reference_hangs_them() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.statics([(A, 1, 0, "one"), (B, 1, 0, "one"), (C, 1, 1, "two")])
    session.roots(
        [(A, 0, 0, 1), (A, 1, 0, 0), (A, 2, 1, 5), (A, 2, 3, 5), (B, 2, 0, 6), (C, 2, 8, 7), (C, 9, 0, 8), (B, 2, 2, 9)]
    )
    session.dependent([(A, B), (0, C)])
    session.nodes([(address, 24, 1, 0) for address in (A, B, C)])
    session.edges([])
    session.stop()
    session.module(0xA0, "/app/app.dll")
    heap = heap_of(session.data())
    assert children(heap, "[static vars]") == ["[static var App.A.one]"]
    assert children(heap, "[static var App.A.one]") == ["App.A", "App.A"]
    assert children(heap, "[thread static vars]") == ["[static var App.A.two]"]
    assert set(children(heap, "[other roots]")) == {
        "[finalizer Handles]", "[pinning Handles]", "[strong Handles]", "[other Handles]", "[COM/WinRT Objects]",
        "[Dependent Handles]",
    }  # fmt: skip
    assert children(heap, "[Dependent Handles]") == ["App.A"]
    kinds = [row["kind"] for row in heap.roots]
    assert kinds == [
        "stack",
        "finalizer",
        *["handle"] * 4,
        "other",
        "handle",
        *["dependent"] * 2,
        "static",
        "static",
        "thread static",
    ]
    assert heap.roots.values("root_id")[8] == A  # the key of a dependent handle


def test_references_of_many_static_variables_are_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[int] = []

    def extend(self: Growing, values: Any, made: Any = Growing.extend) -> None:
        added.append(len(values))
        made(self, values)

    monkeypatch.setattr(Growing, "extend", extend)
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    for first in range(0, 2000, 500):
        session.statics([((A, 0x7777, B)[row % 3], 2 + row // 2, 0, "") for row in range(first, first + 500)])
    session.nodes([(A, 24, 1, 0), (B, 24, 1, 0)])
    session.edges([])
    session.stop()
    heap = heap_of(session.data())
    assert len(added) < 40
    variables = heap.references(heap.root + 1)
    assert [heap.type_of(node) for node in variables[:2]] == ["[static var Type(0x2).]", "[static var Type(0x3).]"]
    assert [heap.references(node).tolist() for node in variables[:3]] == [[0, 2], [1, 0], [2, 1]]
    assert len(variables) == 1000


def test_paths_name_the_keys_of_dependent_handles() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.Key"), (2, "App.Value"), (3, "App.Part"), (4, "App.Other")])
    values, parts = [A + 0x400, A + 0x420, A + 0x440], [A + 0x500, A + 0x520, A + 0x540]
    session.roots([(A, 2, 0, 9), (values[2], 2, 0, 9)])
    session.dependent([(A, values[0]), (B, values[1]), (C, values[2]), (0x7777, values[2])])
    kinds = {A: 1, B: 1, C: 4, **dict.fromkeys(values, 2), **dict.fromkeys(parts, 3)}
    session.nodes([(address, 24, kind, int(address in values)) for address, kind in kinds.items()])
    session.edges(parts)
    session.stop()
    heap = heap_of(session.data())
    over = ["[.NET Roots]", "[other roots]", "[Dependent Handles]", "[key App.Key]", "App.Value"]
    (dependent, handle, other) = heap.paths_to_root("App.Value").to_pylist()
    assert (dependent["count"], dependent["path"]) == (2, over)
    assert (handle["count"], handle["path"][2:]) == (1, ["[strong Handles]", "App.Value"])
    assert (other["is_shortest"], other["path"][2:]) == (False, ["[Dependent Handles]", "[key App.Other]", "App.Value"])
    assert heap.paths_to_root("App.Part", 1).values("path") == [[*over, "App.Part"]]
    from_file = read_gcdump(written(heap))  # which tells no keys
    assert "[key App.Key]" not in str(from_file.paths_to_root("App.Value").to_pylist())


def test_com_objects_are_nodes_of_their_own() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.ccws([(A, 1, 0x7000), (B, 1, 0)])
    session.rcws([(B, 0x9000)])
    session.nodes([(A, 24, 1, 1), (B, 24, 1, 1), (C, 24, 1, 0)])
    session.edges([B, C])
    session.stop()
    heap = heap_of(session.data())
    assert children(heap, "[CCW 0x7000 for type App.A]") == ["App.A"]
    assert children(heap, "[COM/WinRT Objects]") == ["[CCW 0x7000 for type App.A]"]
    assert heap.references(1).tolist() == [2, 3]
    assert (heap.node_address[3], heap.node_size[1]) == (0x9000, 1024)
    assert heap.references(0).tolist() == [1]


def test_ranges_after_the_first_object_tell_generations() -> None:
    session = Session()
    session.start()
    session.range(0, 0, 1 << 40)  # before the collection
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 0), (B, 24, 1, 0), (C, 24, 1, 0)])
    session.edges([])
    session.range(2, A, 0x10)
    session.range(4, B, 0x10)
    session.stop()
    heap = heap_of(session.data())
    assert heap.node_generation[:3].tolist() == [2, 4, -1]
    assert heap.facts.segments == (Segment.of(2, A, A + 0x10), Segment.of(4, B, B + 0x10))


@pytest.mark.parametrize("size", [1 << 47, 1 << 63, (1 << 64) - 1])
def test_a_size_that_cannot_be_is_a_problem_and_wraps_no_sum(size: int) -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.roots([(A, 0, 0, 1)])
    session.nodes([(A, size, 1, 0), (B, 24, 1, 0), (C, 1 << 40, 1, 0)])
    session.edges([])
    session.stop()
    session.module(0xA0, "/app/app.dll")
    heap = heap_of(session.data())
    assert heap.completeness.problems == (
        "1 objects have sizes that cannot be: they are taken for 0 bytes",
        "objects have 1,099,511,627,800 bytes, and all generations 45 by the collector's own account",
    )
    assert (heap.bytes, int(heap.retained.max())) == (24 + (1 << 40), 1 << 40)
    assert set(heap.advice.values("kind")) == {"unreached"}


@pytest.mark.parametrize(("size", "is_whole"), [(1 << 20, True), (50 << 20, True), (70 << 20, False), (1 << 46, False)])
def test_objects_of_more_bytes_than_the_collector_has_are_a_problem(size: int, is_whole: bool) -> None:
    """All but what may lie outside of its generations, as texts do."""
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.nodes([(A, size, 1, 0)])
    session.edges([])
    session.stop()
    assert heap_of(session.data()).completeness.complete == is_whole


def test_sizes_whose_sum_cannot_be_are_a_problem() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    for block in range(64):
        session.nodes([(A + 0x20 * (2000 * block + row), (1 << 47) - 1, 1, 0) for row in range(2000)])
    session.edges([])
    session.stop()
    heap = heap_of(session.data())
    assert any("sizes that cannot be" in problem for problem in heap.completeness.problems)
    assert 0 < heap.bytes < 1 << 62
    assert heap.types.values("bytes")[0] == heap.bytes


def with_an_interface() -> Heap:
    """Of an object that wraps one of COM, which is at 0x9000, in native memory."""
    session = Session()
    session.start()
    session.types([(1, "App.A"), (2, "App.Rcw")])
    session.rcws([(B, 0x9000)])
    session.roots([(A, 2, 1, 0x55)])
    session.nodes([(A, 24, 1, 1), (B, 32, 2, 0)])
    session.edges([B])
    session.stop()
    session.module(0xA0, "/app/app.dll")
    return heap_of(session.data())


def test_an_interface_of_com_is_no_object_that_was_lost() -> None:
    heap = with_an_interface()
    again = read_gcdump(written(heap))
    assert heap.completeness.problems == again.completeness.problems == ()
    assert (again.nodes, again.bytes, again.edges) == (heap.nodes, heap.bytes, heap.edges)


def test_an_interface_that_a_file_tells_of_is_none_either() -> None:
    """As the reference writes them: with its address, and beside the graph."""
    heap = with_an_interface()
    rcws = np.zeros(1, RCW)
    rcws["unknown"] = 0x9000
    interop = Interop(rcws=rcws, ccws=np.zeros(0, CCW), interfaces=np.zeros(0, INTERFACE), modules=())
    lacking = Completeness(problems=(f"1 {NOT_TOLD}",))
    told = (replace(heap, completeness=lacking, facts=replace(heap.facts, interop=one)) for one in (None, interop))
    plain, with_interop = (read_gcdump(written(one)).completeness.problems for one in told)
    assert plain == (f"1 {NOT_TOLD}", f"1 {NOT_DESCRIBED}")
    assert with_interop == (f"1 {NOT_TOLD}",)


def test_a_wrapper_adds_to_a_size_of_32_bits() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.rcws([(A, 0x9000)])
    session.nodes([(A, (1 << 32) - 1, 1, 0)])
    session.edges([])
    session.stop()
    assert heap_of(session.data()).node_size[0] == (1 << 32) + 999


def test_a_range_beyond_all_addresses_ends_there() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.nodes([((1 << 64) - 64, 24, 1, 0)])
    session.edges([])
    session.range(2, (1 << 64) - 128, (1 << 64) - 1)
    session.stop()
    assert heap_of(session.data()).node_generation[0] == 2


def test_a_size_beyond_32_bits_is_kept() -> None:
    session = Session()
    session.start()
    session.types([(1, "System.Int64[]")])
    session.nodes([(A, 4_800_000_024, 1, 0)])
    session.edges([])
    session.stop()
    heap = heap_of(session.data())
    assert (heap.bytes, heap.node_size.dtype) == (4_800_000_024, np.uint64)


# what is missing ------------------------------------------------------------------------------------------------------


def lacking(session: Session, **about: Any) -> Heap:
    session.start()
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 1)], index=about.get("first_nodes"))
    session.edges([B], index=about.get("first_edges"))
    session.nodes([(B, 24, 1, 1)], index=about.get("nodes"))
    session.edges([C], index=about.get("edges"))
    session.nodes([(C, 24, 1, 0)])
    if about.get("stop", True):
        session.stop()
    else:
        session.roots([])
    session.module(0xA0, "/app/app.dll")
    return heap_of(session.data())


def test_a_lost_block_of_objects_is_told_and_what_follows_has_no_references() -> None:
    heap = lacking(Session(), nodes=3)
    assert "GC/BulkNode: block 1 was expected, 3 came" in heap.completeness.problems
    assert "2 objects are without their references, which were not certain" not in heap.completeness.problems
    assert heap.references(0).tolist() == [1]
    assert heap.references(1).tolist() == []


def test_a_lost_block_of_references_is_told_and_what_follows_has_none() -> None:
    heap = lacking(Session(), edges=2)
    assert "GC/BulkEdge: block 1 was expected, 2 came" in heap.completeness.problems
    assert heap.references(0).tolist() == [1]
    assert heap.references(1).tolist() == []


def test_a_walk_without_an_end_or_a_begin_says_so() -> None:
    assert lacking(Session(), stop=False).completeness.problems == ("the end of the collection was not seen",)
    session = Session()
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 0)])
    session.edges([])
    session.roots([])
    assert heap_of(session.data()).completeness.problems == (
        "the begin of the collection was not seen",
        "the end of the collection was not seen",
    )


def test_without_events_of_roots_nothing_is_known_of_what_holds_the_objects() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 0)])
    session.edges([])
    session.stop(has_roots=False)
    heap = heap_of(session.data())
    assert heap.completeness.problems == (
        "no GC/BulkRootEdge and no GC/BulkRootStaticVar came: what holds the objects is not known",
    )


def test_statics_alone_do_not_hold_a_heap() -> None:
    """Each process has handles; no gap tells of events that all are of a type which the file calls otherwise."""
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 0)])
    session.edges([])
    session.statics([(A, 1, 0, "s_a")])
    session.stop(has_roots=False)
    (problem,) = heap_of(session.data()).completeness.problems
    assert problem == "no GC/BulkRootEdge came: which stacks and handles hold objects is not known"


def test_lost_events_are_told() -> None:
    session = usual(Session())
    session.lose(3)
    usual(session, count=2)
    assert all("3 events were lost" in heap.completeness.problems for heap in heaps_of(session.data()))


def test_counts_that_do_not_fit_are_told() -> None:
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    session.nodes([(A, 24, 1, 2), (B, 24, 2, 1 << 60), (A, 24, 1, 0)])
    session.edges([B, 0x5000, C])
    session.roots([(0x6000, 0, 0, 0), (0, 0, 0, 0), (0x7000, 2, 2, 0)])
    session.stop()
    heap = heap_of(session.data())
    assert heap.completeness.problems == (
        f"objects have {2 + (1 << 32):,} references by their own account, 3 came",
        "1 objects are without their references, which were not certain",
        "1 addresses are told of more than once",
        "3 addresses are referred to and were not told of",
        "1 types have no name",
    )
    assert heap.type_of(1) == "UNKNOWN 0x2"
    assert sorted(heap.node_address[3:6].tolist()) == [0, 0x5000, 0x6000]
    assert heap.references(0).tolist() == [1, 4]


def test_a_block_that_is_shorter_than_it_says_is_told() -> None:
    session = usual(Session())
    session.start(2)
    session.nodes([(A, 24, 1, 0)])
    session.block(NODES, [], count=1 << 30)
    session.event(NODES, b"\1")
    session.event(15, struct.pack("<I", 1 << 31))
    session.stop(2)
    heap = heaps_of(session.data())[1]
    assert "3 events were shorter than they say" in heap.completeness.problems or (
        "2 events were shorter than they say" in heap.completeness.problems
    )


def row_of_edge(target: int) -> bytes:
    return struct.pack("<QI", target, 0)


def test_events_with_more_rows_than_they_say_are_told() -> None:
    """Of numbered blocks, one of which a compiled loop would take, and of lists of rows."""
    session = usual(Session())
    session.start(2)
    session.nodes([(A, 24, 1, 0)])
    session.block(EDGES, [row_of_edge(A)] * 3, count=2)
    session.block(ROOTS, [struct.pack("<QBIQ", A, 1, 0, 0)] * 2, count=1)
    session.event(
        STATICS, struct.pack("<IQ", 0, 1) + struct.pack("<H", 0) + struct.pack("<QQQI", 1, A, 1, 0) + z16("f")
    )
    session.stop(2)
    whole, lying = heaps_of(session.data())
    assert whole.completeness.complete
    assert "3 events have more bytes than they say: rows of them are missing" in lying.completeness.problems


def test_every_cut_of_a_recording_is_a_part_that_says_so() -> None:
    data = usual(Session()).data()
    whole = heap_of(data)
    for size in range(0, len(data), 7):
        try:
            heaps = heaps_of(data[:size])
        except ValueError:
            continue
        for heap in heaps:
            assert heap.nodes <= whole.nodes + 2
            assert len(heap.edge_start) == heap.nodes + 1


# columns --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [999, 1 << 18])
@pytest.mark.parametrize("order", ["ascending", "runs", "random", "overlapping", "regions", "far apart"])
def test_addresses_are_found_in_any_order(order: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_CHUNK", chunk)
    chance = np.random.default_rng(5)
    address = np.unique(chance.integers(1, 1 << 40, 20_000, dtype=np.uint64))
    if order == "runs":
        address = np.concatenate(np.array_split(address, 40)[::-1])
    elif order == "random":
        chance.shuffle(address)
    elif order == "overlapping":
        address = np.concatenate([address[::2], address[1::2]])
    elif order == "regions":
        young = (address >> np.uint64(32)) % np.uint64(2) == 0
        address = np.concatenate([address[young], address[~young]])
    elif order == "far apart":
        address = np.concatenate([address, address[:100] + np.uint64(1 << 62)])
    with ThreadPoolExecutor(1) as pool:
        index = AddressIndex(address, partial(in_order, executor=pool))
    assert index.duplicates == 0
    rows = chance.integers(0, len(address), 5_000)
    assert np.array_equal(index.find(address[rows]), rows.astype(np.uint32))
    missing = np.array([0, (1 << 64) - 1, *(address[:50] + np.uint64(1)).tolist()], np.uint64)
    missing = missing[~np.isin(missing, address)]
    assert (index.find(missing) == kernels.NONE).all()


@pytest.mark.parametrize("gap", [1 << 12, 1 << 63])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
def test_runs_end_where_addresses_do_not_ascend_or_much_is_left_out(
    gap: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels.KERNELS is None:  # addresses are sorted
        return
    monkeypatch.setattr(kernels, "_CHUNK", chunk)
    chance = np.random.default_rng(3)
    steps = chance.choice([8, 24, 4095, 4096, 4097, -16, 0], 500)
    address = np.uint64(1 << 40) + np.cumsum(steps).astype(np.uint64)
    numbers = address.tolist()
    expected = [row for row, (low, high) in enumerate(pairwise(numbers), 1) if not low < high <= low + gap]
    found = kernels._breaks(address, gap, by_oneself)
    assert found is not None
    assert found.tolist() == expected
    monkeypatch.setattr(kernels, "_RUN_ROWS", 1 << 20)
    many = np.arange(5000, 0, -1).astype(np.uint64)
    assert kernels._breaks(many, gap, by_oneself) is None


def test_codes_are_replaced_by_what_a_table_has() -> None:
    codes, table = np.array([2, 0, 1, 1], np.uint32), np.array([7, 8, 9], np.uint32)
    kernels.recode(codes, table)
    assert codes.tolist() == [9, 7, 8, 8]


def test_no_address_is_found_where_there_is_none() -> None:
    assert AddressIndex(np.zeros(0, np.uint64)).find(np.array([1, 2], np.uint64)).tolist() == [kernels.NONE] * 2


def test_ids_are_numbered_in_the_order_of_their_first_sight() -> None:
    chance = np.random.default_rng(7)
    interner, known = Interner(), dict[int, int]()
    for _ in range(20):
        values = chance.integers(0, 5000, 3000, dtype=np.uint64)
        expected = [known.setdefault(value, len(known)) for value in values.tolist()]
        assert interner.codes(values).tolist() == expected
    assert interner.values == list(known)


@pytest.mark.parametrize("pointer_size", [4, 8])
def test_rows_become_columns_whatever_their_numbers_are(pointer_size: int) -> None:
    """More types than the table of types begins with; then a size, and a count, that need more than 32 bits."""
    chance = np.random.default_rng(5)
    rows = np.zeros(6000, layout(NODES, pointer_size))
    rows["address"] = np.arange(6000) * 24 + 0x1000
    rows["size"], rows["type"] = chance.integers(24, 1 << 32, 6000), chance.integers(0, 3000, 6000)
    rows["edges"] = chance.integers(0, 5, 6000)
    rows["size"][4000], rows["edges"][5000] = 1 << 33, 1 << 32
    walk = Walk(pointer_size)
    for number, first in enumerate(range(0, 6000, 2008)):
        walk.take(NODES, number, rows[first : first + 2008])
    known: dict[int, int] = {}
    assert walk.address.rows.tolist() == rows["address"].tolist()
    assert walk.size.rows.tolist() == rows["size"].tolist()
    assert walk.edge_start.rows.tolist() == [0, *np.cumsum(rows["edges"]).tolist()]
    assert walk.type_code.rows.tolist() == [known.setdefault(kind, len(known)) for kind in rows["type"].tolist()]
    assert walk.types.values == list(known)


@pytest.mark.parametrize("pointer_size", [4, 8])
def test_targets_of_references_are_addresses(pointer_size: int) -> None:
    rows = np.zeros(100, layout(EDGES, pointer_size))
    rows["target"] = np.random.default_rng(6).integers(0, 1 << (8 * pointer_size - 1), 100)
    walk = Walk(pointer_size)
    for number in range(3):
        walk.take(EDGES, number, rows)
    assert walk.edges == 300
    assert walk.target.rows.view(np.uint64).tolist() == rows["target"].tolist() * 3


def test_an_address_has_the_value_between_its_bounds() -> None:
    chance = np.random.default_rng(8)
    bounds = np.unique(chance.integers(0, 1 << 63, 50, dtype=np.uint64))
    values = chance.integers(-1, 5, len(bounds) + 1).astype(np.int8)
    address = np.concatenate([bounds, bounds - np.uint64(1), chance.integers(0, 1 << 63, 1000, dtype=np.uint64), [0]])
    address = address.astype(np.uint64)
    expected = values[np.searchsorted(bounds, address, side="right")]
    assert kernels.steps(address, bounds, values).tolist() == expected.tolist()


def test_sums_of_groups_are_exact() -> None:
    which = np.array([2, 0, 2, 2], np.uint32)
    for sizes in (np.array([1, 2, 3, (1 << 32) - 1], np.uint32), np.array([1, 2, 3, (1 << 60) + 1], np.uint64)):
        count, size = kernels.sums(which, sizes, 3)
        assert count.tolist() == [1, 0, 3]
        assert size.tolist() == [2, 0, 4 + int(sizes[3])]


def test_a_column_grows_and_becomes_wider_when_it_must() -> None:
    column, expected = Growing(np.uint32), list[int]()
    for number in range(50):
        column.extend(np.arange(number * 100, dtype=np.uint64))
        expected += range(number * 100)
    column.append(1 << 40)
    assert column.rows.tolist() == [*expected, 1 << 40]
    assert column.rows.dtype == np.uint64
    column.cut(10)
    assert column.taken().tolist() == expected[:10]
    assert len(column) == 0


# what is done early ---------------------------------------------------------------------------------------------------


def prepared(data: bytes) -> tuple[Heap, ...]:
    """The heaps of a recording, with all done early that can be."""
    fold, trace = HeapFold(), Trace(data, name="recording")
    for window in trace.windows(fold.wants):
        fold.feed(window)
        fold.prepare()
        fold.prepare()
    edges = fold.edges
    heaps = fold.result()
    assert edges <= sum(heap.edges for heap in heaps)
    return heaps


def equal(one: Heap, other: Heap) -> bool:
    names = ("node_type", "node_size", "node_address", "node_generation", "edge_start", "edge_target")
    return (
        all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
        and one.type_name.to_pylist() == other.type_name.to_pylist()
        and one.roots.to_pylist() == other.roots.to_pylist()
        and one.completeness == other.completeness
    )


@pytest.mark.parametrize("chunk", [1, 100, 1 << 17])
def test_what_two_threads_do_is_what_one_does(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = usual(Session()).data() if chunk == 1 else data_of("heap-10.nettrace")
    monkeypatch.setattr(walk, "_CHUNK", chunk)
    (expected,) = heaps_of(data)
    shares = list[int]()

    def shared(works: Iterable[int], act: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
        for work, made in in_order(works, act, pool):
            shares.append(work)
            yield work, made

    fold, trace = HeapFold(), Trace(data, name="recording")
    with ThreadPoolExecutor(1) as pool:
        for window in trace.windows(fold.wants):
            fold.feed(window)
        assert not fold.is_resolved
        fold.prepare(shared)
    assert fold.is_resolved
    own = [*range(0, fold.edges, chunk)]
    assert shares[-len(own) :] == own
    assert (len(shares) > len(own)) == (kernels.KERNELS is not None)  # what finds addresses is made by both, too
    (heap,) = fold.result()
    assert equal(heap, expected)


def test_without_a_walk_nothing_is_resolved() -> None:
    fold = HeapFold()
    fold.prepare()
    assert not fold.is_resolved


def test_what_another_session_tells_beside_says_nothing_of_what_was_lost() -> None:
    """Its events count, its losses do not."""
    data = usual(Session()).data()
    (window,) = Trace(data).windows(HeapFold().wants)
    (other,) = Trace(data_of("heap-10.nettrace")).windows(lambda schema: schema.name == "Loader/ModuleDCStop")
    fold = HeapFold()
    fold.feed(window)
    fold.feed(other, is_beside=True)
    assert fold._context is window.trace
    assert sum(len(one.modules) for one in fold._processes.values()) > 5


@pytest.mark.parametrize("name", ["heap-10.nettrace", None])
def test_what_is_done_early_changes_nothing(name: str | None) -> None:
    data = usual(Session()).data() if name is None else data_of(name)
    expected = heaps_of(data)
    assert expected
    for one, other in zip(prepared(data), expected, strict=True):
        assert equal(one, other)


def test_what_comes_behind_a_walk_that_is_resolved_is_another() -> None:
    session = usual(Session())
    for _ in range(40_000):  # so many that the window ends
        session.module(0xA1, "/app/other.dll")
    session.nodes([(0x9000, 24, 1, 1)])
    session.edges([0x9000])
    first, second = prepared(session.data())
    assert equal(first, heap_of(usual(Session()).data()))
    assert (second.edges > 0, second.completeness.complete) == (True, False)


def test_blocks_are_taken_as_one_by_one() -> None:
    """By the compiled loop up to what it leaves, and by hand from there: gaps, blocks that lie, numbers of more than 32 bits, many types."""
    chance = random.Random(11)
    for _ in range(60):
        session, address = Session(pointer_size=chance.choice((4, 8))), 0x1000
        session.start(1)
        for _ in range(chance.randrange(1, 60)):
            kind = chance.random()
            index = None if kind < 0.9 else chance.randrange(50)
            if chance.random() < 0.5:
                rows = []
                for _ in range(chance.choice((0, 1, 7, 7, 7, 40))):
                    size = chance.choice((24, 24, 1 << 33)) if chance.random() < 0.02 else 24
                    rows.append((address, size, chance.randrange(1, 3_000), chance.choice((0, 1, 2))))
                    address += 24
                session.nodes(rows, index=index)
            elif chance.random() < 0.9:
                session.edges(
                    [chance.randrange(0x1000, 0x1000 + 24 * 500, 24) for _ in range(chance.choice((0, 5, 5, 9)))],
                    index=index,
                )
            else:
                session.block(chance.choice((NODES, EDGES)), [], count=chance.choice((0, 1, 1 << 30)))
        session.stop(1)
        data = session.data()
        made = heaps_of(data)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Walk, "take_blocks", lambda self, window, done, most: done)
            for one, other in zip(made, heaps_of(data), strict=True):
                assert equal(one, other)
