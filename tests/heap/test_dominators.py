"""Dominators, retained sizes and shortest ways, held against networkx on random graphs: compiled and by numpy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import pytest
from tests.heap.help import heap_of
from tests.nettrace.recordings import data_of

from dotnetdiag.heap import kernels

Array: TypeAlias = "np.ndarray[Any, Any]"
Csr: TypeAlias = "tuple[Array, Array]"

GRAPHS = 2000


def csr(nodes: int, edges: list[tuple[int, int]], kind: Any = np.uint32) -> Csr:
    """The edges by where they begin, otherwise in their order."""
    edges = sorted(edges, key=lambda edge: edge[0])
    starts = np.searchsorted([source for source, _ in edges], range(nodes + 1)).astype(kind)
    return starts, np.array([target for _, target in edges], np.uint32)


def random_graphs(count: int, seed: int) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """(nodes, root, edges): sparse and dense ones, chains with jumps back and forth, edges twice, to oneself, and from what is not reached."""
    chance = random.Random(seed)
    for _ in range(count):
        nodes = chance.choice([1, 2, 3, 5, 8, 13, 30, 60])
        edges = [
            (chance.randrange(nodes), chance.randrange(nodes))
            for _ in range(int(nodes * chance.choice([0.5, 1, 1.3, 2, 4])))
        ]
        if chance.random() < 0.5:
            order = chance.sample(range(nodes), nodes)
            edges += list(pairwise(order))
        edges += chance.choices(edges, k=len(edges) // 5) if edges else []
        yield nodes, chance.randrange(nodes), edges


def expected(nodes: int, root: int, edges: list[tuple[int, int]], sizes: Array) -> tuple[list[int], list[int]]:
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges)
    above = {node: over for node, over in nx.immediate_dominators(graph, root).items() if over is not None}
    retained = sizes.tolist()
    for node in above:
        over = node
        while over != root:
            over = above[over]
            retained[over] += int(sizes[node])
    return [-1 if node == root else above.get(node, -1) for node in range(nodes)], retained


@pytest.mark.parametrize("kind", [np.uint32, np.int64])
def test_dominators_and_retained_sizes_are_those_of_networkx(form: str, kind: Any) -> None:
    for nodes, root, edges in random_graphs(GRAPHS, seed=17):
        sizes = np.arange(1, nodes + 1, dtype=np.uint32)
        dominators, retained = kernels.dominators(*csr(nodes, edges, kind), root, sizes)
        assert (dominators.tolist(), retained.tolist()) == expected(nodes, root, edges, sizes)


def test_what_types_retain_counts_nothing_twice(form: str) -> None:
    chance = random.Random(5)
    for nodes, root, edges in random_graphs(500, seed=23):
        sizes = np.arange(1, nodes + 1, dtype=np.uint64)
        types = np.array([chance.randrange(3) for _ in range(nodes)], np.uint32)
        dominators, retained = kernels.dominators(*csr(nodes, edges), root, sizes)
        totals = [0, 0, 0]
        for node in range(nodes):
            above, inside = int(dominators[node]), False
            while above >= 0:
                inside |= bool(types[above] == types[node])
                above = int(dominators[above])
            totals[types[node]] += 0 if inside else int(retained[node])
        assert kernels.retained_by_type(dominators, types, retained, 3).tolist() == totals


def test_ways_from_the_root_are_shortest(form: str) -> None:
    for nodes, root, edges in random_graphs(500, seed=29):
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(edges)
        lengths = nx.single_source_shortest_path_length(graph, root)
        order, parent = kernels.breadth_first(*csr(nodes, edges), root)
        assert sorted(order.tolist()) == sorted(lengths)
        assert [lengths[node] for node in order.tolist()] == sorted(lengths.values())
        for node in order.tolist()[1:]:
            assert graph.has_edge(int(parent[node]), node)
            assert lengths[int(parent[node])] == lengths[node] - 1
        assert all(parent[node] == kernels.NONE for node in range(nodes) if node not in lengths or node == root)


def test_both_forms_agree_on_a_real_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = heap_of(data_of("heap-10.nettrace"))
    columns = heap.edge_start, heap.edge_target, heap.root
    compiled = kernels.dominators(*columns, heap.node_size), kernels.breadth_first(*columns)
    monkeypatch.setattr(kernels, "KERNELS", None)
    by_numpy = kernels.dominators(*columns, heap.node_size), kernels.breadth_first(*columns)
    for ours, theirs in zip(compiled, by_numpy, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert (
        heap.retained[heap.root]
        + sum(int(heap.node_size[node]) for node in set(range(heap.nodes)) - set(compiled[1][0].tolist()))
        == heap.bytes
    )


def test_a_list_of_a_million_is_as_deep_as_it_is_long() -> None:
    if kernels.KERNELS is None:
        pytest.skip("the kernels are not compiled here")
    nodes = 1_000_000
    starts = np.minimum(np.arange(nodes + 1), nodes - 1).astype(np.uint32)
    sizes = np.ones(nodes, np.uint32)
    dominators, retained = kernels.dominators(starts, np.arange(1, nodes, dtype=np.uint32), 0, sizes)
    assert np.array_equal(dominators, np.arange(-1, nodes - 1))
    assert np.array_equal(retained, np.arange(nodes, 0, -1))
    assert kernels.retained_by_type(dominators, np.zeros(nodes, np.uint32), retained, 1).tolist() == [nodes]


@pytest.mark.parametrize("starts", [[0, 9, 1], [3, 0, 1 << 31]])
def test_columns_that_lie_are_bounded(starts: list[int], form: str) -> None:
    lying, targets = np.array(starts, np.uint32), np.array([1, 7, 0xFFFFFFFF], np.uint32)
    sizes = np.ones(2, np.uint32)
    dominators, retained = kernels.dominators(lying, targets, 0, sizes)
    assert len(dominators) == len(retained) == 2
    assert len(kernels.breadth_first(lying, targets, 0)[0]) <= 2
