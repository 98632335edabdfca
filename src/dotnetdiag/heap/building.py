"""From what the runtime has told to the graph: addresses become rows, ids become types, roots hang under pseudo-nodes.

The nodes are the objects in the order in which they were told of, then those that are referred to and were never described, then COM
wrappers, then the pseudo-nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.events.columns import Text
from dotnetdiag.heap.facts import NOT_TOLD, Completeness, HeapFacts
from dotnetdiag.heap.generations import generations
from dotnetdiag.heap.heap import Heap
from dotnetdiag.heap.kernels import NONE, recode
from dotnetdiag.heap.pseudo_nodes import PseudoNodes, root_table
from dotnetdiag.heap.type_names import TypeRows, TypeTable
from dotnetdiag.heap.walk import Walk
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

_OUTSIDE_BYTES = 64 << 20
"""What objects may have more than all generations: texts and others lie outside. How many fewer they have tells nothing: free space counts too."""
_CCW_BYTES, _RCW_BYTES = 200, 1000
"""What the reference takes for the size of a wrapper, and adds to an object that has one."""


def build(walk: Walk, types: TypeRows, modules: Mapping[int, str], facts: HeapFacts, problems: Sequence[str]) -> Heap:
    """The heap of a walk, which is used up. ``problems`` are those already known."""
    found = [*walk.problems(), *problems]
    size = int(walk.size.rows.sum(dtype=np.uint64))
    if facts.heap_bytes is not None and size > facts.heap_bytes + facts.heap_bytes // 4 + _OUTSIDE_BYTES:
        found.append(
            f"objects have {size:,} bytes, and all generations {facts.heap_bytes:,} by the collector's own account"
        )
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
        resolved = walk.resolve()
        self.index, self._lost = resolved.index, resolved.lost
        del resolved
        self.undefined: Array = np.zeros(0, np.uint64)

    def heap(self) -> Heap:
        walk = self.walk
        if self.index.duplicates:
            self.problems.append(f"{self.index.duplicates:,} addresses are told of more than once")
        lost = self._lost
        roots = [
            *(row.rows for row in (walk.root_object, walk.dependent_object)),
            np.array([root.address for root in walk.statics], np.uint64),
            np.array([root.address for root in self.ccws], np.uint64),
            np.array(list(walk.rcws.values()), np.uint64),
        ]
        kept = walk.root_flags.rows & 2 == 0
        kept_dependent = walk.dependent_key.rows != 0
        held = distinct(np.concatenate([lost, roots[0][kept], roots[1][kept_dependent], *roots[2:4]]))
        held = held[self._found(held) == NONE]
        weak = distinct(roots[0][~kept])
        unknown = int((held != 0).sum()) + int(((self.index.find(weak) == NONE) & (weak != 0)).sum())
        if unknown:
            self.problems.append(f"{unknown:,} {NOT_TOLD}")
        wrapped = roots[4][self._found(roots[4]) == NONE]  # nobody tells of these
        self.undefined = distinct(np.concatenate([held, wrapped]))
        if len(lost):
            self._mend(lost)
        return self._joined([self.rows_of(part) for part in roots])

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

    def _mend(self, lost: Array) -> None:
        """References to what was never described lead to a node of their own."""
        target = self.walk.target.rows
        rows = np.flatnonzero(target == NONE)
        target[rows] = self.rows_of(lost)

    def _joined(self, roots: Sequence[Array]) -> Heap:
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
        starts, target = self._edges(ccw, rcw, pseudo)
        if walk.rcws:
            wrapped = self.index.find(np.array(list(walk.rcws), np.uint64))
            walk.size.add(wrapped[wrapped != NONE], _RCW_BYTES)
        del self.index
        walk.resolved = None
        recode(walk.type_code.rows, type_of)
        for column, *parts in (
            (walk.type_code, np.zeros(len(self.undefined), np.uint32), np.array(ccw_types, np.uint32), pseudo.types),
            (
                walk.size, np.zeros(len(self.undefined), np.uint32), np.full(len(self.ccws), _CCW_BYTES, np.uint32),
                np.zeros(len(pseudo), np.uint32),
            ),
            (walk.address, self.undefined, self._ccw_addresses, np.zeros(len(pseudo), np.uint64)),
        ):  # fmt: skip
            for part in parts:
                column.extend(part)
        address = walk.address.taken()
        return Heap(
            node_type=walk.type_code.taken(),
            node_size=walk.size.taken(),
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

    def _edges(self, ccw: Array, rcw: Array, pseudo: PseudoNodes) -> tuple[Array, Array]:
        """Where the references of each node begin, and all of them."""
        starts, target = self.walk.edge_start, self.walk.target
        if (rcw != NONE).any():
            self._add_rcws(rcw)
        is_there = ccw != NONE
        counts, children = pseudo.children
        more = np.concatenate([np.zeros(len(self.undefined), np.uint64), is_there, counts]).astype(np.uint64)
        starts.extend(np.uint64(len(target)) + np.cumsum(more))
        target.extend(ccw[is_there])
        target.extend(children)
        made = starts.taken()
        return made.view(np.int64) if made.dtype == np.uint64 else made, target.taken()

    def _add_rcws(self, rcw: Array) -> None:
        """Objects with a wrapper refer to it, behind all else."""
        objects = self.index.find(np.array(list(self.walk.rcws), np.uint64))
        there = (objects != NONE) & (rcw != NONE)
        objects, rcw = objects[there].astype(np.int64), rcw[there]
        order = np.argsort(objects, kind="stable")
        objects, rcw = objects[order], rcw[order]
        starts, target = self.walk.edge_start.taken().astype(np.uint64), self.walk.target.taken()
        more = np.zeros(len(starts), np.uint64)
        np.add.at(more, objects + 1, 1)
        self.walk.target.extend(np.insert(target, starts[objects + 1].astype(np.int64), rcw))
        self.walk.edge_start.extend(starts + np.cumsum(more))
