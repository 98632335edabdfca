"""What a Python process puts into its sessions, read by the tools that users have: TraceEvent (``oracle.dll``) and dotnet-trace."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.live.runtimes import unpack
from tests.live.test_reference_reader import assert_agree, oracle
from tests.server import test_event_source
from tests.server.recorded import Reader, recording, request

from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.nettrace import read
from dotnetdiag.server import event_session
from dotnetdiag.server.activities import activity
from dotnetdiag.server.event_session import NETPERF, EventSession
from dotnetdiag.server.event_source import EventSource
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_providers import add_runtime_providers
from dotnetdiag.server.runtime_rundown import THREAD_KEYWORDS, interpreter

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
SPLIT = {"hot": 70.0, "warm": 20.0, "cold": 10.0}


def dotnet_trace(*words: str) -> str:
    folder = unpack()
    done = subprocess.run(
        [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll"), *words],
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that a program made of itself while it spun."""
    unpack()
    path = tmp_path_factory.mktemp("split") / "split.nettrace"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    program = str(ROOT / "tests" / "server" / "split_program.py")
    subprocess.run([sys.executable, program, str(path), "5000"], check=True, timeout=120, env=environment)
    return path


@pytest.mark.parametrize("version", [3, 4, 6])
def test_events_of_every_type_are_what_the_reference_reads(version: int, tmp_path: Path) -> None:
    registry = Registry()
    source = EventSource("My-Source", registry=registry, stacks=True, strict=True)
    registry.add(MethodRundown())
    values = test_event_source.VALUES
    event = source.event("All", fields={name: kind for name, (kind, _, _) in values.items()}, keywords=2, version=1)
    begin, end = source.event("WorkStart", opcode=1), source.event("WorkStop", opcode=2)
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=version, rundown_keyword=0x80020139), activity():
        for _ in range(100):
            begin()
            event(*(value for _, value, _ in values.values()))
            end()
    # TraceEvent reads what is no related activity out of NetPerf, of runtimes too
    lines = assert_agree(path, but_for="related" if version == NETPERF else "")
    assert [line["event"] for line in lines if line["provider"] == "My-Source"] == [
        "Work/Start",
        "All",
        "Work/Stop",
    ] * 100
    stacks = [line for line in oracle("stacks", path) if line.get("provider") == "My-Source"]
    assert len(stacks) == 300
    assert all("test_event" in line["frames"][0] for line in stacks)


@pytest.mark.parametrize("version", [4, 6])
def test_losses_are_what_the_reference_counts(version: int, tmp_path: Path) -> None:
    registry = Registry()
    event = EventSource("My-Source", registry=registry).event("Raw", fields={"n": int, "raw": bytes})
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=version):
        for n in range(10):
            event(n, b"x" * (70_000 if n in (3, 4, 7, 9) else 10))
    *_, end = oracle("events", path)
    assert end["lost"] == 4
    assert_agree(path)


@pytest.mark.parametrize("version", [4, 6])
def test_threads_left_out_of_sequence_points_lose_nothing(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_session, "THREADS_KEPT", 3)
    monkeypatch.setattr(event_session, "SEQUENCE_POINT_BYTES", 1)
    registry = Registry()
    event = EventSource("My-Source", registry=registry).event("Number", fields={"n": int})
    session = EventSession(request("My-Source"), registry=registry, nettrace_version=version).start()
    reader = Reader(session)
    gates, done = [threading.Semaphore(0) for _ in range(8)], threading.Semaphore(0)

    def work(gate: threading.Semaphore) -> None:
        for n in range(3):
            gate.acquire()
            event(n)
            done.release()

    for gate in gates:
        threading.Thread(target=work, args=(gate,)).start()
    for gate in gates * 3:
        gate.release()
        done.acquire()
        count = len(reader.parts)
        reader.take_until(lambda count=count: len(reader.parts) > count)  # type: ignore[misc]
    session.stop()
    path = tmp_path / "x.nettrace"
    path.write_bytes(reader.take_all())
    assert len([line for line in assert_agree(path) if line["event"] == "Number"]) == 24
    assert oracle("events", path)[-1]["lost"] == 0
    assert len(read(path.read_bytes()).sequence_points) >= 24


def test_samples_are_what_the_reference_reads(split: Path) -> None:
    assert_agree(split)
    stacks = [line for line in oracle("stacks", split) if line.get("event") == "Thread/Sample"]
    spinning = [line["frames"] for line in stacks if "split_workload.py!" in line["frames"][0]]
    assert len(spinning) > 500
    for frames in spinning:
        assert re.fullmatch(
            r"split_workload\.py!tests\.server\.split_workload\.\S+\(split_workload\.py:\d+\)", frames[0]
        )
        assert frames[-1].startswith("split_program.py!__main__.<module>(split_program.py:1)")


def test_the_report_of_dotnet_trace_has_the_split_that_is_known(split: Path) -> None:
    found: dict[str, float] = {}
    for line in dotnet_trace("report", str(split), "topN", "-n", "5").splitlines():
        match = re.match(r"\d+\.\s+split_workload\.(\w+)\(.*?([\d.]+)%\s*$", line)
        if match:
            found[match[1]] = float(match[2])
    assert set(found) == set(SPLIT)
    for name, share in SPLIT.items():
        assert abs(found[name] - share) <= 3, found


def test_speedscope_of_dotnet_trace_shows_functions_with_file_and_line(split: Path, tmp_path: Path) -> None:
    dotnet_trace("convert", "--format", "Speedscope", str(split), "-o", str(tmp_path / "x"))
    (made,) = tmp_path.glob("*.speedscope.json")
    document: dict[str, Any] = json.loads(made.read_text())
    names = {frame["name"] for frame in document["shared"]["frames"]}
    for name in SPLIT:
        assert any(re.fullmatch(rf".*split_workload\.{name}\(split_workload\.py:\d+\)", one) for one in names), names


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections, threads, log records and two seconds of counters."""
    unpack()
    registry = Registry()
    add_runtime_providers(registry)
    path = tmp_path_factory.mktemp("runtime") / "runtime.nettrace"
    providers = (
        # TraceEvent has no name for the dynamic event that says how much was collected; ours has the one in it
        Provider(name="Microsoft-Windows-DotNETRuntime", event_filter=EventFilter(enable=False, ids=(39,))),
        "Microsoft-Extensions-Logging",
        "System.Runtime:EventCounterIntervalSec=1",
    )
    enabled = gc.isenabled()
    gc.disable()
    with recording(path, registry, *providers, rundown_keyword=0x80020139 | THREAD_KEYWORDS) as reader:
        for generation in (0, 1, 2, 2):
            gc.collect(generation)
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        try:
            raise LookupError("lost")
        except LookupError:
            logging.getLogger("shop").exception("no order %d", 7)
        last = "gc-collected-objects".encode("utf-16-le")
        while b"".join(list(reader.parts)).count(last) < 2:
            thread = threading.Thread(target=threading.Event().wait, args=(0.1,), name="dotnetdiag test waits")
            thread.start()
            thread.join()
    if enabled:
        gc.enable()
    return path


def test_what_the_runtime_does_is_what_the_reference_reads(runtime: Path) -> None:
    assert {line["event"] for line in assert_agree(runtime)} >= {
        "GC/Start",
        "GC/Stop",
        "AppDomainResourceManagement/ThreadCreated",
        "FormattedMessage",
        "MessageJson",
        "EventCounters",
    }


def test_the_reference_reads_which_runtime_it_is_and_its_threads(runtime: Path) -> None:
    lines = assert_agree(runtime)
    said = [line for line in lines if line["event"] == "Runtime/Start"]
    assert [line["provider"].removeprefix("Microsoft-Windows-DotNETRuntime") for line in said] == ["", "Rundown"]
    assert {line["payload"]["RuntimeDllPath"] for line in said} == {interpreter()}
    assert {line["payload"]["BclMajorVersion"] for line in said} == {sys.version_info.major}
    threads = [line["payload"] for line in lines if line["event"].endswith("/ThreadDCStop")]
    assert threading.main_thread().native_id in {one["OSThreadID"] for one in threads}


def test_the_reference_counts_collections_and_pauses(runtime: Path) -> None:
    *collections, end = oracle("gcstats", runtime)
    assert [(one["generation"], one["complete"]) for one in collections] == [(0, True), (1, True), (2, True), (2, True)]
    assert end["count"] == 4
    assert all(one["pause_ms"] > 0 for one in collections)
    assert end["total_pause_ms"] == pytest.approx(sum(one["pause_ms"] for one in collections))


def test_the_reference_decodes_the_counters(runtime: Path) -> None:
    told = oracle("counters", runtime)
    names = {one["CounterMetadata"]["CounterName"] for one in told if one["kind"] == "EventCounterPayload"}
    assert names >= {"cpu-usage", "working-set", "gen-0-gc-count", "thread-count", "allocated-blocks"}
