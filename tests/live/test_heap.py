"""Heaps of real processes: the workload's objects are counted as it says, and the graph is the oracle's, object by object."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.heap.help import heap_of, heaps_of, oracle_types, types_of
from tests.live.runtimes import REQUIRED, command

import dotnetdiag as dd
from dotnetdiag.heap import Heap, write_gcdump

pytestmark = pytest.mark.live

HEAP = "Microsoft-Windows-DotNETRuntime:0x1980001:5"
WITH_GENERATIONS = "Microsoft-Windows-DotNETRuntime:0x1D80001:5"


def recorded(runtime: str, path: Path, nodes: int, leaves: int, *, providers: str = HEAP, server: bool = False) -> str:
    """What the workload says of its heap, which is in the file then. It says so before it is ready."""
    words, own = command(runtime, "heap", f"nodes={nodes}", f"leaves={leaves}")
    environment = {**os.environ, **own, "DOTNET_gcServer": str(int(server))}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("done heap")
        assert process.stdout.readline().startswith("ready")
        dd.collect(process.pid, path, providers=providers, duration=1, buffer_mb=512)
    finally:
        process.kill()
        process.communicate()
    return said


def assert_the_same(heap: Heap, verb: str, path: Path) -> None:
    types, end = oracle_types(verb, path)
    assert types_of(heap) == types
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])


def assert_counts(heap: Heap, said: str) -> None:
    told = dict(word.split("=") for word in said.split()[2:])
    counts = {row["type"].rpartition(".")[2]: row["count"] for row in heap.types}
    for name in ("Node", "Leaf", "Ring"):
        assert counts[name] == int(told[name])
    largest = int(heap.node_size.max())
    assert int(told["big"]) < largest < int(told["big"]) + 64


@pytest.mark.parametrize(("nodes", "leaves"), [(10, 5), (30_000, 4_000)])
@pytest.mark.parametrize("runtime", [name for name in REQUIRED if name != "NativeAOT"])
def test_the_heap_is_what_the_workload_and_the_oracle_say(
    runtime: str, nodes: int, leaves: int, tmp_path: Path
) -> None:
    path = tmp_path / "heap.nettrace"
    said = recorded(runtime, path, nodes, leaves)
    heap = heap_of(path)
    assert heap.completeness.problems == ()
    assert_counts(heap, said)
    assert_the_same(heap, "heap", path)
    with (tmp_path / "ours.gcdump").open("wb") as file:
        write_gcdump(heap, file)
    assert_the_same(heap, "gcdump", tmp_path / "ours.gcdump")
    (nodes_path,) = [row for row in heap.paths_to_root("Workload.Node") if row["count"] == nodes]
    assert nodes_path["path"][-1] == "Workload.Node"
    (held,) = [row for row in heap.tree(minimum=0) if row["type"] == "Workload.Leaf" and row["count"] == leaves]
    assert held["retained_bytes"] > held["bytes"]


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
@pytest.mark.parametrize("server", [False, True])
def test_generations_are_told_also_by_the_server_collector(runtime: str, server: bool, tmp_path: Path) -> None:
    path = tmp_path / "heap.nettrace"
    said = recorded(runtime, path, 20_000, 100, providers=WITH_GENERATIONS, server=server)
    heap = heap_of(path)
    assert heap.completeness.problems == ()
    assert_counts(heap, said)
    assert_the_same(heap, "heap", path)
    by_generation = {row["generation"]: row["count"] for row in heap.generations}
    assert by_generation["large objects"] >= 1
    young = sum(by_generation.get(name, 0) for name in ("gen0", "gen1", "gen2"))
    assert young > 20_000


def test_native_aot_walks_no_heap_when_asked(tmp_path: Path) -> None:
    """Its runtime takes the keyword, and makes no collection of it: a recording has no heap, and says none."""
    path = tmp_path / "heap.nettrace"
    recorded("NativeAOT", path, 1000, 10)
    assert heaps_of(path) == ()
