"""The totals by type of a file, read without columns, are those of its heap, or there are none."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.heap.made import gcdump, heap_from, made
from tests.heap.test_gcdump import fixture, written

from dotnetdiag.errors import FormatError
from dotnetdiag.heap import Heap, kernels, read_gcdump, type_totals
from dotnetdiag.heap.type_totals import TypeTotals
from dotnetdiag.recipes.heap_files import read_totals
from dotnetdiag.recipes.heap_reports import report, type_rows

GRAPHS, DAMAGES = 400, 1500


@pytest.fixture(autouse=True)
def compiled() -> None:
    if type_totals.KERNELS is None:
        pytest.skip("nothing is compiled")


def totals_of(data: bytes) -> TypeTotals | None:
    search = type_totals.of_file(memoryview(data))
    if search is None:
        return None
    search.search()
    search.prepare()
    return search.totals()


def same(totals: TypeTotals, heap: Heap) -> bool:
    """Whether all reports of both are equal."""
    return totals.has_roots == heap.has_roots and all(
        report(totals, by) == {**report(heap, by), "types": type_rows(heap, by)}
        for by in ("bytes", "count", "retained")
    )


def some_heap(chance: random.Random) -> Heap:
    """A random one: lists, shared objects, circles, objects that nothing reaches."""
    nodes = chance.randrange(2, 40)
    types = [f"T{chance.randrange(1 + chance.randrange(8))}" for _ in range(nodes)]
    edges = [(chance.randrange(nodes), chance.randrange(nodes)) for _ in range(chance.randrange(3 * nodes))]
    if chance.random() < 0.5:
        edges += [(node, node + 1) for node in range(nodes - 1)]
    sizes = [chance.choice((0, 24, 24, 24, 5_000, 1 << 20)) for _ in range(nodes)]
    return heap_from(types, edges, sizes=sizes, root=chance.randrange(nodes))


def test_random_graphs_have_the_totals_of_their_heaps() -> None:
    chance = random.Random(7)
    for _ in range(GRAPHS):
        heap = some_heap(chance)
        data = written(heap)
        totals = totals_of(data)
        assert (totals is not None) is heap.has_roots  # what is odd is told by the other way
        assert totals is None or same(totals, read_gcdump(data))


def test_a_long_list_with_shared_objects_has_the_totals_of_its_heap() -> None:
    count = 20_000
    edges = [(node, node + 1) for node in range(count - 1)]
    edges += [(node, node // 2) for node in range(0, count, 3)] + [(node, count) for node in range(count)]
    edges += [(node, count + 1 + node % 7) for node in range(0, count, 2)]
    data = written(heap_from([*(["List"] * count), "Shared", *(f"Leaf{n}" for n in range(7))], edges))
    totals = totals_of(data)
    assert totals is not None
    assert same(totals, read_gcdump(data))


@pytest.mark.parametrize("name", ["heap-10.gcdump", "test2.gcdump.xz"])
def test_real_files_have_the_totals_of_their_heaps(name: str) -> None:
    data = fixture(name)
    totals = totals_of(data)
    assert totals is not None
    assert same(totals, read_gcdump(data))


def test_what_is_damaged_has_the_totals_of_its_heap_or_none() -> None:
    chance = random.Random(8)
    whole = [written(some_heap(chance)) for _ in range(20)] + [gcdump(), gcdump(width=8), gcdump(deferred=True)]
    found = 0
    for _ in range(DAMAGES):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(32, len(data))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        totals = totals_of(bytes(data))
        if totals is not None:
            found += 1
            assert same(totals, read_gcdump(bytes(data)))
    assert found > DAMAGES // 10


@pytest.mark.parametrize(
    "blob",
    [
        b"\0\0" + b"\x02\x02\x01\x02" + b"\x04\x01\x01" + b"\x06\x7f",  # more references than bytes are left
        b"\0\0" + b"\x02\x02\x01\x02" + b"\x04\x01\x04" + b"\x06\x00",  # a reference that leads nowhere
        b"\0\0" + b"\x0a\x02\x01\x02" + b"\x04\x01\x01" + b"\x06\x00",  # a type that is none
        b"\0\0" + b"\x02\x02\x01\x02" + b"\x01\x01\x01" + b"\x06\x00",  # no type, and a record
    ],
)
def test_of_records_that_cannot_be_there_are_no_totals(blob: bytes) -> None:
    assert totals_of(gcdump(blob=blob)) is None


def test_many_nodes_of_one_record_end_soon() -> None:
    """Each would have all references of the record: more than the file has bytes."""
    record = b"\x02" + b"\x80\xff\x00" + b"\x00" * (0x3F80)
    assert totals_of(gcdump(blob=b"\0\0" + record, offsets=[2] * 3_000)) is None


def test_of_a_file_that_is_cut_off_are_no_totals() -> None:
    data = written(made())
    for size in (len(data) - 1, len(data) // 2, 30, 0):
        assert totals_of(data[:size]) is None
    with pytest.raises(FormatError):
        read_gcdump(data[:30])


def test_a_sum_that_is_not_that_of_all_sizes_is_odd() -> None:
    data, places = gcdump(places=True)
    wrong = bytearray(data)
    struct.pack_into("<q", wrong, places["root"] - 8, 25)
    assert totals_of(data) is not None
    assert totals_of(bytes(wrong)) is None


def test_too_many_sets_of_types_are_left_to_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_totals, "_MOST_SETS", 1 << 3)
    nodes = 40
    data = written(heap_from([f"T{node}" for node in range(nodes)], [(node, node + 1) for node in range(nodes - 1)]))
    assert totals_of(data) is None


def test_a_file_has_totals_with_kernels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gcdump"
    path.write_bytes(written(made()))
    totals = read_totals(path)
    assert totals is not None
    assert same(totals, read_gcdump(path.read_bytes()))
    monkeypatch.setattr(type_totals, "KERNELS", None)
    assert read_totals(path) is None
    monkeypatch.setattr(kernels, "KERNELS", None)
    assert same(totals, read_gcdump(path.read_bytes()))


def test_what_is_no_heap_has_no_totals(tmp_path: Path) -> None:
    path = tmp_path / "x.gcdump"
    path.write_bytes(b"Nettrace" + bytes(100))
    assert read_totals(path) is None


def test_another_name_of_what_is_not_described_goes_the_other_way() -> None:
    data = fixture("heap-10.gcdump")
    assert type_totals.of_file(memoryview(data)) is not None
    assert type_totals.of_file(memoryview(data.replace(b"UNDEFINED", b"UNDEFINET"))) is None
