"""On which way what has grown is held, of heaps whose numbers of types and nodes differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.heap.made import heap_from, holding, two_of_one_name

from dotnetdiag.events.columns import Text
from dotnetdiag.heap import kernels, way_growth
from dotnetdiag.heap.way_growth import BytesByWay, GrownWays


@pytest.fixture(autouse=True, params=["compiled", "numpy"])
def _loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "KERNELS", None)
    elif kernels.KERNELS is None:
        pytest.skip("the kernels are not compiled here")


@pytest.mark.parametrize("leaked", [1, 40, 60])
def test_the_way_of_what_grew_is_told_and_not_that_of_most(leaked: int) -> None:
    grown = GrownWays(BytesByWay.of(holding(0)), holding(leaked, others=3))
    assert grown.path("Byte[]") == ("Root", "Leak", "Byte[]")
    assert grown.path("Other") == ("Root", "Other")


def test_what_has_not_grown_has_no_such_way() -> None:
    grown = GrownWays(BytesByWay.of(holding(5)), holding(5))
    assert grown.path("Byte[]") is None
    assert grown.path("none") is None


def test_long_ways_have_keys_of_their_own_whatever_is_asked_for() -> None:
    """A ladder of two types: each of its steps is a way."""
    count = 301
    ladder = heap_from(["Root", *["A", "B"] * 150], [(node, node + 1) for node in range(count - 1)], sizes=[1] * count)
    known = BytesByWay.of(ladder)
    assert len(known.keys) == count
    longer = heap_from(
        ["Root", *["A", "B"] * 151], [(node, node + 1) for node in range(count + 1)], sizes=[1] * (count + 2)
    )
    path = GrownWays(known, longer).path("B")
    assert path is not None
    assert "…" in path
    assert int(np.isin(BytesByWay.of(longer).keys, known.keys).sum()) == count


def test_of_too_many_ways_those_of_most_bytes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_growth, "MOST_WAYS", 2)
    known = BytesByWay.of(holding(5))
    assert known.sizes.tolist() in ([500, 50], [50, 500])


def test_of_two_types_of_one_name_each_has_its_own_way() -> None:
    """What one of them did is told of the other nowhere: that of a.dll moved, and that of b.dll grew."""
    before, after = two_of_one_name("HolderA", 500, 10), two_of_one_name("HolderC", 500, 200)
    grown = GrownWays(BytesByWay.of(before), after)
    assert grown.path("Foo", "b.dll") == ("[.NET Roots]", "HolderB", "Foo")
    assert grown.path("Foo", "/other/folder/a.dll") == ("[.NET Roots]", "HolderC", "Foo")
    assert grown.path("Foo") == ("[.NET Roots]", "HolderC", "Foo")
    assert grown.path("Foo", "c.dll") is None


@pytest.mark.parametrize("which", [0, 1])
def test_where_a_heap_tells_no_module_types_of_one_name_are_one(which: int) -> None:
    heaps = [two_of_one_name("HolderA", 5, 10), two_of_one_name("HolderA", 5, 12)]
    heaps[which] = replace(heaps[which], type_module=Text.from_pylist([None] * len(heaps[which].type_name)))
    grown = GrownWays(BytesByWay.of(heaps[0]), heaps[1])
    assert grown.path("Foo", "b.dll") == ("[.NET Roots]", "HolderB", "Foo")
    assert grown.path("Foo", "a.dll") == ("[.NET Roots]", "HolderB", "Foo")
