"""The last of a stream in bounded memory: what a snapshot holds, what it says of what was let go."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.nettrace.kernel_forms import FORM_IDS, without_kernels
from tests.nettrace.recordings import data_of
from tests.nettrace.test_parts import lossy, rows, with_points

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import Metadata, count_losses, iter_blocks, read
from dotnetdiag.nettrace.appending import appended_blocks
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.loss_count import LossCount
from dotnetdiag.nettrace.ring import Ring, Snapshot, _times
from dotnetdiag.nettrace.stream_blocks import StreamBlock


@pytest.fixture(autouse=True, params=FORM_IDS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kernels, and as where nothing could be compiled."""
    if request.param == "fallback":
        without_kernels(monkeypatch)


def file_of(snapshot: Snapshot | None) -> bytes:
    assert snapshot is not None
    out = io.BytesIO()
    part = snapshot.write(out)
    counted = part.close()
    data = out.getvalue()
    contents = read(data)
    assert contents.complete
    assert not contents.warnings
    expected = LossCount(complete=True, lost=contents.lost.total)
    assert counted in (expected, None)
    assert count_losses(io.BytesIO(data)) == expected
    return data


def blocks_with_times(data: bytes) -> list[tuple[float, bytes]]:
    """Pieces that end behind a block each, one second after the other."""
    ends = [block.end for block in iter_blocks(data)]
    return [
        (float(n), data[first:last]) for n, (first, last) in enumerate(zip([0, *ends], [*ends, len(data)], strict=True))
    ]


@pytest.mark.parametrize("window_s", [1, 3, 10, 40, 1000])
@pytest.mark.parametrize("points", [None, 100, 700])
def test_a_snapshot_has_the_last_blocks_and_no_loss_that_was_not_there(window_s: int, points: int | None) -> None:
    data = data_of("events-10.nettrace")
    data = data if points is None else with_points(data, points, 5)
    whole = list(rows(read(data)))
    ring = Ring(window_s=window_s, size_bytes=1 << 30)
    pieces = blocks_with_times(data)
    for now, piece in pieces:
        ring.feed(piece, now)
    contents = read(file_of(ring.snapshot(now)))
    found = list(rows(contents))
    assert found == whole[len(whole) - len(found) :]
    assert contents.lost.total == 0
    in_window = sum(block.kind is BlockKind.EVENT for block in list(iter_blocks(data))[-window_s:])
    kept = sum(block.kind is BlockKind.EVENT for block in iter_blocks(file_of(ring.snapshot(now))))
    assert kept == in_window


def test_a_snapshot_may_be_taken_after_every_byte_and_changes_nothing() -> None:
    data = lossy(4)
    whole = list(rows(read(data)))
    ring = Ring(window_s=100.0, size_bytes=1 << 20)
    for at in range(len(data)):
        ring.feed(data[at : at + 1], at)
        snapshot = ring.snapshot(at)
        if snapshot is not None:
            found = list(rows(read(file_of(snapshot))))
            assert found == whole[: len(found)] or found[0] in whole
    assert ring.close()


def test_losses_of_the_window_are_counted_and_those_before_it_are_not() -> None:
    data = lossy(4)
    ring = Ring(window_s=1000.0, size_bytes=1 << 20)
    for now, piece in blocks_with_times(data):
        ring.feed(piece, now)
    assert read(file_of(ring.snapshot(now))).lost.total == read(data).lost.total == 6
    kept = []
    for age in range(1, 14):
        ring.expire(now + 1000.0 - 14 + age)
        contents = read(file_of(ring.snapshot(now + 1000.0 - 14 + age)))
        kept.append((len(contents), contents.lost.total))
    assert kept == sorted(kept, reverse=True)
    assert (2, 1) in kept


def test_what_is_held_is_bounded_and_a_window_that_is_cut_is_told() -> None:
    data = with_points(data_of("events-10.nettrace"), 100, 5)
    ring = Ring(window_s=1000.0, size_bytes=150_000)
    for now, piece in blocks_with_times(data):
        ring.feed(piece, now)
        assert ring.held_bytes <= 150_000
    snapshot = ring.snapshot(now)
    assert snapshot is not None
    assert 0 < snapshot.window_s < 100
    assert len(file_of(snapshot)) < 200_000
    assert read(file_of(snapshot)).lost.total == 0


def test_a_quiet_stream_leaves_an_empty_ring_whose_snapshot_is_a_trace() -> None:
    ring = Ring(window_s=10.0, size_bytes=1 << 20)
    assert ring.snapshot(0.0) is None
    assert ring.window_s(5.0) == 0
    data = data_of("gccollect-10.nettrace")
    ring.feed(data, 1.0)
    ring.expire(100.0)
    contents = read(file_of(ring.snapshot(100.0)))
    assert len(contents) == 0
    assert contents.metadata.keys() == read(data).metadata.keys()
    assert ring.window_s(100.0) == 10.0
    assert ring.held_bytes == 0


def seconds(snapshot: Snapshot | None) -> tuple[float, float]:
    """From when to when the file of a snapshot says to be, since the start."""
    contents = read(file_of(snapshot))
    assert contents.info is not None
    assert contents.begins_late
    assert contents.part_ticks is not None
    begin, end = contents.part_ticks
    assert end is not None
    inside = contents.headers.time
    assert not len(inside) or begin <= inside.min() <= inside.max() <= end
    begin_s, end_s = ((tick - contents.info.sync_ticks) / contents.info.frequency for tick in (begin, end))
    return begin_s, end_s


def fed(ring: Ring, data: bytes) -> Iterator[tuple[float, int]]:
    """Blocks come one by one, each as soon as its last event has happened, 1,000 s being the start: when, and how many events have come."""
    contents, at = read(data), 0
    assert contents.info is not None
    for block in iter_blocks(data):
        known = read(data[: block.end]).headers.time
        latest = int(known.max()) if len(known) else contents.info.sync_ticks
        now = 1000.0 + (latest - contents.info.sync_ticks) / contents.info.frequency
        ring.feed(data[at : block.end], now)
        at = block.end
        yield now, len(known)


def test_a_snapshot_says_from_when_to_when_it_is() -> None:
    """Also when nothing has come for long; and events that are older than the window belong to what it says."""
    data = with_points(data_of("events-10.nettrace"), 100, 5)
    ring = Ring(window_s=2.0, size_bytes=1 << 30)
    for now, known in fed(ring, data):
        if known > 100:
            begin_s, end_s = seconds(ring.snapshot(now))
            assert end_s == pytest.approx(now - 1000.0, abs=1e-6)
            assert begin_s <= max(0.0, end_s - 2.0) + 1e-6
    begin_s, end_s = seconds(ring.snapshot(now + 60.0))
    assert (begin_s, end_s) == pytest.approx((now + 58.0 - 1000.0, now + 60.0 - 1000.0), abs=1e-3)


def test_a_snapshot_of_all_that_came_begins_with_the_recording() -> None:
    data = data_of("gccollect-10.nettrace")
    ring = Ring(window_s=1e6, size_bytes=1 << 30)
    ring.feed(data, 50.0)
    begin_s, end_s = seconds(ring.snapshot(53.0))
    contents = read(data)
    assert contents.info is not None
    assert begin_s == 0
    last = (int(contents.headers.time.max()) - contents.info.sync_ticks) / contents.info.frequency
    assert end_s == pytest.approx(last + 3.0, abs=0.5)


@pytest.mark.parametrize("times", [(99, 100), (105, 104), (-1, 107), (101, (1 << 63) - 1), (101, 1 << 61)])
def test_a_block_that_says_no_times_tells_none(times: tuple[int, int]) -> None:
    block = StreamBlock(kind=BlockKind.EVENT, name="EventBlock", content=struct.pack("<hhqq", 20, 1, *times))
    info = TraceInfo(start_ns=0, sync_ticks=100, frequency=10)
    assert _times(block, info) is None
    assert _times(replace(block, content=b"\x14\0"), info) is None
    assert _times(replace(block, content=struct.pack("<hhqq", 4, 1, 105, 106)), info) is None
    assert _times(replace(block, content=struct.pack("<hhqq", 20, 1, 105, 106)), info) == (105, 106)


def test_what_came_while_the_last_of_a_window_was_waited_for_belongs_to_what_it_says() -> None:
    data = with_points(data_of("events-10.nettrace"), 100, 5)
    ring = Ring(window_s=2.0, size_bytes=1 << 30)
    *_, (now, _) = fed(ring, data)
    ring.asked_at = now - 0.5
    _, end_s = seconds(ring.snapshot(now))
    assert end_s == pytest.approx(now - 1000.0, abs=1e-6)


def test_a_block_with_a_wrong_time_is_forgotten_when_others_have_come() -> None:
    data = with_points(data_of("events-10.nettrace"), 20, 5)
    ring, at = Ring(window_s=2.0, size_bytes=1 << 30), 0
    events = [block for block in iter_blocks(data) if block.kind is BlockKind.EVENT]
    assert len(events) > 100
    for block in iter_blocks(data):
        piece = bytearray(data[at : block.end])
        if block.start == events[3].start:
            place = block.start - at + 12
            piece[place : place + 8] = struct.pack("<q", struct.unpack_from("<q", piece, place)[0] + 3600 * 10**9)
        ring.feed(bytes(piece), 5.0)
        at = block.end
    _, end_s = seconds(ring.snapshot(5.0))
    contents = read(data)
    assert contents.info is not None
    last = (int(contents.headers.time.max()) - contents.info.sync_ticks) / contents.info.frequency
    assert end_s == pytest.approx(last, abs=1.0)


def test_from_the_end_on_nothing_gets_too_old() -> None:
    data = data_of("gccollect-10.nettrace")
    ring = Ring(window_s=10.0, size_bytes=1 << 20)
    ring.feed(data[:20_000], 1.0)
    ring.hold(5.0)
    ring.feed(data[20_000:], 300.0)
    assert list(rows(read(file_of(ring.snapshot(300.0))))) == list(rows(read(data)))


def test_stacks_without_events_are_let_go_when_they_are_too_many() -> None:
    data = data_of("cpu-only-10.nettrace")
    ring = Ring(window_s=1e9, size_bytes=2000)
    for now, piece in blocks_with_times(data):
        ring.feed(piece, now)
        assert ring.held_bytes <= 2000


def test_a_ring_takes_what_runtimes_write() -> None:
    with pytest.raises(UsageError, match="nettrace 6"):
        Ring(window_s=1.0, size_bytes=1).feed(lossy(6), 0.0)
    with pytest.raises(FormatError):
        Ring(window_s=1.0, size_bytes=1).feed(bytes(100), 0.0)
    with pytest.raises(UsageError):
        Ring(window_s=0.0, size_bytes=1)


@pytest.mark.parametrize("version", [4, 5])
def test_the_events_of_another_session_stand_behind_those_of_a_part(version: int) -> None:
    """Of one recording twice: all types, threads and stacks meet, and are told apart."""
    main, other = data_of("cpu-only-10.nettrace"), read(data_of("cpu-only-10.nettrace"))
    main = with_points(main, 300, version)
    out = io.BytesIO()
    ring = Ring(window_s=1e9, size_bytes=1 << 30)
    ring.feed(main, 0.0)
    snapshot = ring.snapshot(0.0)
    assert snapshot is not None
    part = snapshot.write(out)
    numbers = part.last_numbers()
    assert numbers is not None
    for block in appended_blocks(other, largest_id=snapshot.head.largest_id, numbers=numbers.live):
        part.write(block)
    assert part.close() == LossCount(complete=True, lost=0)
    contents = read(out.getvalue())
    assert (contents.complete, contents.lost.total, contents.lost.restarts, list(contents.warnings)) == (True, 0, 0, [])
    found, expected = [list(rows(one)) for one in (contents, other)]
    assert len(found) == 2 * len(expected)
    for row, before in zip(found[len(expected) :], expected, strict=True):
        assert isinstance(row[0], Metadata)
        assert isinstance(before[0], Metadata)
        assert row[0] == replace(before[0], metadata_id=row[0].metadata_id)
        assert (row[1], *row[3:]) == (before[1], *before[3:])


def test_events_that_another_session_lost_are_lost_behind_those_of_a_part() -> None:
    out = io.BytesIO()
    ring = Ring(window_s=1e9, size_bytes=1 << 30)
    ring.feed(lossy(4), 0.0)
    snapshot = ring.snapshot(0.0)
    assert snapshot is not None
    part = snapshot.write(out)
    last = part.last_numbers()
    assert last is not None
    for block in appended_blocks(read(lossy(5)), largest_id=1, numbers=last.live):
        part.write(block)
    part.close()
    contents = read(out.getvalue())
    assert contents.lost.total == 6 + 6
    assert len(contents) == 2 * 8


def test_only_what_runtimes_write_can_stand_behind_a_part() -> None:
    with pytest.raises(UsageError, match="nettrace 6"):
        appended_blocks(read(lossy(6)), largest_id=0, numbers={})
    with pytest.raises(UsageError, match="no trace"):
        appended_blocks(read(b""), largest_id=0, numbers={})
    head = lossy(4)[:102]
    assert appended_blocks(read(head), largest_id=0, numbers={}) == []
