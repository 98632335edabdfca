"""The graph of a recording is the one that the reference's reader builds of it, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.heap.help import heap_of, heaps_of, oracle_types, types_of
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import UsageError
from dotnetdiag.heap import HeapFold

RECORDING = "heap-10.nettrace"


def test_the_heap_of_a_recording_is_the_oracles(tmp_path: Path) -> None:
    path = tmp_path / RECORDING
    path.write_bytes(data_of(RECORDING))
    heap = heap_of(data_of(RECORDING))
    types, end = oracle_types("heap", path)
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])
    assert types_of(heap) == types


def test_the_workloads_objects_are_counted() -> None:
    heap = heap_of(data_of(RECORDING))
    counts = {row["type"]: row["count"] for row in heap.types}
    assert (counts["Workload.Node"], counts["Workload.Leaf"], counts["Workload.Ring"]) == (1001, 501, 66)
    assert heap.completeness.complete
    assert heap.facts.pid == 11629
    assert heap.facts.process == "dotnet"
    assert heap.facts.pause_ms is not None
    assert heap.facts.heap_bytes is not None
    assert heap.facts.heap_bytes >= heap.bytes - 65536  # string literals lie outside of it


def test_roots_are_told_with_kind_and_name() -> None:
    heap = heap_of(data_of(RECORDING))
    roots = heap.roots.to_pylist()
    assert {row["kind"] for row in roots} == {"stack", "handle", "static"}
    ring = next(row for row in roots if row["name"] == "ring")
    assert heap.type_name.item(int(heap.node_type[ring["node"]])) == "Workload.Ring"


def test_csr_columns_fit_each_other() -> None:
    heap = heap_of(data_of(RECORDING))
    starts = heap.edge_start.astype(np.int64)
    assert starts[0] == 0
    assert starts[-1] == len(heap.edge_target)
    assert (np.diff(starts) >= 0).all()
    assert int(heap.edge_target.max()) < heap.nodes
    assert heap.type_name.item(int(heap.node_type[heap.root])) == "[.NET Roots]"


def test_a_recording_without_a_walk_has_no_heap() -> None:
    assert heaps_of(data_of("gccollect-10.nettrace")) == ()


def test_no_window_is_an_error() -> None:
    with pytest.raises(UsageError):
        HeapFold().result()
