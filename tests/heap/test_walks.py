"""A recording may begin walk after walk: what that takes is in proportion to what they tell, and there is a limit that is told."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.heap.help import heap_of, heaps_of
from tests.heap.sessions import A, Session, usual

from dotnetdiag.errors import UsageError
from dotnetdiag.heap import HeapFold, kernels, walks
from dotnetdiag.heap.building import build
from dotnetdiag.heap.bulk_events import NODES, layout
from dotnetdiag.heap.growing import Growing
from dotnetdiag.heap.moments import MOST, Moment, Moments
from dotnetdiag.heap.walk import OTHER_KIND, BlockRuns
from dotnetdiag.heap.walks import LeftOut, WalkRoom, Walks
from dotnetdiag.recipes.heap_files import open_heap, read_heaps
from dotnetdiag.trace.trace import Trace


def fed(data: bytes) -> HeapFold:
    made, trace = HeapFold(), Trace(data, name="recording")
    for window in trace.windows(made.wants):
        made.feed(window)
    return made


def of_many_walks(count: int) -> bytes:
    """One object each; what begins each is the number of its block alone."""
    session = Session()
    session.start()
    session.types([(1, "App.A")])
    for number in range(count):
        session.nodes([(A + 32 * number, 24, 1, 0)], index=0)
        session.edges([], index=0)
        session.roots([(A + 32 * number, 0, 0, 0)], index=0)
        session.statics([(A, 1, 0, "one")])
        session.range(2, A, 0x10)
    session.stop()
    return session.data()


def held_walks(made: HeapFold) -> list[Any]:
    return [walk for process in made._processes.values() for walk in process.walks]


@pytest.mark.usefixtures("form")
def test_walks_beyond_the_limit_are_left_out_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (5, 12, 13):
        monkeypatch.setattr(walks, "MOST_WALKS", most)
        heaps = heaps_of(of_many_walks(12))
        assert [int(heap.node_address[0]) for heap in heaps] == [A + 32 * number for number in range(min(most, 12))]
        assert [(heap.facts.dump, heap.facts.dumps) for heap in heaps] == [
            (n + 1, len(heaps)) for n in range(len(heaps))
        ]
        told = {problem for heap in heaps for problem in heap.completeness.problems if "heaps" in problem}
        assert told == ({"more than 5 heaps: those beyond were left out"} if most == 5 else set())
        assert all(heap.bytes == 24 for heap in heaps)


def test_what_is_held_of_many_walks_has_a_limit() -> None:
    made = fed(of_many_walks(1_500))
    assert (made.dumps, made.objects, len(held_walks(made))) == (walks.MOST_WALKS, 1_000, 1_001)
    (last,) = made.result(1_000)
    assert (last.facts.dump, last.facts.dumps) == (1_000, 1_000)


def test_many_dumps_are_heaps_of_their_own() -> None:
    session = Session()
    for count in range(1, 101):
        usual(session, count=count)
    heaps = heaps_of(session.data())
    assert [heap.completeness.complete for heap in heaps] == [True] * 100
    assert {heap.bytes for heap in heaps} == {2_000_064}


def test_a_dump_that_is_asked_for_is_the_only_one_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    session = Session()
    for count in range(1, 6):
        session.lose(1)
        usual(session, count=count)
    path = tmp_path / "x.nettrace"
    path.write_bytes(session.data())
    expected = read_heaps(path)
    built = list[int]()

    def counted(*about: Any) -> Any:
        built.append(1)
        return build(*about)

    monkeypatch.setattr("dotnetdiag.heap.fold.build", counted)
    for number in (1, 5, None):
        heap = open_heap(path, number)
        assert (heap.facts, heap.completeness) == (expected[(number or 1) - 1].facts, expected[0].completeness)
    assert len(built) == 3
    for number in (0, 6, -1):
        with pytest.raises(UsageError, match=f"there is no dump {number}: the file has 5"):
            open_heap(path, number)
    assert len(built) == 3


def test_collections_without_objects_are_forgotten() -> None:
    session = Session()
    for count in range(1, 301):
        session.start(count)
        session.stop(count)
    usual(session, count=301)
    data = session.data()
    made = fed(data)
    assert len(held_walks(made)) <= 9
    assert [(round(1000 * ms), known) for ms, known in made.pauses()] == [(8, True)]
    assert heap_of(data).completeness.complete


@pytest.mark.skipif(kernels.KERNELS is None, reason="the kernels are not compiled here")
def test_a_walk_has_room_for_its_own_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for all that come behind them in the window."""
    session = Session()
    session.start()
    for _ in range(20):
        session.nodes([(A, 24, 1, 0)], index=0)
    for index in range(1, 50):
        session.nodes([(A, 24, 1, 0)] * 500, index=index)
    session.stop()
    asked: list[int] = []

    def room(self: Growing, rows: int, made: Any = Growing.room) -> Any:
        asked.append(rows)
        return made(self, rows)

    monkeypatch.setattr(Growing, "room", room)
    fed(session.data())
    assert sum(rows > 100 for rows in asked) <= 8  # four columns of the last one, in two windows
    assert 500 <= max(asked) < 25_000


def test_runs_end_where_another_walk_may_begin() -> None:
    row = layout(NODES, 8).itemsize
    data = np.zeros(40, np.uint8)
    data[8], data[13] = 1, 1  # at 4 and at 16 there is none
    offsets = np.array([4, 8, 0, 10, 16, 38, 8], np.int64)
    lengths = np.array([10, 10 + row, 0, 10 + 3 * row, 9, 9, 10], np.int64)
    kinds = np.array([1, 1, 0, 1, 2, 1, OTHER_KIND], np.uint8)
    runs = BlockRuns((data, offsets, lengths, kinds, True))
    assert [runs.end(at, 7) for at in range(7)] == [4, 4, 4, 4, 6, 6, 7]
    assert runs.end(0, 3) == 3
    assert (runs.most(0, 4), runs.most(1, 2), runs.most(2, 3)) == ((4, 0), (1, 0), (0, 0))


# in the order of time -------------------------------------------------------------------------------------------------


def test_moments_are_found_by_time_among_the_latest_that_came() -> None:
    chance = random.Random(3)
    for _ in range(30):
        moments, came = Moments(), list[Moment]()
        for number in range(chance.choice((0, 1, 3, 90))):
            moment = Moment(time=chance.randrange(40), elapsed_ns=number, value=chance.randrange(3))
            moments.add(1, moment)
            came.append(moment)
        kept = came[-MOST:]
        for time in range(-1, 41):
            before = [one for one in kept if one.time <= time]
            assert moments.last_before(1, time) == max(before, key=lambda one: one.time, default=None)
            for value in (None, 0, 1, 7):
                after = [one for one in kept if one.time >= time and value in (None, one.value)]
                assert moments.first_after(1, time, value) == min(after, key=lambda one: one.time, default=None)
        assert moments.first_after(2, 0) is None
        assert moments.last_before(2, 0) is None


def test_walks_stay_in_the_order_of_time_and_what_is_left_out_is_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "MOST_WALKS", 20)
    chance = random.Random(4)
    for _ in range(30):
        room = WalkRoom()
        own = Walks(room, 8)
        for number in range(200):
            moment = Moment(time=chance.randrange(1_000), elapsed_ns=0, value=number)
            following = own.turn(moment.time)
            assert following is None or following > moment.time
            kind = chance.random()
            if kind < 0.3:
                own.start(moment, 0)
                continue
            walk = own.begin_again(moment.time) if kind < 0.6 else own.current
            walk.begins(moment)
            if chance.random() < 0.5 and not isinstance(walk, LeftOut):
                walk.take(NODES, 0, np.zeros(1, layout(NODES, 8)))
        begins = [walk.begin for walk in own]
        assert begins == sorted(begins)
        assert room.is_over
        assert sum(not isinstance(walk, LeftOut) for walk in own) <= 20
        assert len(own) <= 41
        assert len(own.taken()) == len(begins)
        assert len(own) == 0
