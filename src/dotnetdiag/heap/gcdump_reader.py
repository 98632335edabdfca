"""Reads ``.gcdump`` files into columns (gcdump.md §3)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.events.columns import Text
from dotnetdiag.heap import kernels
from dotnetdiag.heap.facts import MOST_BYTES, NOT_DESCRIBED, Completeness, HeapFacts
from dotnetdiag.heap.gcdump_parts import read_parts
from dotnetdiag.heap.generations import generations
from dotnetdiag.heap.heap import Heap
from dotnetdiag.heap.interop import without_interfaces
from dotnetdiag.heap.log_lines import without_own_lines
from dotnetdiag.heap.pseudo_nodes import roots_of_pseudo_nodes
from dotnetdiag.heap.type_names import merged

Array: TypeAlias = "np.ndarray[Any, Any]"

_LARGEST = (1 << 31) - 1
NO_ROOTS = "what holds objects is missing: what they keep alive is not known"
_NOTHING_BYTES = 2
"""Of the record of nothing, which the others stand behind."""


def read_gcdump(data: bytes | bytearray | memoryview) -> Heap:
    """The heap of a file, which may be mapped; nothing of it is held.

    A file whose end is missing gives what there is of its objects, and says so (``completeness``), as long as all types and the places of all
    nodes are there; and so does one whose log tells what was missing when we wrote it. FormatError for what is no such file, or is damaged.
    """
    graph, facts, problems = read_parts(memoryview(data).cast("B"))
    offsets = np.frombuffer(graph.offsets, f"<u{graph.offset_bytes}")
    types, sizes, starts, targets, wrong, astray, used = kernels.read_nodes(
        np.frombuffer(graph.blob, np.uint8), offsets.astype(np.uint32, copy=False), np.array(graph.sizes, np.int32)
    )
    addresses = np.zeros(graph.nodes, np.uint64)
    addresses[: len(graph.addresses) // 8] = np.frombuffer(graph.addresses, "<u8")
    if wrong:
        problems.append(f"{wrong:,} nodes have no record that can be read")
    if astray:
        problems.append(f"{astray:,} references lead to no node")
    room = max(len(graph.blob) - _NOTHING_BYTES, 0)
    if used > room:  # each byte belongs to one record
        problems.append(f"records overlap: they have {used:,} bytes together, and there are {room:,}")
    elif used < room and not wrong:
        problems.append(f"{room - used:,} bytes of records belong to no node: references of others are missing")
    numbers, names, modules, has_sizes = merged(graph.names, graph.modules)
    facts = _by_types(facts, numbers, types, len(names), problems)
    if numbers != list(range(len(numbers))):
        np.take(np.array(numbers, np.uint32), types, out=types, mode="clip")
    undescribed = without_interfaces(addresses[np.flatnonzero(offsets == 0)], facts.interop)
    if undescribed:
        problems.append(f"{undescribed:,} {NOT_DESCRIBED}")
    unknown = sum(name.startswith("UNKNOWN 0x") for name in names)
    if unknown:
        problems.append(f"{unknown:,} types have no name")
    if len(starts) > 2 and starts[graph.root] == starts[graph.root + 1]:
        problems.append(NO_ROOTS)
    own = without_own_lines(facts.log)  # of the heap that was written
    sizes = _with_large(sizes, graph.total_bytes, own.sizes, problems)
    problems = list(dict.fromkeys([*own.problems, *problems]))
    type_name = Text.from_pylist(names)
    return Heap(
        node_type=types,
        node_size=sizes,
        node_address=addresses,
        node_generation=generations(addresses, facts.segments),
        edge_start=starts,
        edge_target=targets,
        type_name=type_name,
        type_module=Text.from_pylist(modules),
        root=graph.root,
        roots=roots_of_pseudo_nodes(names, types, starts, targets, graph.root),
        facts=replace(facts, log=own.log, has_sizes_in_names=has_sizes),
        completeness=Completeness(problems=tuple(problems)),
    )


def _by_types(facts: HeapFacts, numbers: Sequence[int], types: Array, kinds: int, problems: list[str]) -> HeapFacts:
    """What is told by the numbers of types, by those that they have here: ``numbers``, of each of the file's. ``types`` are the file's of all nodes.
    Where several types are one here whose multipliers differ, it has their mean by how many nodes there are of each.
    """
    to, interop, multipliers = np.array(numbers, np.int64), facts.interop, facts.multipliers
    if interop is not None and len(interop.interfaces):
        interfaces, kind = interop.interfaces.copy(), interop.interfaces["type"].astype(np.int64)
        is_there = (kind >= 0) & (kind < len(to))
        interfaces["type"] = 0
        interfaces["type"][is_there] = to[kind[is_there]]
        interop = replace(interop, interfaces=interfaces)
        if not is_there.all():
            problems.append(f"{int((~is_there).sum()):,} interfaces of COM objects are of no type")
    if len(multipliers) and len(multipliers) != len(to):
        problems.append(f"there are {len(multipliers):,} multipliers, of {len(to):,} types")
        multipliers = ()
    elif len(multipliers):
        told = np.array(multipliers, np.float32).astype(np.float64)
        weights = np.bincount(types, minlength=len(to))[: len(to)].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            mean = np.bincount(to, weights * told, kinds) / np.bincount(to, weights, kinds)
            plain = np.bincount(to, told, kinds) / np.bincount(to, minlength=kinds)
            is_one = np.bincount(to, minlength=kinds) == 1
            made = np.where(is_one | np.isnan(mean), plain, mean).astype(np.float32)
        multipliers = array("f", made.tobytes())
    return replace(facts, interop=interop, multipliers=multipliers)


def _with_large(sizes: Array, total: int, told: Sequence[tuple[int, int]], problems: list[str]) -> Array:
    """Sizes end at 2^31 - 1 in records, and the total does not: the size of a single larger object is the rest, and those of several are ``told``
    in the log of a file of ours.
    """
    rest = total - int(sizes.sum(dtype=np.uint64))
    if not rest:
        return sizes
    large = np.flatnonzero(sizes == _LARGEST)
    if len(large) == 1 and 0 < rest < MOST_BYTES - _LARGEST:
        return _with_sizes(sizes, large, np.array([_LARGEST + rest], np.uint64))
    if len(large) > 1 and rest > 0:
        nodes, full = (np.array([pair[place] for pair in told], np.uint64) for place in (0, 1))
        if len(nodes) and _are_whole(sizes, nodes, full, rest):
            return _with_sizes(sizes, nodes.astype(np.int64), full)
        problems.append(f"{len(large):,} objects are larger than their records can say, by {rest:,} bytes together")
    else:
        problems.append(f"nodes have {total - rest:,} bytes, and {total:,} by the file's own account")
    return sizes


def _are_whole(sizes: Array, nodes: Array, full: Array, rest: int) -> bool:
    """Whether the sizes of some nodes are those that the file's total is made of: nobody need believe what a log says."""
    if len(np.unique(nodes)) < len(nodes) or int(nodes.max()) >= len(sizes) or int(full.max()) >= MOST_BYTES:
        return False
    is_cut: bool = bool((sizes[nodes.astype(np.int64)] == _LARGEST).all()) and int(full.min()) > _LARGEST
    return is_cut and int((full - np.uint64(_LARGEST)).sum()) == rest


def _with_sizes(sizes: Array, nodes: Array, full: Array) -> Array:
    sizes = sizes.astype(np.uint64) if int(full.max()) >= 1 << 32 else sizes
    sizes[nodes] = full
    return sizes
