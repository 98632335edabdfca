"""Work shared between the caller's thread and helpers: the same results, in order, whoever helps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dotnetdiag.nettrace.crew import Map, in_order


def nobody(act: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """A map that runs nothing, as one whose pool is busy for ever."""
    return iter(())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as made:
        yield made


def square(number: int) -> int:
    return number * number


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("helpers", ["pool", "lazy map", "nobody"])
def test_results_come_in_order_whoever_helps(pool: ThreadPoolExecutor, threads: int, helpers: str) -> None:
    maps: dict[str, Map] = {"pool": pool.map, "lazy map": map, "nobody": nobody}
    done = list(in_order(range(200), square, threads, maps[helpers]))
    assert done == [(number, number * number) for number in range(200)]


def test_a_helper_takes_part(pool: ThreadPoolExecutor) -> None:
    workers: set[int] = set()
    both = threading.Barrier(2, timeout=10)

    def act(number: int) -> None:
        if number < 2:
            both.wait()  # passes only when two threads work at once
        workers.add(threading.get_ident())

    list(in_order(range(10), act, 2, pool.map))
    assert len(workers) == 2


def test_an_error_comes_in_place_of_its_result(pool: ThreadPoolExecutor) -> None:
    def act(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    work = in_order(range(100), act, 2, pool.map)
    assert [next(work)[1] for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="five"):
        next(work)


@pytest.mark.parametrize("size", [1, 3])
def test_only_a_few_pieces_are_taken_ahead(pool: ThreadPoolExecutor, size: int) -> None:
    taken = 0

    def source() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken = number + 1
            yield number

    for number, _ in in_order(source(), square, 2, pool.map, size=lambda _: size, usual=3):
        assert taken - number <= (12 if size == 1 else 4) + 1


def test_who_stops_early_stops_the_helpers() -> None:
    pool = ThreadPoolExecutor(2)
    work = in_order(range(1000), square, 3, pool.map)
    assert next(work) == (0, 0)
    work.close()  # type: ignore[attr-defined]  # it is a generator
    ending = threading.Thread(target=pool.shutdown, daemon=True)
    ending.start()
    ending.join(timeout=30)
    assert not ending.is_alive(), "the helpers went on"
