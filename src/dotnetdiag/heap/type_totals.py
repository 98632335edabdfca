"""Objects, bytes and what is kept alive by type, of the records of a ``.gcdump`` as they lie there: what the report needs, and no column.

Measured, of 5.9 million nodes (reference: 0.84 s): with all columns 0.44 s and 334 MB, of which 0.13 s were numpy and what needs it, and most
of the rest memory that was written to for the first time. Here it is 24 bytes for each node, by the number that a search in depth gives it;
most dominators are the parents of that search, and what a type keeps alive is counted on the way down, without what each node keeps alive.

Whatever is odd in a file is told by the other way, ``gcdump_reader.py``: this one gives up then.
"""

from __future__ import annotations

import mmap
import os
from array import array
from contextlib import suppress
from types import ModuleType
from typing import Any

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import FormatError
from dotnetdiag.heap.compiled import compiled
from dotnetdiag.heap.facts import NOT_DESCRIBED, Completeness, HeapFacts
from dotnetdiag.heap.gcdump_parts import GraphParts, read_parts
from dotnetdiag.heap.log_lines import without_own_lines
from dotnetdiag.heap.pages import have_ready
from dotnetdiag.heap.type_names import UNDEFINED, merged

MOST_NODES = 1 << 26
"""Columns of larger heaps may lie in files (``scratch.py``)."""
_MOST_SETS = 1 << 16
_PIECE = 4 << 20
_KEY = int.from_bytes(os.urandom(8), "little") | 1
"""As of ``kernels.py``."""


KERNELS: ModuleType | None = compiled()
"""None where there are none: :func:`of_file` gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTotals:
    """What :class:`heap.Heap` says under the same names; ``rows`` are those of its ``types``."""

    nodes: int
    edges: int
    bytes: int
    objects: int
    has_roots: bool
    facts: HeapFacts
    completeness: Completeness
    rows: list[dict[str, Any]]


def of_file(view: memoryview) -> Search | None:
    """The way to the totals of a file; None of one that is not whole, or not as ours and the reference's are. Nothing is raised: who reads it
    otherwise says what is wrong.
    """
    if KERNELS is None:
        return None
    try:
        graph, facts, problems = read_parts(view)
        if problems or graph.offset_bytes != 4 or not 0 < graph.nodes <= MOST_NODES or not len(graph.blob):
            return None
        if not len(graph.names) or graph.names[0] != UNDEFINED:  # the type of what is not described
            return None
        return Search(view, graph, facts)
    except (FormatError, OSError):  # no place for so much, and the other way needs more
        return None


class Search:
    """``search()``, which takes long and leaves the interpreter to others; meanwhile ``prepare()``, and then ``totals()``."""

    def __init__(self, view: memoryview, graph: GraphParts, facts: HeapFacts) -> None:
        self._view, self._graph, self._facts = view, graph, facts
        n, words = graph.nodes, graph.nodes // 32 + 1
        self._bytes = 4 * (8 * n + words + 2 * len(graph.blob))  # a reference has a byte at least
        self._memory = _memory(self._bytes)
        memory = memoryview(self._memory).cast("I")
        self._columns = [memory[at * n : (at + 1) * n] for at in range(4)]
        self._others = memory[4 * n : 4 * n + words], memory[4 * n + words : 8 * n + words], memory[8 * n + words :]
        numbers, self._names, self._modules, self._has_sizes = merged(graph.names, graph.modules)
        self._kinds = array("I", numbers)
        kinds = bytes(8 * len(self._names))
        self._counts, self._totals, self._kept = array("q", kinds), array("Q", kinds), array("Q", kinds)
        self._found = 0, 0, 0
        self._records = self._objects = self._undescribed = 0

    def search(self) -> None:
        """Find what is reached from the root, and what dominates it."""
        graph = self._graph
        assert KERNELS is not None
        self._found = KERNELS.dominate_records(
            graph.blob, graph.offsets, self._kinds, graph.sizes, graph.root,
            *self._columns, *self._others, self._counts, self._totals,
        )  # fmt: skip

    def prepare(self) -> None:
        """Have memory at hand that :meth:`search` will write to, and look at the addresses."""
        assert KERNELS is not None
        graph = self._graph
        self._populate(4 * graph.nodes)
        found = [0, 0, 0]
        for first in range(0, graph.nodes, _PIECE // 8):
            last = min(first + _PIECE // 8, graph.nodes)
            some = KERNELS.count_addresses(graph.addresses[8 * first : 8 * last], graph.offsets[4 * first : 4 * last])
            found = [one + other for one, other in zip(found, some, strict=True)]
            self._release(graph.addresses_at + 8 * first, graph.addresses_at + 8 * last)
        self._records, self._objects, self._undescribed = found

    def _populate(self, size: int) -> None:
        """Side by side in all columns: the search writes to them so."""
        for first in range(0, size, _PIECE):
            for column in range(len(self._columns)):
                start = column * size + first
                if not have_ready(self._memory, start, start + _PIECE):
                    return

    def _release(self, start: int, end: int) -> None:
        """Take pages of a mapped file out of this process; the system still has them."""
        mapped, first = self._view.obj, -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and end > first:
            mapped.madvise(mmap.MADV_DONTNEED, first, end - first)

    def _lost(self) -> int:
        """Of the nodes without a record those that are objects. Who writes of COM objects is on Windows, and such files are rare."""
        import numpy as np

        from dotnetdiag.heap.interop import without_interfaces

        offsets = np.frombuffer(self._graph.offsets, "<u4")
        addresses = np.frombuffer(self._graph.addresses, "<u8")
        return without_interfaces(addresses[offsets == 0], self._facts.interop)

    def totals(self) -> TypeTotals | None:
        """What there is; None where anything is odd."""
        graph, kinds = self._graph, len(self._names)
        count, edges, edges_of_root = self._found
        if graph.nodes > 1 and not edges_of_root:
            return None
        if not count or not self._objects or edges > len(graph.blob) - 2 * self._records:
            return None
        self._kept[:] = self._totals  # what is not reached has itself
        assert KERNELS is not None
        slots, ids, sets = array("i", b"\xff" * (8 * _MOST_SETS)), _zeros("Q"), _zeros("I")
        if not KERNELS.add_up_by_type(
            count, *self._columns[1:], slots, ids, sets, _zeros("q"), _zeros("Q"), _KEY,
            self._counts, self._totals, self._kept,
        ) or sum(self._totals) != graph.total_bytes:  # fmt: skip
            return None
        own = without_own_lines(self._facts.log)
        problems = [*own.problems]
        if self._undescribed and self._facts.interop is not None:
            self._undescribed = self._lost()
        if self._undescribed:
            problems.append(f"{self._undescribed:,} {NOT_DESCRIBED}")
        unknown = sum(name.startswith("UNKNOWN 0x") for name in self._names)
        if unknown:
            problems.append(f"{unknown:,} types have no name")
        return TypeTotals(
            nodes=graph.nodes,
            edges=edges,
            bytes=graph.total_bytes,
            objects=self._objects,
            has_roots=graph.nodes < 2 or edges_of_root > 0,
            facts=replace(self._facts, log=own.log, has_sizes_in_names=self._has_sizes),
            completeness=Completeness(problems=tuple(dict.fromkeys(problems))),
            rows=self._rows(kinds),
        )

    def _rows(self, kinds: int) -> list[dict[str, Any]]:
        counts, totals = self._counts, self._totals
        order = sorted(
            (number for number in range(kinds) if counts[number] and (number or totals[number])),
            key=lambda number: (-totals[number], -counts[number]),
        )
        return [
            {
                "type": self._names[number],
                "module": self._modules[number],
                "count": counts[number],
                "bytes": totals[number],
                "retained_bytes": self._kept[number],
            }
            for number in order
        ]


def _zeros(kind: str) -> array[int]:
    return array(kind, bytes(_MOST_SETS * array(kind).itemsize))


def _memory(size: int) -> mmap.mmap:
    """Zeros, of which only what is written to takes memory."""
    private = (
        {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    )  # what is shared has no large pages
    made = mmap.mmap(-1, size, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            made.madvise(mmap.MADV_HUGEPAGE)
    return made
