"""The graph of a heap's objects in columns: what is there, what each refers to, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dotnetdiag.heap import histogram
from dotnetdiag.heap.graph import Graph

if TYPE_CHECKING:
    from dotnetdiag.table import Table


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Heap(Graph):
    """One dump. The columns are plain arrays, which nobody may write to.

    ===================  =============================================================================================
    ``node_type``        u32, index into the types
    ``node_size``        bytes: u32, or u64 where an object is that large
    ``node_address``     u64; 0 of pseudo-nodes, and of what was referred to as nothing
    ``node_generation``  i8: 0, 1, 2, 3 (large objects), 4 (pinned ones), -1 where it is not told
    ``edge_start``       one more than nodes: u32, or i64 where there are that many references
    ``edge_target``      u32, node
    ``type_name``        texts, in the reference's spelling; index 0 is of nodes that nothing is known of
    ``type_module``      texts, path of the file; None of pseudo-nodes
    ``root``             the node ``[.NET Roots]``, from which all is reached that is alive
    ``roots``            a row for each root that the runtime told of; empty where a file has none
    ===================  =============================================================================================

    References are in CSR form: those of node ``n`` are ``edge_target[edge_start[n]:edge_start[n + 1]]``, in the order in which they stand in the
    object, those to the same object again too. ``completeness`` says whether all is there.
    """

    @cached_property
    def types(self) -> Table:
        """A row for each type, most bytes first: ``type``, ``module``, ``count``, ``bytes``, ``retained_bytes`` (what the objects of the type
        keep alive together).
        """
        return histogram.type_table(self)

    def __repr__(self) -> str:
        state = "complete" if self.completeness.complete else f"{len(self.completeness.problems)} problems"
        return f"<Heap: {self.nodes:,} nodes, {self.edges:,} references, {self.bytes:,} bytes, {state}>"
