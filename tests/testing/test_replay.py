"""A recording as a session's stream, with a clock of the test's."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.nettrace import read
from dotnetdiag.testing.misbehaviour import Misbehaviour
from dotnetdiag.testing.recording import Recording
from dotnetdiag.testing.replay import Replay, ReplaySource, SpoiledSource

RECORDING = Recording(data_of("cpu-only-10.nettrace"))
END_S = RECORDING.marks[-1].due_ns / 1e9


def all_of(replay: Replay, now: float, limit: int = 1000) -> tuple[bytes, bool]:
    """What is there, and whether the stream has ended."""
    parts = []
    while part := replay.take(limit, now):
        assert len(part) <= limit
        parts.append(part)
    return b"".join(parts), part is None


def test_as_fast_as_it_is_read_all_is_there_at_once_and_the_stream_ends_with_the_file() -> None:
    replay = Replay(RECORDING)
    assert all_of(replay, 0.0) == (b"", False)
    replay.begin(5.0)
    assert all_of(replay, 5.0) == (RECORDING.data, True)
    assert not replay.is_timed


@pytest.mark.parametrize("speed", [1.0, 10.0, 0.5])
def test_a_block_is_there_when_its_last_event_happened(speed: float) -> None:
    replay = Replay(RECORDING, speed=speed)
    replay.begin(100.0)
    sent = b""
    for mark in RECORDING.marks:
        now = 100.0 + mark.due_ns / 1e9 / speed
        part, _ = all_of(replay, now + 1e-6)
        sent += part
        assert len(sent) >= mark.end
        wait_s = replay.wait_s(now + 1e-6)
        if wait_s is not None and wait_s > 1e-3:
            assert sent == RECORDING.data[: len(sent)]
            assert len(sent) in RECORDING.ends
            assert all_of(replay, now + wait_s / 2) == (b"", False)
    assert sent == RECORDING.data


def test_a_stop_in_the_middle_brings_what_is_left_at_once() -> None:
    replay = Replay(RECORDING, speed=1)
    replay.begin(0.0)
    before, _ = all_of(replay, END_S / 2)
    assert 0 < len(before) < len(RECORDING.data)
    replay.stop()
    replay.stop()
    after, is_over = all_of(replay, END_S / 2)
    assert (before + after, is_over) == (RECORDING.data, True)
    assert replay.wait_s(END_S / 2) is None


def test_a_stop_that_cuts_ends_the_block_that_is_under_way_with_the_end_marker() -> None:
    replay = Replay(RECORDING, cuts=True)
    replay.begin(0.0)
    before = replay.take(RECORDING.ends[3] + 1, 0.0)
    assert before is not None
    replay.stop()
    after, is_over = all_of(replay, 0.0)
    assert is_over
    data = before + after
    assert data == RECORDING.data[: RECORDING.ends[4]] + RECORDING.end_marker
    assert read(data).complete


def test_a_stop_that_cuts_in_the_last_block_leaves_the_recording_whole() -> None:
    replay = Replay(RECORDING, cuts=True)
    replay.begin(0.0)
    before = replay.take(RECORDING.ends[-1] - 1, 0.0)
    assert before is not None
    replay.stop()
    assert before + all_of(replay, 0.0)[0] == RECORDING.data


def test_the_end_is_held_back_until_the_stop_where_that_is_wished() -> None:
    replay = Replay(RECORDING, waits=True)
    replay.begin(0.0)
    assert all_of(replay, 1e6) == (RECORDING.data[: RECORDING.ends[-1]], False)
    replay.stop()
    assert all_of(replay, 1e6) == (RECORDING.data[RECORDING.ends[-1] :], True)


def test_a_recording_without_an_end_waits_as_well() -> None:
    cut = Recording(RECORDING.data[: RECORDING.ends[-1]])
    replay = Replay(cut, waits=True)
    replay.begin(0.0)
    assert all_of(replay, 0.0) == (cut.data, False)
    replay.stop()
    assert all_of(replay, 0.0) == (b"", True)


def test_a_session_that_is_stopped_before_it_has_begun_is_empty() -> None:
    for cuts in (False, True):
        replay = Replay(RECORDING, cuts=cuts)
        replay.stop()
        assert all_of(replay, 0.0) == (b"", True)


def test_a_source_wakes_who_takes_when_something_has_changed() -> None:
    woken: list[str] = []
    source = ReplaySource(Replay(RECORDING), held=True)
    source.on_ready(lambda: woken.append(""))
    assert source.take(10) == b""
    source.begin()
    source.stop()
    assert len(woken) == 2
    assert source.take(10) == RECORDING.data[:10]
    source.hang_up()


@pytest.mark.parametrize("close_at", [28, 29, 1000])
def test_a_spoiled_source_ends_at_the_byte_and_hangs_up(close_at: int) -> None:
    inner = ReplaySource(Replay(RECORDING))
    source = SpoiledSource(inner, Misbehaviour(close_at=close_at), sent=28)
    source.on_ready(lambda: None)
    sent = b""
    while data := source.take(100):
        sent += data
    assert data is None
    assert sent == RECORDING.data[: close_at - 28]
