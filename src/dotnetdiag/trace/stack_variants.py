"""Stacks that are more than one path: by process, and by the moments at which an address changes its owner.

A *path* here is a stack, or where there are several processes a stack in one of them. An *epoch* is the time between two
moments.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """Stacks in processes: path ``i`` is ``stack[i]`` in ``processes[place[i]]``. ``processes`` are sorted, and so are
    the ``keys`` (``stack * len(processes) + place``).
    """

    processes: Array
    keys: Array

    @classmethod
    def of(cls, stack_ids: Array, processes: Array) -> ProcessStacks:
        """The stacks that some events have, each in the process of its event."""
        every = distinct(processes)
        return cls(every, distinct(_pair_keys(every, stack_ids, processes)))

    @property
    def pairs(self) -> tuple[Array, Array]:
        """(stack, place) of each path."""
        return np.divmod(self.keys, len(self.processes))

    def find(self, stack_ids: Array, processes: Array) -> tuple[Array, Array]:
        """The path of each event, and whether there is one."""
        return _find(self.keys, _pair_keys(self.processes, stack_ids, processes))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackEpochs:
    """The nodes of paths that change. Of those that ``timed`` marks, each epoch that an event lies in has one of
    ``nodes``, by ``keys`` (as :func:`epoch_keys` makes them, sorted).
    """

    moments: Array
    timed: Array
    keys: Array
    nodes: Array

    def move(self, leaves: Array, paths: Array, known: Array, times: Array | None) -> None:
        """Put the nodes of their epochs in the place of the ``leaves`` of known paths that change."""
        timed = np.flatnonzero(known & self.timed[paths])
        wanted = epoch_keys(self.moments, paths[timed], None if times is None else np.asarray(times)[timed])
        places, there = _find(self.keys, wanted)
        leaves[timed[there]] = self.nodes[places[there]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackVariants:
    """The nodes of stacks that are several paths. ``by_process`` is None where there is but one process, and
    ``leaf_of_path`` the node of each path otherwise.
    """

    by_process: ProcessStacks | None
    leaf_of_path: Array
    epochs: StackEpochs | None

    def leaves(self, stack_ids: Array, times: Array | None, processes: Array | None, leaf_of_stack: Array) -> Array:
        """The node of each event's stack; what ``leaf_of_stack`` says where the event's process is not known."""
        leaves: Array = leaf_of_stack[stack_ids]
        if self.by_process is None:
            paths, known = stack_ids, np.ones(len(stack_ids), np.bool_)
        elif processes is None:
            return leaves
        else:
            paths, known = self.by_process.find(stack_ids, np.asarray(processes, np.int64))
            leaves[known] = self.leaf_of_path[paths[known]]
        if self.epochs is not None:
            self.epochs.move(leaves, paths, known, times)
        return leaves


def epoch_keys(moments: Array, paths: Array, times: Array | None) -> Array:
    """``path * epochs + epoch`` of each event; without times in the last epoch."""
    epochs = len(moments) + 1
    epoch = epochs - 1 if times is None else np.searchsorted(moments, times, side="right")
    keys: Array = paths * epochs + epoch
    return keys


def _pair_keys(every: Array, stack_ids: Array, processes: Array) -> Array:
    """The key of each event's stack in its process; of a process that is not among ``every``, -1."""
    place, there = _find(every, processes)
    return np.where(there, stack_ids * len(every) + place, -1)


def _find(keys: Array, wanted: Array) -> tuple[Array, Array]:
    """Places of values in a sorted array, and whether they are there."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted
