"""The graph for libraries that know graphs, each loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import MissingDependency

if TYPE_CHECKING:
    import igraph
    import networkx

    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"


def sources(graph: Graph) -> Array:
    """The node that each reference begins at."""
    starts = graph.edge_start.astype(np.int64)
    return np.repeat(np.arange(graph.nodes, dtype=np.uint32), starts[1:] - starts[:-1])


def to_networkx(graph: Graph) -> networkx.MultiDiGraph[int]:
    """Nodes are numbered as in the heap, with ``type``, ``module``, ``bytes``, ``address`` and ``generation``."""
    try:
        import networkx
    except ImportError as error:
        raise MissingDependency("networkx", extra="graph", purpose="a heap as a graph of networkx") from error
    made: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    names, modules = graph.type_name.to_pylist(), graph.type_module.to_pylist()
    columns = (graph.node_type, graph.node_size, graph.node_address, graph.node_generation)
    made.add_nodes_from(
        (
            node,
            {"type": names[kind], "module": modules[kind], "bytes": size, "address": address, "generation": generation},
        )
        for node, (kind, size, address, generation) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    )
    made.add_edges_from(zip(sources(graph).tolist(), graph.edge_target.tolist(), strict=True))
    return made


def to_igraph(graph: Graph) -> igraph.Graph:
    """The same for igraph, which takes a tenth of the memory."""
    try:
        import igraph
    except ImportError as error:
        raise MissingDependency("igraph", extra="graph", purpose="a heap as a graph of igraph") from error
    names = graph.type_name.to_pylist()
    modules = graph.type_module.to_pylist()
    edges = np.stack([sources(graph), graph.edge_target], axis=1)
    return igraph.Graph(
        n=graph.nodes,
        edges=edges,
        directed=True,
        vertex_attrs={
            "type": [names[kind] for kind in graph.node_type.tolist()],
            "module": [modules[kind] for kind in graph.node_type.tolist()],
            "bytes": graph.node_size.tolist(),
            "address": graph.node_address.tolist(),
            "generation": graph.node_generation.tolist(),
        },
    )
