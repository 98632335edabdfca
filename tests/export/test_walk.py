"""What is entered and left over time, and how a tree is laid out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.export.made import Sample, profile_of, sample

from dotnetdiag.export.walk import Paths, changes, walk
from dotnetdiag.trace.stack_tree import StackTree

MS = 1_000_000


def changes_of(*samples: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Of (start, length, node)."""
    columns = np.array(samples, np.int64).reshape(-1, 3).T
    return list(changes(*columns))


@pytest.mark.parametrize(("gap", "goes_on"), [(-5, True), (0, True), (999, True), (1001, False), (MS, False)])
def test_a_gap_of_less_than_a_thousandth_of_the_sample_before_is_none(gap: int, goes_on: bool) -> None:
    second, end = MS + gap, 2 * MS + gap
    same = changes_of((0, MS, 3), (second, MS, 3))
    assert same == ([(0, 0, 3), (end, 3, 0)] if goes_on else [(0, 0, 3), (MS, 3, 0), (second, 0, 3), (end, 3, 0)])
    other = changes_of((0, MS, 3), (second, MS, 4))
    left = [] if goes_on else [(MS, 3, 0)]
    assert other == [(0, 0, 3), *left, (second, 3 if goes_on else 0, 4), (end, 4, 0)]


def test_a_gap_is_measured_by_the_sample_before_it() -> None:
    assert changes_of((0, 10 * MS, 3), (10 * MS + 9_999, 1, 3)) == [(0, 0, 3), (10 * MS + 10_000, 3, 0)]
    assert len(changes_of((0, 100, 3), (101, 10 * MS, 3))) == 4


def test_what_has_no_length_is_left_out_and_nothing_gives_nothing() -> None:
    assert changes_of((0, 10, 3), (5, 0, 4), (10, 10, 3)) == [(0, 0, 3), (20, 3, 0)]
    assert changes_of((0, 0, 3)) == changes_of() == []


def tree_of(*samples: Sample) -> StackTree:
    return profile_of(*samples).tree


stacks = st.lists(st.lists(st.sampled_from("ABC"), max_size=5), max_size=12)


@given(stacks)
def test_a_walk_enters_each_node_behind_its_parent_and_leaves_it_behind_all_below_it(paths: list[list[str]]) -> None:
    tree = tree_of(*(sample(1, at, 1, *(f"T.{name}" for name in path)) for at, path in enumerate(paths)))
    steps = walk(tree, np.ones(len(tree), np.bool_))
    assert sorted(steps.node.tolist()) == list(range(len(tree)))
    assert steps.parent[0] == -1
    assert [tree.parent[node] for node in steps.node[1:]] == [steps.node[parent] for parent in steps.parent[1:]]
    open_places: list[int] = []
    place, entered = steps.steps()
    for at, is_entered in zip(place.tolist(), entered.tolist(), strict=True):
        if is_entered:
            assert steps.parent[at] == (open_places[-1] if open_places else 0)
            open_places.append(at)
        else:
            assert open_places.pop() == at
    assert not open_places
    weights = np.arange(1.0, len(tree) + 1)
    begin, end = steps.spans(weights)
    for at in range(len(steps)):
        below = steps.node[at : at + int(steps.size[at])]
        assert end[at] - begin[at] == weights[below].sum()
        assert at == 0 or begin[steps.parent[at]] <= begin[at] < end[at] <= end[steps.parent[at]]


@given(stacks, st.data())
def test_between_two_nodes_lies_what_only_one_of_them_is_below(paths: list[list[str]], data: st.DataObject) -> None:
    tree = tree_of(*(sample(1, at, 1, *(f"T.{name}" for name in path)) for at, path in enumerate(paths)))
    nodes = st.integers(0, len(tree) - 1)
    before, after = data.draw(nodes), data.draw(nodes)

    def line(node: int) -> list[int]:
        """From the root on, without it."""
        found: list[int] = []
        while node > 0:
            found.insert(0, node)
            node = int(tree.parent[node])
        return found

    left, entered = Paths(tree).between(before, after)
    assert left == [node for node in reversed(line(before)) if node not in line(after)]
    assert entered == [node for node in line(after) if node not in line(before)]
