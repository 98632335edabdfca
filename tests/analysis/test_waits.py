"""Waits made by hand: what begins before the recording, what does not end, threads that are in each other's way."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME

from dotnetdiag.analysis import followed, spread
from dotnetdiag.analysis.advice import AdviceFold
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.native import RuntimeFacts
from dotnetdiag.analysis.profile import COLUMNS
from dotnetdiag.analysis.stuck import WAITED, Stuck
from dotnetdiag.analysis.tasks import TasksFold
from dotnetdiag.analysis.thread_pool import ThreadPoolFold
from dotnetdiag.analysis.waits import (
    CONTENDED,
    GOT,
    MANAGED_IDS,
    NO_CONTENTION,
    NO_OWNERS,
    WAITS,
    ContentionFold,
    WaitsFold,
    contention,
    waits,
)
from dotnetdiag.events.columns import Scalar, Text
from dotnetdiag.table import Losses, Table, table
from dotnetdiag.trace import spilled
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.trace import Trace


def wants(ms: float, thread: int, *stack: str, lock: int = 0x10, owner: int = 7, of: int = 0x20) -> Seen:
    payload = struct.pack("<BHQQQ", 0, 1, lock, of, owner)
    return Seen(ms=ms, thread=thread, stack=stack, provider=RUNTIME, number=CONTENDED, payload=payload, version=2)


def wanted_once(ms: float, thread: int) -> Seen:
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=CONTENDED, payload=b"\0\1\0", version=1)


def gets(ms: float, thread: int, took_ms: float) -> Seen:
    payload = struct.pack("<BHd", 0, 1, took_ms * 1e6)
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=GOT, payload=payload, version=1)


def begins(ms: float, thread: int, *stack: str, source: int = 0, of: int = 0) -> Seen:
    payload = struct.pack("<BQH", source, of, 1)
    return Seen(ms=ms, thread=thread, stack=stack, provider=RUNTIME, number=WAITS, payload=payload)


def ends(ms: float, thread: int) -> Seen:
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=WAITED, payload=b"\1\0")


def test_the_runtimes_own_measure_counts() -> None:
    made = contention(traced(wants(1, 1, "App.Enter", "App.Main"), gets(5, 1, 3.5)))
    assert made.waits.values("duration_ms") == [3.5]
    assert made.waits.values("method") == ["app!App.Enter()"]
    assert (made.totals.count, made.totals.total_ms, made.totals.max_ms) == (1, 3.5, 3.5)
    assert made.profile.total == 3.5
    assert made.profile.focus("App.Main").total == 3.5


@pytest.mark.parametrize("took_ms", [float("inf"), float("nan"), 1e300, -1.0, 1e9])
def test_a_measure_that_is_none_is_not_the_runtimes(took_ms: float) -> None:
    made = contention(traced(wants(1, 1, "A.M"), gets(5, 1, took_ms), wants(6, 1, "A.M"), gets(7, 1, 1.0)))
    assert made.waits.values("duration_ms") == [4.0, 1.0]
    assert made.totals.max_ms == 4.0


def test_what_does_not_end_and_what_began_before_counts_in_no_time() -> None:
    made = contention(traced(gets(1, 1, 9.0), wants(2, 2, "A.M"), wants(3, 1, "A.M"), gets(4, 1, 1.0)))
    assert made.waits.values("duration_ms") == [None, 1.0]
    assert (made.totals.count, made.totals.unfinished, made.totals.total_ms) == (2, 1, 1.0)


def test_who_waits_for_whom() -> None:
    events = [
        *(wants(1, 1, "A.M", owner=3), gets(3, 1, 2.0)),
        *(wants(4, 1, "A.M", owner=3), gets(5, 1, 1.0)),
        *(wants(6, 2, "A.N", lock=0x30, owner=1), gets(10, 2, 4.0)),
    ]
    made = contention(traced(*events))
    assert [(row["tid"], row["owner_tid"], row["count"], row["total_ms"]) for row in made.by_owner.to_pylist()] == [
        (2, 1, 1, 4.0),
        (1, 3, 2, 3.0),
    ]
    assert [(row["lock"], row["count"], row["max_ms"]) for row in made.by_lock.to_pylist()] == [
        ("0x30", 1, 4.0),
        ("0x10", 2, 2.0),
    ]


@pytest.mark.parametrize("is_native", [True, False])
def test_owners_are_told_by_the_runtimes_own_numbers_of_nativeaot_alone(is_native: bool) -> None:
    """Of the others the main thread, which may have the lock, has the lowest id of all."""
    trace = traced(wants(1, 5, "A.M", owner=3), gets(3, 5, 2.0))
    (made,) = fold(trace, ContentionFold(runtime=lambda: RuntimeFacts(is_native=is_native)))
    assert (MANAGED_IDS in made.notes) == (MANAGED_IDS in made.by_owner.notes) == is_native
    assert MANAGED_IDS not in contention(trace).notes
    (made,) = fold(traced(wanted_once(1, 5)), ContentionFold(runtime=lambda: RuntimeFacts(is_native=is_native)))
    assert MANAGED_IDS not in made.notes


def test_an_old_runtime_tells_no_owners() -> None:
    made = contention(traced(wanted_once(1, 1), gets(2, 1, 1.0)))
    assert NO_OWNERS in made.notes
    assert (made.waits.values("lock"), made.waits.values("owner_tid")) == ([None], [None])
    assert len(made.by_lock) == len(made.by_owner) == 0


def test_a_wait_within_a_contention_is_one_for_a_lock() -> None:
    events = [
        *(begins(0, 1, "A.M"), ends(1, 1)),
        *(wants(2, 1, "A.M", owner=7), begins(3, 1, "A.M"), begins(3, 2, "A.W", source=1, of=5)),
        *(ends(4, 1), gets(5, 1, 3.0)),
        *(begins(6, 1, "A.M"), ends(8, 1), ends(9, 2)),
    ]
    made = waits(traced(*events))
    rows = [(row["tid"], row["source"], row["duration_ms"]) for row in made.waits.to_pylist()]
    assert rows == [(1, "Wait", 1.0), (1, "Contention", 1.0), (2, "MonitorWait", 6.0), (1, "Wait", 2.0)]
    locks = [(row["source"], row["object"]) for row in made.by_lock.to_pylist()]
    assert locks == [("MonitorWait", "0x5"), ("Wait", None), ("Contention", "0x20")]
    assert sum(made.by_lock.values("total_ms")) == made.totals.total_ms
    assert [(row["tid"], row["owner_tid"], row["count"]) for row in made.by_owner.to_pylist()] == [(1, 7, 1)]
    assert made.waits.values("owner_tid") == [None, 7, None, None]


def test_behind_a_contention_whose_end_was_lost_a_wait_keeps_its_own_object() -> None:
    events = [*wants_and_waits(), *(begins(5000, 1, "A.M", source=1, of=0x99), ends(6000, 1))]
    rows = [(row["object"], row["owner_tid"]) for row in waits(traced(*events)).waits.to_pylist()]
    assert rows == [("0x20", 7), ("0x99", None)]


def wants_and_waits() -> tuple[Seen, ...]:
    """Without an end of the contention."""
    return wants(1, 1, "A.M", owner=7), begins(2, 1, "A.M"), ends(3, 1)


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    counts = trace.counts().get(RUNTIME, {})
    made = contention(trace)
    assert len(made.waits) == made.totals.count == counts.get("Contention/Start", 0)
    assert made.totals.unfinished >= made.totals.count - counts.get("Contention/Stop", 0)
    assert (NO_CONTENTION in made.notes) == (made.totals.count == 0)
    assert waits(trace).totals.count == counts.get("WaitHandleWait/Start", 0)


@pytest.mark.parametrize(
    ("events", "threads", "longest_ms", "in_circle"),
    [
        ([wants(100, 1, "A.M", owner=2), wants(200, 2, "A.N", owner=1), ends(1000, 3)], 2, 900.0, True),
        ([wants(100, 1, "A.M", owner=2), ends(1000, 3)], 1, 900.0, False),
        # it goes on: the end of its first wait was lost
        ([wants(100, 1, "A.M", owner=2), wants(300, 1, "A.M"), gets(310, 1, 10), ends(1000, 3)], 0, 0.0, False),
        ([wants(990, 1, "A.M", owner=2), ends(1000, 3)], 0, 0.0, False),
    ],
)
def test_threads_that_wait_when_the_recording_ends(
    events: list[Seen], threads: int, longest_ms: float, in_circle: bool
) -> None:
    (made,) = fold(traced(*events), ContentionFold(seconds=1.0))
    found = Stuck(made.waits, Recorded(0.0, 1.0))
    assert [note for note in made.notes if "when the recording ends" in note] == ([found.text()] if threads else [])
    assert (found.threads, bool(found.circle)) == (threads, in_circle)
    assert found.longest_ms == pytest.approx(longest_ms)
    assert ("(a deadlock, as far as events tell who has a lock: thread 1 for 2, 2 for 1)" in found.text()) == in_circle


@pytest.mark.parametrize(("seconds", "since"), [(0.1, "0"), (0.101, "1"), (3600.0, "3,599,900")])
def test_threads_that_wait_for_each_other_are_told_at_once(seconds: float, since: str) -> None:
    """Of a session that ends with the contention itself, and of one that lasts much longer than what is in it."""
    events = wants(100, 1, "A.M", owner=2), wants(101, 2, "A.N", owner=1)
    (made,) = fold(traced(*events), ContentionFold(seconds=lambda: seconds))
    (note,) = (note for note in made.notes if "when the recording ends" in note)
    assert f"2 threads wait for a lock when the recording ends, for {since} ms so far" in note
    assert (
        "they wait for each other (a deadlock, as far as events tell who has a lock: thread 1 for 2, 2 for 1)" in note
    )


@pytest.mark.parametrize("runs", [1, 2])
def test_who_tries_a_lock_for_a_while_has_no_end_and_does_not_wait_still(runs: int) -> None:
    """Of a System.Threading.Lock that TryEnter did not get .NET 9 and 10 tell no end; of one that is waited for neither, and that is a deadlock."""
    lock, core = "System.Threading.Lock", "/x/System.Private.CoreLib.dll"
    slow = f"{lock}.TryEnterSlow"
    tries = [wants(100, 1, slow, f"{lock}.TryEnter_Outlined", "A.M", owner=2)]
    waits_ = [wants(100, 1, slow, f"{lock}.EnterScope", "A.M", owner=2)]
    other = wants(200, 2, slow, f"{lock}.TryEnter_Outlined" if runs == 2 else f"{lock}.EnterScope", "A.N", owner=1)
    for first, threads in ((tries, 2 - runs), (waits_, 3 - runs)):
        trace = traced(*first, other, ends(1000, 3), modules={lock: core})
        (made,) = fold(trace, ContentionFold(seconds=1.0))
        assert made.totals.unfinished == 2
        assert made.waits.values("method") == ["app!A.M()", "app!A.N()"]
        found = Stuck(made.waits, Recorded(0.0, 1.0), given_up=made.given_up)
        assert (found.threads, bool(found.circle)) == (threads, threads == 2)
        assert [note for note in made.notes if "when the recording ends" in note] == [found.text()] * (threads > 0)
    went_on = [*tries, wants(300, 1, slow, f"{lock}.EnterScope", "A.M", owner=2), ends(1000, 3)]
    (made,) = fold(traced(*went_on, modules={lock: core}), ContentionFold(seconds=1.0))
    assert Stuck(made.waits, Recorded(0.0, 1.0), given_up=made.given_up).threads == 1


def test_what_waits_for_ever_stands_before_what_has_waited_longer() -> None:
    waited = [event for at in range(90) for event in (wants(1000 * at, 3, "A.W"), gets(1000 * at + 900, 3, 900))]
    (made,) = fold(traced(*waited, *late_circle()), AdviceFold(seconds=100.0))
    assert ["a deadlock" in text for text in made.findings.values("text")] == [True, False]
    assert not any("a deadlock" in note for note in made.notes)


def test_a_lock_at_which_threads_take_turns_is_told_once() -> None:
    """There is always one that waits, also when the recording ends."""
    turns = [event for at in range(0, 900, 30) for event in (wants(at, 3, "A.W"), gets(at + 25, 3, 25))]
    for since, count in ((980, 1), (900, 2)):
        (made,) = fold(traced(*turns, wants(since, 4, "A.W")), AdviceFold(seconds=1.0))
        assert len([row for row in made.findings if row["question"] == "contention"]) == count


def late_circle() -> tuple[Seen, ...]:
    """Of a long recording less than a hundredth part."""
    return wants(99_500, 1, "A.M", owner=2), wants(99_600, 2, "A.N", owner=1), ends(100_000, 5)


@pytest.mark.parametrize(
    ("between", "in_circle"),
    [
        # a third thread wanted the lock of the second before the first did, and got it: it may have it still
        ([wants(50, 3, "A.M", owner=2), wants(100, 1, "A.M", owner=2), gets(150, 3, 100)], False),
        # it got it before the first began to wait
        ([wants(50, 3, "A.M", owner=2), gets(80, 3, 30), wants(100, 1, "A.M", owner=2)], True),
        # which was first is less than the runtime's measure tells
        ([wants(50, 3, "A.M", owner=2), wants(100, 1, "A.M", owner=2), gets(100.1, 3, 50.1)], False),
        # the owner gave it back and has it again
        ([wants(100, 1, "A.M", owner=2), wants(120, 2, "A.M", owner=3), gets(150, 2, 30)], True),
        # the owner was another, from whom the second has it
        ([wants(100, 1, "A.M", owner=3), wants(120, 2, "A.M", owner=3), gets(150, 2, 30)], True),
        # it is of another lock
        ([wants(50, 3, "A.M", lock=9, owner=2), wants(100, 1, "A.M", owner=2), gets(150, 3, 100)], True),
        # a third thread has tried it for a while, in vain: the second stands before a lock itself
        ([wants(100, 1, "A.M", owner=2), wants(300, 3, "A.M", owner=2), gets(400, 3, 100)], True),
        # the first had it itself, just before
        ([wants(50, 1, "A.M", owner=2), gets(99, 1, 50.1), wants(100, 1, "A.M", owner=2)], True),
    ],
)
def test_a_lock_that_another_got_since_closes_no_circle(
    between: list[Seen], in_circle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = contention(traced(*between, wants(200, 2, "A.N", lock=0x30, owner=1), ends(1000, 3)))
    assert bool(Stuck(made.waits, Recorded(0.0, 1.0)).circle) == in_circle
    monkeypatch.setattr(table, "PIECE_ROWS", 2)
    assert bool(Stuck(made.waits, Recorded(0.0, 1.0)).circle) == in_circle


@pytest.mark.parametrize(("woken", "in_circle"), [(None, True), (99, True), (300, False)])
def test_who_has_woken_and_waits_on_does_not_wait_for_who_had_the_lock_at_first(
    woken: int | None, in_circle: bool
) -> None:
    """Seen on 9 and 10: a third thread had taken the lock, which no event tells, and all went on when it let go."""
    told = [wants(100, 1, "A.M", lock=1, owner=2), wants(200, 2, "A.N", lock=2, owner=1)]
    wakes = (
        []
        if woken is None
        else [Seen(ms=woken, thread=1, stack=(), provider=RUNTIME, number=WAITED, payload=bytes(2), version=0)]
    )
    (made,) = fold(traced(*sorted([*told, *wakes], key=lambda one: one.ms)), ContentionFold(seconds=1.0))
    found = Stuck(made.waits, Recorded(0.0, 1.0), woken=made.woken)
    assert (found.threads, bool(found.circle)) == (2, in_circle)
    assert any("wait for each other" in note for note in made.notes) == in_circle


def test_who_only_waits_for_a_circle_is_not_in_it() -> None:
    circle = [
        wants(1, 11, "A.M", lock=1, owner=12),
        wants(2, 12, "A.M", lock=2, owner=13),
        wants(3, 13, "A.M", lock=3, owner=11),
    ]
    others = [wants(5 + at, 20 + at, "A.M", lock=at % 3 + 1, owner=11 + at % 4) for at in range(30)]
    (made,) = fold(traced(*circle, *others), ContentionFold(seconds=1.0))
    found = Stuck(made.waits, Recorded(0.0, 1.0))
    assert [pair[1:] for pair in found.circle] == [(11, 12), (12, 13), (13, 11)]
    assert found.threads == 33
    assert "3 of them wait for each other" in found.text()


def test_of_several_processes_that_of_each_circle_is_named() -> None:
    columns = {"start_ms": Scalar(np.arange(4.0)), "duration_ms": Scalar(np.zeros(4), np.zeros(4, np.bool_))}
    ids = {"pid": [100, 100, 200, 200], "tid": [1, 2, 1, 2], "owner_tid": [2, 1, 2, 1]}
    columns |= {name: Scalar(np.array(values, np.int64)) for name, values in ids.items()}
    texts = {name: Text.from_pylist(["A"] * 4) for name in ("lock", "method")}
    text = Stuck(Table({**columns, **texts}, losses=Losses(lost=0)), Recorded(0.0, 1.0)).text()
    assert "thread 1 for 2 of process 100, 2 for 1 of process 100, 1 for 2 of process 200" in text


def test_where_events_were_lost_nobody_is_taken_for_stuck() -> None:
    made = contention(traced(wants(100, 1, "A.M", owner=2), ends(1000, 3)))
    assert Stuck(made.waits, Recorded(0.0, 1.0)).threads == 1
    for lost in (1, None):
        waits = Table({name: made.waits[name] for name in made.waits.columns}, losses=Losses(lost=lost))
        assert Stuck(waits, Recorded(0.0, 1.0)).threads == 0


def test_what_has_no_end_is_told_of_each_method_lock_and_owner() -> None:
    events = [wants(0, 3, "A.M"), gets(1, 3, 1.0), wants(2, 1, "A.M", owner=2), wants(3, 2, "B.N", lock=0x30, owner=1)]
    made = contention(traced(*events))
    assert [(row["method"], row["count"], row["unfinished"]) for row in made.by_method.to_pylist()] == [
        ("app!A.M()", 2, 1),
        ("app!B.N()", 1, 1),
    ]
    assert made.by_lock.values("unfinished") == [1, 1]
    assert sum(made.by_owner.values("unfinished")) == 2
    text = Stuck(made.waits, Recorded(0.0, 5.0)).text()
    assert "in A.M and B.N" in text
    assert "they wait for each other" in text


@pytest.mark.parametrize("name", recordings())
def test_answers_are_the_same_however_windows_come_and_whatever_lies_elsewhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (ContentionFold, WaitsFold, ThreadPoolFold, TasksFold)
    expected = [_all_of(one) for one in fold(Trace(data_of(name), name=name), *(kind() for kind in kinds))]
    monkeypatch.setattr(spilled, "HELD_BYTES", 500)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 16)
    monkeypatch.setattr(followed, "FOLLOWED_EVENTS", 1)
    monkeypatch.setattr(followed, "_OPEN_TOGETHER", 2)
    monkeypatch.setattr(spread, "SORTED_VALUES", 0)
    for rows in (7, 1 << 16):
        made = fold(Trace(data_of(name), name=name), *(kind() for kind in kinds), rows=rows)
        assert [_all_of(one) for one in made] == expected


def _all_of(report: Any) -> tuple[Any, ...]:
    profile = report.profile
    columns = (getattr(profile, name).tolist() for name in COLUMNS)
    return (report.to_json(), *columns, profile.frame_names(), profile.threads, profile.to_ns)


def test_an_answer_may_be_asked_for_while_windows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", 200)
    monkeypatch.setattr(followed, "FOLLOWED_EVENTS", 4)
    events = [
        event for at in range(50) for event in (wants(2 * at, 1 + at % 3, "A.M"), gets(2 * at + 5, 1 + at % 3, 1.0))
    ]
    events.sort(key=lambda one: one.ms)
    trace, asked = traced(*events), ContentionFold()
    before: list[tuple[Any, Any]] = []
    for window in trace.windows(asked.wants, size=3):
        asked.feed(window)
        made = asked.result()
        before.append((made, made.to_json()))
    assert [made.to_json() for made, _ in before] == [told for _, told in before]  # what was given stays
    assert before[-1][1] == contention(traced(*events)).to_json()


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_of_one_tick_the_order_of_the_file_counts(rows: int) -> None:
    within = traced(wants(1, 1, "A.M"), begins(1, 1, "A.M"), gets(2, 1, 1.0), begins(2, 1, "A.M"))
    assert fold(within, WaitsFold(), rows=rows)[0].waits.values("source") == ["Contention", "Wait"]
    before = traced(begins(1, 1, "A.M"), wants(1, 1, "A.M"))
    assert fold(before, WaitsFold(), rows=rows)[0].waits.values("source") == ["Wait"]


def test_an_answer_midway_changes_no_later_one() -> None:
    """A stop may stand in the file before the start of the same tick."""
    events = [ends(5, 2), begins(5, 2, "A.M"), ends(9, 2)]
    trace, asked = traced(*events), WaitsFold()
    for window in trace.windows(asked.wants, size=1):
        asked.feed(window)
        asked.result()
    (expected,) = fold(traced(*events), WaitsFold())
    assert asked.result().to_json() == expected.to_json()
