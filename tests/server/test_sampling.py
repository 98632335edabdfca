from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S, Reader, request
from tests.server.split_workload import spin

import dotnetdiag
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD
from dotnetdiag.nettrace import read
from dotnetdiag.server.code_addresses import CodeAddresses
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.periodic import OWN_THREADS, Periodic
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.sampling import PROVIDER, SampleProfiler, _thread_clock

ERROR, EXTERNAL, MANAGED = range(3)


@pytest.fixture
def addresses() -> CodeAddresses:
    return CodeAddresses()


@pytest.fixture
def registry(addresses: CodeAddresses) -> Iterator[Registry]:
    made = Registry()
    made.add(SampleProfiler(addresses))
    made.add(MethodRundown(addresses))
    yield made
    assert not samplers()


def samplers() -> list[threading.Thread]:
    """Those that go on."""
    found = [one for one in threading.enumerate() if one.name == f"{OWN_THREADS}sampler"]
    for one in found:
        if isinstance(one, Periodic) and one.is_ending:
            one.join(LIMIT_S)
    return [one for one in found if one.is_alive()]


def sampled(
    registry: Registry, path: Path, *, size: int = 5_000, also: Callable[[], bool] = lambda: True
) -> dotnetdiag.Trace:
    """What a session of the profiler has when so many bytes of it have come, and something is so."""
    asked = request(f"{PROVIDER}:SampleProfilerIntervalMS=1", rundown_keyword=DEFAULT_RUNDOWN_KEYWORD)
    session = EventSession(asked, registry=registry).start()
    reader = Reader(session)
    reader.take_until(lambda: sum(map(len, reader.parts)) >= size and also())
    session.stop()
    path.write_bytes(reader.take_all())
    return dotnetdiag.open(path)


def stacks_of(trace: dotnetdiag.Trace, thread: threading.Thread) -> list[tuple[int, tuple[str, ...]]]:
    """Type of sample and frames, leaf first."""
    return [
        (one.Type, trace.frames(one.stack))
        for one in trace.events()
        if one.name == "Thread/Sample" and one.tid == thread.native_id
    ]


def parked(until: threading.Event) -> None:
    until.wait(LIMIT_S)


def spinning(until: threading.Event) -> None:
    while not until.is_set():
        spin(1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody knows which thread runs")
def test_who_waits_is_told_from_who_runs(registry: Registry, tmp_path: Path) -> None:
    until = threading.Event()
    threads = [threading.Thread(target=target, args=(until,)) for target in (parked, spinning)]
    for thread in threads:
        thread.start()
    try:
        trace = sampled(registry, tmp_path / "x.nettrace")
    finally:
        until.set()
    waits, runs = (stacks_of(trace, thread) for thread in threads)
    assert {kind for kind, _ in waits[1:]} == {EXTERNAL}  # at its first sample nobody knows how much it had used
    assert any(kind == MANAGED for kind, _ in runs)
    assert all(any(".parked(test_sampling.py:" in frame for frame in frames) for _, frames in waits)
    leaves = {frames[0].partition("!")[2].partition("(")[0].rpartition(".")[2] for _, frames in runs}
    assert leaves & {"hot", "warm", "cold"}


def test_the_sampler_and_the_session_are_left_out(registry: Registry, tmp_path: Path) -> None:
    trace = sampled(registry, tmp_path / "x.nettrace")
    contents = read((tmp_path / "x.nettrace").read_bytes())
    samples = [one for one in trace.events() if one.name == "Thread/Sample"]
    assert {one.tid for one in samples} == {
        thread.native_id for thread in threading.enumerate() if not thread.name.startswith(OWN_THREADS)
    }
    assert len(set(contents.headers.capture_thread.tolist())) == 2  # the sampler, and the session for its end
    assert not {one.tid for one in samples} & set(contents.headers.capture_thread.tolist())


def test_tasks_are_told_apart(registry: Registry, addresses: CodeAddresses, tmp_path: Path) -> None:
    until = threading.Event()
    own = "test_tasks_are_told_apart.<locals>.work"

    async def work() -> None:
        for turn in itertools.count():
            if until.is_set():
                break
            spin(1 + turn % 5)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(asyncio.create_task(work(), name="orders"), work())

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        tasks = {("asyncio", "orders"), ("asyncio", own)}
        trace = sampled(registry, tmp_path / "x.nettrace", also=lambda: tasks <= addresses._named.keys())
    finally:
        until.set()
    roots, inside = set(), set()
    for _, frames in stacks_of(trace, thread):
        for at, frame in enumerate(frames):
            if frame.startswith("asyncio!task."):
                roots.add(frame)
                if ".work(test_sampling.py:" in frames[at - 1]:
                    inside.add(frame)
                assert ".Handle._run(" in frames[at + 1]
    assert {"asyncio!task.orders", f"asyncio!task.{own}"} <= roots
    assert inside


def test_a_stack_that_cannot_be_read_is_an_error_sample(tmp_path: Path) -> None:
    class Unreadable(CodeAddresses):
        def addresses(self, frame: FrameType | None) -> list[int]:
            raise AttributeError(frame)

    registry = Registry()
    registry.add(SampleProfiler(Unreadable()))
    trace = sampled(registry, tmp_path / "x.nettrace", size=1000)
    samples = [one for one in trace.events() if one.name == "Thread/Sample"]
    assert samples
    assert all(one.Type == ERROR and not one.stack for one in samples)


def test_without_a_session_nothing_samples(registry: Registry, tmp_path: Path) -> None:
    assert not samplers()
    session = EventSession(request("Another"), registry=registry).start()
    assert not samplers()
    session.hang_up()
    sampled(registry, tmp_path / "x.nettrace", size=1000)
    assert not samplers()


def test_one_thread_samples_for_all_sessions_each_at_its_own_interval(registry: Registry, tmp_path: Path) -> None:
    slow = EventSession(request(f"{PROVIDER}:SampleProfilerIntervalMS=10000"), registry=registry).start()
    fast = EventSession(request(f"{PROVIDER}:SampleProfilerIntervalMS=1"), registry=registry).start()
    reader = Reader(fast)
    reader.take_until(lambda: sum(map(len, reader.parts)) >= 4_000)
    assert len(samplers()) == 1
    fast.stop()
    reader.take_all()
    assert len(samplers()) == 1
    slow.stop()
    counts = []
    for name, data in (("slow", Reader(slow).take_all()), ("fast", b"".join(reader.parts))):
        path = tmp_path / f"{name}.nettrace"
        path.write_bytes(data)
        counts.append(dotnetdiag.open(path).counts().get(PROVIDER, {}).get("Thread/Sample", 0))
    assert counts[0] == 0 < counts[1]


@pytest.mark.parametrize("argument", ["", "SampleProfilerIntervalMS=", "SampleProfilerIntervalMS=x", "Other=1"])
def test_an_interval_that_is_none_is_the_default(argument: str, registry: Registry) -> None:
    session = EventSession(request(f"{PROVIDER}:{argument}"), registry=registry).start()
    sampler: Any = samplers()[0]
    assert [one.interval_ns for one in sampler.turns] == [10_000_000]
    session.hang_up()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's way to name the clock of a thread")
def test_the_clock_of_a_thread_that_has_ended_is_an_error_and_no_crash() -> None:
    import time

    assert time.clock_gettime_ns(_thread_clock(threading.get_native_id())) > 0
    thread = threading.Thread(target=int)
    thread.start()
    ended = thread.native_id
    thread.join()
    assert ended
    while Path(f"/proc/self/task/{ended}").exists():  # the kernel takes a moment to forget it
        pass
    with pytest.raises(OSError):
        time.clock_gettime_ns(_thread_clock(ended))
