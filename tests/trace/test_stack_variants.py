"""Stacks that are several paths, where no event asked for one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from tests.trace.made import MadeTrace, table_of

from dotnetdiag.trace.stack_tree import build_stack_tree
from dotnetdiag.trace.stack_variants import ProcessStacks, StackEpochs, StackVariants, epoch_keys

NOTHING = np.zeros(0, np.int64)


def test_paths_are_found_by_stack_and_process() -> None:
    pairs = ProcessStacks.of(np.array([2, 1, 2, 2]), np.array([20, 10, 10, 20]))
    stacks, places = pairs.pairs
    assert list(zip(stacks.tolist(), pairs.processes[places].tolist(), strict=True)) == [(1, 10), (2, 10), (2, 20)]
    paths, known = pairs.find(np.array([2, 1, 1, 2]), np.array([20, 20, 10, 15]))
    assert known.tolist() == [True, False, True, False]
    assert paths[known].tolist() == [2, 0]
    first = ProcessStacks.of(np.array([0, 0]), np.array([10, 20]))
    assert first.find(np.array([0, 0]), np.array([15, 20]))[1].tolist() == [False, True]


def test_an_epoch_that_no_event_lay_in_has_the_leaf_of_its_path() -> None:
    moments = np.array([10, 20])
    keys = epoch_keys(moments, np.array([1, 1]), np.array([5, 20]))
    epochs = StackEpochs(moments=moments, timed=np.array([False, True]), keys=keys, nodes=np.array([7, 8]))
    leaves = np.array([3, 4])
    variants = StackVariants(by_process=None, leaf_of_path=leaves, epochs=epochs)
    stacks, times = np.array([0, 1, 1, 1, 1]), np.array([5, 9, 10, 19, 20])
    assert variants.leaves(stacks, times, None, leaves).tolist() == [3, 7, 4, 4, 8]
    assert variants.leaves(stacks, None, None, leaves).tolist() == [3, 8, 8, 8, 8], "without times the last"
    assert leaves.tolist() == [3, 4]


def test_a_tree_that_no_event_asked_for_has_no_stacks_of_any_process() -> None:
    made = MadeTrace()
    for process in (10, 20):
        made.process(process, process)
        made.mapping(process, 0x1000, 0x2000, f"of{process}.so", thread=process)
    tree = build_stack_tree(table_of([0x1010]), made.symbols(), NOTHING, NOTHING, NOTHING)
    assert tree.leaves(np.array([1]), np.array([5]), np.array([10])).tolist() == [0]


def test_the_stack_of_a_process_that_is_not_known_has_no_epochs() -> None:
    pairs = ProcessStacks.of(np.array([1, 1]), np.array([10, 20]))
    moments = np.array([100])
    keys = epoch_keys(moments, np.array([0, 0, 1, 1]), np.array([5, 200, 5, 200]))
    epochs = StackEpochs(moments=moments, timed=np.array([True, True]), keys=keys, nodes=np.array([6, 7, 8, 9]))
    variants = StackVariants(by_process=pairs, leaf_of_path=np.array([6, 8]), epochs=epochs)
    stacks, processes, times = np.array([1, 1, 1, 1]), np.array([10, 20, 30, 5]), np.array([200, 5, 200, 200])
    assert variants.leaves(stacks, times, processes, np.array([0, 2])).tolist() == [7, 8, 2, 2]


def test_a_path_that_never_changes_keeps_its_leaf_at_any_time() -> None:
    moments = np.array([10])
    keys = epoch_keys(moments, np.array([0, 1, 1]), np.array([5, 5, 15]))
    epochs = StackEpochs(moments=moments, timed=np.array([False, True]), keys=keys, nodes=np.array([6, 7, 8]))
    variants = StackVariants(by_process=None, leaf_of_path=np.array([3, 4]), epochs=epochs)
    assert variants.leaves(np.array([0, 1, 1]), np.array([5, 5, 15]), None, np.array([3, 4])).tolist() == [3, 7, 8]


def test_variants_cannot_be_changed() -> None:
    epochs = StackEpochs(moments=NOTHING, timed=NOTHING, keys=NOTHING, nodes=NOTHING)
    with pytest.raises(FrozenInstanceError):
        epochs.moments = NOTHING  # type: ignore[misc]
