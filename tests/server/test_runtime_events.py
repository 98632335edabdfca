from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S, recording, request

import dotnetdiag
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing
from dotnetdiag.server import kernels, runtime_events
from dotnetdiag.server.activities import activity
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_events import PROVIDER, RuntimeEvents

ROUND = [
    "SuspendEEStart",
    "SuspendEEStop",
    "Start",
    "PythonCollection",
    "Stop",
    "HeapStats",
    "RestartEEStart",
    "RestartEEStop",
]
raises = pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring came with Python 3.12")


@pytest.fixture
def registry() -> Iterator[Registry]:
    bootstrap, callbacks = threading.Thread._bootstrap_inner, list(gc.callbacks)  # type: ignore[attr-defined]
    made = Registry()
    made.add(RuntimeEvents())
    enabled = gc.isenabled()
    gc.disable()  # only what tests ask for is collected
    yield made
    if enabled:
        gc.enable()
    assert threading.Thread._bootstrap_inner is bootstrap  # type: ignore[attr-defined]
    assert gc.callbacks == callbacks


def events(path: Path, start: str) -> list[Any]:
    return [one for one in dotnetdiag.open(path).events() if one.provider == PROVIDER and one.name.startswith(start)]


def test_a_collection_is_a_pause_with_its_generation_and_what_it_collected(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        gc.collect(0)
        ring: list[Any] = []
        ring.append(ring)
        del ring
        gc.collect(1)
        gc.collect()
    found = events(path, "GC/")
    assert [one.name.removeprefix("GC/") for one in found] == ROUND * 3
    starts = [one for one in found if one.name == "GC/Start"]
    assert [(one.Count, one.Depth) for one in starts] == [(1, 0), (2, 1), (3, 2)]
    collected = [struct.unpack("<qq", one.Data)[0] for one in found if one.name == "GC/PythonCollection"]
    assert collected[1] >= 1
    assert {one.tid for one in found} == {threading.get_native_id()}
    times = [one.time_ns for one in found]
    assert times == sorted(times)


def test_a_collection_carries_the_activity_that_it_holds_up(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER), activity() as chosen:
        gc.collect()
    found = [one.activity for one in dotnetdiag.open(path).events() if one.name.startswith("GC")]
    assert len(found) >= 8
    assert set(found) == {chosen}


def test_a_collection_that_was_running_before_the_session_has_no_end(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        for callback in gc.callbacks[-1:]:
            callback("stop", {"generation": 2, "collected": 0, "uncollectable": 0})
    assert not events(path, "GC/")


def test_threads_are_created_and_end(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    idents = []
    with recording(path, registry, PROVIDER):
        for _ in range(3):
            thread = threading.Thread(target=int)
            thread.start()
            idents.append((thread.ident, thread.native_id))
            thread.join()
    created, ended = (
        events(path, "AppDomainResourceManagement/ThreadC"),
        events(path, "AppDomainResourceManagement/ThreadT"),
    )
    assert [(one.ManagedThreadID, one.OSThreadID) for one in created] == idents
    assert [one.ManagedThreadID for one in ended] == [ident for ident, _ in idents]
    assert [one.tid for one in created] == [number for _, number in idents]


def test_a_thread_begins_whatever_its_class_calls_it(registry: Registry, tmp_path: Path) -> None:
    class Numbered(threading.Thread):
        name = 7  # type: ignore[assignment]

    class Waiting(threading.Thread):
        @property
        def name(self) -> str:
            raise AssertionError("nobody may ask")

        @name.setter
        def name(self, value: object) -> None:
            pass

    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        for kind in (Numbered, Waiting):
            thread = kind(target=int, daemon=True)
            thread.start()
            thread.join(LIMIT_S)
            assert not thread.is_alive()
    assert len(events(path, "AppDomainResourceManagement/ThreadC")) == 2


def test_a_thread_begins_though_its_event_cannot_be_written(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(number: int, os_thread: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr(runtime_events, "thread_facts", broken)
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        thread = threading.Thread(target=int, daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert len(events(path, "AppDomainResourceManagement/ThreadT")) == 1


def test_a_program_that_empties_the_callbacks_of_the_collector_keeps_no_session_from_its_end(
    registry: Registry, tmp_path: Path
) -> None:
    callbacks = list(gc.callbacks)
    for name in ("first", "second"):
        path = tmp_path / f"{name}.nettrace"
        with recording(path, registry, PROVIDER):
            gc.collect()
            gc.callbacks.clear()
            gc.collect()
        gc.callbacks[:] = callbacks
        assert dotnetdiag.open(path).complete
        assert [one.name.removeprefix("GC/") for one in events(path, "GC/")] == ROUND


def test_somebody_else_who_hooks_threads_is_left_alone(registry: Registry, tmp_path: Path) -> None:
    thread_class: Any = threading.Thread
    original = thread_class._bootstrap_inner
    ran: list[str] = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.nettrace"
        with recording(path, registry, PROVIDER):
            ours = thread_class._bootstrap_inner

            def theirs(thread: threading.Thread, ours: Any = ours) -> None:
                ran.append(thread.name)
                ours(thread)

            thread_class._bootstrap_inner = theirs
            thread = threading.Thread(target=int, name=name)
            thread.start()
            thread.join()
        assert thread_class._bootstrap_inner is theirs
        assert len(events(path, "AppDomainResourceManagement/ThreadCreated")) == 1
    thread_class._bootstrap_inner = original
    assert ran[0] == "first"
    assert "second" in ran


def test_what_is_not_asked_for_is_not_hooked(registry: Registry) -> None:
    for keywords, level, hooked in ((0x1, 4, True), (0x1, 3, False), (0x2, 5, False)):
        before = len(gc.callbacks)
        asked = CollectTracing(buffer_mb=1, providers=(Provider(name=PROVIDER, keywords=keywords, level=level),))
        session = EventSession(asked, registry=registry).start()
        assert len(gc.callbacks) == before + hooked
        session.hang_up()
        assert session.join(LIMIT_S)
        assert len(gc.callbacks) == before


def test_two_sessions_are_one_hook(registry: Registry) -> None:
    before = len(gc.callbacks)
    sessions = [EventSession(request(PROVIDER), registry=registry).start() for _ in range(2)]
    assert len(gc.callbacks) == before + 1
    for session in sessions:
        session.hang_up()
        assert session.join(LIMIT_S)
    assert len(gc.callbacks) == before


@raises
def test_an_exception_is_told_once_where_it_is_raised(registry: Registry, tmp_path: Path) -> None:
    def inner() -> None:
        raise KeyError("lost", 5)

    def outer() -> None:
        inner()

    def chained() -> None:
        try:
            raise OSError("first")
        except OSError as error:
            raise ValueError("second") from error

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise AssertionError("nobody may ask")

    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        with pytest.raises(KeyError):
            outer()
        with pytest.raises(Unspeakable):
            raise Unspeakable(object())
        with pytest.raises(ValueError, match="second"):
            chained()
        assert list(iter([1])) == [1]  # a StopIteration that is none
    expected = [("KeyError", "lost, 5"), ("Unspeakable", ""), ("OSError", "first"), ("ValueError", "second")]
    found = events(path, "Exception/Start")
    said = [(one.ExceptionType.rpartition(".")[2], one.ExceptionMessage) for one in found]
    assert [one for one in said if one in expected] == expected  # libraries raise some of their own
    assert all(one.stack for one in found)


@raises
def test_an_exception_carries_the_activity_in_which_it_is_raised(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER), activity() as chosen, pytest.raises(KeyError):
        raise KeyError("lost", 5)
    assert [one.activity for one in events(path, "Exception/Start") if one.ExceptionMessage == "lost, 5"] == [chosen]


@raises
def test_an_exception_whose_arguments_have_no_text_is_told_with_what_can_be_said(
    registry: Registry, tmp_path: Path
) -> None:
    class Nameless(Exception):
        args = None  # type: ignore[assignment]

    def raise_one(exception: Exception) -> None:
        with pytest.raises(type(exception)):
            raise exception

    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        raise_one(ArithmeticError("too large", 10**5000))
        raise_one(Nameless("has a text"))
    said = {one.ExceptionType.rpartition(".")[2]: one.ExceptionMessage for one in events(path, "Exception/Start")}
    assert said["ArithmeticError"] == "too large, <unprintable int object>"
    assert said["Nameless"] == "has a text"


@raises
def test_recursion_that_is_too_deep_is_told_once(registry: Registry, tmp_path: Path) -> None:
    def descend() -> None:
        descend()

    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        for _ in range(5):
            with pytest.raises(RecursionError):
                descend()
    kinds = [one.ExceptionType for one in events(path, "Exception/Start")]
    assert kinds.count("builtins.RecursionError") == 5


@raises
def test_an_exception_that_cannot_be_written_is_counted_as_lost(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unwritten(Exception):
        pass

    thrown = runtime_events._thrown

    def broken(exception: BaseException) -> bytes:
        if isinstance(exception, Unwritten):
            raise MemoryError
        return thrown(exception)

    monkeypatch.setattr(runtime_events, "_thrown", broken)
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER), pytest.raises(Unwritten):
        raise Unwritten
    assert dotnetdiag.open(path).lost.total == 1


@raises
def test_a_tool_whose_number_the_program_freed_keeps_no_session_from_its_end(
    registry: Registry, tmp_path: Path
) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        tool = next(one for one in range(6) if monitoring.get_tool(one) == "dotnetdiag")
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
        monitoring.use_tool_id(tool, "another")
    assert monitoring.get_tool(tool) == "another"
    monitoring.free_tool_id(tool)
    assert dotnetdiag.open(path).complete


@raises
def test_the_number_of_a_tool_is_given_back(registry: Registry, tmp_path: Path) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    before = [monitoring.get_tool(one) for one in range(6)]
    with recording(tmp_path / "x.nettrace", registry, PROVIDER):
        assert "dotnetdiag" in [monitoring.get_tool(one) for one in range(6)]
    assert [monitoring.get_tool(one) for one in range(6)] == before


DEEP = """
import gc, sys
from pathlib import Path
from tests.server.recorded import recording
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_events import PROVIDER, RuntimeEvents
registry = Registry()
registry.add(RuntimeEvents())
gc.disable()
def descend():
    gc.collect(0)
    descend()
with recording(Path(sys.argv[1]), registry, PROVIDER):
    for _ in range(3):
        try: descend()
        except RecursionError: pass
    gc.collect(0)
"""


@pytest.mark.skipif(kernels.KERNELS is None, reason="only what is compiled can be called at the limit of recursion")
def test_a_collection_at_the_limit_of_recursion_prints_nothing_and_is_counted_as_lost(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *(entry for entry in sys.path if entry)])}
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = dotnetdiag.open(path)
    assert trace.lost.total
