"""From what the runtime has told to the graph: addresses become rows, ids become types, roots hang under pseudo-nodes.

The nodes are the objects in the order in which they were told of, then those that are referred to and were never described, then COM
wrappers, then the pseudo-nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events.columns import Text
from dotnetdiag.heap.facts import Completeness, HeapFacts
from dotnetdiag.heap.generations import generations
from dotnetdiag.heap.heap import Heap
from dotnetdiag.heap.kernels import NONE, AddressIndex
from dotnetdiag.heap.pseudo_nodes import PseudoNodes, root_table
from dotnetdiag.heap.type_names import TypeRows, TypeTable
from dotnetdiag.heap.walk import Walk

Array: TypeAlias = "np.ndarray[Any, Any]"

_CHUNK = 1 << 19
_CCW_BYTES, _RCW_BYTES = 200, 1000
"""What the reference takes for the size of a wrapper, and adds to an object that has one."""


def build(walk: Walk, types: TypeRows, modules: Mapping[int, str], facts: HeapFacts, problems: Sequence[str]) -> Heap:
    """The heap of a walk, which is used up. ``problems`` are those already known."""
    found = [*walk.problems(), *problems]
    lacking = walk.trim()
    if lacking:
        found.append(f"{lacking:,} objects are without their references, which were not certain")
    return _Building(walk, TypeTable(types, modules), facts, found).heap()


class _Building:
    def __init__(self, walk: Walk, types: TypeTable, facts: HeapFacts, problems: list[str]) -> None:
        self.walk, self.types, self.facts, self.problems = walk, types, facts, problems
        self.objects = len(walk.address)
        self.ccws = list({root.root_id: root for root in walk.ccws if root.root_id}.values())
        """COM wrappers, which are nodes at addresses of their own."""
        self._ccw_addresses = np.array([root.root_id for root in self.ccws], np.uint64)
        self.index = AddressIndex(walk.address.rows)
        self.undefined: Array = np.zeros(0, np.uint64)

    def heap(self) -> Heap:
        walk = self.walk
        if self.index.duplicates:
            self.problems.append(f"{self.index.duplicates:,} addresses are told of more than once")
        target, lost = self._targets()
        roots = [
            *(row.rows for row in (walk.root_object, walk.dependent_object)),
            np.array([root.address for root in walk.statics], np.uint64),
            np.array([root.address for root in self.ccws], np.uint64),
            np.array(list(walk.rcws.values()), np.uint64),
        ]
        kept = walk.root_flags.rows & 2 == 0
        kept_dependent = walk.dependent_key.rows != 0
        held = np.unique(np.concatenate([lost, roots[0][kept], roots[1][kept_dependent], *roots[2:4]]))
        held = held[self._found(held) == NONE]
        weak = np.unique(roots[0][~kept])
        unknown = int((held != 0).sum()) + int(((self.index.find(weak) == NONE) & (weak != 0)).sum())
        if unknown:
            self.problems.append(f"{unknown:,} addresses are referred to and were not told of")
        wrapped = roots[4][self._found(roots[4]) == NONE]  # nobody tells of these
        self.undefined = np.unique(np.concatenate([held, wrapped]))
        if len(lost):
            self._mend(target, lost)
        return self._joined(target, [self.rows_of(part) for part in roots])

    def _found(self, addresses: Array) -> Array:
        """Rows of objects and of COM wrappers, which stand at addresses of their own."""
        found = self.index.find(addresses)
        if len(self._ccw_addresses):
            order = np.argsort(self._ccw_addresses)
            at = np.minimum(np.searchsorted(self._ccw_addresses, addresses, sorter=order), len(order) - 1)
            wrapped = (found == NONE) & (self._ccw_addresses[order[at]] == addresses)
            found[wrapped] = (self.objects + len(self.undefined) + order[at][wrapped]).astype(np.uint32)
        return found

    def rows_of(self, addresses: Array) -> Array:
        """The node of each address, once it is known which are undefined."""
        found = self._found(addresses)
        lost = np.flatnonzero(found == NONE)
        if len(lost):
            at = np.minimum(np.searchsorted(self.undefined, addresses[lost]), max(len(self.undefined) - 1, 0))
            there = self.undefined[at] == addresses[lost] if len(self.undefined) else np.zeros(len(lost), np.bool_)
            found[lost[there]] = (self.objects + at[there]).astype(np.uint32)
        return found

    def _targets(self) -> tuple[Array, Array]:
        """(the row of each reference, addresses that are not there). In the memory of the addresses, of which the rows take half."""
        narrow = self.walk.target.taken()
        count = len(narrow) // 2
        lost = []
        for first in range(0, count, _CHUNK):
            last = min(first + _CHUNK, count)
            wanted = narrow[2 * first : 2 * last].view(np.uint64).copy()
            rows = self.index.find(wanted)
            missing = np.flatnonzero(rows == NONE)
            if len(missing):
                lost.append(wanted[missing])
            narrow[first:last] = rows
        narrow.resize(count, refcheck=False)
        return narrow, np.concatenate(lost) if lost else np.zeros(0, np.uint64)

    def _mend(self, target: Array, lost: Array) -> None:
        """References to what was never described lead to a node of their own."""
        rows = np.flatnonzero(target == NONE)
        target[rows] = self.rows_of(lost)

    def _joined(self, target: Array, roots: Sequence[Array]) -> Heap:
        walk, types = self.walk, self.types
        type_of = np.array(types.numbers(walk.types.values), np.uint32)
        if types.unknown:
            self.problems.append(f"{types.unknown:,} types have no name")
        root_object, dependent, static, ccw, rcw = roots
        names = [f"[CCW 0x{root.root_id:x} for type {types.name_of(root.type_id)}]" for root in self.ccws]
        ccw_types = [types.add(name, None) for name in names]
        first = self.objects + len(self.undefined) + len(self.ccws)
        pseudo = PseudoNodes(first, types)
        pseudo.add_roots(root_object, walk.root_kind.rows, walk.root_flags.rows)
        pseudo.add_dependent(dependent[walk.dependent_key.rows != 0])
        pseudo.add_statics(walk.statics, static)
        pseudo.add_com(range(self.objects + len(self.undefined), first))
        starts, target = self._edges(target, ccw, rcw, pseudo)
        code = walk.type_code.taken()
        for at in range(0, len(code), _CHUNK):  # the whole of it would be copied, as wider numbers
            code[at : at + _CHUNK] = type_of[code[at : at + _CHUNK]]
        node_type = _appended(
            code, np.zeros(len(self.undefined), np.uint32), np.array(ccw_types, np.uint32), pseudo.types
        )
        size = walk.size.taken()
        if walk.rcws:
            wrapped = self.index.find(np.array(list(walk.rcws), np.uint64))
            size[wrapped[wrapped != NONE]] += _RCW_BYTES
        size = _appended(
            size, np.zeros(len(self.undefined), size.dtype), np.full(len(self.ccws), _CCW_BYTES, size.dtype),
            np.zeros(len(pseudo), size.dtype),
        )  # fmt: skip
        del self.index
        address = _appended(walk.address.taken(), self.undefined, self._ccw_addresses, np.zeros(len(pseudo), np.uint64))
        return Heap(
            node_type=node_type,
            node_size=size,
            node_address=address,
            node_generation=generations(address, walk.segments),
            edge_start=starts,
            edge_target=target,
            type_name=Text.from_pylist(types.names),
            type_module=Text.from_pylist(types.modules),
            root=first,
            roots=root_table(walk, self.ccws, (root_object, dependent, static, ccw)),
            facts=replace(self.facts, segments=tuple(walk.segments)),
            completeness=Completeness(problems=tuple(self.problems)),
        )

    def _edges(self, target: Array, ccw: Array, rcw: Array, pseudo: PseudoNodes) -> tuple[Array, Array]:
        """Where the references of each node begin, and all of them."""
        starts = self.walk.edge_start.taken()
        if (rcw != NONE).any():
            starts, target = self._with_rcws(starts, target, rcw)
        kept = [np.array([row], np.uint32) if row != NONE else np.zeros(0, np.uint32) for row in ccw.tolist()]
        counts = [*([0] * len(self.undefined)), *map(len, kept), *pseudo.counts]
        total = len(target) + sum(counts)
        ends = len(target) + np.cumsum(np.array(counts, np.int64))
        if total > np.iinfo(np.uint32).max and starts.dtype == np.uint32:
            starts = starts.astype(np.int64)
        starts = starts.view(np.int64) if starts.dtype == np.uint64 else starts
        return _appended(starts, ends.astype(starts.dtype)), _appended(target, *kept, *pseudo.children)

    def _with_rcws(self, starts: Array, target: Array, rcw: Array) -> tuple[Array, Array]:
        """Objects with a wrapper refer to it, behind all else."""
        objects = self.index.find(np.array(list(self.walk.rcws), np.uint64))
        there = (objects != NONE) & (rcw != NONE)
        objects, rcw = objects[there], rcw[there]
        order = np.argsort(objects, kind="stable")
        objects, rcw = objects[order], rcw[order]
        more = np.zeros(len(starts), np.int64)
        np.add.at(more, objects.astype(np.int64) + 1, 1)
        target = np.insert(target, starts[objects.astype(np.int64) + 1].astype(np.int64), rcw)
        return (starts + np.cumsum(more)).astype(starts.dtype), target


def _appended(column: Array, *parts: Array) -> Array:
    """The column with others behind it, in its own memory where that can grow."""
    count = len(column)
    total = count + sum(map(len, parts))
    if column.base is None and column.flags.owndata:
        column.resize(total, refcheck=False)
    else:
        column = np.concatenate([column, np.empty(total - count, column.dtype)])
    for part in parts:
        column[count : count + len(part)] = part
        count += len(part)
    return column
