"""The joint of bytes and events, with sessions that are made by hand."""

from __future__ import annotations

import json
import struct
import threading
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.live_room.made import NUMBER, PROVIDER, FakeSession, Made, ended, quiet

from dotnetdiag.analysis.stacks import StacksFold
from dotnetdiag.errors import FormatError, GrammarError, TargetStopped, UsageError
from dotnetdiag.events import Source
from dotnetdiag.live import Account, LiveEvents
from dotnetdiag.live import windows as windows_of_sessions
from dotnetdiag.live.hand_over import HandOver
from dotnetdiag.live.windows import HELD_S, WINDOW_ROWS
from dotnetdiag.nettrace import HeaderColumns, LabelList, Metadata
from dotnetdiag.trace.json_lines import JsonLines
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.settling import Settling
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace


def numbers(window: EventTable) -> list[int]:
    return [int(n) for n in window.numpy("n")]


def test_events_are_given_out_while_the_session_runs() -> None:
    made, session = Made(), FakeSession()
    live = LiveEvents(session)
    windows = live.windows()
    made.number(1, 100)
    session.say(made.take())
    assert numbers(next(windows)) == [1]
    assert not session.stopped
    made.number(2, 200)
    session.say(made.take())
    assert numbers(next(windows)) == [2]
    session.say(made.finish())
    session.say(None)
    assert list(windows) == []
    assert live.account == Account(shown=2)
    assert live.account.written == 2
    assert live.ended is None


def test_what_came_together_is_in_time_order() -> None:
    made, session = Made(), FakeSession()
    for n, time, thread in ((1, 300, 1), (2, 500, 1), (3, 100, 2), (4, 400, 2)):
        made.number(n, time, thread=thread, is_sorted=False)
    session.say(made.take() + made.finish())
    session.say(None)
    (window,) = LiveEvents(session).windows()
    assert numbers(window) == [3, 1, 4, 2]


def test_a_window_is_that_of_a_file_with_the_same_bytes() -> None:
    made = Made(sync_ticks=50, start_ns=1_600_000_000_000_000_000)
    one, two = UUID(int=5), UUID(int=6)
    made.number(1, 100, activity=one)
    made.text('a "text" \u2028', 150)
    made.number(2, 200, activity=two, thread=9)
    data = made.take() + made.finish()
    (window,) = LiveEvents(FakeSession(data, None)).windows()
    trace = Trace(data)
    (of_file,) = trace.events().windows()
    assert JsonLines(window.trace).lines(window) == JsonLines(trace.raw).lines(of_file)
    assert [event.activity for event in window] == [one, None, two]
    said = [json.loads(line) for line in JsonLines(window.trace).lines(window)]
    assert [(line["event"], line["ms"], line["tid"], line["payload"]) for line in said] == [
        ("Number", 5e-05, 1, {"n": 1}),
        ("Other/Start", 1e-04, 1, {"text": 'a "text" \u2028'}),
        ("Number", 1.5e-04, 9, {"n": 2}),
    ]


def test_what_a_question_is_fed_with_says_what_the_session_lost() -> None:
    made = Made()
    made.number(1, 100, sequence=1)
    made.number(2, 200, sequence=8)
    live = LiveEvents(FakeSession(made.take() + made.finish(), None))
    asked = StacksFold("Number")
    for window in live.windows():
        asked.feed(window)
        assert window.losses.lost == live.account.missed_in_target == 6
    profile = asked.result()
    assert profile.origin.lost == profile.methods().losses.lost == 6
    assert profile.notes == ("the session keeps no call stacks: watch it with symbols",)


def test_a_target_that_somebody_stopped_ends_the_iteration_and_not_the_program() -> None:
    made = Made()
    made.number(1, 100)
    live = LiveEvents(FakeSession(made.take(), TargetStopped("process 7 is stopped", pid=7)))
    assert [number for window in live.windows() for number in numbers(window)] == [1]
    assert live.ended == "process 7 is stopped"
    assert live.account.shown == 1


def test_version_6_has_its_threads_and_labels() -> None:
    made = Made(version=6)
    labels = made.writer.add_labels(LabelList(level=2, activity=UUID(int=9)))
    made.number(1, 100, thread=1)
    made.number(2, 200, thread=2, labels=labels)
    data = made.take() + made.finish()
    (window,) = LiveEvents(FakeSession(data, None)).windows()
    trace = Trace(data)
    (of_file,) = trace.events().windows()
    assert JsonLines(window.trace).lines(window) == JsonLines(trace.raw).lines(of_file)
    first, second = window
    assert (first.tid, first.pid, second.tid, second.pid) == (501, 77, 502, 78)
    assert '"level":2' in JsonLines(window.trace).lines(window)[1]


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_pieces_of_any_length_give_the_same_events(piece: int) -> None:
    made = Made()
    for n in range(50):
        made.number(n, n * 10)
    data = made.take() + made.finish()
    session = FakeSession(*(data[at : at + piece] for at in range(0, len(data), piece)), None)
    live = LiveEvents(session)
    assert [n for window in live.windows() for n in numbers(window)] == list(range(50))
    assert live.account.written == 50


def test_names_and_filters_count_what_they_keep_back() -> None:
    made = Made()
    for n in range(10):
        made.number(n, n * 10)
    for n in range(5):
        made.text(f"text {n}", 1000 + n)
    data = made.take() + made.finish()
    live = LiveEvents(FakeSession(data, None), names=["number"], where="n >= 7")
    assert [n for window in live.windows() for n in numbers(window)] == [7, 8, 9]
    assert live.account == Account(shown=3, filtered=12)
    assert live.notes == ()
    live = LiveEvents(
        FakeSession(data, None),
        names=[f"{PROVIDER}/Other/Start", "Nmber"],
        where="txt == 'x' or n > 3",
        fields=["text", "payload.TEXT", "tid", "wrd", "txt"],
    )
    assert list(live.windows()) == []
    assert live.account == Account(filtered=15)
    lacking = [f"no event had the field {name}" for name in ("txt", "n", "wrd")]
    assert live.notes == ("no event named Nmber came", *lacking)


def test_numbers_that_are_missing_are_missed_in_the_target() -> None:
    made = Made()
    made.number(1, 100, sequence=1)
    made.number(2, 200, sequence=5)
    made.writer.add_dropped(1, 10)
    data = made.take() + made.finish()
    live = LiveEvents(FakeSession(data, None))
    assert sum(map(len, live.windows())) == 2
    assert live.account == Account(shown=2, missed_in_target=13)
    assert live.account.written == 15


def test_what_nobody_takes_is_dropped_and_counted() -> None:
    made, session = Made(), FakeSession()
    live = LiveEvents(session, queue_bytes=1000)
    given = 40 * 10
    for first in range(0, given, 40):
        for n in range(first, first + 40):
            made.number(n, n)
        session.say(made.take())
        session.say(quiet())
    session.say(made.finish())
    session.say(None)
    live._thread.join(10)
    windows = list(live.windows())
    shown = [n for window in windows for n in numbers(window)]
    account = live.account
    assert shown[:40] == list(range(40))
    assert account.missed_here >= 40
    assert account.shown == len(shown) == len(set(shown))
    assert account.written == given
    context, ms = windows[0].trace, np.concatenate([window.numpy("ms") for window in windows])
    assert sum(count for *_, count in context.gaps.dropped) == account.missed_here
    is_dropped = np.diff(shown, append=given) > 1
    one = np.ones(len(ms), np.int64)
    until = np.append(ms[1:], ms[-1] + given)
    lost = LostBetween(context)
    assert lost.of(one, one, ms, until).tolist() == lost.overlap(one, one, ms, until).tolist() == is_dropped.tolist()
    assert lost.of_process(1).overlap(ms, until).tolist() == is_dropped.tolist()


def test_a_flood_is_cut_into_windows() -> None:
    made = Made()
    count = 3 * WINDOW_ROWS + 5
    for n in range(count):
        made.number(n, n)
    live = LiveEvents(FakeSession(made.take() + made.finish(), None))
    sizes = [len(window) for window in live.windows()]
    assert sum(sizes) == count
    assert max(sizes) == WINDOW_ROWS


def test_a_limit_ends_the_session_and_the_rest_is_left() -> None:
    made = Made()
    for n in range(10):
        made.number(n, n)
    session = FakeSession(made.take() + made.finish())
    with LiveEvents(session, limit=4) as live:
        assert [n for window in live.windows() for n in numbers(window)] == [0, 1, 2, 3]
        assert session.stopped
    assert live.account == Account(shown=4, left=6)
    assert session.closed
    with pytest.raises(UsageError):
        LiveEvents(FakeSession(None), limit=-1)


def test_leaving_the_loop_closes_the_session() -> None:
    made = Made()
    for n in range(3):
        made.number(n, n)
    session = FakeSession(made.take())
    for event in LiveEvents(session):
        assert event.n == 0
        break
    assert session.stopped
    assert session.closed


def test_a_stream_that_we_have_cut_short_did_not_end_before_its_time() -> None:
    """One that floods on when it is left: the command line would wait for the target's exit."""
    made = Made()
    made.number(1, 1)
    session = FakeSession(made.take())
    session.on_stop = lambda: None
    session.abort = lambda: session.say(None)  # type: ignore[method-assign]
    with LiveEvents(session) as live:
        assert next(iter(live.windows()))
    assert live.ended is None


def test_duration_stops_the_session() -> None:
    session = FakeSession()
    live = LiveEvents(session, duration_s=0.01)
    assert list(live) == []
    assert session.stopped


def test_stop_from_another_thread_ends_the_iteration() -> None:
    made, session = Made(), FakeSession()
    made.number(1, 1)
    session.say(made.take())

    def at_the_end() -> None:
        made.number(2, 2)
        session.say(made.take() + made.finish())
        session.say(None)

    session.on_stop = at_the_end
    live = LiveEvents(session)
    stopper = threading.Thread(target=live.stop)
    found = []
    for event in live:
        found.append(event.n)
        if not stopper.ident:
            stopper.start()
    stopper.join()
    assert found == [1, 2], "what the target still had is shown"


def test_abort_does_not_wait_for_the_target() -> None:
    session = FakeSession()
    session.on_stop = lambda: None  # a target that does not answer
    with LiveEvents(session) as live:
        live.abort()
    assert session.was_aborted
    assert live.aborted


def test_a_killed_target_is_said_and_what_came_is_shown() -> None:
    for end in (None, ended()):
        live = LiveEvents(FakeSession(_one_event(), end))
        assert [event.n for event in live] == [1]
        assert live.ended is not None
        assert live.account.shown == 1


def _one_event() -> bytes:
    made = Made()
    made.number(1, 1)
    return made.take()


def test_bytes_that_are_no_trace_are_an_error() -> None:
    session = FakeSession(b"no trace at all" * 10, *[b"x" * (32 << 20)] * 4)
    live = LiveEvents(session)
    with pytest.raises(FormatError):
        list(live.windows())


def test_a_filter_that_does_not_parse_starts_nothing() -> None:
    session = FakeSession(None)
    with pytest.raises(GrammarError):
        LiveEvents(session, where="n >")
    assert not session.ended


def test_providers_that_write_unasked_are_kept_back_unless_asked_for() -> None:
    own = Metadata(metadata_id=3, provider="Microsoft-DotNETCore-EventPipe", event_id=1, name="ProcessInfo")
    for asked, shown in (((), 0), (["microsoft-dotnetcore-eventpipe"], 1)):
        made = Made()
        made.writer.add_metadata(own)
        made.writer.write_event(3, 1, b"x\0\0\0", thread=1)
        live = LiveEvents(FakeSession(made.take() + made.finish(), None), providers=asked)
        assert sum(map(len, live.windows())) == shown
        assert live.account.written == 1


def test_a_layout_that_nobody_declares_is_inferred() -> None:
    bare = Metadata(metadata_id=3, provider="Some-Source", event_id=1, name="Blob")
    made = Made()
    made.writer.add_metadata(bare)
    for size in (3, 50, 7, 20):
        made.writer.write_event(3, 1, struct.pack("<qI", 5, size) + bytes(size), thread=1)
    (window,) = LiveEvents(FakeSession(made.take() + made.finish(), None)).windows()
    (schema,) = window.schemas.values()
    assert schema.source is Source.INFERRED
    assert "bytes@12" in window.fields


def test_payloads_that_nothing_describes_are_bytes_until_a_layout_is_inferred() -> None:
    made = Made()
    for number, name in ((3, "Blob"), (4, "Empty")):
        made.writer.add_metadata(Metadata(metadata_id=number, provider="Some-Source", event_id=number, name=name))
    made.writer.write_event(3, 1, b"abc", thread=1)
    made.writer.write_event(4, 2, b"", thread=1)
    first = made.take()
    for size in (3, 50, 7, 20):
        made.writer.write_event(3, 3, struct.pack("<qI", 5, size) + bytes(size), thread=1)
    early, late = LiveEvents(FakeSession(first, quiet(), made.take() + made.finish(), None)).windows()
    assert early.fields == ("bytes@0",)
    assert early["bytes@0"].to_pylist() == [b"abc", None]
    assert "bytes@12" in late.fields


def test_stacks_are_kept_when_asked_for() -> None:
    made = Made()
    stack = made.writer.add_stack([0x10, 0x20])
    made.number(1, 1, stack=stack)
    data = made.take() + made.finish()

    def names(stacks: object, headers: object) -> list[tuple[str, ...]]:
        return [("leaf", "root")] * len(headers)  # type: ignore[arg-type]  # columns, of which only the length counts

    (window,) = LiveEvents(FakeSession(data, None), stacks=True, frame_names=names).windows()
    assert window.headers.stack.tolist() == [1]
    assert '"frames":["leaf","root"]' in JsonLines(window.trace, frames=True).lines(window)[0]
    (window,) = LiveEvents(FakeSession(data, None)).windows()
    assert window.headers.stack.tolist() == [0]


def test_windows_hold_nothing_of_the_stream() -> None:
    made, session = Made(), FakeSession()
    live = LiveEvents(session)
    windows = live.windows()
    kept = []
    for n in range(20):
        made.number(n, n)
        session.say(made.take())
        kept.append(next(windows))
    session.say(made.finish())
    session.say(None)
    assert list(windows) == []
    assert [numbers(window) for window in kept] == [[n] for n in range(20)]
    assert all(len(window.trace.buffer) == 4 for window in kept)
    assert np.shares_memory(kept[0].headers.time, kept[1].headers.time) is False


def test_a_hand_over_holds_one_thing_however_large() -> None:
    queue: HandOver[str] = HandOver(10)
    assert queue.put("large", 1000)
    assert not queue.put("small", 1)
    assert queue.take() == "large"
    assert queue.put("a", 5)
    assert queue.put("b", 5)
    assert not queue.put("c", 1)
    queue.end(ValueError("late"))
    assert not queue.put("d", 1)
    assert (queue.take(), queue.take()) == ("a", "b")
    with pytest.raises(ValueError, match="late"):
        queue.take()
    assert queue.take() is None


def test_the_number_of_an_event_type_stays() -> None:
    """Version 6 may begin its metadata ids anew: the numbers of windows go by what a type is."""
    first, second = LiveEvents(FakeSession(None)), LiveEvents(FakeSession(None))
    assert first._schema(1, NUMBER) == second._schema(1, NUMBER)
    for live in (first, second):
        live.close()


def test_what_the_runtime_carries_in_an_event_is_an_event_of_its_own() -> None:
    made, session = Made(), FakeSession()
    made.writer.add_metadata(Metadata(metadata_id=9, provider="Microsoft-Windows-DotNETRuntime", event_id=39, name=""))
    usage = struct.pack("<H5Q", 1, 2, 3, 4, 5, 6)
    for time, (name, data) in enumerate((("CommittedUsage", usage), ("Other", b"x"), ("CommittedUsage", usage))):
        payload = f"{name}\0".encode("utf-16-le") + struct.pack("<I", len(data)) + data + struct.pack("<H", 0)
        made.writer.write_event(9, time, payload, thread=1)
    session.say(made.take() + made.finish())
    session.say(None)
    live = LiveEvents(session, names=["GC/CommittedUsage"])
    assert [(event.name, event["TotalCommittedInFree"]) for event in live] == [("GC/CommittedUsage", 4)] * 2
    assert live.account.filtered == 1


def settled(session: FakeSession) -> LiveEvents:
    return LiveEvents(session, settled=True, queue_bytes=1 << 30)


def test_settled_windows_follow_each_other_in_time_though_threads_are_written_one_after_the_other() -> None:
    made, session = Made(), FakeSession()
    live = settled(session)
    windows = live.windows()
    for n, time, thread, is_sorted in ((1, 100, 1, True), (3, 300, 1, False), (5, 500, 1, False)):
        made.number(n, time, thread=thread, is_sorted=is_sorted)
    made.number(2, 200, thread=2)
    session.say(made.take())
    session.say(quiet())
    assert numbers(next(windows)) == [1]  # others as old as the second may follow
    made.number(4, 400, thread=2, is_sorted=False)
    made.number(6, 600, thread=3)
    session.say(made.take())
    session.say(quiet())
    assert numbers(next(windows)) == [2, 3, 4, 5]
    session.say(made.finish())
    session.say(None)
    assert [numbers(window) for window in windows] == [[6]]
    assert live.account == Account(shown=6)


def test_settled_windows_end_at_sequence_points() -> None:
    made, session = Made(), FakeSession()
    for n, time in ((1, 100), (2, 200)):
        made.number(n, time, is_sorted=False)
    made.writer.write_sequence_point(250)
    made.number(3, 300, is_sorted=False)
    session.say(made.take() + made.finish())
    session.say(None)
    assert [numbers(window) for window in settled(session).windows()] == [[1, 2], [3]]


def test_what_a_stream_never_settles_is_given_out_by_its_age() -> None:
    made, session = Made(), FakeSession()
    windows = settled(session).windows()
    second = 1_000_000_000
    for n, time in ((1, 0), (2, second), (3, 2 * second), (4, HELD_S * second + 1)):
        made.number(n, time, is_sorted=False)
    session.say(made.take())
    session.say(quiet())
    assert numbers(next(windows)) == [1]
    session.say(made.finish())
    session.say(None)
    assert [numbers(window) for window in windows] == [[2, 3, 4]]


@pytest.mark.parametrize("limit", ["HELD_ROWS", "HELD_BYTES"])
def test_of_what_a_stream_never_settles_no_more_is_held_than_fits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_of_sessions, limit, 10 if limit == "HELD_ROWS" else 40)
    made, session = Made(), FakeSession()
    windows = settled(session).windows()
    for n in (*range(0, 20, 2), *range(1, 20, 2)):
        made.number(n, n, thread=n % 2 + 1, is_sorted=False)
    session.say(made.take())
    session.say(quiet())
    assert numbers(next(windows)) == list(range(15))
    session.say(made.finish())
    session.say(None)
    assert [numbers(window) for window in windows] == [list(range(15, 20))]


def test_a_flood_that_is_not_settled_waits_until_there_is_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_of_sessions, "SORTED_ROWS", 4)
    sizes = []
    order = Settling.order

    def counted(settling: Settling, headers: HeaderColumns) -> Any:
        sizes.append(len(headers))
        return order(settling, headers)

    monkeypatch.setattr(Settling, "order", counted)
    made, session = Made(), FakeSession()
    made.number(0, 100)
    for n in range(1, 100):
        made.number(n, 100 + n, is_sorted=False)
        session.say(made.take())
    session.say(made.finish())
    session.say(None)
    assert [n for window in settled(session).windows() for n in numbers(window)] == list(range(100))
    assert sizes == [100]


def test_settled_windows_share_the_numbers_of_activities_and_not_their_stacks_and_labels() -> None:
    made, session = Made(version=6), FakeSession()
    one, two = UUID(int=1), UUID(int=2)
    for n, (time, activity) in enumerate([(100, one), (200, two), (300, one)]):
        labels = made.writer.add_labels(LabelList(opcode=n + 1))
        stack = made.writer.add_stack([n + 1])
        made.number(n, time, activity=activity, stack=stack, labels=labels)
    data = made.take()
    session.say(data)
    session.say(quiet())
    session.say(made.finish())
    session.say(None)
    live = LiveEvents(session, settled=True, stacks=True)
    first, last = live.windows()
    assert [*first.headers.activity.tolist(), *last.headers.activity.tolist()] == [1, 2, 1]
    assert [row.activity for row in (*first, *last)] == [one, two, one]
    assert [len(first.trace.stacks), len(last.trace.stacks)] == [4, 2]
    assert [*first.values("opcode"), *last.values("opcode")] == [1, 2, 3]


def test_a_window_of_nothing_is_of_the_session() -> None:
    live = settled(FakeSession(Made().finish(), None))
    assert list(live.windows()) == []
    window = live.nothing()
    assert (len(window), window.fields, window.losses.lost) == (0, (), 0)
