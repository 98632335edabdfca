"""Sessions as a reader of their streams sees them: whole, counted, bounded, and independent of each other."""

from __future__ import annotations

import gc
import os
import signal
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S, Reader, recording, request

import dotnetdiag
from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.constants import BufferingMode
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.ipc.tracing import CollectTracing, CollectTracing2, CollectTracing5, CollectTracing6
from dotnetdiag.nettrace import read
from dotnetdiag.server import event_session
from dotnetdiag.server.code_addresses import CodeAddresses
from dotnetdiag.server.event_session import SEQUENCE_POINT_BYTES, EventSession
from dotnetdiag.server.event_source import Event, EventSource
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.registry import RUNDOWN, Registry

VERSIONS = pytest.mark.parametrize("version", [4, 6])
FORMATS = pytest.mark.parametrize("version", [3, 4, 6])


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def event(registry: Registry) -> Event:
    return EventSource("My-Source", registry=registry).event("Number", fields={"n": int, "text": str})


def numbers(path: Path) -> list[int]:
    return [one.n for one in dotnetdiag.open(path).events() if one.name == "Number"]


def saved(path: Path, reader: Reader) -> dotnetdiag.Trace:
    path.write_bytes(reader.take_all())
    return dotnetdiag.open(path)


@FORMATS
def test_what_was_written_is_in_the_stream_in_full(
    version: int, registry: Registry, event: Event, tmp_path: Path
) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=version):
        for n in range(1000):
            event(n, f"text {n}")
    trace = dotnetdiag.open(path)
    assert trace.complete
    assert not trace.lost.total
    found = [one for one in trace.events() if one.provider == "My-Source"]
    assert [(one.n, one.text) for one in found] == [(n, f"text {n}") for n in range(1000)]
    assert {one.tid for one in found} == {threading.get_native_id()}
    assert {one.pid for one in found} == {os.getpid()}


def test_version_4_says_4_and_version_6_says_6(registry: Registry) -> None:
    for version, start in ((4, b"Nettrace\x14\0\0\0!"), (6, b"Nettrace" + struct.pack("<II", 0, 6))):
        session = EventSession(request("None"), registry=registry, nettrace_version=version).start()
        assert (session.take(100) or b"").startswith(start)
        session.hang_up()


def test_the_opening_is_there_before_any_event(registry: Registry) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()
    assert (session.take(1 << 20) or b"").startswith(b"Nettrace")
    assert session.take(1 << 20) == b""
    session.hang_up()


def test_a_reader_may_take_byte_by_byte(registry: Registry, event: Event, tmp_path: Path) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()
    event(1, "one")
    session.stop()
    assert session.join(LIMIT_S)
    parts = []
    while (data := session.take(1)) is not None:
        assert len(data) == 1
        parts.append(data)
    path = tmp_path / "x.nettrace"
    path.write_bytes(b"".join(parts))
    assert numbers(path) == [1]


def test_an_event_is_in_the_stream_though_the_session_goes_on(registry: Registry, event: Event) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()
    reader = Reader(session)
    reader.take_until(lambda: bool(reader.parts))
    event(7, "now")
    reader.take_until(lambda: "now".encode("utf-16-le") in b"".join(reader.parts))
    session.hang_up()


def test_what_does_not_fit_the_buffer_is_counted(registry: Registry, event: Event, tmp_path: Path) -> None:
    session = EventSession(request("My-Source", buffer_mb=1), registry=registry).start()
    attempted = 30_000
    for n in range(attempted):
        event(n, "x" * 50)
    session.stop()
    assert session.join(LIMIT_S)  # nothing was taken
    trace = saved(tmp_path / "x.nettrace", Reader(session))
    found = numbers(tmp_path / "x.nettrace")
    assert trace.complete
    assert 0 < len(found) < attempted
    assert len(found) + trace.lost.total == attempted
    assert (tmp_path / "x.nettrace").stat().st_size < 1 << 20


@VERSIONS
def test_losses_between_events_are_told_where_they_were(
    version: int, registry: Registry, event: Event, tmp_path: Path
) -> None:
    session = EventSession(request("My-Source", buffer_mb=1), registry=registry, nettrace_version=version).start()
    reader = Reader(session)
    for n in range(30_000):
        event(n, "x" * 50)
    reader.take_until(lambda: not event_is_lost(session))
    event(30_000, "last")
    session.stop()
    trace = saved(tmp_path / "x.nettrace", reader)
    found = numbers(tmp_path / "x.nettrace")
    assert found[-1] == 30_000
    assert len(found) + trace.lost.total == 30_001


def event_is_lost(session: EventSession) -> bool:
    held = session._held
    return bool(held._dropped) or held.room < 1 << 19


def test_losses_before_the_first_event_of_a_thread_are_told_in_version_6(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry).event("Raw", fields={"raw": bytes})
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=6):
        event(b"x" * 65_535)  # with its length it is more than a payload may be
        event(b"x")
    trace = dotnetdiag.open(path)
    assert trace.counts()["My-Source"]["Raw"] == 1
    assert trace.lost.total == 1


def test_a_payload_that_is_too_large_is_lost_and_counted_and_nothing_else_is(
    registry: Registry, event: Event, tmp_path: Path
) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event(1, "one")
        event(2, "x" * 40_000)
        event(3, "three")
    assert numbers(path) == [1, 3]
    assert dotnetdiag.open(path).lost.total == 1


def test_threads_keep_their_own_order_and_lose_nothing(registry: Registry, event: Event, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    barrier = threading.Barrier(4)

    def write(first: int) -> None:
        barrier.wait()
        for n in range(5000):
            event(first + n, "")

    with recording(path, registry, "My-Source"):
        threads = [threading.Thread(target=write, args=(10_000 * one,)) for one in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = dotnetdiag.open(path)
    assert not trace.lost.total
    by_thread: dict[int, list[int]] = {}
    for one in trace.events():
        if one.name == "Number":
            by_thread.setdefault(one.tid, []).append(one.n)
    assert sorted(found[0] for found in by_thread.values()) == [0, 10_000, 20_000, 30_000]
    assert all(found == list(range(found[0], found[0] + 5000)) for found in by_thread.values())


def test_version_6_names_the_threads(registry: Registry, event: Event, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    ended = threading.Event()
    with recording(path, registry, "My-Source", nettrace_version=6) as reader:

        def write() -> None:
            event(1, "")
            ended.wait(LIMIT_S)

        thread = threading.Thread(target=write, name="a thread of mine")
        thread.start()
        os_thread_id = thread.native_id
        while not reader.session._threads:
            reader.session._alarm.ring()  # encode while it is alive
        ended.set()
        thread.join()
    rows = read(path.read_bytes()).threads
    assert "a thread of mine" in {row.name for row in rows.values() if row.os_thread_id == os_thread_id}


def test_an_event_may_be_written_while_one_is_being_written(registry: Registry, event: Event, tmp_path: Path) -> None:
    """By a signal's handler, and by a callback of the garbage collector, whichever thread it comes to."""
    inner = EventSource("Inner", registry=registry).event("Inner", fields={"n": int})
    count = 0

    def interrupt(*_: Any) -> None:
        nonlocal count
        inner(count)
        count += 1

    path = tmp_path / "x.nettrace"
    thresholds, before = gc.get_threshold(), signal.signal(signal.SIGALRM, interrupt)
    gc.callbacks.append(interrupt)
    gc.set_threshold(5)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with recording(path, registry, "My-Source", "Inner"):
            for n in range(20_000):
                event(n, "")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.callbacks.remove(interrupt)
        gc.set_threshold(*thresholds)
    trace = dotnetdiag.open(path)
    assert trace.complete
    assert not trace.lost.total
    assert numbers(path) == list(range(20_000))
    assert trace.counts()["Inner"]["Inner"]
    times = [one.time_ns or 0 for one in trace.events()]
    assert times == sorted(times)


def test_a_session_that_is_stopped_before_it_was_started_has_an_empty_stream(registry: Registry) -> None:
    session = EventSession(request("My-Source"), registry=registry)
    assert session.take(100) == b""
    session.stop()
    assert session.take(100) is None
    assert session.start().take(100) is None


def test_the_reader_is_called_for_what_is_there_already_and_for_the_end(registry: Registry) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()
    called: list[str] = []
    session.on_ready(lambda: called.append("called"))
    assert called
    session.stop()
    session.stop()
    assert session.join(LIMIT_S)
    while session.take(1 << 20) is not None:
        pass
    assert len(called) > 1


def test_after_a_hang_up_nothing_is_held_and_nobody_writes(registry: Registry, event: Event) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()
    event(1, "")
    assert event.is_enabled
    session.hang_up()
    session.hang_up()
    assert session.take(1 << 20) is None
    assert session.join(LIMIT_S)
    assert not event.is_enabled
    session.stop()
    assert not registry.subscriptions("My-Source")


class Broken:
    """A provider that cannot be joined, or not be left."""

    def __init__(self, name: str, fails: str) -> None:
        self.name, self._fails = name, fails

    def join(self, _: object) -> None:
        self._do("join")

    def leave(self, _: object) -> None:
        self._do("leave")

    def _do(self, what: str) -> None:
        if what in self._fails:
            raise RuntimeError(f"cannot {what}")


@pytest.mark.parametrize("fails", ["join", "join leave"])
def test_of_a_session_that_cannot_begin_nothing_stays(fails: str, registry: Registry, event: Event) -> None:
    registry.add(Broken("Broken", fails))
    last = EventSource("Last", registry=registry).event("E")
    session = EventSession(request("My-Source", "Broken", "Last"), registry=registry)
    with pytest.raises(RuntimeError, match="cannot join"):
        session.start()
    assert session.join(LIMIT_S)
    assert not event.is_enabled
    assert not last.is_enabled
    assert not registry.subscriptions("My-Source")
    assert not registry.subscriptions("Broken")
    assert session.take(100) is None


def test_a_session_that_gets_no_thread_has_not_begun(
    registry: Registry, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    session = EventSession(request("My-Source"), registry=registry)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            session.start()
    assert session.join(LIMIT_S)
    assert not event.is_enabled
    assert session.take(100) is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_provider_that_cannot_be_left_costs_neither_the_others_nor_the_end(
    registry: Registry, event: Event, tmp_path: Path
) -> None:
    registry.add(Broken("First", "leave"))
    registry.add(Broken("Last", "leave"))
    session = EventSession(request("First", "My-Source", "Last"), registry=registry).start()
    event(1, "one")
    session.stop()
    assert session.join(LIMIT_S)
    assert not event.is_enabled
    assert saved(tmp_path / "x.nettrace", Reader(session)).complete
    assert numbers(tmp_path / "x.nettrace") == [1]


def test_sessions_are_independent(registry: Registry, tmp_path: Path) -> None:
    source = EventSource("My-Source", registry=registry)
    low = source.event("Low", level=5)
    high = source.event("High", level=2, keywords=4)
    both, one = tmp_path / "both.nettrace", tmp_path / "one.nettrace"
    with recording(both, registry, "My-Source"):
        low()
        session = EventSession(
            CollectTracing(buffer_mb=1, providers=(Provider(name="My-Source", level=4, keywords=2 | 4),)),
            registry=registry,
        ).start()
        low()
        high()
        session.stop()
        one.write_bytes(Reader(session).take_all())
        low()
    assert dotnetdiag.open(both).counts()["My-Source"] == {"Low": 3, "High": 1}
    assert dotnetdiag.open(one).counts()["My-Source"] == {"High": 1}


@pytest.mark.parametrize(
    ("event_filter", "passed"),
    [
        (None, {1, 2, 3}),
        (EventFilter(enable=True, ids=()), set()),
        (EventFilter(enable=True, ids=(1, 3)), {1, 3}),
        (EventFilter(enable=False, ids=(1,)), {2, 3}),
    ],
)
def test_event_filters_choose_by_id(
    event_filter: EventFilter | None, passed: set[int], registry: Registry, tmp_path: Path
) -> None:
    source = EventSource("My-Source", registry=registry)
    events = [source.event(name) for name in ("One", "Two", "Three")]
    provider = Provider(name="My-Source", event_filter=event_filter)
    session = EventSession(
        CollectTracing5(buffer_mb=1, rundown_keyword=0, providers=(provider,)), registry=registry
    ).start()
    for event in events:
        event()
    session.stop()
    trace = saved(tmp_path / "x.nettrace", Reader(session))
    assert {one.schema.event_id for one in trace.events() if one.provider == "My-Source"} == passed


def test_of_a_provider_listed_twice_the_first_entry_counts(registry: Registry) -> None:
    event = EventSource("My-Source", registry=registry).event("Verbose", level=5)
    providers = (Provider(name="My-Source", level=2), Provider(name="My-Source", level=5))
    session = EventSession(CollectTracing(buffer_mb=1, providers=providers), registry=registry).start()
    assert not event.is_enabled
    session.hang_up()


def test_names_are_case_sensitive_and_a_star_is_a_name(registry: Registry, event: Event) -> None:
    session = EventSession(request("my-source", "*"), registry=registry).start()
    assert not event.is_enabled
    session.hang_up()


def test_in_block_mode_threads_wait_for_the_reader_and_nothing_is_lost(
    registry: Registry, event: Event, tmp_path: Path
) -> None:
    asked = CollectTracing6(
        buffer_mb=1,
        rundown_keyword=0,
        providers=(Provider(name="My-Source"),),
        buffering_mode=BufferingMode.BLOCK,
    )
    session = EventSession(asked, registry=registry).start()

    def write() -> None:
        for n in range(30_000):
            event(n, "x" * 50)
        session.stop()

    thread = threading.Thread(target=write)
    thread.start()
    trace = saved(tmp_path / "x.nettrace", Reader(session))
    thread.join(LIMIT_S)
    assert not trace.lost.total
    assert numbers(tmp_path / "x.nettrace") == list(range(30_000))


def test_a_hang_up_lets_threads_go_that_wait_for_room(registry: Registry, event: Event) -> None:
    asked = CollectTracing6(buffer_mb=1, providers=(Provider(name="My-Source"),), buffering_mode=BufferingMode.BLOCK)
    session = EventSession(asked, registry=registry).start()
    full = threading.Event()
    session.on_ready(lambda: full.set() if session._held.room < 1 << 19 else None)

    def write() -> None:
        for n in range(30_000):
            event(n, "x" * 50)

    thread = threading.Thread(target=write)
    thread.start()
    assert full.wait(LIMIT_S)
    session.hang_up()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


class Long(MethodRundown):
    """More than a megabyte."""

    def __init__(self) -> None:
        addresses = CodeAddresses()
        for n in range(100):
            addresses.named("asyncio", f"task {n}")
        super().__init__(addresses)

    def join(self, subscription: Any) -> None:
        for _ in range(300):
            super().join(subscription)


def test_rundown_that_is_more_than_the_buffer_waits_for_the_reader(registry: Registry, tmp_path: Path) -> None:
    registry.add(Long())
    session = EventSession(request("None", buffer_mb=1, rundown_keyword=0x80020139), registry=registry).start()
    session.stop()
    trace = saved(tmp_path / "x.nettrace", Reader(session))
    assert not trace.lost.total
    assert trace.counts()["Microsoft-Windows-DotNETRuntimeRundown"]["Method/DCStopComplete"] == 300


def test_the_end_of_a_session_waits_once_for_a_reader_that_takes_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry.add(Long())
    monkeypatch.setattr(event_session, "READER_S", 0.0)
    session = EventSession(request("None", buffer_mb=1, rundown_keyword=0x80020139), registry=registry).start()
    waits: list[float] = []
    monkeypatch.setattr(session._out._taken, "wait", waits.append)
    session.stop()
    assert session.join(LIMIT_S)
    assert waits == [0.0]
    assert saved(tmp_path / "x.nettrace", Reader(session)).lost.total


def test_rundown_is_written_while_everybody_else_may_have_the_registry(registry: Registry) -> None:
    free: list[bool] = []

    class Waiting:
        name = RUNDOWN

        def join(self, _: object) -> None:
            def use() -> None:
                if registry.lock.acquire(blocking=False):
                    free.append(True)
                    registry.lock.release()

            thread = threading.Thread(target=use)
            thread.start()
            thread.join(LIMIT_S)

        def leave(self, _: object) -> None:
            pass

    registry.add(Waiting())
    session = EventSession(request("None", rundown_keyword=0x80020139), registry=registry).start()
    session.stop()
    assert session.join(LIMIT_S)
    assert free == [True]


def test_taking_and_hanging_up_wait_for_nobody_who_has_the_registry(registry: Registry, event: Event) -> None:
    session = EventSession(request("My-Source"), registry=registry).start()

    def read() -> None:
        session.take(1 << 20)
        session.hang_up()

    thread = threading.Thread(target=read)
    with registry.lock:
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert session.join(LIMIT_S)
    assert not event.is_enabled


def test_rundown_comes_when_it_is_asked_for_and_process_info_always(registry: Registry, tmp_path: Path) -> None:
    registry.add(MethodRundown())
    with_it, without = tmp_path / "with.nettrace", tmp_path / "without.nettrace"
    for path, rundown in ((with_it, True), (without, False)):
        asked = CollectTracing2(buffer_mb=1, rundown=rundown, providers=(Provider(name="None"),))
        session = EventSession(asked, registry=registry).start()
        session.stop()
        path.write_bytes(Reader(session).take_all())
    assert set(dotnetdiag.open(with_it).counts()) == {
        "Microsoft-DotNETCore-EventPipe",
        "Microsoft-Windows-DotNETRuntimeRundown",
    }
    assert set(dotnetdiag.open(without).counts()) == {"Microsoft-DotNETCore-EventPipe"}


def test_stacks_of_a_long_stream_of_netperf_are_those_of_its_events(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry, stacks=True).event("Raw", fields={"raw": bytes})
    path = tmp_path / "x.netperf"
    with recording(path, registry, "My-Source", nettrace_version=3, buffer_mb=64):
        for _ in range(3 * SEQUENCE_POINT_BYTES // 60_000):
            event(b"x" * 60_000)
    contents = read(path.read_bytes())
    assert contents.complete
    stacks = {contents.stacks.raw(number) for number in contents.headers.stack.tolist()} - {b""}
    assert len(stacks) == 1  # ProcessInfo has none
    assert dotnetdiag.open(path).counts()["My-Source"]["Raw"] == 3 * SEQUENCE_POINT_BYTES // 60_000


@VERSIONS
def test_sequence_points_stand_in_a_long_stream(version: int, registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry, stacks=True).event("Raw", fields={"raw": bytes})
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=version, buffer_mb=64):
        for _ in range(3 * SEQUENCE_POINT_BYTES // 60_000):
            event(b"x" * 60_000)
    assert len(read(path.read_bytes()).sequence_points) >= 2  # the last one, and one before
    assert dotnetdiag.open(path).counts()["My-Source"]["Raw"] == 3 * SEQUENCE_POINT_BYTES // 60_000


def test_what_cannot_be_written_is_refused(registry: Registry) -> None:
    for asked in (CollectTracing(providers=(Provider(name="X"),), buffer_mb=0),):
        with pytest.raises(UsageError):
            EventSession(asked, registry=registry)
    with pytest.raises(UsageError, match="nettrace 5"):
        EventSession(request("X"), registry=registry, nettrace_version=5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_no_sessions_and_writes_without_harm(registry: Registry, event: Event, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event(1, "parent")
        pid = os.fork()
        if not pid:
            event(2, "child")
            os._exit(0 if not event.is_enabled else 1)
        assert os.waitpid(pid, 0)[1] == 0
        event(3, "parent")
    assert numbers(path) == [1, 3]
