"""What a thread loads and has at hand for a heap, while the runtime walks it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dotnetdiag.heap.fold import HeapFold
from dotnetdiag.recipes import heap_collect, memory
from dotnetdiag.recipes.heap_collect import MOST_READY_BYTES, ROW_BYTES, _likely_objects, _Loading
from dotnetdiag.recipes.heap_sharing import MANY_OBJECTS, shared_by_two


def test_each_walk_has_a_fold_of_its_own() -> None:
    loading = _Loading(1000)
    folds = [loading.result()[0] for _ in range(3)]
    assert len({id(one) for one in folds}) == 3
    assert all(isinstance(one, HeapFold) for one in folds)


@pytest.mark.parametrize("error", [OSError(12, "Cannot allocate memory"), MemoryError()])
def test_memory_that_cannot_be_had_is_done_without(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def have_ready(_: HeapFold, objects: int, goes_on: Callable[[], bool]) -> None:
        tried.append(objects)
        assert isinstance(goes_on(), bool)
        raise error

    monkeypatch.setattr(HeapFold, "have_ready", have_ready)
    fold, _ = _Loading(1000).result()
    assert (tried, fold.objects) == ([1000], 0)


@pytest.mark.parametrize(
    ("resident", "available", "objects"),
    [
        (64_000, 1 << 40, 1000),
        (1 << 40, 1 << 40, MOST_READY_BYTES // ROW_BYTES),
        (1 << 40, 8 * 28_000, 1000),
        (None, 1 << 40, 0),
        (40_000, None, 0),
        (40_000, 0, 0),
    ],
)
def test_how_many_objects_are_likely(
    resident: int | None, available: int | None, objects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda _: resident)
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    assert _likely_objects(1) == objects
    assert _likely_objects(None) == 0


def test_who_does_not_wait_is_not_held_up() -> None:
    loading = _Loading(heap_collect.MOST_READY_BYTES // ROW_BYTES)
    fold, _ = loading.result()  # at once: what is not at hand yet is had when it is written to
    assert fold.objects == 0


def test_work_on_a_heap_is_done_by_oneself_where_there_is_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def doubled() -> list[tuple[int, int]]:
        with shared_by_two(MANY_OBJECTS) as shared:
            return list(shared(range(5), lambda one: 2 * one))

    expected = [(one, 2 * one) for one in range(5)]
    assert doubled() == expected
    monkeypatch.setattr(threading.Thread, "start", start)
    assert doubled() == expected
