"""Files of heaps whose bytes are not as a writer would have them: what they say, and what they do not."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from tests.heap.gcdump_bytes import BEGIN, BLOB, END, NULL, REFERENCE, ROOTS, file_of, kind, number, text
from tests.heap.test_gcdump import fixture, written
from tests.heap.test_type_totals import totals_of

import dotnetdiag.heap as dh
from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import FormatError
from dotnetdiag.heap.gcdump_reader import NO_ROOTS, read_gcdump

PLAIN = [("UNDEFINED", 0), ROOTS, ("X", 24), ("X (Bytes > 1K)", 40), ("Y", 40), ("X (Bytes > 10K)", 50)]


def test_multipliers_are_those_of_the_types_in_memory_and_in_what_is_written_again() -> None:
    nodes = [(1, None, [1, 2, 3, 4]), (2, None, []), (3, None, []), (4, None, []), (3, None, [])]
    heap = read_gcdump(file_of(PLAIN, nodes, multipliers=[1, 1, 2, 5, 7, 9]))
    names = heap.type_name.to_pylist()
    told = dict(zip(names, heap.facts.multipliers, strict=True))
    assert told == {
        "UNDEFINED": 1,
        "[.NET Roots]": 1,
        "X": 4,
        "Y": 7,
    }  # one of 2 and two of 5; of what is not there nothing
    again = read_gcdump(written(heap))
    assert dict(zip(again.type_name.to_pylist(), again.facts.multipliers, strict=True)) == told
    large = replace(
        heap, node_size=np.array([0, 2_000, 24, 40, 24], np.uint32), facts=replace(heap.facts, has_sizes_in_names=True)
    )
    again = read_gcdump(written(large))
    assert dict(zip(again.type_name.to_pylist(), again.facts.multipliers, strict=True)) == told
    assert heap.facts.sample is not None
    assert "by type up to 7" in heap.facts.sample


def test_multipliers_of_another_number_of_types_are_no_ones() -> None:
    heap = read_gcdump(file_of(PLAIN, [(1, None, [1]), (2, None, [])], multipliers=[1, 2]))
    assert (heap.facts.multipliers, heap.completeness.problems) == ((), ("there are 2 multipliers, of 6 types",))


def test_interfaces_of_com_objects_have_their_types_also_in_what_is_written_again() -> None:
    """PerfView's own file: names are those that lie in it."""
    data = fixture("test2.gcdump.xz")
    from dotnetdiag.heap.gcdump_parts import read_parts

    graph, facts, _ = read_parts(memoryview(data))
    assert facts.interop is not None
    own = [graph.names[number] for number in facts.interop.interfaces["type"].tolist()]
    assert len(set(own)) > 10
    heap = read_gcdump(data)
    for one in (heap, read_gcdump(written(heap))):
        interop = one.facts.interop
        assert interop is not None
        assert [one.type_name.item(number) for number in interop.interfaces["type"].tolist()] == own
    interop = heap.facts.interop
    assert interop is not None
    wrong = interop.interfaces.copy()
    wrong["type"][:2] = -1, 1 << 30
    lying = read_gcdump(written(replace(heap, facts=replace(heap.facts, interop=replace(interop, interfaces=wrong)))))
    assert "2 interfaces of COM objects are of no type" in lying.completeness.problems


def test_a_file_without_roots_says_so_in_every_face() -> None:
    data = file_of(PLAIN, [(1, None, []), (2, None, [2]), (4, None, [])])
    assert totals_of(data) is None  # the quick way leaves it to the other
    heap = read_gcdump(data)
    assert heap.completeness.problems == (NO_ROOTS,)
    assert heap.types.values("retained_bytes") == [None, None, None]
    assert heap.by_module.values("retained_bytes") == [None]
    assert len(heap.by_retained) == 2
    assert read_gcdump(written(heap)).completeness.problems == (NO_ROOTS,)


def test_a_size_of_what_nothing_is_known_of_is_in_the_sum() -> None:
    data = file_of(PLAIN, [(1, None, [1, 2]), (0, 40, []), (2, None, [])])
    heap = read_gcdump(data)
    assert ("UNDEFINED", 1, 40) in zip(*(heap.types.values(name) for name in ("type", "count", "bytes")), strict=True)
    assert sum(heap.types.values("bytes")) == heap.bytes == 64
    totals = totals_of(data)
    assert totals is None or [row["type"] for row in totals.rows] == heap.types.values("type")


@pytest.mark.parametrize("cut", [1, 2])
def test_records_with_bytes_that_belong_to_none_are_told(cut: int) -> None:
    nodes = [(1, None, [1, 2, 3]), (2, None, []), (2, None, []), (4, None, [])]
    data = bytearray(file_of(PLAIN, nodes))
    at = data.index(bytes([2, 3, 1, 2, 3]))  # the type, so many children, how far away they are
    data[at + 1] -= cut
    heap = read_gcdump(bytes(data))
    assert f"{cut} bytes of records belong to no node: references of others are missing" in heap.completeness.problems
    assert totals_of(bytes(data)) is None
    assert dh.read_gcdump(file_of(PLAIN, nodes)).completeness.complete


def test_references_into_a_chain_of_blobs_take_no_longer_than_the_file() -> None:
    references, blobs = 1_000, 200_000

    def heap_info(at: int) -> bytes:
        head = BEGIN + kind("DotNetHeapInfo") + number(0, 8) + number(references)
        chain_at = at + len(head) + 5 * references + 5
        chain = (BLOB + number(0)) * blobs + NULL
        return head + (REFERENCE + number(chain_at)) * references + BLOB + number(len(chain)) + chain + END

    began = time.process_time()
    with pytest.raises(FormatError, match="lie in each other"):
        read_gcdump(file_of(PLAIN, [(1, None, [1]), (2, None, [])], heap_info=heap_info))
    assert time.process_time() - began < 60  # it was hours


def test_modules_that_lie_in_each_other_take_no_more_memory_than_the_file() -> None:
    modules, size = 1_000, 200_000
    names = [(None, 24)] * modules

    def deferred(out: bytearray, places: list[int]) -> None:
        place = len(places)
        places.append(0)
        out += number(place) + number(2 + modules) + (number(0) + NULL + number(-1)) * 2
        known = kind("Graphs.Module")
        first = next(at for at in range(len(out) + 13 * modules + 1, 1 << 30) if number(at).isascii())
        heads = bytearray(b"A" * (64 * modules))
        heads_at = first + len(known)
        end = heads_at + len(heads) + size
        free = iter(range(len(heads) - 16))
        begins = list[int]()
        while len(begins) < modules:  # the paths of all end in one place, and are ASCII
            at = next(free)
            if number(end - heads_at - at - 10).isascii():
                heads[at : at + 10] = BEGIN + REFERENCE + number(first) + number(end - heads_at - at - 10)
                begins.append(heads_at + at)
                for _ in range(10):
                    next(free)
        for at in begins:
            out += number(0) + REFERENCE + number(at) + number(-1)
        out += END
        out += b"A" * (first - len(out)) + known + heads + b"A" * size
        assert len(out) == end
        out += number(0, 8) + number(0, 12) + text(None) + number(0, 20) + END
        places[place] = len(out)

    data = file_of([("UNDEFINED", 0), ROOTS, *names], [(1, None, [1]), (2, None, [])], deferred=deferred)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="lie in each other"):
            read_gcdump(data)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data)
    finally:
        tracemalloc.stop()
