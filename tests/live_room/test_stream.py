"""Windows out of bytes as they come: whatever the pieces are, what is in them is what a file of them has."""

from __future__ import annotations

import pytest
from tests.heap.help import heap_of, types_of
from tests.nettrace.recordings import data_of

from dotnetdiag.heap import Heap, HeapFold
from dotnetdiag.live.stream import WindowStream


def streamed(data: bytes, piece: int) -> tuple[Heap, WindowStream]:
    fold = HeapFold()
    stream = WindowStream(fold.wants)
    for at in range(0, len(data), piece):
        for window in stream.feed(data[at : at + piece]):
            fold.feed(window)
        if at % 3 == 0:  # nothing has come for a moment
            for window in stream.flush():
                fold.feed(window)
            assert stream.waiting == 0
    for window in stream.close():
        fold.feed(window)
    (heap,) = fold.result()
    return heap, stream


@pytest.mark.parametrize("piece", [997, 1 << 16, 1 << 30])
def test_a_heap_that_is_streamed_is_that_of_the_file(piece: int) -> None:
    data = data_of("heap-10.nettrace")
    heap, stream = streamed(data, piece)
    whole = heap_of(data)
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
