"""Collections with many empty places: arrays of several dimensions, and tables of dictionaries that are certainly empty."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.heap.made import advice, heap_from

from dotnetdiag.heap import Completeness, Heap

ROOT, OF = "[.NET Roots]", "System.Collections.Generic."


def held(holder: str, array: str, size: int, references: int = 0, more: str = "Item") -> Heap:
    """An array of some bytes, which refers to so many items."""
    types = [ROOT, holder, array, *[more] * max(references, 1)]
    edges = [(0, 1), (1, 2), *((2, 3 + number) for number in range(references)), *([] if references else [(0, 3)])]
    return heap_from(types, edges, sizes=[0, 24, size, *[24] * max(references, 1)])


@pytest.mark.parametrize(
    ("array", "bounds"), [("System.String<,>", 16), ("Item<,,>", 24), ("System.Object[]<,>", 16), ("Item[]", 0)]
)
def test_an_empty_array_of_several_dimensions_is_judged(array: str, bounds: int) -> None:
    heap = held("Grid", array, 24 + bounds + 8 * 250_000)
    assert advice(heap, "collection") == [(f"{array} in Grid", 1, 2_000_000)]
    (text,) = heap.advice.values("advice")
    assert text.startswith(f"1 {array} of Grid is empty: 2,000,000 bytes for nothing")


def test_an_array_of_several_dimensions_is_as_full_as_its_places_are() -> None:
    size = 24 + 16 + 8 * 10_000
    assert advice(held("Grid", "Item<,>", size, references=5_000), "collection") == []
    assert advice(held("Grid", "Item<,>", size, references=500), "collection") == [("Item<,> in Grid", 1, 8 * 9_500)]


def test_an_array_of_values_is_not_judged() -> None:
    assert advice(held("Grid", "System.Int32<,>", 2_000_040, more="System.Int32"), "collection") == []
    assert advice(held("Grid", "App.Point<,>", 2_000_040), "collection") == []


@pytest.mark.parametrize(
    ("holder", "entry", "of"),
    [
        ("Dictionary", "Entry", "System.String,System.Int32"),
        ("Dictionary", "Entry", "System.Object[],System.Collections.Generic.List<System.Int32,System.Int32>"),
        ("HashSet", "Entry", "System.String"),
        ("HashSet", "Slot", "System.String"),
    ],
)
def test_a_table_without_a_key_is_empty(holder: str, entry: str, of: str) -> None:
    heap = held(f"{OF}{holder}<{of}>", f"{entry}<{of}>[]", 24 + 240_000)
    assert advice(heap, "collection") == [(f"{entry}<{of}>[] in {OF}{holder}<{of}>", 1, 240_000)]
    means = "is empty" if holder == "Dictionary" else "is empty, or has a null alone"
    assert f" {means}: 240,000 bytes for nothing" in heap.advice.values("advice")[0]


def test_many_sets_without_a_key_are_said_to_be_empty() -> None:
    holder, array, sets = f"{OF}HashSet<System.String>", "Entry<System.String>[]", 500
    types = [ROOT, *[holder] * sets, *[array] * sets]
    edges = [edge for one in range(1, sets + 1) for edge in ((0, one), (one, one + sets))]
    heap = heap_from(types, edges, sizes=[0, *[24] * sets, *[1024] * sets])
    (text,) = heap.advice.values("advice")
    assert text.startswith(f"500 {array} of {holder} are all empty, or have a null alone: 500,000 bytes for nothing")


@pytest.mark.parametrize(
    ("holder", "of", "references"),
    [
        (f"{OF}Dictionary<System.String,Item>", "System.String,Item", 1),
        (f"{OF}Dictionary<System.Int32,Item>", "System.Int32,Item", 0),  # all values may be null
        (f"{OF}Dictionary<Item,Item>", "Item,Item", 0),  # may be a value type, of which one is boxed
        ("App.Table<System.String,Item>", "System.String,Item", 0),
        (f"{OF}Dictionary<System.String,System.String>", "System.String,Item", 0),
    ],
)
def test_a_table_of_which_that_is_not_certain_is_not_judged(holder: str, of: str, references: int) -> None:
    assert advice(held(holder, f"Entry<{of}>[]", 24 + 240_000, references), "collection") == []


def test_a_table_of_a_heap_of_which_something_is_missing_is_not_judged() -> None:
    heap = held(f"{OF}HashSet<System.String>", "Entry<System.String>[]", 24 + 240_000)
    assert len(advice(heap, "collection")) == 1
    assert advice(replace(heap, completeness=Completeness(problems=("lost",))), "collection") == []
