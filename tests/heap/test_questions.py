"""What fills a heap, who holds it, what grew: on heaps made by hand whose answers are plain, and on a recording."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
from tests.heap.help import heap_of
from tests.heap.made import advice, heap_from, made, with_pseudo_nodes
from tests.heap.test_gcdump import written
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import MissingDependency, UnknownName, UsageError
from dotnetdiag.events.columns import Text
from dotnetdiag.heap import Completeness, Heap, kernels, read_gcdump
from dotnetdiag.heap.difference import Growth, growing_types, no_growing_types, numbers_by_type
from dotnetdiag.heap.graph import Graph
from dotnetdiag.heap.holders import DIAGNOSTICS, THREAD_STATICS
from dotnetdiag.heap.paths import find_nodes, meant_types

RECORDING = "heap-10.nettrace"
ROOTS, STATICS, VARIABLE = "[.NET Roots]", "[static vars]", "[static var List.cache]"
LOCALS, ARRAY = "[local vars]", "System.Object[]"
HANDLES = "[strong Handles]"
KINDS = ("collection", "event", "timer")


pytestmark = pytest.mark.usefixtures("form")


def a_cache(items: int, *, size: int = 100) -> Heap:
    """A static variable that holds a list of so many items, whose place is in an array of the runtime's, which a handle holds."""
    types = [ROOTS, STATICS, VARIABLE, ARRAY, "List", *["Item"] * items, HANDLES]
    edges = [(0, 1), (1, 2), (2, 4), (0, 5 + items), (5 + items, 3), (3, 4), *((4, 5 + item) for item in range(items))]
    return with_pseudo_nodes(heap_from(types, edges, sizes=[0, 0, 0, 8184, 32, *[size] * items, 0]))


def rows(heap: Heap, **about: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in heap.tree(**about)]


# types ----------------------------------------------------------------------------------------------------------------


def test_types_have_count_bytes_and_what_they_keep_alive() -> None:
    assert [tuple(row.values()) for row in made().types] == [
        ("A", "app.dll", 2, 60, 60),
        ("C", "app.dll", 1, 50, 50),
        ("B", "app.dll", 1, 30, 30),
        ("Root", "app.dll", 1, 10, 150),
    ]
    assert made().by_retained.values("type") == ["Root", "A", "C", "B"]


def test_namespaces_are_those_of_the_type_and_not_of_its_arguments() -> None:
    heap = heap_from(["[.NET Roots]", "A.B.List<C.D.E>[]", "Plain", "A.B.Other"], [(0, 1), (1, 2), (1, 3)])
    assert [(row["namespace"], row["count"], row["retained_bytes"]) for row in heap.by_namespace] == [
        ("A.B", 2, 90),
        (None, 1, 30),
    ]


@pytest.mark.parametrize(("name", "other"), [("12345", "0x3039"), ("0x10", "16"), ("0x1010", "4112")])
def test_a_type_may_be_named_as_an_address_is(name: str, other: str) -> None:
    """An obfuscator may name it so. 0x1010 is also where it is."""
    heap = heap_from(["[.NET Roots]", name, "B"], [(0, 1), (1, 2)])
    found = heap.paths_to_root(name)
    assert found.values("path") == [["[.NET Roots]", name]]
    is_there = name == "0x1010"
    assert found.notes == (
        (f"{name} is the name of a type here; {other} is the object at that address",) if is_there else ()
    )
    if is_there:
        assert (
            heap.paths_to_root(other).values("path")
            == heap.paths_to_root(0x1010).values("path")
            == [["[.NET Roots]", name]]
        )
    with pytest.raises(UnknownName, match="no object '0x77' in the heap"):
        heap.paths_to_root("0x77")


def test_what_holds_roots_is_none_of_what_keeps_most_alive() -> None:
    heap = a_cache(3)
    assert heap.by_retained.values("type") == [ARRAY, "List", "Item"]
    assert set(heap.types.values("type")) == {ROOTS, STATICS, VARIABLE, HANDLES, ARRAY, "List", "Item"}


def test_modules_and_generations_come_to_the_whole() -> None:
    heap = heap_of(data_of(RECORDING))
    for table in (heap.types, heap.by_module, heap.by_namespace, heap.generations):
        assert sum(table.values("bytes")) == heap.bytes
    assert heap.generations.values("generation") == ["unknown"]
    assert heap.by_module.values("module")[-1] is None


def test_generations_are_told_by_name_the_youngest_first() -> None:
    heap = replace(made(), node_generation=np.array([2, 0, 4, 3, 2], np.int8))
    assert [tuple(row.values()) for row in heap.generations] == [
        ("gen0", 1, 20),
        ("gen2", 2, 60),
        ("large objects", 1, 40),
        ("pinned objects", 1, 30),
    ]


# who holds what -------------------------------------------------------------------------------------------------------


def test_a_tree_has_static_variables_above_what_they_hold() -> None:
    assert rows(a_cache(3), minimum=1) == [
        (0, None, ROOTS, "app.dll", 1, 0, 8516),
        (1, 0, HANDLES, "app.dll", 1, 0, 8184),
        (2, 1, ARRAY, "app.dll", 1, 8184, 8184),
        (1, 0, STATICS, "app.dll", 1, 0, 332),
        (2, 3, VARIABLE, "app.dll", 1, 0, 332),
        (3, 4, "List", "app.dll", 1, 32, 332),
        (4, 5, "Item", "app.dll", 3, 300, 300),
    ]


def held(*others: tuple[str, str], size: int = 8184, generation: int = -1) -> Heap:
    """A list that a static variable holds and that has a place in the runtime's array, and references besides, by the names of both ends."""
    types = [
        ROOTS,
        STATICS,
        VARIABLE,
        "[static var List.other]",
        HANDLES,
        "[other Handles]",
        LOCALS,
        ARRAY,
        "Other",
        "List",
        "Item",
    ]
    ways = [
        (ROOTS, STATICS),
        (STATICS, VARIABLE),
        (STATICS, types[3]),
        (ROOTS, HANDLES),
        (ROOTS, types[5]),
        (ROOTS, LOCALS),
        (HANDLES, ARRAY),
    ]
    ways += [(ROOTS, "Other"), (VARIABLE, "List"), (ARRAY, "List"), ("List", "Item"), *others]
    sizes = [size if name == ARRAY else 0 if name.startswith("[") else 100 for name in types]
    heap = heap_from(types, [(types.index(one), types.index(other)) for one, other in ways], sizes=sizes)
    generations = np.where(heap.node_type == types.index(ARRAY) + 1, generation, -1).astype(np.int8)
    return with_pseudo_nodes(replace(heap, node_generation=generations))


def over(heap: Heap, name: str) -> str:
    """What a node of a type stands under in the tree."""
    (node,) = np.flatnonzero(heap.node_type == heap.type_name.to_pylist().index(name))
    return heap.type_of(int(heap.tree_dominators[node]))


OTHER = "[static var List.other]"


@pytest.mark.parametrize(
    ("others", "above", "above_item"),
    [
        ([], VARIABLE, "List"),
        ([(OTHER, "List"), (ARRAY, "List")], STATICS, "List"),
        ([(HANDLES, "List")], ROOTS, "List"),
        ([("[other Handles]", "List")], ROOTS, "List"),
        ([("Other", "List")], ROOTS, "List"),
        ([(OTHER, "Other"), (ARRAY, "Other"), ("Other", "List")], ROOTS, "List"),
        ([("Other", "Item")], VARIABLE, ROOTS),
        ([(OTHER, "Item"), (ARRAY, "Item")], VARIABLE, STATICS),
        ([(ARRAY, "List")], ROOTS, "List"),
        ([("Other", ARRAY)], ROOTS, "List"),
        ([(LOCALS, ARRAY)], VARIABLE, "List"),
        ([(LOCALS, ARRAY), ("Other", ARRAY)], ROOTS, "List"),
        ([(LOCALS, ARRAY), ("Item", ARRAY)], ROOTS, "List"),
        ([(LOCALS, "List")], ROOTS, "List"),
    ],
    ids=[
        "one variable", "two variables", "a handle", "another handle", "an object", "an object that is held twice", "what it holds",
        "what it holds, of another variable", "a variable that is not told of", "an array that is not the runtime's alone",
        "an array that a method has too", "an array that a method and an object have", "an array that what is in it refers to", "a method",
    ],
)  # fmt: skip
def test_what_a_variable_alone_holds_stands_under_it(
    others: list[tuple[str, str]], above: str, above_item: str
) -> None:
    heap = held(*others)
    assert (over(heap, "List"), over(heap, "Item")) == (above, above_item)


@pytest.mark.parametrize(
    ("size", "generation", "above"), [(8184, 3, VARIABLE), (8184, 4, VARIABLE), (8184, 2, ROOTS), (8176, 3, ROOTS)]
)
def test_the_runtimes_arrays_are_large_or_pinned_objects_of_1020_places(size: int, generation: int, above: str) -> None:
    assert over(held(size=size, generation=generation), "List") == above


def test_variables_of_threads_have_no_place_in_the_runtimes_arrays() -> None:
    heap = a_cache(3)
    names = [THREAD_STATICS if name == STATICS else name for name in heap.type_name.to_pylist()]
    assert over(replace(heap, type_name=Text.from_pylist(names)), "List") == ROOTS


def test_the_tree_has_the_numbers_of_the_graph_for_each_object() -> None:
    heap = heap_of(data_of(RECORDING))
    above, retained = heap.tree_dominators, heap.tree_retained
    objects = heap.node_address != 0
    assert (retained[objects] == heap.retained[objects]).all()
    statics = [
        number for number, name in enumerate(heap.type_name.to_pylist()) if (name or "").startswith("[static var ")
    ]
    variables = np.flatnonzero(np.isin(heap.node_type, statics))
    assert len(variables) > 20
    assert (heap.retained[variables] > 0).sum() < (retained[variables] > 0).sum()
    assert retained[heap.root] == heap.retained[heap.root]
    place = np.empty(heap.nodes, np.int64)
    order = heap.breadth_first[0]
    place[order] = np.arange(len(order))
    below = order[above[order] >= 0]
    assert (place[above[below]] < place[below]).all()


def test_a_list_is_one_row_of_the_tree_however_long() -> None:
    heap = heap_from(["Root", *["Node"] * 500], [(number, number + 1) for number in range(500)])
    assert [(row["type"], row["count"]) for row in heap.tree(depth=1)] == [("Root", 1), ("Node", 500)]


def test_a_tree_ends_at_its_depth_and_leaves_out_what_is_small() -> None:
    heap = a_cache(3)
    assert [row[0] for row in rows(heap, depth=2, minimum=1)] == [0, 1, 2, 1, 2]
    assert [row[2] for row in rows(heap, minimum=301)] == [ROOTS, HANDLES, ARRAY, STATICS, VARIABLE, "List"]
    assert heap.tree(minimum=301).notes == ("rows that keep less than 301 bytes alive are left out",)
    assert heap.tree(minimum=1).notes == ("rows that keep nothing alive are left out",)


def test_a_tree_tells_of_what_no_root_reaches() -> None:
    heap = heap_from(["Root", "A", "Lost"], [(0, 1), (2, 1)])
    assert heap.tree(minimum=0).notes == ("1 object of 30 bytes is not reached from any root",)


def test_the_largest_objects_come_first_with_what_holds_them() -> None:
    largest = a_cache(3).largest(3)
    assert [(row["type"], row["retained_bytes"], row["held_by"]) for row in largest] == [
        (ARRAY, 8184, HANDLES),
        ("List", 332, VARIABLE),
        ("Item", 100, "List"),
    ]
    assert len(made().largest(100)) == 5
    assert len(made().largest(0)) == 0


def paths(heap: Heap, what: str | int) -> list[tuple[int, bool, list[str]]]:
    return [(row["count"], row["is_shortest"], row["path"]) for row in heap.paths_to_root(what)]


def test_paths_are_shortest_first_and_merged_by_type() -> None:
    heap = a_cache(7)
    ways = [ROOTS, STATICS, VARIABLE, "List"], [ROOTS, HANDLES, ARRAY, "List"]
    assert paths(heap, "List") == [(1, True, ways[0]), (1, False, ways[1])]
    steps = [*ways[0], "Item"], [*ways[1], "Item"]
    assert paths(heap, "item") == [(7, True, steps[0]), (7, False, steps[1])]
    assert paths(heap, int(heap.node_address[5])) == [(1, True, steps[0]), (1, False, steps[1])]
    assert paths(heap, hex(int(heap.node_address[4]))) == paths(heap, "List")


def test_paths_tell_how_many_are_left_out() -> None:
    kinds = ["A", "A", "A", "B", "C"]
    heap = heap_from(["Root", *kinds, *["Item"] * 5], [edge for at in range(1, 6) for edge in ((0, at), (at, at + 5))])
    assert heap.paths_to_root("Item", 3).notes == ()
    assert heap.paths_to_root("Item", 2).notes == ("these are the ways to 4 of 5 objects: 1 more way is left out",)
    assert heap.paths_to_root("Item", 1).notes == ("these are the ways to 3 of 5 objects: 2 more ways are left out",)


def test_paths_tell_that_other_ways_are_left_out() -> None:
    heap = heap_from(["Root", "A", "B", "C", "D", "Item"], [edge for at in range(1, 5) for edge in ((0, at), (at, 5))])
    assert heap.paths_to_root("Item", 4).notes == ()
    assert heap.paths_to_root("Item", 3).notes == ("more other ways are left out",)


def test_a_static_variable_holds_a_list_and_not_the_variable_of_a_method() -> None:
    types = [ROOTS, LOCALS, STATICS, VARIABLE, "Box", "List", "Item[]", "Item", "Item"]
    edges = [(0, 1), (0, 2), (1, 5), (1, 7), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (6, 8)]
    heap = heap_from(types, edges)
    heap = replace(heap, node_address=np.where(np.arange(9) < 4, 0, heap.node_address))
    lasting = [ROOTS, STATICS, VARIABLE, "Box", "List"]
    assert paths(heap, "Item") == [
        (2, True, [*lasting, "Item[]", "Item"]),
        (2, False, [ROOTS, LOCALS, "List", "Item[]", "Item"]),
        (1, False, [ROOTS, LOCALS, "Item"]),
    ]
    assert paths(heap, "List") == [(1, True, lasting), (1, False, [ROOTS, LOCALS, "List"])]
    assert heap.breadth_first[0].tolist() == [0, 2, 3, 4, 5, 6, 7, 8, 1]
    only_local = replace(
        heap, edge_start=heap.edge_start, edge_target=np.where(heap.edge_target == 4, 0, heap.edge_target)
    )
    assert paths(only_local, "List") == [(1, True, [ROOTS, LOCALS, "List"])]


@pytest.mark.parametrize("holders", [1, 2, 300])
def test_all_stacks_are_searched_at_once(holders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counted(starts: Any, targets: Any, root: int, search: Any = kernels.breadth_first) -> Any:
        searched.append(root)
        return search(starts, targets, root)

    monkeypatch.setattr(kernels, "breadth_first", counted)
    types = [ROOTS, "Shared", *[LOCALS] * holders, "List", "Item"]
    stacks, item = range(2, 2 + holders), 3 + holders
    ways = [
        (0, 1),
        *((0, stack) for stack in stacks),
        *((stack, item - 1) for stack in stacks),
        (item - 1, item),
        (2, 1),
    ]
    order, parent = heap_from(types, ways).breadth_first
    assert searched == [0, 0]
    assert order.tolist() == [0, 1, *stacks, item - 1, item]
    assert parent.tolist() == [kernels.NONE, *[0] * (1 + holders), 2, item - 1]


def test_what_only_stacks_reach_is_held_by_the_nearest() -> None:
    heap = heap_from([ROOTS, LOCALS, "[Pinned local vars]", "Box", "Item"], [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4)])
    order, parent = heap.breadth_first
    assert (order.tolist(), parent[4]) == ([0, 1, 2, 3, 4], 2)


def test_first_ways_add_up_to_the_objects() -> None:
    """A way may be the first of one object, and another one of the next."""
    types = [ROOTS, STATICS, VARIABLE, ARRAY, "Byte[]", "Byte[]"]
    heap = heap_from(types, [(0, 1), (0, 3), (1, 2), (2, 4), (3, 5), (2, 5)])
    assert paths(heap, "Byte[]") == [
        (1, True, [ROOTS, ARRAY, "Byte[]"]),
        (1, True, [ROOTS, STATICS, VARIABLE, "Byte[]"]),
        (1, False, [ROOTS, STATICS, VARIABLE, "Byte[]"]),
    ]


@pytest.mark.parametrize(
    ("what", "meant"),
    [
        ("A.Ring", ["A.Ring"]),
        ("Ring", ["A.Ring", "B+Ring"]),
        ("ring", ["A.Ring", "B+Ring", "A.Ring[]", "A.List<A.Ring>"]),
        ("List<A.Ring>", ["A.List<A.Ring>"]),
        ("[static var A.Ring", ["[static var A.Ring.ring]"]),
        ("[", [ROOTS, "[static var A.Ring.ring]"]),
        ("[]", ["A.Ring[]"]),
        ("", []),
    ],
)
def test_a_name_means_that_type_before_others_with_it(what: str, meant: list[str]) -> None:
    names = ["", ROOTS, "[static var A.Ring.ring]", "A.Ring", "B+Ring", "A.Ring[]", "A.List<A.Ring>"]
    assert [names[number] for number in meant_types(names, what)] == meant


def test_paths_tell_which_types_were_meant() -> None:
    heap = heap_from(["Root", "A.Ring", "B.Ring"], [(0, 1), (0, 2)])
    assert heap.paths_to_root("Ring").notes == ("matched: A.Ring, B.Ring",)
    assert heap.paths_to_root("A.Ring").notes == ()


def test_a_path_through_another_of_the_objects_is_none_of_its_own() -> None:
    heap = heap_from(["Root", "Node", "Node", "Other"], [(0, 1), (1, 3), (3, 2), (0, 2)])
    assert paths(heap, "Node") == [(2, True, ["Root", "Node"])]


def test_paths_of_what_is_not_reached_are_none() -> None:
    heap = heap_from(["Root", "A", "Lost"], [(0, 1)])
    table = heap.paths_to_root("Lost")
    assert len(table) == 0
    assert table.notes == (
        "1 of 1 object is not reached from any root: garbage, or what the runtime keeps without a root, as literal strings since .NET 8",
    )
    heap = replace(heap, completeness=Completeness(problems=("3 events were lost",)))
    assert heap.paths_to_root("Lost").notes == (
        "1 of 1 object is not reached from any root: garbage, or what held them is missing",
    )


def test_a_long_path_shows_its_ends() -> None:
    count = 3000
    heap = heap_from([f"T{number}" for number in range(count)], [(number, number + 1) for number in range(count - 1)])
    ((_, _, path),) = paths(heap, f"T{count - 1}")
    assert len(path) == 66
    assert (path[0], path[31], path[32], path[33], path[-1]) == ("T0", "T31", "…", "T2967", "T2999")


@pytest.mark.parametrize("what", ["Nothing", "", 0x99, "0x99", "0x0", 0, -1, 1 << 64])
def test_what_is_not_there_is_an_error(what: str | int) -> None:
    with pytest.raises(UnknownName):
        made().paths_to_root(what)


@pytest.mark.parametrize("what", [1.5, None, b"A", True, []])
def test_what_is_neither_a_type_nor_an_address_is_an_error(what: Any) -> None:
    with pytest.raises(UsageError, match="neither a type nor an address"):
        made().paths_to_root(what)


def test_an_address_may_be_a_number_of_numpy() -> None:
    assert paths(made(), made().node_address[1]) == [(1, True, ["Root", "A"])]


@pytest.mark.parametrize("number", [-1, 1.5, "5"])
def test_how_many_is_a_number(number: Any) -> None:
    for ask in (made().largest, made().tree, lambda one: made().paths_to_root("A", one)):
        with pytest.raises(UsageError, match="give a number"):
            ask(number)
    with pytest.raises(UsageError):
        made().tree(3, number)
    assert len(made().paths_to_root("A", 0)) == 0
    assert len(made().tree(1 << 70, 0)) == 4


def test_nobody_can_write_to_columns() -> None:
    real = heap_of(data_of(RECORDING))
    for heap in (made(), real, read_gcdump(written(real))):
        arrays = [getattr(heap, name) for name in vars(Graph)["__annotations__"] if name.startswith(("node_", "edge_"))]
        arrays += [heap.dominators, heap.retained, heap.retained_by_type, *heap.breadth_first]
        assert len(arrays) == 11
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[:1] = 0


def test_every_path_of_a_random_heap_is_one_of_its_references() -> None:
    chance = random.Random(3)
    for _ in range(60):
        nodes = chance.choice([5, 10, 40])
        edges = [(chance.randrange(nodes), chance.randrange(nodes)) for _ in range(3 * nodes)]
        heap = heap_from([f"T{number % 7}" for number in range(nodes)], edges)
        reached = set(heap.breadth_first[0].tolist())
        found = heap.paths_to_root("T3")
        own = [node for node in reached if node % 7 == 3]
        assert sum(row["count"] for row in found if row["is_shortest"]) == len(own)
        steps = {(f"T{a % 7}", f"T{b % 7}") for a, b in edges}
        for row in found:
            assert (row["path"][0], row["path"][-1]) == ("T0", "T3")
            assert set(zip(row["path"], row["path"][1:], strict=False)) <= steps


# what grew ------------------------------------------------------------------------------------------------------------


def test_a_leak_is_named_by_types_and_by_dominators() -> None:
    diff = a_cache(3).diff(a_cache(10))
    assert (diff.grown_bytes, diff.before_nodes, diff.after_nodes) == (700, 9, 16)
    first, *_ = diff.types.to_pylist()
    assert (first["type"], first["count_before"], first["count_after"], first["bytes_grown"]) == ("Item", 3, 10, 700)
    grown = {tuple(row["path"]): row["retained_bytes_grown"] for row in diff.dominators}
    assert grown[ROOTS, STATICS, VARIABLE, "List"] == 700


def test_types_of_one_file_in_two_folders_are_one() -> None:
    """What is inside of an object of the same type counts once, whichever of both it is."""

    def put(folders: list[str]) -> Heap:
        heap = heap_from(["Root", "A", "B", "A"], [(0, 1), (1, 2), (2, 3)], modules=[f"{one}/a.dll" for one in folders])
        return replace(heap, type_name=Text.from_pylist(["UNDEFINED", "Root", "A", "A"]))

    diff = put(["/1", "/1", "/2"]).diff(put(["/3", "/4", "/5"]))
    assert len(diff.types) == 0
    numbers = numbers_by_type(put(["/1", "/1", "/2"])).numbers
    assert numbers == {("Root", "a.dll"): (1, 10, 100), ("A", "a.dll"): (3, 90, 90)}


def test_equal_heaps_have_no_difference() -> None:
    diff = made().diff(made())
    assert (len(diff.types), len(diff.dominators), diff.grown_bytes) == (0, 0, 0)


def of_modules(*modules: str | None) -> Heap:
    """A ``T`` of each of these modules, the first of which holds the others."""
    names = ["[.NET Roots]", *[f"T{at}" for at in range(len(modules))]]
    edges = [(0, 1), *((1, at) for at in range(2, len(modules) + 1))]
    made = heap_from(names, edges, sizes=[0, *[10] * len(modules)], modules=[None, *modules])
    return replace(made, type_name=Text.from_pylist(["UNDEFINED", names[0], *["T"] * len(modules)]))


UNKNOWN = "Module(0x7f00)"


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [
        ([UNKNOWN] * 3, ["a.dll"], [-2]),
        (["a.dll"] * 2, [UNKNOWN] * 3, [1]),
        ([UNKNOWN] * 3, [UNKNOWN, "a.dll", "a.dll"], []),
        ([UNKNOWN, "a.dll"], [UNKNOWN, "a.dll"], []),
        (["a.dll", "b.dll"], [UNKNOWN, UNKNOWN], []),
        (["a.dll"], ["b.dll"], [1, -1]),
    ],
)
def test_types_of_modules_that_are_not_known_are_those_of_their_names(
    before: list[str | None], after: list[str | None], grown: list[int]
) -> None:
    rows = of_modules(*before).diff(of_modules(*after)).types.to_pylist()
    assert sorted(row["count_grown"] for row in rows if row["type"] == "T") == sorted(grown)


def test_a_type_without_a_module_in_one_heap_grows_over_all() -> None:
    heaps = [
        of_modules(*[module] * count) for module, count in (("a.dll", 2), (UNKNOWN, 9), (UNKNOWN, 12), ("a.dll", 15))
    ]
    assert [(row["type"], row["count_grown"]) for row in growing_types(heaps).to_pylist()] == [("T", 13)]
    nothing = heap_from(["[.NET Roots]", "A"], [(0, 1)])
    assert len(growing_types([nothing, of_modules(*[UNKNOWN] * 20), of_modules(*["a.dll"] * 10)])) == 0


def test_types_that_only_grow_are_suspects() -> None:
    heaps = [a_cache(3), a_cache(5), a_cache(5), a_cache(9)]
    (row,) = growing_types(heaps).to_pylist()
    assert growing_types(heaps).columns == no_growing_types().columns
    assert len(no_growing_types()) == 0
    assert (row["type"], row["steps"], row["count_grown"], row["bytes_grown"]) == ("Item", 2, 6, 600)
    assert len(growing_types([a_cache(3), a_cache(9), a_cache(8)])) == 0
    with pytest.raises(UsageError):
        growing_types(heaps[:1])


def test_what_was_once_fewer_is_remembered_however_many_heaps_follow() -> None:
    """Of a process that is watched for long: a cache that was emptied at the fourth heap, and one that is emptied each second time."""
    for counts in ([100, 101, 102, 1], [100 + step if step % 2 else 1 for step in range(80)]):
        seen = Growth()
        for count in (*counts, *range(200, 280)):
            seen.take(numbers_by_type(a_cache(count)))
        assert len(seen.table()) == 0
    seen = Growth()
    for count in range(100, 200):
        seen.take(numbers_by_type(a_cache(count)))
    (row,) = seen.table().to_pylist()
    assert (row["type"], row["steps"], row["count_grown"], seen.table().notes) == ("Item", 99, 99, ("of 100 heaps",))


def test_a_heap_is_compared_with_a_heap() -> None:
    for other in (None, "x.gcdump", 1):
        with pytest.raises(UsageError, match="compared with another one"):
            a_cache(1).diff(cast(Heap, other))


def test_what_grew_after_the_first_heap_alone_is_no_suspect() -> None:
    assert len(growing_types([a_cache(3), a_cache(9)])) == 1
    assert len(growing_types([a_cache(3), a_cache(9), a_cache(9)])) == 0
    assert len(growing_types([a_cache(3), a_cache(9), a_cache(9), a_cache(10)])) == 1


def test_what_the_diagnostics_leave_is_told() -> None:
    def with_metadata(size: int) -> Heap:
        heap = heap_from([ROOTS, STATICS, DIAGNOSTICS, "Log"], [(0, 1), (1, 2), (2, 3)], sizes=[0, 0, 0, size])
        return replace(heap, node_address=np.array([0, 0, 0, 8], np.uint64))

    assert with_metadata(10).diff(with_metadata(200)).diagnostics_bytes == 190
    assert a_cache(3).diff(a_cache(9)).diagnostics_bytes == 0
    (text,) = with_metadata(200_000).advice.values("advice")
    assert text.endswith("leaves: no leak")
    assert a_cache(1000).advice.values("advice")[0].endswith("it is a leak")


# advice ---------------------------------------------------------------------------------------------------------------


def test_much_that_no_root_reaches_is_told() -> None:
    heap = heap_from([ROOTS, "Kept", "Lost", "Lost"], [(0, 1), (2, 3)], sizes=[0, 10, 60, 30])
    assert advice(heap, "unreached") == [("", 2, 90)]
    assert heap.advice.values("advice")[0].startswith("90.0 % of the bytes are reached from no root")
    assert advice(heap_from([ROOTS, "Kept", "Lost"], [(0, 1)], sizes=[0, 100, 10]), "unreached") == []


def test_a_static_variable_that_holds_most_is_named() -> None:
    assert advice(a_cache(1000), "static") == [("List.cache", 1, 100_032)]


def test_collections_that_are_mostly_empty_are_named_by_what_holds_them() -> None:
    types = [ROOTS, "Holder", *[ARRAY] * 100, "Item"]
    edges = [(0, 1), *((1, 2 + number) for number in range(100)), *((2 + number, 102) for number in range(50))]
    heap = heap_from(types, edges, sizes=[0, 24, *[8 * 1003] * 100, 24])
    assert advice(heap, "collection") == [(f"{ARRAY} in Holder", 100, 8 * (1000 * 100 - 50))]
    assert advice(a_cache(1000), "collection") == []


def test_an_event_with_many_handlers_is_named() -> None:
    handler = "System.EventHandler"
    types = [ROOTS, "Publisher", handler, ARRAY, *[handler] * 150]
    edges = [(0, 1), (1, 2), (2, 3), *((3, 4 + number) for number in range(150))]
    ((subject, count, _),) = advice(heap_from(types, edges, sizes=[64] * len(types)), "event")
    assert (subject, count) == (f"{handler} of Publisher", 150)


def test_an_event_of_a_static_variable_is_that_variables() -> None:
    """The runtime keeps static variables in an array of its own too: the root alone dominates what they refer to."""
    handler, variable = "System.EventHandler", "[static var System.EventHandler.Changed]"
    types = [ROOTS, "[other roots]", "Object[]", STATICS, variable, handler, ARRAY, *[handler] * 150]
    edges = [(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5), (5, 6), *((6, 7 + number) for number in range(150))]
    heap = heap_from(types, edges, sizes=[0, 0, 64, 0, 0, *[64] * 152])
    assert heap.dominators[5] == heap.root
    ((subject, count, _),) = advice(heap, "event")
    assert (subject, count) == (f"{handler} of {variable}", 150)


TIMER, QUEUE = "System.Threading.TimerQueueTimer", "System.Threading.TimerQueue"


def test_many_timers_are_named() -> None:
    types = [ROOTS, QUEUE, *[TIMER] * 200]
    edges = [(0, 1), *((1, 2 + number) for number in range(200))]
    assert advice(heap_from(types, edges, sizes=[0, 64, *[96] * 200]), "timer") == [(TIMER, 200, 200 * 96)]
    assert advice(made(), "timer") == []


def test_a_timer_inside_of_another_counts_once() -> None:
    types = [ROOTS, QUEUE, *[TIMER] * 200]
    heap = heap_from(types, [(number, number + 1) for number in range(201)], sizes=[0, 64, *[96] * 200])
    assert advice(heap, "timer") == [(TIMER, 200, 200 * 96)]


def test_a_timer_that_is_in_no_list_of_a_queue_is_not_set() -> None:
    """150 that are in a list, and 200 that their holders alone refer to, one of them itself too."""
    types = [ROOTS, QUEUE, "Holder", *[TIMER] * 350]
    edges = [(0, 1), (0, 2), *((2, 3 + number) for number in range(350)), (1, 3)]
    edges += [(3 + number, 4 + number) for number in range(149)] + [(4 + number, 3 + number) for number in range(149)]
    heap = heap_from(types, [*edges, (300, 300)], sizes=[0, 64, 64, *[96] * 350])
    assert advice(heap, "timer") == [(TIMER, 150, 150 * 96)]


def test_a_list_of_handlers_that_many_share_is_told_once() -> None:
    handler = "System.EventHandler"
    types = [ROOTS, *[handler] * 30_000, ARRAY]
    edges = [(0, 1 + number) for number in range(30_000)]
    edges += [(1 + number, 30_001) for number in range(30_000)] + [(30_001, 1 + number) for number in range(30_000)]
    ((subject, count, _),) = advice(heap_from(types, edges), "event")
    assert (subject, count) == (f"{handler} of {ROOTS}", 30_000)


def test_a_list_with_something_else_in_it_is_none_of_handlers() -> None:
    handler = "System.EventHandler"
    types = [ROOTS, "Publisher", handler, ARRAY, *[handler] * 150, "Item"]
    edges = [(0, 1), (1, 2), (2, 3), *((3, 4 + number) for number in range(151))]
    assert advice(heap_from(types, edges, sizes=[64] * len(types)), "event") == []


@pytest.mark.parametrize(
    ("name", "is_leak"),
    [
        ("System.Collections.Generic.Dictionary<System.String,System.Object>.s_dataStore", False),
        ("Microsoft.Extensions.Logging.Log[].s_all", False),
        ("System.Collections.Generic.Dictionary<System.String,App.Session>.s_sessions", True),
        ("System.Collections.Generic.Dictionary<System.String,System.Object>.Cache", True),
        ("App.Session.s_last", True),
    ],
)
def test_a_leak_is_said_of_what_may_be_the_programs(name: str, is_leak: bool) -> None:
    heap = heap_from(
        [ROOTS, STATICS, f"[static var {name}]", "Held"], [(0, 1), (1, 2), (2, 3)], sizes=[0, 0, 0, 100_000]
    )
    (text,) = heap.advice.values("advice")
    assert text.endswith("it is a leak") == is_leak


def test_one_collection_is_told_in_the_singular() -> None:
    heap = heap_from([ROOTS, "Holder", ARRAY], [(0, 1), (1, 2)], sizes=[0, 24, 8 * 100_003])
    (text,) = heap.advice.values("advice")
    assert text.startswith(f"1 {ARRAY} of Holder is empty: 800,000 bytes for nothing")


def test_nothing_is_said_of_garbage() -> None:
    """Timers, arrays and events that no root reaches."""
    handler = "System.EventHandler"
    types = [ROOTS, VARIABLE, *[QUEUE, TIMER] * 100, *[ARRAY] * 200, handler, ARRAY, *[handler] * 150, "Item"]
    lists = types.index(handler)
    edges = [(lists, lists + 1), *((lists + 1, lists + 2 + number) for number in range(150)), (1, len(types) - 1)]
    edges += [(2 * number, 2 * number + 1) for number in range(1, 101)]
    heap = heap_from(types, edges, sizes=[0, 0, *[8 * 1003] * (len(types) - 2)])
    assert advice(heap, "static") + [row for kind in KINDS for row in advice(heap, kind)] == []
    alive = heap_from(types, [*edges, *((0, node) for node in range(1, lists + 1))], sizes=heap.node_size.tolist())
    assert all(advice(alive, kind) for kind in KINDS)


# other libraries ------------------------------------------------------------------------------------------------------


def test_the_graph_is_that_of_networkx_and_igraph() -> None:
    heap = heap_of(data_of(RECORDING))
    graph, other = heap.to_networkx(), heap.to_igraph()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (heap.nodes, heap.edges)
    assert (other.vcount(), other.ecount()) == (heap.nodes, heap.edges)
    assert graph.nodes[heap.root]["type"] == other.vs[heap.root]["type"] == ROOTS
    assert sum(nx.get_node_attributes(graph, "bytes").values()) == sum(other.vs["bytes"]) == heap.bytes
    theirs = nx.immediate_dominators(graph, heap.root)
    ours = {node: int(over) for node, over in enumerate(heap.dominators) if over >= 0}
    assert {node: over for node, over in theirs.items() if over is not None and node != heap.root} == ours


@pytest.mark.parametrize("name", ["networkx", "igraph"])
def test_without_the_library_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"dotnetdiag\[graph\]"):
        getattr(made(), f"to_{name}")()


def test_an_address_may_be_written_as_tables_have_it() -> None:
    heap = heap_from([ROOTS, "A", "B"], [(0, 1), (1, 2)])
    for text in ("0x1020", str(0x1020)):
        assert find_nodes(heap, text).tolist() == [2]
