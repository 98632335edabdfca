"""The graph of a heap's objects in columns: what is there, what each refers to, and what that comes to."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.heap import histogram, tree
from dotnetdiag.heap.advice import advice_table
from dotnetdiag.heap.difference import HeapDiff, diff
from dotnetdiag.heap.graph import Graph
from dotnetdiag.heap.paths import path_table
from dotnetdiag.heap.tables import all_tables

if TYPE_CHECKING:
    import igraph
    import networkx

    from dotnetdiag.table import Table

PATHS, OBJECTS, DEPTH = 20, 100, 8
"""Rows of :meth:`Heap.paths_to_root` and :meth:`Heap.largest`, and levels of :meth:`Heap.tree`, where none are asked for."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Heap(Graph):
    """One dump. The columns are plain arrays, which nobody can write to.

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
        keep alive together: of the graph as it is, in which an array of the runtime's own holds what static variables hold, so that these
        keep little alive; :meth:`tree` has theirs).
        """
        return histogram.type_table(self)

    @cached_property
    def by_retained(self) -> Table:
        """The rows of :attr:`types`, without what holds roots, those first that keep most alive."""
        return histogram.by_retained(self.types)

    @cached_property
    def by_module(self) -> Table:
        """``module``, ``count``, ``bytes``, ``retained_bytes``, most bytes first; pseudo-nodes have no module."""
        return histogram.module_table(self)

    @cached_property
    def by_namespace(self) -> Table:
        """``namespace``, ``count``, ``bytes``, ``retained_bytes``, most bytes first. The runtime tells none of types that are inside of others,
        which are in a row without a name.
        """
        return histogram.namespace_table(self)

    @cached_property
    def generations(self) -> Table:
        """``generation``, ``count``, ``bytes``, the youngest first."""
        return histogram.generation_table(self)

    def largest(self, limit: int = OBJECTS) -> Table:
        """The objects that keep most alive: ``node``, ``address``, ``type``, ``module``, ``bytes``, ``retained_bytes``, ``held_by`` (the type of what
        it stands under in the tree). UsageError for a limit below 0.
        """
        return tree.largest_table(self, limit)

    def tree(self, depth: int = DEPTH, minimum: int | None = None) -> Table:
        """The dominators down to a level, what has the same type under the same one in one row: ``level``, ``parent`` (a row of this table),
        ``type``, ``module``, ``count``, ``bytes``, ``retained_bytes``, in the order in which a tree is printed. Rows that keep fewer bytes alive
        than ``minimum`` are left out: a thousandth of the heap where none is given. What a static variable alone holds is under it, what several
        hold under what all ways to it share; the place of a variable in an array of the runtime's is the variable. UsageError for a number
        below 0.
        """
        return tree.tree_table(self, depth, minimum)

    def paths_to_root(self, what: str | int, limit: int = PATHS) -> Table:
        """Why objects are alive: ``count``, ``bytes``, ``steps``, ``is_shortest`` and ``path`` (types from the root on), what is reached over the
        same types in one row, and steps to the same type again as one. First the way of each object that is the shortest from what lasts
        (static variables, handles, the finalizer), or from a stack where nothing else holds it: ``is_shortest``, whose counts add up to what
        is reached, most objects first. Then other ways, on which an object may be counted again.

        ``what`` is an address (``0x7f…`` or a number), or a type: a name; else the last part of names (``Session`` of ``MyApp.Session``); else
        what is in names, in any case. What holds roots is meant by what begins with ``[`` alone. ``notes`` tell what was taken for a part. Behind
        ``[Dependent Handles]`` the types of their keys are a step, ``[key App.Key]``, where the runtime told of them: a ``.gcdump`` does not.

        UnknownName where there is no such type or object, UsageError for what is neither a text nor a number.
        """
        return path_table(self, what, limit)

    def diff(self, other: Heap) -> HeapDiff:
        """What has grown from this heap to the other. UsageError for what is no heap."""
        if not isinstance(other, Heap):
            raise UsageError(
                f"a heap is compared with another one, as dd.heap(…) has it, not with a {type(other).__name__}"
            )
        return diff(self, other)

    @cached_property
    def advice(self) -> Table:
        """What is likely to be wrong, as far as the graph can tell: ``kind`` (unreached, static, thread static, finalizer, roots, collection, event,
        timer), ``subject``, ``count``, ``bytes`` and ``advice``, a sentence. Empty where nothing stands out. What several static variables hold
        together is static too, and has the type of its objects for a subject; roots are those of a kind that have no names (``[local vars]``), and
        what several of different kinds hold has the type of its objects. Of collections arrays of references are judged, and tables of
        dictionaries that are certainly empty: a heap does not tell which places of an array of values (``List<int>``) are used.
        """
        return advice_table(self)

    @cached_property
    def tables(self) -> tuple[Table, Table, Table]:
        """``nodes``, ``edges`` and ``types``, joined by ``type_id`` and ``node``: all that there is, for databases and data frames."""
        return all_tables(self)

    def sql(self, query: str) -> Table:
        """What a query of SQL answers, which knows :attr:`tables`: ``heap.sql("from types where type not like '[%]' order by
        retained_bytes desc limit 5")``; what holds roots is in brackets.

        Raises UsageError for what DuckDB refuses, MissingDependency without the extra ``sql``.
        """
        from dotnetdiag.query.heap_sql import heap_sql

        return heap_sql(self, query)

    def to_networkx(self) -> networkx.MultiDiGraph[int]:
        """A graph of networkx; nodes have ``type``, ``module``, ``bytes``, ``address``, ``generation``. For small heaps: an object takes 1 KB of it.

        MissingDependency without the extra ``graph``.
        """
        from dotnetdiag.heap.libraries import to_networkx

        return to_networkx(self)

    def to_igraph(self) -> igraph.Graph:
        """The same of igraph. MissingDependency without the extra ``graph``."""
        from dotnetdiag.heap.libraries import to_igraph

        return to_igraph(self)

    def __repr__(self) -> str:
        state = "complete" if self.completeness.complete else f"{len(self.completeness.problems)} problems"
        return f"<Heap: {self.nodes:,} nodes, {self.edges:,} references, {self.bytes:,} bytes, {state}>"
