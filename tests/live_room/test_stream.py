"""Windows out of bytes as they come: whatever the pieces are, what is in them is what a file of them has."""

from __future__ import annotations

import numpy as np
import pytest
from tests.heap.help import heap_of, heaps_of, types_of
from tests.heap.sessions import A, B, C, Session
from tests.nettrace.recordings import data_of

from dotnetdiag.heap import Heap, HeapFold
from dotnetdiag.live.stream import WindowStream
from dotnetdiag.live.windows import selection
from dotnetdiag.trace.trace import Trace

ROOM = 128 << 10


def node_columns(heap: Heap) -> list[list[int]]:
    """What is known of each node, and all references."""
    return [one.tolist() for one in (heap.node_address, heap.node_size, heap.node_generation, heap.edge_target)]


def streamed(data: bytes, piece: int, *, borrowed: bool = False) -> tuple[Heap, WindowStream]:
    fold = HeapFold()
    stream = WindowStream(fold.wants)
    memory = memoryview(bytearray(ROOM + min(piece, len(data))))
    for at in range(0, len(data), piece):
        some = data[at : at + piece]
        if borrowed:
            memory[ROOM : ROOM + len(some)] = some
        for window in stream.borrow(memory, ROOM, ROOM + len(some)) if borrowed else stream.feed(some):
            fold.feed(window)
        memory[:] = b"\xee" * len(memory)  # whatever is held of it would be that
        if at % 3 == 0:  # nothing has come for a moment
            for window in stream.flush():
                fold.feed(window)
            assert stream.waiting == 0
    for window in stream.close():
        fold.feed(window)
    (heap,) = fold.result()
    return heap, stream


@pytest.mark.parametrize("borrowed", [False, True])
@pytest.mark.parametrize("piece", [997, 1 << 16, 1 << 30])
def test_a_heap_that_is_streamed_is_that_of_the_file(piece: int, borrowed: bool) -> None:
    data = data_of("heap-10.nettrace")
    heap, stream = streamed(data, piece, borrowed=borrowed)
    whole = heap_of(data)
    assert node_columns(heap) == node_columns(whole)
    assert heap.completeness.problems == whole.completeness.problems == ()
    assert types_of(heap) == types_of(whole)
    assert (heap.nodes, heap.edges) == (whole.nodes, whole.edges)
    assert heap.facts.pause_ms == whole.facts.pause_ms
    assert stream.complete
    assert stream.has_begun
    assert stream.losses.lost == 0


def test_a_stream_that_breaks_off_gives_what_came_and_is_not_complete() -> None:
    data = data_of("heap-10.nettrace")
    heap, stream = streamed(data[:-1000], 1 << 16)
    assert not stream.complete
    assert heap.nodes == heap_of(data).nodes
    some, stream = streamed(data[: len(data) // 2], 1 << 16)
    assert not stream.complete
    assert not some.completeness.complete


def one_walk(session: Session, count: int, *, begin: int, end: int) -> None:
    """A walk of thread 1, whose collection begins and ends on other threads."""
    session.start(count, thread=begin)
    session.range(0, 0, 1 << 40, thread=begin)  # before the collection
    session.types([(1, "App.A")])
    session.roots([(A, 2, 0, 0x55)])
    session.nodes([(A, 24, 1, 1), (B, 24, 1, 1)])
    session.edges([B])
    session.nodes([(C, 40, 1, 0)])
    session.edges([C])
    session.range(2, A, 0x60)
    session.stop(count, thread=end)


@pytest.mark.parametrize("threads", [(1, 9, 8), (9, 8, 1), (8, 1, 9)])
@pytest.mark.parametrize(("begin", "end"), [(9, 1), (9, 9), (9, 8), (1, 8)])
@pytest.mark.parametrize("size", [1, 4, 7, 12, 13, 22, 100])
def test_walks_are_joined_by_time_when_threads_are_written_one_after_the_other(
    size: int, begin: int, end: int, threads: tuple[int, ...]
) -> None:
    """As a runtime writes what its threads tell until a moment: of the server's collector several tell of one collection."""
    session = Session()
    for count in (1, 2, 3):
        one_walk(session, count, begin=begin, end=end)
    fold = HeapFold()
    (window,) = Trace(session.data()).windows(fold.wants)
    for first in range(0, len(window), size):
        for thread in threads:
            rows = np.flatnonzero(window.headers.thread[first : first + size] == thread) + first
            if len(rows):
                fold.feed(selection(window, rows))
                fold.prepare()
    heaps = fold.result()
    assert len(heaps) == 3
    for heap, whole in zip(heaps, heaps_of(session.data()), strict=True):
        assert heap.completeness.problems == whole.completeness.problems == ()
        assert heap.types.to_pylist() == whole.types.to_pylist()
        assert heap.facts == whole.facts
        assert heap.facts.pause_ms is not None
        assert heap.facts.heap_bytes == 45
        assert len(heap.facts.segments) == 1
        assert heap.node_generation[:3].tolist() == [2, 2, 2]
