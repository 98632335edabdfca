"""Many sessions at once, made by hand."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.live_room.made import NUMBER, OTHER, FakeSession, Made, ended

from dotnetdiag.live import fleet as room
from dotnetdiag.live.fleet import LiveFleet
from dotnetdiag.trace.table import EventTable

START_NS = 1_600_000_000_000_000_000


class Session(FakeSession):
    """Does not wait: what was said is there at once."""

    def read(self, size: int = 0, *, timeout_s: float | None = None) -> bytes:
        assert timeout_s == 0, "who looks at many sessions waits for none"
        return super().read(size, timeout_s=0.0001)

    def has_arrived(self) -> bool:
        return not self._pieces.empty()


def rows(window: EventTable | None) -> list[tuple[int, int]]:
    """(process id, number) of each event."""
    assert window is not None
    return list(zip(window.values("pid"), window.values("n"), strict=True))


def test_what_sessions_send_becomes_one_window_in_time_order() -> None:
    one, two = Made(start_ns=START_NS, sync_ticks=50), Made(start_ns=START_NS + 1_000_000, sync_ticks=7_000)
    with LiveFleet() as fleet:
        for number, made, ticks in ((11, one, 50), (22, two, 7_000)):
            made.number(number, ticks + 100)
            made.number(number + 1, ticks + 3_000_000)
            fleet.add(number, Session(made.take()))
        window = fleet.take()
        assert rows(window) == [(11, 11), (22, 22), (11, 12), (22, 23)]
        assert window is not None
        assert window.values("time") == [START_NS + one for one in (100, 1_000_100, 3_000_000, 4_000_000)]
        assert fleet.take() is None


def test_a_type_of_many_sessions_is_one() -> None:
    one, two = Made(), Made()
    one.number(1, 100)
    two.writer.add_metadata(replace(NUMBER, metadata_id=9))
    two.writer.write_event(9, 200, struct.pack("<i", 2), thread=1)
    with LiveFleet() as fleet:
        fleet.add(1, Session(one.take()))
        fleet.add(2, Session(two.take()))
        window = fleet.take()
        assert rows(window) == [(1, 1), (2, 2)]
        assert window is not None
        assert len(window.schemas) == 1


def test_only_wanted_types_are_kept() -> None:
    made = Made()
    made.number(1, 100)
    made.text("no", 150)
    with LiveFleet(lambda schema: schema.name == NUMBER.name) as fleet:
        fleet.add(1, Session(made.take()))
        window = fleet.take()
        assert rows(window) == [(1, 1)]
        assert window is not None
        assert [schema.name for schema in window.schemas.values()] == [NUMBER.name]
        made.text("no", 250)
        fleet.add(2, Session(made.take()))
        assert fleet.take() is None
    assert OTHER.name != NUMBER.name


def test_a_session_that_ends_or_fails_does_so_alone() -> None:
    whole, cut, good = Made(), Made(), Made()
    for number, made in enumerate((whole, cut, good), 1):
        made.number(number, 100)
    with LiveFleet() as fleet:
        sessions = [
            Session(whole.take() + whole.finish(), None),
            Session(cut.take(), ended()),
            Session(good.take()),
            Session(b"no trace at all, though it is long enough", None),
        ]
        for number, session in enumerate(sessions, 1):
            fleet.add(number, session)
        assert [number for number, _ in rows(fleet.take())] == [1, 2, 3]
        over = dict(fleet.ended())
        assert over.keys() == {1, 2, 4}
        assert over[1] == "the session has ended"
        assert over[2] == "the target is gone"
        assert fleet.ended() == []
        assert fleet.numbers == {3}
        assert [one.closed for one in sessions] == [True, True, False, True]
        good.number(4, 200)
        sessions[2].say(good.take())
        assert rows(fleet.take()) == [(3, 4)]


def test_who_is_told_to_stop_still_gives_what_he_has() -> None:
    made, session, closed = Made(), Session(), ExitStack()
    said: list[str] = []
    closed.callback(said.append, "closed")
    made.number(1, 100)

    def end() -> None:
        session.say(made.take() + made.finish())
        session.say(None)

    session.on_stop = end
    with LiveFleet() as fleet:
        fleet.add(1, session, closed)
        fleet.stop(7)
        assert not session.stopped
        fleet.stop(1)
        assert rows(fleet.take()) == [(1, 1)]
        assert fleet.ended() == [(1, "")]
        assert said == ["closed"]
        assert len(fleet) == 0


def test_sessions_of_one_number_end_together() -> None:
    one, other, good = Made(), Made(), Made()
    one.number(1, 100)
    other.number(2, 200)
    sessions = [Session(one.take() + one.finish(), None), Session(other.take()), Session(good.take())]
    with LiveFleet() as fleet:
        for number, session in zip((5, 5, 6), sessions, strict=True):
            fleet.add(number, session)
        assert fleet.numbers == {5, 6}
        assert rows(fleet.take()) == [(5, 1), (5, 2)], "what the other had sent is not lost"
        assert fleet.ended() == [(5, "the session has ended")]
        assert fleet.numbers == {6}
        assert [session.closed for session in sessions] == [True, True, False]


def test_sessions_of_one_number_that_are_told_to_stop_are_told_of_once() -> None:
    made = [Made(), Made()]
    sessions = [Session(), Session()]

    def end(at: int) -> None:
        sessions[at].say(made[at].take() + made[at].finish())
        sessions[at].say(None)

    with LiveFleet() as fleet:
        for at, session in enumerate(sessions):
            made[at].number(at, 100)
            session.on_stop = partial(end, at)
            fleet.add(5, session)
        fleet.stop(5)
        assert rows(fleet.take()) == [(5, 0), (5, 1)]
        assert fleet.ended() == [(5, "")]
        assert len(fleet) == 0


def test_who_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STOP_TIMEOUT_S", -1.0)
    session = Session()
    session.on_stop = lambda: None
    with LiveFleet() as fleet:
        fleet.add(1, session)
        assert fleet.take() is None
        assert fleet.ended() == []
        fleet.stop()
        assert fleet.take() is None
        assert fleet.ended() == [(1, "")]
        assert session.was_aborted


def test_of_a_flood_a_part_is_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TAKE_BYTES", 1)
    made, session = Made(), Session()
    made.number(1, 100)
    session.say(made.take())
    made.number(2, 200)
    session.say(made.take())
    with LiveFleet() as fleet:
        fleet.add(1, session)
        assert rows(fleet.take()) == [(1, 1)]
        assert rows(fleet.take()) == [(1, 2)]


def test_a_stream_that_is_damaged_for_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "BROKEN_BYTES", 1000)
    session = Session(Made().take(), *[b"\xff" * 900] * 4)
    with LiveFleet() as fleet:
        fleet.add(1, session)
        fleet.take()
        ((number, why),) = fleet.ended()
        assert number == 1
        assert why
    assert session.closed


def test_losses_are_of_all_sessions_also_of_those_that_have_ended() -> None:
    with LiveFleet() as fleet:
        for number in (1, 2):
            made = Made()
            made.number(1, 100)
            made.writer.add_dropped(1, 3)
            made.number(2, 200)
            fleet.add(number, Session(made.take() + made.finish(), *([None] if number == 1 else [])))
        fleet.take()
        assert fleet.numbers == {2}
        assert fleet.losses.lost == 6


def test_windows_hold_nothing_of_each_other() -> None:
    made, session = Made(), Session()
    made.number(1, 100)
    session.say(made.take())
    with LiveFleet() as fleet:
        fleet.add(1, session)
        first = fleet.take()
        made.number(2, 200)
        session.say(made.take())
        fleet.take()
        assert rows(first) == [(1, 1)]
        assert first is not None
        assert not np.shares_memory(first.trace.buffer, np.frombuffer(b"x", np.uint8))


def test_one_part_is_left_and_the_others_go_on() -> None:
    made, sessions = Made(), [Session(), Session()]
    made.number(1, 100)
    sessions[0].say(made.take())
    with LiveFleet() as fleet:
        for part, session in enumerate(sessions):
            fleet.add(5, session, part=part)
        fleet.drop(5, part=1)
        assert [session.stopped for session in sessions] == [False, True]
        assert rows(fleet.take()) == [(5, 1)]
        assert [session.closed for session in sessions] == [False, True]
        assert fleet.ended() == []
        assert fleet.numbers == {5}


def test_who_is_left_and_does_not_end_holds_up_no_window_and_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("dotnetdiag.live.fleet.time.monotonic", lambda: now[0])
    made, slow, other = Made(), Session(), Session()
    made.number(1, 100)
    slow.on_stop = lambda: None
    with LiveFleet() as fleet:
        fleet.add(5, slow)
        fleet.add(6, other)
        fleet.drop(5)
        other.say(made.take())
        assert rows(fleet.take()) == [(6, 1)]
        assert not slow.closed, "it has its time"
        now[0] = room.LEAVE_S
        assert fleet.take() is None
        assert slow.closed
        now[0] = 10.0


def test_types_of_sessions_that_have_ended_are_not_kept() -> None:
    stays, made = Session(), Made()
    made.number(1, 100)
    stays.say(made.take())
    with LiveFleet() as fleet:
        fleet.add(0, stays)
        assert rows(fleet.take()) == [(0, 1)]
        for life in range(1, 20):
            one = Made()
            one.writer.add_metadata(replace(NUMBER, metadata_id=9, name=f"Own{life}"))
            one.writer.write_event(9, 200, struct.pack("<i", life), thread=1)
            fleet.add(life, Session(one.take() + one.finish(), None))
            assert rows(fleet.take()) == [(life, life)]
        made.number(2, 300)
        stays.say(made.take())
        assert rows(fleet.take()) == [(0, 2)]
        assert len(fleet._schemas) == 1
        assert len(fleet._numbers) == 1
