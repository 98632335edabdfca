from __future__ import annotations

import _thread
import asyncio
import gc
import itertools
import os
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S, Reader, request
from tests.server.split_workload import spin

import dotnetdiag
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD
from dotnetdiag.nettrace import read
from dotnetdiag.server import kernels, sampling
from dotnetdiag.server.code_addresses import CodeAddresses
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.periodic import OWN_THREADS, Periodic
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_events import RuntimeEvents
from dotnetdiag.server.sampling import PROVIDER, SampleProfiler, _Sampler, _thread_clock

ERROR, EXTERNAL, MANAGED = range(3)
FORM_IDS = ["python", *(["compiled"] if kernels.COMPILED else [])]


@pytest.fixture(params=FORM_IDS)
def addresses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CodeAddresses:
    if request.param == "python":
        monkeypatch.setattr(kernels, "KERNELS", None)
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
    known = {thread.native_id: thread.name for thread in threading.enumerate()}
    assert {one.tid for one in samples} & known.keys() == {
        os_thread for os_thread, name in known.items() if not name.startswith(OWN_THREADS)
    }
    assert len(set(contents.headers.capture_thread.tolist())) == 2  # the sampler, and the session for its end
    assert not {one.tid for one in samples} & set(contents.headers.capture_thread.tolist())


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads of Python wait for half a millisecond for each other: a loop of asyncio gives up the lock more often than every 5 ms, and then
    nobody ever asks it to.
    """
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("impatient")
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
    assert session.join(LIMIT_S)
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
    assert session.join(LIMIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's way to name the clock of a thread")
def test_the_clock_of_a_thread_that_has_ended_is_an_error_and_no_crash() -> None:
    import time

    assert time.clock_gettime_ns(_thread_clock(threading.get_native_id())) > 0
    thread = threading.Thread(target=int)
    thread.start()
    ended = thread.native_id
    thread.join()
    assert ended
    forget(ended)
    with pytest.raises(OSError):
        time.clock_gettime_ns(_thread_clock(ended))


def forget(os_thread: int | None) -> None:
    """The kernel takes a moment to forget a thread that has ended."""
    while Path(f"/proc/self/task/{os_thread}").exists():
        pass


@pytest.mark.skipif(kernels.KERNELS is None, reason="without the kernel nobody knows what the system calls them")
def test_threads_that_threading_does_not_know_are_sampled_too() -> None:
    goes_on, ids = threading.Event(), []

    def run() -> None:
        ids.append(threading.get_native_id())
        goes_on.wait(LIMIT_S)

    sampler = _Sampler(CodeAddresses())
    _thread.start_new_thread(run, ())
    try:
        while not ids:
            pass
        for _ in range(3):
            assert ids[0] in sampled_threads(sampler)
    finally:
        goes_on.set()
        forget(ids[0])


def test_threads_that_come_and_go_do_not_hide_who_waits() -> None:
    sampler, sampled_as = _Sampler(CodeAddresses()), []
    with standing() as waits:
        for _ in range(20):
            sampler.alarm.wait(1_000_000)
            with standing():
                sampled_as += [kind for kind, _, who in sampler._samples() if who == waits.native_id]
    if sys.platform == "linux":
        assert set(sampled_as[3:]) == {EXTERNAL.to_bytes(4, "little")}


@contextmanager
def standing() -> Iterator[threading.Thread]:
    """A thread that waits."""
    until = threading.Event()
    thread = threading.Thread(target=parked, args=(until,))
    thread.start()
    try:
        yield thread
    finally:
        until.set()
        thread.join(LIMIT_S)
        if sys.platform == "linux":
            forget(thread.native_id)


def sampled_threads(sampler: _Sampler) -> set[int]:
    return {os_thread for _, _, os_thread in sampler._samples()}


def test_threads_that_begin_and_end_are_noticed(addresses: CodeAddresses) -> None:
    sampler, always = _Sampler(addresses), sampled_threads(_Sampler(addresses))
    idents = []
    for _ in range(5):
        with standing() as one, standing() as other:
            for _ in range(3):
                assert sampled_threads(sampler) == {*always, one.native_id, other.native_id}
            idents += [one.ident, other.ident]
    assert sampled_threads(sampler) == always
    if sys.platform == "linux":
        assert len(set(idents)) < len(
            idents
        )  # some have been mistaken for others, but for what they are called by the system


def test_a_thread_that_is_replaced_between_two_samples_is_another(addresses: CodeAddresses) -> None:
    sampler, always = _Sampler(addresses), sampled_threads(_Sampler(addresses))
    for _ in range(10):
        with standing() as thread:
            assert sampled_threads(sampler) == {*always, thread.native_id}


def test_a_thread_that_python_has_not_made_does_not_hide_others(
    addresses: CodeAddresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", lambda: {**frames(), 1: sys._getframe()})
    sampler, always = _Sampler(addresses), sampled_threads(_Sampler(addresses))
    with standing() as thread:
        assert sampled_threads(sampler) == {*always, thread.native_id}


def test_where_nobody_knows_who_runs_all_are_managed(addresses: CodeAddresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_clocks_are_fine", lambda: False)
    sampler = _Sampler(addresses)
    for _ in range(5):
        with standing() as thread:
            for _ in range(2):
                samples = sampler._samples()
                assert {int.from_bytes(kind, "little") for kind, _, _ in samples} == {MANAGED}
                assert thread.native_id in {os_thread for _, _, os_thread in samples}


def test_a_stack_that_could_not_be_read_is_read_next_time() -> None:
    class Unreadable(CodeAddresses):
        fails = True

        def walk(self, frame: FrameType, mark: CodeType | None = None) -> tuple[bytes, int]:
            if self.fails:
                raise AttributeError(frame)
            return super().walk(frame, mark)

    addresses = Unreadable()
    sampler = _Sampler(addresses)
    with standing() as thread:
        kinds = []
        for fails in (True, True, False, False):
            addresses.fails = fails
            kinds += [(kind[0], bool(stack)) for kind, stack, who in sampler._samples() if who == thread.native_id]
    waits = EXTERNAL if sys.platform == "linux" else MANAGED
    assert kinds[:3] == [(ERROR, False), (ERROR, False), (MANAGED, True)]
    assert kinds[3] in [(waits, True), (MANAGED, True)]  # it may not have stood still yet


def places(sampler: _Sampler, stack: bytes) -> list[tuple[str, int]]:
    """Function and offset of each frame: what addresses they have depends on who was met before."""
    found = []
    for (address,) in struct.iter_unpack("<Q", stack):
        (one,) = (one for one in sampler._addresses.ranges() if one.start <= address < one.start + max(one.size, 1))
        found.append((one.qualified_name, address - one.start))
    return found


def test_both_forms_see_the_same_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a thread which waits, and of one in a task."""

    async def work() -> dict[str, dict[int, list[tuple[str, int]]]]:
        # the same line takes both: this thread's stack has it
        known = {
            thread.native_id for thread in threading.enumerate()
        }  # of others one form alone knows what the system calls them
        return {
            form: {who: places(sampler, stack) for _, stack, who in sampler._samples() if who in known}
            for form, sampler in both.items()
        }

    def made(form: str) -> _Sampler:
        monkeypatch.setattr(kernels, "KERNELS", kernels.KERNELS if form == "compiled" else None)
        return _Sampler(CodeAddresses())

    both = {form: made(form) for form in reversed(FORM_IDS)}
    with standing():
        for _ in range(2):
            found = asyncio.run(work())
            assert len(found) == len(FORM_IDS)
            assert all(stacks == found["python"] for stacks in found.values())


def test_a_thread_that_waits_all_the_time_never_runs(addresses: CodeAddresses) -> None:
    if sys.platform != "linux":
        pytest.skip("elsewhere nobody knows which thread runs")
    with standing() as thread:
        clock, before = _thread_clock(thread.native_id or 0), -1
        while before != (before := time.clock_gettime_ns(clock)):  # until it waits
            time.sleep(0.05)
        sampler = _Sampler(addresses)
        for _ in range(3):
            kinds = {os_thread: kind for kind, _, os_thread in sampler._samples()}
            assert kinds[thread.native_id or 0] == struct.pack("<I", EXTERNAL)


def test_a_sample_keeps_nothing_of_what_it_saw(addresses: CodeAddresses) -> None:
    class Local:
        """Of a function that a sample was taken of."""

    made: list[weakref.ref[Local]] = []
    took, goes_on = threading.Event(), threading.Event()

    def call() -> None:
        local = Local()
        made.append(weakref.ref(local))
        took.set()
        goes_on.wait(LIMIT_S)

    thread = threading.Thread(target=call)
    enabled = gc.isenabled()
    gc.disable()
    try:
        thread.start()
        took.wait(LIMIT_S)
        seen: list[object] = []
        # in a thread of its own, as samples are taken
        other = threading.Thread(target=lambda: seen.extend(_Sampler(addresses)._samples()))
        other.start()
        other.join(LIMIT_S)
        assert seen
        goes_on.set()
        thread.join(LIMIT_S)
        assert made[0]() is None
    finally:
        goes_on.set()
        if enabled:
            gc.enable()


def test_a_collection_is_the_time_of_who_collects() -> None:
    """The thread gives way where the collector calls us: it is no time of ours."""
    sampler, events, ident = _Sampler(CodeAddresses()), RuntimeEvents(), threading.get_ident()
    seen: list[list[tuple[str, int]]] = []

    class AsItCalls:
        """In the place of what the callback writes to."""

        def write(self, *values: object) -> None:
            del values
            frame = sys._getframe(1)
            assert frame.f_code.co_name == "_collected"
            sampler.alarm = Stopped({ident: frame})  # type: ignore[assignment]
            sampler._threads = {ident: sampling._Thread(1)}
            (sample,) = sampler._samples()
            stack = sample[1]
            seen.append(places(sampler, stack))

    class Stopped:
        """An alarm that has gone off."""

        def __init__(self, frames: dict[int, FrameType]) -> None:
            self._frames = frames

        def frames(self) -> dict[int, FrameType]:
            return self._frames

        def moved_then(self) -> list[bool]:
            return [True]

        def holder_then(self) -> int:
            return ident

        def used_now(self) -> list[int]:
            return [5]

    events._channels = AsItCalls()  # type: ignore[assignment]
    events._collected("start", {})
    assert seen
    assert {found[0][0] for found in seen} == {"test_a_collection_is_the_time_of_who_collects"}


CHURN = """
import ctypes, sys, threading, time
from dotnetdiag.server.alarm import new_alarm
libc = ctypes.CDLL(None)
Start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
nothing = Start(lambda _: None)  # takes the interpreter's lock, as callbacks of a C library's own threads do
ends = time.monotonic() + 2
def churn():
    thread = ctypes.c_ulong()
    while time.monotonic() < ends:
        if libc.pthread_create(ctypes.byref(thread), None, nothing, None) == 0:
            libc.pthread_join(thread, None)
threads = [threading.Thread(target=churn) for _ in range(3)]
for one in threads: one.start()
alarm, looks = new_alarm(), 0
while time.monotonic() < ends:
    alarm.frames(); alarm.native_ids(); alarm.holder_then()
    looks += 1
    time.sleep(0)
for one in threads: one.join()
print("well" if looks else "never looked")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="makes threads by pthread_create")
def test_threads_of_c_libraries_may_come_and_go_while_samples_are_taken() -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", CHURN],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
