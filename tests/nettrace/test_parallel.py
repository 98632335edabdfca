"""Work shared with an executor: the same results, in order, whoever does it, and nothing that waits for ever."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.nettrace.traces import large_trace

import dotnetdiag
from dotnetdiag.nettrace import scan
from dotnetdiag.nettrace.parallel import AHEAD, Executor, in_order


class Busy:
    """An executor that begins nothing, as one whose threads are busy for ever."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as made:
        yield made


def square(number: int) -> int:
    return number * number


@pytest.mark.parametrize("who", ["pool", "busy", "none"])
def test_results_come_in_order_whoever_works(pool: ThreadPoolExecutor, who: str) -> None:
    executors: dict[str, Executor | None] = {"pool": pool, "busy": Busy(), "none": None}
    done = list(in_order(range(200), square, executors[who]))
    assert done == [(number, number * number) for number in range(200)]


def test_the_executor_takes_part(pool: ThreadPoolExecutor) -> None:
    both = threading.Barrier(2, timeout=10)  # passes only when two threads work at once
    list(in_order(range(2), lambda _: both.wait(), pool))


def test_an_error_comes_in_place_of_its_result(pool: ThreadPoolExecutor) -> None:
    def act(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    work = in_order(range(100), act, pool)
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

    for number, _ in in_order(source(), square, pool, size=lambda _: size, usual=3):
        assert taken - number <= (3 * AHEAD if size == 1 else AHEAD) + 1


def test_an_iteration_that_is_left_cancels_what_nobody_has_begun() -> None:
    executor = Busy()
    work = in_order(range(1000), square, executor)
    assert next(work) == (0, 0)
    work.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(executor.futures) > 1
    assert all(future.cancelled() for future in executor.futures)


def test_an_error_in_the_callers_loop_leaves_its_pool() -> None:
    def make_a_mistake() -> None:
        with ThreadPoolExecutor(2) as pool:
            for _ in scan(large_trace()).iter_batches(executor=pool):
                raise ValueError("a mistake in the loop")

    with pytest.raises(ValueError, match="mistake"):
        make_a_mistake()


def test_a_pass_outlives_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(large_trace())
    assert path.stat().st_size > 4 << 20
    trace = dotnetdiag.open(path, threads=2)
    count, batches = len(trace), trace.raw.source.batches()
    found = len(next(batches))
    del trace
    gc.collect()
    assert found + sum(map(len, batches)) == count


OPEN = """
trace = dotnetdiag.open(sys.argv[1], threads=2)
events = iter(trace.events())
print(next(events).name)
"""
SHARED = """
pool = ThreadPoolExecutor(2)
batches = scan(open(sys.argv[1], "rb").read()).iter_batches(executor=pool)
print(next(batches).metadata[1].name)
"""


@pytest.mark.parametrize("program", [OPEN, SHARED, SHARED + "raise SystemExit", OPEN + "del trace, events"])
def test_a_program_ends_though_an_iteration_is_left_open(tmp_path: Path, program: str) -> None:
    path = tmp_path / "large.nettrace"
    path.write_bytes(large_trace())
    imports = "import dotnetdiag, sys\nfrom concurrent.futures import ThreadPoolExecutor\nfrom dotnetdiag.nettrace import scan\n"
    command = [sys.executable, "-c", imports + program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("Plain\n", "", 0)


class Log:
    """An executor that does each piece at once, or when it is told, and writes down what happens."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once, self.events, self.futures = at_once, list[tuple[str, int]](), list[Future[Any]]()

    def submit(self, fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        future: Future[Any] = Future()
        self.events.append(("submit", argument))
        self.futures.append(future)
        if self.at_once:
            future.set_result(fn(argument))
        return future

    def source(self, count: int) -> Iterator[int]:
        for number in range(count):
            self.events.append(("read", number))
            yield number


@pytest.mark.parametrize(
    ("usual", "sizes"), [(1, [1] * 9), (3, [1] * 20), (3, [3] * 9), (2, [5] * 5), (4, [7, 1, 9, 1, 1])]
)
def test_pieces_are_taken_ahead_while_there_is_room_for_their_sizes(usual: int, sizes: list[int]) -> None:
    log = Log(at_once=True)
    taken = 0
    for number, result in in_order(log.source(len(sizes)), square, log, size=lambda at: sizes[at], usual=usual):
        assert result == number * number
        # from the piece that is given out on: begun while what is ahead is smaller than the room
        room = AHEAD * usual
        while taken < len(sizes) and room - sum(sizes[number:taken]) > 0:
            taken += 1
        assert [what for what, _ in log.events].count("submit") == taken
    assert taken == len(sizes)
    reads = [at for what, at in log.events if what == "read"]
    assert reads == [at for what, at in log.events if what == "submit"] == list(range(len(sizes)))


def test_what_the_executor_has_done_is_not_done_again_and_the_others_wait_for_it() -> None:
    log, done = Log(at_once=False), list[int]()

    def act(number: int) -> int:
        done.append(number)
        return number

    work = in_order(log.source(6), act, log)
    assert next(work) == (0, 0)
    # nobody had begun any: the first, which is wanted, is done here, and the next of which none is done are left
    assert done == [0]
    assert [future.cancelled() for future in log.futures] == [True, *[False] * (AHEAD - 1)]
    log.futures[1].set_running_or_notify_cancel()  # somebody else does it
    log.futures[1].set_result(-1)
    assert next(work) == (1, -1)
    assert done == [0]
    assert list(work) == [(number, number) for number in range(2, 6)]
    assert done == [0, 2, 3, 4, 5]


def test_what_somebody_else_has_cancelled_is_done_here() -> None:
    log = Log(at_once=False)
    work = in_order(log.source(6), square, log)
    assert next(work) == (0, 0)
    for future in log.futures:
        future.cancel()
    assert list(work) == [(number, number * number) for number in range(1, 6)]


def test_pieces_are_done_here_while_the_first_is_being_done_elsewhere() -> None:
    log, done = Log(at_once=False), list[int]()

    def act(number: int) -> int:
        if number == 2:
            log.futures[0].set_result(-1)
        done.append(number)
        return number

    work = in_order(log.source(6), act, log)
    submit = log.submit

    def begun(fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        future = submit(fn, argument)
        if argument == 0:
            future.set_running_or_notify_cancel()
        return future

    log.submit = begun  # type: ignore[method-assign]
    assert next(work) == (0, -1)
    assert done == [1, 2]
    assert [next(work) for _ in range(2)] == [(1, 1), (2, 2)]
    assert done == [1, 2]
    assert list(work) == [(number, number) for number in range(3, 6)]


def test_without_an_executor_a_piece_is_read_when_it_is_wanted() -> None:
    log = Log(at_once=True)
    for number, _ in in_order(log.source(4), square, None):
        assert log.events == [("read", at) for at in range(number + 1)]
