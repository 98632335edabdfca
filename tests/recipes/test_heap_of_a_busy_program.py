"""A program whose other events do not end, while its heap is collected."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.heap.sessions import Session, usual

from dotnetdiag.errors import Cancelled, TimedOut
from dotnetdiag.recipes import heap_collect
from dotnetdiag.recipes.heap_collect import NOT_ENDED, CollectedHeap, HeapObserver, HeapOptions, collect_heap
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target
from dotnetdiag.testing import Runtime

FINALIZED, EVERY_S = 29, 0.02
LONGEST_S = 20.0


def sends(made: Callable[[Session], object], over: threading.Event) -> Callable[[Any], None]:
    """A session of a runtime that tells of that, and then of one finalized object after the other."""

    def script(talk: Any) -> None:
        session = Session()
        made(session)
        session._writer.flush()
        sent = len(session._file.getvalue())
        talk.begin_session(session._file.getvalue())
        while not over.wait(EVERY_S):
            session.event(FINALIZED, struct.pack("<QQH", 1, 2, 0))
            session._writer.flush()
            data = session._file.getvalue()
            talk.send(data[sent:])
            sent = len(data)

    return script


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Callable[..., HeapOptions]]:
    over, runtimes = threading.Event(), list[Runtime]()

    def start(made: Callable[[Session], object], timeout_s: float) -> HeapOptions:
        address = str(tmp_path / "port")
        script = sends(made, over)
        runtimes.append(Runtime("8.0", listen=address, scripts={f"CollectTracing{n}": script for n in range(2, 6)}))
        return HeapOptions(target=Target(port=f"{address},connect"), timeout=timeout_s)

    yield start
    over.set()
    for runtime in runtimes:
        runtime.close()


def test_collecting_ends_though_other_events_go_on(
    busy: Callable[..., HeapOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap_collect, "PARTING_S", 0.5)
    done = in_time(lambda: collect_heap(busy(usual, 5)))
    assert done.heap.completeness.complete
    assert (done.heap.objects, done.notes) == (3, (NOT_ENDED,))


def test_a_walk_that_does_not_come_is_given_up_though_other_events_go_on(
    busy: Callable[..., HeapOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap_collect, "PARTING_S", 0.5)
    with pytest.raises(TimedOut):
        in_time(lambda: collect_heap(busy(lambda session: session.event(FINALIZED, struct.pack("<QQH", 1, 2, 0)), 0.5)))


@pytest.mark.parametrize("ends", [Stop.stop, Stop.cancel])
def test_who_does_not_wait_for_the_end_has_the_heap_that_is_there(
    ends: Callable[[Stop], None], busy: Callable[..., HeapOptions]
) -> None:
    stop, seen = Stop(), list[int]()

    def progress(objects: int, edges: int, size_bytes: int, seconds: float) -> None:
        seen.append(objects)
        if seen.count(3) == 3:
            ends(stop)

    done = in_time(lambda: collect_heap(busy(usual, 5), HeapObserver(progress=progress), stop))
    assert done.heap.completeness.complete
    assert done.heap.objects == 3


def test_before_a_walk_has_ended_there_is_no_heap(busy: Callable[..., HeapOptions]) -> None:
    stop = Stop()

    def progress(*_: object) -> None:
        stop.stop()

    with pytest.raises(Cancelled):
        in_time(lambda: collect_heap(busy(Session.start, 5), HeapObserver(progress=progress), stop))


def in_time(act: Callable[[], CollectedHeap]) -> CollectedHeap:
    """What it gives, if it comes back at all."""
    made: list[CollectedHeap | BaseException] = []

    def run() -> None:
        try:
            made.append(act())
        except BaseException as error:
            made.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until = time.monotonic() + LONGEST_S
    while thread.is_alive() and time.monotonic() < until:
        thread.join(0.1)
    assert made, "it goes on"
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]
