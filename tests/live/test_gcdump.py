"""Heaps collected from real processes: all there, what the reference reads back, what a leak looks like, and how it goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.heap.help import oracle_types, types_of
from tests.live.compiling import compiled
from tests.live.heaps import HeapTarget, heap_workload
from tests.live.runtimes import REQUIRED, command, workload

import dotnetdiag as dd
from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import TransportError
from dotnetdiag.heap import Heap
from dotnetdiag.recipes import heap_collect, heap_modules
from dotnetdiag.recipes.heap_collect import HeapObserver, HeapOptions, collect_heap
from dotnetdiag.recipes.heap_watch import HeapWatchObserver, watch_heaps
from dotnetdiag.recipes.reading_ahead import ReadingAhead
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target
from dotnetdiag.transport.waiting import start_thread

pytestmark = pytest.mark.live

WALKING = [name for name in REQUIRED if name != "NativeAOT"]
LEAK = """
using System;
using System.Collections.Generic;
namespace Leaking
{
    class Session { public byte[] Data = new byte[1000]; }
    class Branch { public List<Branch> Branches = new List<Branch>(); }
    static class Store
    {
        public static readonly List<Session> Sessions = new List<Session>();
        public static readonly Branch Trunk = new Branch();
        public static readonly List<Session> ByName = new List<Session>(), ByDate = new List<Session>();
        [ThreadStatic] public static List<Session> Own;
    }
    class Program
    {
        static void Main()
        {
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null; )
            {
                if (line == "branches") Branch(); else if (line == "together") Together(); else Grow();
                Console.WriteLine("grown");
            }
        }
        [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
        static void Grow()
        {
            for (int i = 0; i < 2000; i++) Store.Sessions.Add(new Session());
        }
        [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
        static void Branch()
        {
            for (int i = 0; i < 3000; i++) Store.Trunk.Branches.Add(new Branch());
        }
        [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
        static void Together()
        {
            Store.Own = new List<Session>();
            for (int i = 0; i < 2000; i++)
            {
                Session session = new Session();
                Store.ByName.Add(session);
                Store.ByDate.Add(session);
                Store.Own.Add(new Session());
            }
        }
    }
}
"""


def cli(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", "gcdump", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
    )


def assert_counts(heap: Heap, target: HeapTarget) -> None:
    counts = {row["type"].rpartition(".")[2]: row["count"] for row in heap.types}
    assert {name: counts[name] for name in ("Node", "Leaf", "Ring")} == {
        name: target.counts[name] for name in ("Node", "Leaf", "Ring")
    }
    largest = int(heap.node_size.max())
    assert target.counts["big"] < largest < target.counts["big"] + 64


@pytest.mark.parametrize(("nodes", "leaves"), [(100, 50), (200_000, 20_000)])
@pytest.mark.parametrize("runtime", WALKING)
def test_what_is_collected_is_all_there_and_the_reference_reads_it_back(
    runtime: str, nodes: int, leaves: int, tmp_path: Path
) -> None:
    path = tmp_path / "ours.gcdump"
    with heap_workload(runtime, nodes, leaves) as target:
        for _ in range(2):  # the second time types are told again
            done = cli("collect", "-p", target.pid, "-o", path, "--force")
            assert done.returncode == 0, done.stderr
            assert "stands still" in done.stderr
            assert "stood still for" in done.stderr
            assert "The heap is complete: " in done.stderr
            heap = dd.heap(path)
            assert_counts(heap, target)
            assert not any("UNKNOWN" in row["type"] for row in heap.types)
    types, end = oracle_types("gcdump", path)
    assert types_of(heap) == types
    assert (heap.nodes, heap.edges, heap.bytes) == (end["nodes"], end["edges"], end["bytes"])
    assert heap.facts.pid == target.pid
    (way,) = [row for row in heap.paths_to_root("Workload.Node") if row["count"] == nodes]
    assert way["path"][-2:] == ["[static var Workload.Node.list]", "Workload.Node"]


def threads_of_sessions(pid: int) -> int:
    """And the one that waits for who asks."""
    return sum("EventPipe" in path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/comm"))


def assert_sessions_end(pid: int, before: int) -> None:
    ends = time.monotonic() + 20
    while threads_of_sessions(pid) > before:
        assert time.monotonic() < ends, "a session goes on"
        time.sleep(0.02)


@pytest.mark.parametrize("runtime", ["9", "10"])
def test_nobody_waits_for_the_end_of_the_session_which_comes_all_the_same(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules are told by another one."""
    left, has_all = list[bool](), heap_collect._Walk._has_all

    def seen(self: heap_collect._Walk, session: dd.TraceSession) -> bool:
        left.append(has_all(self, session))
        return left[-1]

    monkeypatch.setattr(heap_collect._Walk, "_has_all", seen)
    with heap_workload(runtime, 400_000, 1000) as target:
        before = threads_of_sessions(target.pid)
        for _ in range(20):  # the next begins before the one before has ended
            if left.count(True) == 3:
                break  # on a busy machine the session may be over before modules are told
            done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
            assert_counts(done.heap, target)
            assert (done.heap.completeness.problems, done.attempts, done.are_pauses_known) == ((), 1, True)
            modules = {path for path in done.heap.type_module.to_pylist() if path}
            assert len(modules) > 3
            assert not [path for path in modules if path.startswith("Module(")]
        assert left.count(True) == 3
        assert_sessions_end(target.pid, before)
        assert cli("collect", "-p", target.pid, "-o", tmp_path / "x.gcdump").returncode == 0
        assert_sessions_end(target.pid, before)


def test_a_target_that_is_stopped_in_the_middle_leaves_what_has_come(tmp_path: Path) -> None:
    """What a debugger does, or a container that is frozen."""
    with heap_workload("10", 400_000, 1000) as target:
        sizes = []

        def takes(part: memoryview) -> None:
            sizes.append(len(part))
            if sum(sizes) > 1 << 20:  # what comes first has types, and no objects yet
                os.kill(target.pid, signal.SIGSTOP)

        try:
            done = collect_heap(HeapOptions(target=Target(pid=target.pid), timeout=2, raw=lambda: takes))
        finally:
            os.kill(target.pid, signal.SIGCONT)
        assert 0 < done.heap.objects < 400_000
        assert not done.heap.completeness.complete
        assert not any("0.1 s" in problem for problem in done.heap.completeness.problems)
        with pytest.raises(dd.UsageError, match="no time"):
            collect_heap(HeapOptions(target=Target(pid=target.pid), timeout=0))


def test_the_pause_of_what_is_collected_beside_another_heap_session_is_at_least_that(tmp_path: Path) -> None:
    """The runtime walks once more for the other one, when types are forgotten, and tells that one alone."""
    other = tmp_path / "other.nettrace"
    with heap_workload("10") as target, dd.Client(target.pid) as client:
        with client.trace(heap_collect.PROVIDERS) as session:
            saving = threading.Thread(target=session.save, args=(other,))
            saving.start()
            ends = time.monotonic() + 60
            while session.received_bytes < 100_000:  # its own walk
                assert time.monotonic() < ends
                time.sleep(0.02)
            done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
            session.stop()
            saving.join()
        assert done.attempts > 1
        assert not done.are_pauses_known
        assert done.all_pauses_ms is not None


def test_what_is_collected_once_more_is_told_of_all_types_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before the session that was left has ended."""
    result, walks = heap_collect._Walk._result, list[bool]()  # of each whether it was left

    def lacking(self: heap_collect._Walk, broken: dd.DiagnosticsError | None) -> Heap | None:
        heap = result(self, broken)
        walks.append(self._is_whole)
        if heap is None or len(walks) > 1:
            return heap
        return replace(heap, completeness=replace(heap.completeness, problems=("something is missing",)))

    monkeypatch.setattr(heap_collect._Walk, "_result", lacking)
    with heap_workload("10", 300_000, 1000) as target:
        for _ in range(20):
            walks.clear()
            done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
            assert_counts(done.heap, target)
            assert (done.heap.completeness.problems, done.attempts, len(walks)) == ((), 2, 2)
            if walks[0]:
                return  # on a busy machine the session may be over before modules are told
    raise AssertionError("none was left before its end")


@pytest.mark.parametrize("which", ["_told_by", "_end"])
def test_where_there_are_no_more_threads_it_goes_on_without(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(call: partial[object], answered: object) -> None:
        if call.func.__name__ == which:
            raise TransportError("the system gives this program no more threads")
        start_thread(call, answered)  # type: ignore[arg-type]

    for module in (heap_modules, heap_collect):
        monkeypatch.setattr(
            module,
            "start_thread",
            lambda call, ended: (refusing if isinstance(call, partial) else start_thread)(call, ended),
        )
    with heap_workload("10", 300_000, 1000) as target:
        before = threads_of_sessions(target.pid)
        done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
        assert_counts(done.heap, target)
        assert (done.heap.completeness.problems, done.attempts) == ((), 1)
        assert_sessions_end(target.pid, before)


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_beside_another_session_a_heap_is_walked_once(runtime: str, tmp_path: Path) -> None:
    """A runtime that has told of its types does so once more when a session of theirs begins and ends, whatever other sessions go on."""
    with (
        heap_workload(runtime, 100_000, 1000) as target,
        dd.Client(target.pid) as client,
        client.trace(f"{heap_collect.RUNTIME}:0x1:4", rundown_keyword=0) as session,
    ):
        saving = threading.Thread(target=session.save, args=(tmp_path / "x.nettrace",))
        saving.start()
        for _ in range(3):
            done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
            assert (done.heap.completeness.problems, done.attempts, done.walks) == ((), 1, 1)
        session.stop()
        saving.join()


@pytest.mark.parametrize("trouble", ["refused", "cut", "late", "broken", "nonsense", "cut and nonsense"])
def test_a_session_for_modules_that_fails_is_done_without(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, told_by = heap_modules._begun, heap_modules._told_by

    def beginning(client: dd.Client) -> dd.TraceSession:
        if trouble == "refused":
            raise TransportError("no more sessions")
        return begun(client)

    def troubled(session: dd.TraceSession) -> bytes | None:
        if trouble == "late":
            time.sleep(3)  # the session of the heap ends in 0.1 s
        data = told_by(session)
        if trouble == "broken":
            raise TransportError("it broke off")
        if data is None or not ("cut" in trouble or "nonsense" in trouble):
            return data
        half = len(data) // 2
        if trouble == "nonsense":
            return bytes(reversed(data))
        return data[:half] + b"\xff" * half * ("nonsense" in trouble)

    monkeypatch.setattr(heap_modules, "_begun", beginning)
    monkeypatch.setattr(heap_modules, "_told_by", troubled)
    with heap_workload("10", 200_000, 1000) as target:
        before = threads_of_sessions(target.pid)
        done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
        assert_sessions_end(target.pid, before)
    assert_counts(done.heap, target)
    assert (done.heap.completeness.problems, done.attempts) == ((), 1)
    assert not [path for path in done.heap.type_module.to_pylist() if path and path.startswith("Module(")]


@pytest.mark.parametrize("runtime", ["9", "10"])
def test_the_session_for_modules_has_no_heap_walked(runtime: str, tmp_path: Path) -> None:
    """It ends beside the one that had, and a runtime may walk once more for a session whose provider another one leaves."""
    numbers = list[int]()
    with heap_workload(runtime, 200_000, 1000) as target:
        for name in ("before.nettrace", "after.nettrace"):
            assert cli("collect", "-p", target.pid, "-o", tmp_path / name).returncode == 0
            numbers += dd.gc(dd.open(tmp_path / name)).collections["number"].numpy().tolist()
            for _ in range(3):
                done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
                assert (done.heap.completeness.problems, done.walks) == ((), 1)
    assert len(numbers) == 2
    assert numbers[1] - numbers[0] == 4 * (1 + done.collects_at_end)


@pytest.mark.parametrize("runtime", WALKING)
def test_a_collection_at_the_end_of_the_session_is_told_of(runtime: str, tmp_path: Path) -> None:
    """It is the runtime's own, and has no events: the next collection has a number that is higher by two."""
    numbers = list[int]()
    with heap_workload(runtime, 1000) as target:
        for name in ("before.nettrace", "after.nettrace"):
            done = cli("collect", "-p", target.pid, "-o", tmp_path / name)
            assert done.returncode == 0
            numbers += dd.gc(dd.open(tmp_path / name)).collections["number"].numpy().tolist()
    assert (numbers[1] - numbers[0] == 2) == ("for a collection when the session ended" in done.stderr)


def test_a_session_for_modules_is_left_where_the_one_of_the_heap_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise TransportError("no more sessions")

    with heap_workload("10", 1000) as target:
        before = threads_of_sessions(target.pid)
        monkeypatch.setattr(heap_collect, "_session", refused)
        with pytest.raises(TransportError, match="no more sessions"):
            collect_heap(HeapOptions(target=Target(pid=target.pid)))
        assert_sessions_end(target.pid, before)


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_a_heap_of_a_process_tells_generations_and_the_pause(runtime: str) -> None:
    with heap_workload(runtime, 50_000) as target:
        heap = dd.heap(target.pid)
    assert heap.completeness.problems == ()
    assert heap.facts.pause_ms is not None
    assert 0 < heap.facts.pause_ms < 60_000
    assert {row["generation"]: row["count"] for row in heap.generations}["large objects"] >= 1


@pytest.mark.parametrize("runtime", WALKING)
def test_a_heap_of_the_server_collector_is_whole_at_once(runtime: str) -> None:
    """Its threads are written one after the other: the begin of the collection comes behind objects."""
    with heap_workload(runtime, 300_000, 20_000, DOTNET_gcServer="1", COMPlus_gcServer="1") as target:
        for _ in range(3):
            done = collect_heap(HeapOptions(target=Target(pid=target.pid)))
            assert done.heap.completeness.problems == ()
            assert done.attempts == 1
            assert done.pause_ms is not None
            assert_counts(done.heap, target)


def test_native_aot_is_said_to_walk_no_heap() -> None:
    with heap_workload("NativeAOT") as target:
        done = cli("collect", "-p", target.pid)
    assert done.returncode == 4
    assert "NativeAOT" in done.stderr
    assert "core dump" in done.stderr
    assert "stands still" not in done.stderr


def test_a_raw_session_is_the_same_heap(tmp_path: Path) -> None:
    with heap_workload("10", 5000) as target:
        done = cli("collect", "-p", target.pid, "-o", tmp_path / "raw.nettrace", "--json")
    said = json.loads(done.stdout)
    reported = json.loads(cli("report", tmp_path / "raw.nettrace", "--json").stdout)
    assert reported["complete"]
    assert [said[name] for name in ("nodes", "edges", "bytes")] == [
        reported[name] for name in ("nodes", "edges", "bytes")
    ]
    assert oracle_types("heap", tmp_path / "raw.nettrace")[1]["nodes"] == reported["nodes"]


# leaks ----------------------------------------------------------------------------------------------------------------


@contextmanager
def leaking(folder: Path) -> Iterator[subprocess.Popen[str]]:
    program = compiled(LEAK, folder, "leak")
    words, own = command("10", "heap")
    words = [*words[: words.index(next(word for word in words if word.endswith("workload.dll")))], str(program)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **own}, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def grow(process: subprocess.Popen[str], what: str = "sessions") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "grown\n"


def test_a_list_that_grows_is_named_by_diff_watch_and_advice(tmp_path: Path) -> None:
    before, after = tmp_path / "before.gcdump", tmp_path / "after.gcdump"
    with leaking(tmp_path) as process:
        grow(process)
        assert cli("collect", "-p", process.pid, "-o", before).returncode == 0

        def sampled(*_: object) -> None:
            grow(process)

        seen = watch_heaps(Target(pid=process.pid), every="0.01s", count=4, observer=HeapWatchObserver(sample=sampled))
        assert cli("collect", "-p", process.pid, "-o", after).returncode == 0
    assert len(seen.samples) == 4
    suspects = {one.row["type"]: one for one in seen.suspects}
    assert suspects["Leaking.Session"].row["count_grown"] == 6000
    assert suspects["Leaking.Session"].row["steps"] == 3
    assert any("Sessions" in step for step in suspects["Leaking.Session"].path)
    assert suspects["Leaking.Session"].path[1] == "[static vars]"

    done = cli("diff", before, after, "--fail-above", "1MB", "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert [row["count_grown"] for row in said["types"] if row["type"] == "Leaking.Session"] == [8000]
    assert {"total", "System.Byte[]"} <= set(said["above"])
    assert any("Sessions" in " ".join(row["path"]) for row in said["dominators"][:10])
    assert cli("diff", before, after, "--fail-above", "100MB").returncode == 0
    (told, *_) = json.loads(cli("advice", after, "--json").stdout)
    assert told["kind"] == "static"
    assert "Sessions" in told["subject"]


def test_the_way_to_a_tree_that_grows_is_shown_by_watch(tmp_path: Path) -> None:
    """By type, branches hold lists, lists arrays, and arrays branches."""
    with leaking(tmp_path) as process:
        grow(process, "branches")

        def sampled(*_: object) -> None:
            grow(process, "branches")

        seen = watch_heaps(Target(pid=process.pid), every="0.01s", count=4, observer=HeapWatchObserver(sample=sampled))
    branch, held = "Leaking.Branch", "System.Collections.Generic.List<Leaking.Branch>"
    held_by = {one.row["type"]: one.held_by for one in seen.suspects}
    assert (held_by[branch], held_by[held], held_by[f"{branch}[]"]) == (None, branch, held)
    assert seen.suspects[0].row["type"] == branch
    assert seen.suspects[0].path[:3] == ("[.NET Roots]", "[static vars]", f"[static var {branch}.Trunk]")


def test_what_two_variables_hold_and_what_one_of_a_thread_holds_is_named_by_advice(tmp_path: Path) -> None:
    with leaking(tmp_path) as process:
        grow(process, "together")
        found = {(row["kind"], row["subject"]): row for row in dd.heap(process.pid).advice.to_pylist()}
    together = found["static", "Leaking.Session"]
    assert together["count"] == 2000
    assert "List<Leaking.Session>.ByName" in together["advice"]
    assert "List<Leaking.Session>.ByDate" in together["advice"]
    own = found["thread static", "System.Collections.Generic.List<Leaking.Session>"]
    assert own["count"] == 1
    assert own["bytes"] > 2_000_000


@pytest.mark.parametrize("runtime", WALKING)
def test_no_leak_is_seen_in_a_program_that_does_nothing(runtime: str) -> None:
    with workload(runtime, "cpu", "rounds=10", "linger=stdin") as target:
        heaps = [dd.heap(target.pid) for _ in range(2)]
    for heap in heaps:
        assert set(heap.advice.values("kind")) <= {"static", "unreached"}
        assert not [text for text in heap.advice.values("advice") if "it is a leak" in text]


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_a_runtime_that_waits_at_a_port_is_let_run_and_walked(runtime: str, tmp_path: Path) -> None:
    port = tmp_path / "port"
    words, own = command(runtime, "heap", "nodes=1000", "leaves=500")
    tool = subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag.cli.main", "gcdump", "report", "--diagnostic-port", str(port), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    while not port.exists():
        assert tool.poll() is None
        time.sleep(0.05)
    program = subprocess.Popen(
        words, stdout=subprocess.PIPE, env={**os.environ, **own, "DOTNET_DiagnosticPorts": str(port)}
    )
    try:
        said, _ = tool.communicate(timeout=60)
        assert program.stdout is not None
        assert program.stdout.readline().startswith(b"done heap")
    finally:
        program.kill()
        program.communicate()
    assert tool.returncode == 0
    assert json.loads(said)["complete"]


def test_types_that_another_session_was_told_of_are_said_to_be_its() -> None:
    with heap_workload("10", 5000) as target, dd.Client(target.pid) as client:
        with client.trace("Microsoft-Windows-DotNETRuntime:0x1980001:5") as session:
            reader = threading.Thread(target=lambda: list(iter(lambda: session.read(1 << 16), b"")))
            reader.start()
            time.sleep(1)  # it has told of types by then
            done = collect_heap(HeapOptions(target=Target(client=client)))
            session.stop()
            reader.join()
        assert any("types have no name" in problem for problem in done.heap.completeness.problems)
        assert any("another session was told of" in note for note in done.notes)
        assert done.attempts == 2
        assert done.all_pauses_ms is not None
        assert done.pause_ms is not None
        assert done.all_pauses_ms > done.pause_ms
        assert dd.heap(client).completeness.complete


def test_what_came_first_is_kept_when_the_target_does_not_answer_once_more() -> None:
    with heap_workload("10", 5000) as target, dd.Client(target.pid) as client:
        observer = HeapObserver(again=lambda _: os.kill(target.pid, signal.SIGSTOP))
        with client.trace("Microsoft-Windows-DotNETRuntime:0x1980001:5") as session:
            reader = threading.Thread(target=lambda: list(iter(lambda: session.read(1 << 16), b"")))
            reader.start()
            time.sleep(1)  # it has told of types by then
            try:
                done = collect_heap(HeapOptions(target=Target(client=client), timeout=3), observer)
            finally:
                os.kill(target.pid, signal.SIGCONT)
            session.stop()
            reader.join()
    assert done.heap.objects > 5000
    assert any("types have no name" in problem for problem in done.heap.completeness.problems)
    assert any(note.startswith("Once more it did not answer") for note in done.notes)
    assert done.size_bytes > 16 * done.heap.objects


# how it goes wrong ----------------------------------------------------------------------------------------------------


def test_lost_events_are_collected_again_with_a_larger_buffer() -> None:
    again: list[str] = []
    with heap_workload("8", 1_000_000) as target:
        options = HeapOptions(target=Target(pid=target.pid), buffer_mb=1)
        done = collect_heap(options, HeapObserver(again=again.append))
    if not again:
        pytest.skip("this machine was fast enough for a buffer of 1 MB")
    assert done.attempts == 2
    assert "events were lost" in again[0]
    assert done.heap.completeness.problems == ()
    assert done.pause_ms is not None
    assert done.all_pauses_ms is not None
    assert done.all_pauses_ms > done.pause_ms
    assert_counts(done.heap, target)


@pytest.mark.parametrize("runtime", ["3.1", "10"])
def test_a_lost_end_is_not_waited_for(runtime: str) -> None:
    """All buffers are full before the walk ends, and the runtime says nothing more."""
    again: list[str] = []
    with heap_workload(runtime, 3_000_000) as target:
        began = time.monotonic()
        options = HeapOptions(target=Target(pid=target.pid), buffer_mb=16)
        done = collect_heap(options, HeapObserver(again=again.append))
        assert time.monotonic() - began < 25
    if not again:
        pytest.skip("this machine was fast enough for a buffer of 16 MB")
    assert done.attempts == 2
    assert done.heap.completeness.problems == ()


def test_a_heap_with_lost_events_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_collect, "LARGER_BUFFER_MB", 1)
    with heap_workload("8", 1_000_000) as target:
        heap = dd.heap(target.pid, buffer_mb=1)
    if heap.completeness.complete:
        pytest.skip("this machine was fast enough for a buffer of 1 MB")
    assert any("events were lost" in problem for problem in heap.completeness.problems)
    assert heap.retained.max() <= heap.bytes


def test_two_at_once_both_have_all(tmp_path: Path) -> None:
    heaps: list[Heap] = []
    with heap_workload("10", 300_000) as target:
        threads = [threading.Thread(target=lambda: heaps.append(dd.heap(target.pid))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(heaps) == 2
    for heap in heaps:
        assert_counts(heap, target)
        assert heap.completeness.problems == ()


def test_a_process_that_dies_meanwhile_is_no_hang(tmp_path: Path) -> None:
    path = tmp_path / "x.gcdump"
    path.write_bytes(b"before")
    with heap_workload("10", 2_000_000) as target:
        with pytest.raises(dd.DiagnosticsError, match=r"^(the process ended|process [0-9]+ has ended)"):
            collect_heap(
                HeapOptions(target=Target(pid=target.pid)),
                HeapObserver(started=lambda _: target.process.kill()),
            )
        assert cli("collect", "-p", target.pid, "-o", path, "--force").returncode != 0
    assert path.read_bytes() == b"before"


def test_a_process_that_dies_in_the_middle_is_said_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that another session was told of its types, which come last."""
    monkeypatch.setattr(heap_collect, "TICK_S", 0.001)  # told of the first piece
    with heap_workload("10", 2_000_000) as target:

        def kill(objects: int, *_: object) -> None:
            if objects:
                target.process.kill()

        done = collect_heap(HeapOptions(target=Target(pid=target.pid)), HeapObserver(progress=kill))
    assert not done.heap.completeness.complete
    assert done.attempts == 1
    assert done.notes == ("The process ended before all of its heap was told.",)


def test_a_stopped_process_is_given_up() -> None:
    with heap_workload("10") as target:
        os.kill(target.pid, signal.SIGSTOP)
        try:
            done = cli("collect", "-p", target.pid, "-t", "2")
        finally:
            os.kill(target.pid, signal.SIGCONT)
    assert done.returncode == 1
    assert "stopped" in done.stderr


def test_a_process_that_is_stopped_in_the_middle_is_given_up() -> None:
    with heap_workload("10") as target:
        began = time.monotonic()
        try:
            with pytest.raises(dd.DiagnosticsError):
                collect_heap(
                    HeapOptions(target=Target(pid=target.pid), timeout=2),
                    HeapObserver(started=lambda _: os.kill(target.pid, signal.SIGSTOP)),
                )
        finally:
            os.kill(target.pid, signal.SIGCONT)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("session", ["of modules", "of the heap"])
def test_a_session_of_a_process_that_is_stopped_ends_when_it_goes_on(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it then, and one without events would not notice that."""
    session_of = heap_collect._session
    with heap_workload("10", 100_000, 1000) as target:
        before = threads_of_sessions(target.pid)

        def stopping(*given: Any) -> Any:
            opened = session_of(*given) if session == "of the heap" else None
            os.kill(target.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, target.pid, os.WSTOPPED)
            return opened or session_of(*given)

        monkeypatch.setattr(heap_collect, "_session", stopping)
        told = ""
        try:
            done = collect_heap(HeapOptions(target=Target(pid=target.pid), timeout=2))
        except dd.TargetStopped as error:
            told = str(error)
        else:  # it was quick, and a part of the heap came before it stood still
            assert session == "of the heap"
            assert not done.heap.completeness.complete
            told = " ".join(done.heap.completeness.problems)
        finally:
            os.kill(target.pid, signal.SIGCONT)
        assert "stopped" in told
        assert_sessions_end(target.pid, before)


@pytest.mark.parametrize("moment", ["modules are asked", "the first piece", "a later piece", "references are resolved"])
def test_what_is_interrupted_leaves_no_session_in_the_process(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program that goes on, as a notebook does."""
    pieces: list[object] = []

    def interrupted(after: Any, *given: Any) -> Any:
        pieces.append(given)
        if len(pieces) > (moment == "a later piece") * 3:
            raise KeyboardInterrupt
        return after(*given)

    of: dict[str, tuple[Any, str]] = {
        "modules are asked": (heap_modules.ModulesBeside, "ask"),
        "references are resolved": (heap_collect._Walk, "_prepare"),
    }
    place, name = of.get(moment, (ReadingAhead, "read"))
    call = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given: interrupted(call, *given))
    with heap_workload("10", 300_000, 1000) as target:
        before = threads_of_sessions(target.pid)
        with pytest.raises(KeyboardInterrupt):
            dd.heap(target.pid)
        assert_sessions_end(target.pid, before)
        monkeypatch.undo()
        assert cli("collect", "-p", target.pid, "-o", os.devnull).returncode == 0


def test_cancelling_leaves_the_process_as_it_was() -> None:
    stop = Stop()
    with heap_workload("10", 1_000_000) as target:
        with pytest.raises(dd.Cancelled):
            collect_heap(HeapOptions(target=Target(pid=target.pid)), HeapObserver(started=lambda _: stop.stop()), stop)
        assert_counts(dd.heap(target.pid), target)


def test_ctrl_c_leaves_no_file(tmp_path: Path) -> None:
    with heap_workload("10", 3_000_000) as target:
        process = subprocess.Popen(
            [sys.executable, "-m", "dotnetdiag.cli.main", "gcdump", "collect", "-p", str(target.pid), "-o", "x.gcdump"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert "stands still" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_standard_output_has_the_dump_alone(tmp_path: Path) -> None:
    with heap_workload("10") as target:
        words = [sys.executable, "-m", "dotnetdiag.cli.main", "gcdump", "collect", "-p", str(target.pid), "-o", "-"]
        for more in ([], ["--json"]):
            done = subprocess.run([*words, *more], capture_output=True, timeout=120, check=True)
            path = tmp_path / "x.gcdump"
            path.write_bytes(done.stdout)
            assert dd.heap(path).completeness.complete
            assert str(len(done.stdout)) in done.stderr.decode()


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with heap_workload("10") as target:
        done = cli("collect", "-p", target.pid, "-o", "/dev/full")
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "The process stood still for " in done.stderr


def test_the_name_of_the_file_is_that_of_the_reference(tmp_path: Path) -> None:
    with heap_workload("10") as target:
        done = cli("collect", target.pid, cwd=tmp_path)
        (path,) = tmp_path.iterdir()
    assert path.name.endswith(f"_{target.pid}.gcdump")
    assert len(path.name) == len(f"20260102_030405_{target.pid}.gcdump")
    assert done.stdout.startswith(
        f"Writing gcdump to '{path.name}'...\n\tFinished writing {path.stat().st_size} bytes."
    )
