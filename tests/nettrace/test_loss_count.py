"""What was lost is counted without columns, and the count is that of a pass over all events."""

from __future__ import annotations

import io
import struct
import tracemalloc
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.alone import printed_alone
from tests.nettrace.by_hand import varuint
from tests.nettrace.kernel_forms import COMPILED_FORMS, without_kernels
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import NATIVE, PLAIN, SMALL, flood, small_trace

from dotnetdiag.nettrace import COMPILED, LossCount, LossCounter, Writer, count_losses, loss_count, scan
from dotnetdiag.nettrace.kernels import KERNELS

WORD = 1 << 32
Step = tuple[int, int] | dict[int, int]
"""An event (capture thread, number), or a sequence point (last number by thread)."""

needs_kernels = pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")


def truth(data: bytes) -> LossCount:
    whole = scan(data)
    for _ in whole.iter_batches():
        pass
    return LossCount(complete=whole.complete, lost=whole.lost.total if whole.lost.known else None)


def counted(data: bytes, piece: int = 1 << 16, kernels: ModuleType | None = KERNELS) -> LossCount | None:
    counter = LossCounter(kernels)
    for at in range(0, len(data), piece):
        counter.feed(data[at : at + piece])
    return counter.close()


def trace_of(steps: Iterable[Step], *, payload: int = 4, close: bool = True, block_bytes: int | None = None) -> bytes:
    out = io.BytesIO()
    writer = Writer(out, block_bytes=block_bytes)
    writer.add_metadata(PLAIN)
    for time, step in enumerate(steps):
        if isinstance(step, dict):
            writer.write_sequence_point(time, step)
        else:
            thread, number = step
            writer.write_event(1, time, bytes(payload), thread=thread, sequence=number % WORD)
    writer.flush()
    if close:
        writer.close(sequence_point=False)
    return out.getvalue()


def row(thread: int, *numbers: int) -> list[Step]:
    return [(thread, number) for number in numbers]


CASES: dict[str, tuple[list[Step], int]] = {
    "nothing": (row(1, 1, 2, 3), 0),
    "the first number is 5": (row(1, 5, 6), 4),
    "a gap in the middle": (row(1, 1, 2, 10, 11, 20), 7 + 8),
    "after the last event": ([*row(1, 1, 2), {1: 9}], 7),
    "a thread that only a sequence point names": ([{1: 6, 2: 0}, *row(1, 7)], 6),
    "a sequence point that lags behind": ([*row(1, 1, 2, 3), {1: 2}, *row(1, 4)], 0),
    "a thread is named twice in a row of sequence points": ([*row(1, 1), {1: 3}, {1: 5}, *row(1, 7)], 5),
    "a thread has ended and its id comes again": ([*row(1, 1, 2), {}, *row(1, 1, 2, 4)], 1),
    "a thread that has ended comes again late": ([*row(1, 1, 2), {}, *row(1, 6)], 5),
    "a thread goes on that was not named": ([*row(1, 1, 2), {}, *row(1, 3, 5)], 1),
    "a thread is named again that was not": ([*row(1, 1, 2), {}, {1: 4}, *row(1, 5)], 2),
    "numbers fall back to one": (row(1, 1, 2, 3, 1, 2), 0),
    "numbers fall back to four": (row(1, 1, 7, 4), 5 + 3),
    "the same number again": (row(1, 3, 3), 2 + 2),
    "numbers wrap": (
        [*row(1, 1), {1: 1 << 31}, {1: WORD - 3}, *row(1, WORD - 2, WORD - 1, WORD, WORD + 3)],
        WORD - 4 + 2,
    ),
    "the first number is half of all": (row(1, 1 << 31, (1 << 31) + 2), 1),
    "another thread with every event": ([(7 * n % 5, n // 5 + 1) for n in range(100)], 0),
    "threads with large ids": ([((n % 3 << 62) + n % 3, 2 * (n // 3) + 1) for n in range(30)], 27),
    "many threads": ([(4 * n, 3) for n in range(10_000)], 20_000),
}


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
@pytest.mark.parametrize("name", CASES)
def test_losses_are_counted_as_the_account_counts_them(name: str, kernels: ModuleType) -> None:
    steps, lost = CASES[name]
    data = trace_of(steps)
    assert truth(data) == LossCount(complete=True, lost=lost)
    for piece in (50, 1 << 20):
        assert counted(data, piece, kernels) == LossCount(complete=True, lost=lost)


@needs_kernels
@pytest.mark.parametrize("name", recordings())
def test_recordings_are_counted_as_a_pass_over_their_events_counts(name: str) -> None:
    data = data_of(name)
    expected = truth(data)
    assert count_losses(io.BytesIO(data)) == expected
    usual = expected.lost is not None and not name.startswith("v6")
    for piece in (997, 1 << 16, 1 << 20):
        assert counted(data, piece) == (expected if usual else None)


@needs_kernels
def test_known_losses_of_a_recording() -> None:
    assert counted(data_of("lossy-10.nettrace")) == LossCount(complete=True, lost=78_109)


@pytest.mark.parametrize("name", SMALL)
def test_other_forms_are_left_to_the_reader(name: str) -> None:
    usual = name in ("nettrace 4", "nettrace 5")
    assert counted(SMALL[name]) == (truth(SMALL[name]) if usual else None)
    assert count_losses(io.BytesIO(SMALL[name])) == truth(SMALL[name])


@pytest.mark.parametrize("version", [4, 5])
def test_pieces_of_every_size_give_the_same(version: int) -> None:
    data = small_trace(version)
    expected = truth(data)
    assert expected == LossCount(complete=True, lost=3)
    for piece in range(1, len(data) + 1):
        assert counted(data, piece) == expected, piece


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_cut_at_every_offset(kernels: ModuleType) -> None:
    data = trace_of([*row(1, 2, 5), {1: 9, 2: 3}, *row(2, 7), *row(3, 4), {}, *row(2, 9), {1: 12, 2: 9, 5: 2}])
    assert truth(data).lost == 29
    for cut in range(len(data)):
        expected = truth(data[:cut])
        assert not expected.complete
        for piece in (1, 61, len(data)):
            assert counted(data[:cut], piece, kernels) in (expected, None), cut
        assert counted(data[:cut], len(data), kernels) == expected, cut
        assert count_losses(io.BytesIO(data[:cut])) == expected, cut


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 9), st.integers((1 << 31) - 2, WORD + 2))),
        st.dictionaries(st.integers(0, 4), st.one_of(st.integers(0, 9), st.integers((1 << 31) - 2, WORD - 1))),
    ),
    max_size=30,
)


@given(STEPS, st.booleans(), st.integers(1, 400))
def test_any_order_of_events_and_sequence_points(steps: list[Step], close: bool, piece: int) -> None:
    data = trace_of(steps, close=close)
    expected = truth(data)
    for kernels in COMPILED_FORMS:
        assert counted(data, piece, kernels) == expected


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(st.data())
def test_damage_is_judged_by_the_reader(draw: st.DataObject) -> None:
    data = bytearray(draw.draw(st.sampled_from([small_trace(4), small_trace(5), data_of("gccollect-10.nettrace")])))
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data) - 1))
        data[at : at + 1] = draw.draw(st.binary(max_size=3))
    broken = bytes(data[: draw.draw(st.one_of(st.none(), st.integers(0, len(data))))])
    expected = truth(broken)
    for piece in (draw.draw(st.integers(1, 500)), 1 << 20):
        assert counted(broken, piece) in (expected, None)
    assert count_losses(io.BytesIO(broken)) == expected


def test_every_byte_of_a_trace_may_be_wrong() -> None:
    data = small_trace(5)
    for at in range(len(data)):
        for value in ((0, 6, 0x80), (1, 0x7F, 0xFF))[at % 2]:
            broken = data[:at] + bytes([value]) + data[at + 1 :]
            counts = counted(broken)
            if counts is not None:
                assert counts == truth(broken), (at, value)


# sizes and limits -----------------------------------------------------------------------------------------------------


def test_events_larger_than_a_piece() -> None:
    data = trace_of(row(1, 1, 4, 5), payload=30_000)
    for piece in (1, 1000, 29_999):
        assert counted(data, piece) == LossCount(complete=True, lost=2)


def test_events_and_blocks_larger_than_what_may_be_held() -> None:
    data = trace_of(row(1, 1, 4), payload=loss_count.HELD_LIMIT + 1)
    assert counted(data) == count_losses(io.BytesIO(data)) == LossCount(complete=True, lost=2)
    assert counted(data[:-1_000_000]) == truth(data[:-1_000_000]) == LossCount(complete=False, lost=0)


def test_a_block_without_events_that_is_too_large_to_be_held_is_left_to_the_reader() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.write_object("SPBlock", struct.pack("<qIQI", 0, 1, 5, 7) + bytes(loss_count.HELD_LIMIT))
    assert counted(out.getvalue()) is None
    assert count_losses(io.BytesIO(out.getvalue())) == LossCount(complete=True, lost=7)


def test_more_threads_than_the_table_holds_are_left_to_the_reader() -> None:
    steps: list[Step] = [(thread, 2) for thread in range(loss_count.SLOTS // 2 + 1)]
    data = trace_of(steps)
    assert counted(data) is None
    assert counted(trace_of([dict(steps)])) is None  # type: ignore[arg-type]
    assert count_losses(io.BytesIO(data)) == LossCount(complete=True, lost=len(steps))
    assert counted(trace_of(steps[1:])) == LossCount(complete=True, lost=len(steps) - 1)


def test_threads_whose_ids_were_chosen_to_meet_are_left_to_the_reader() -> None:
    inverse = pow(0x1E3779B97F4A7C15, -1, 1 << 64)
    threads = [number * inverse % (1 << 64) for number in range(257)]
    for kernels in COMPILED_FORMS:
        assert counted(trace_of((thread, 2) for thread in threads[1:]), kernels=kernels) is not None
        assert counted(trace_of((thread, 2) for thread in threads), kernels=kernels) is None
    data = trace_of((thread, 2) for thread in threads)
    assert count_losses(io.BytesIO(data)) == LossCount(complete=True, lost=257)


def test_blocks_without_content_and_headers_with_more() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        for name in ("MetadataBlock", "EventBlock", "EventBlock"):
            writer.write_object(name, struct.pack("<hhqq", 20, 1, 0, 0))
        writer.write_object("StackBlock", struct.pack("<II", 1, 0))
        event = bytes([0x82, 4, 1, 0, 0, 3]) + b"abc"  # number 5 of thread 1
        for filling in range(5):
            writer.write_object("EventBlock", struct.pack("<hhqq", 20 + filling, 1, 0, 0) + bytes(filling) + event)
        writer.write_object("EventBlock", struct.pack("<hhqq", 20, 1, 0, 0))
    data = out.getvalue()
    assert truth(data).lost == 5 * 4
    for piece in range(1, 100):
        assert counted(data, piece) == truth(data)


def test_unknown_objects_are_left_to_the_reader() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.write_object("NewBlock", b"abc")
    assert counted(out.getvalue()) is None
    assert count_losses(io.BytesIO(out.getvalue())) == LossCount(complete=True, lost=0)


def test_what_follows_the_end_does_not_count_and_is_left_to_the_reader() -> None:
    data = trace_of(row(1, 4))
    for tail in (data, b"?"):
        assert counted(data + tail) is counted(data + tail, 3) is None
        assert count_losses(io.BytesIO(data + tail)) == LossCount(complete=False, lost=3)


def test_no_bytes_are_no_complete_trace() -> None:
    assert LossCounter().close() == (LossCount(complete=False, lost=0) if COMPILED else None)
    assert count_losses(io.BytesIO()) == LossCount(complete=False, lost=0)
    assert count_losses(io.BytesIO(b"no trace at all")) == LossCount(complete=False, lost=0)


# files ----------------------------------------------------------------------------------------------------------------


class Pipe(io.BytesIO):
    """Bytes that come once."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation("seek")


@pytest.mark.parametrize("name", SMALL)
def test_file_that_cannot_be_sought_in(name: str) -> None:
    assert count_losses(Pipe(SMALL[name])) == truth(SMALL[name])


@pytest.mark.parametrize("name", SMALL)
def test_file_is_read_from_where_it_stands(name: str) -> None:
    file = io.BytesIO(b"before" + SMALL[name])
    file.seek(6)
    assert count_losses(file) == truth(SMALL[name])


@pytest.mark.parametrize("name", SMALL)
def test_without_kernels_the_reader_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernels(monkeypatch)
    assert count_losses(io.BytesIO(SMALL[name])) == truth(SMALL[name])
    assert counted(SMALL[name], kernels=None) is None


@needs_kernels
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    headers, payload = flood(150_000)
    path = tmp_path / "flood.nettrace"
    with open(path, "wb") as out, Writer(out) as writer:
        writer.add_metadata(PLAIN)
        writer.add_metadata(NATIVE)
        writer.write_events(headers, payload)
    assert path.stat().st_size > 8 << 20
    with open(path, "rb", buffering=0) as file:
        tracemalloc.start()
        try:
            counts = count_losses(file)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert counts == truth(path.read_bytes())
    assert peak < 2 << 20


@needs_kernels
def test_numpy_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "small.nettrace"
    path.write_bytes(small_trace(5))
    code = (
        "import sys; from pathlib import Path; from dotnetdiag.recipes.collect import collect; from dotnetdiag.recipes.outcome import outcome_of;"
        "from dotnetdiag.nettrace import LossCounter; counter = LossCounter(); data = Path(sys.argv[1]).read_bytes();"
        "counter.feed(data); print(outcome_of(Path(sys.argv[1])), counter.close().lost, 'numpy' in sys.modules)"
    )
    assert printed_alone(code, path).strip() == "Outcome(complete=True, lost_events=3) 3 False"


# the kernels ----------------------------------------------------------------------------------------------------------


def tables(slots: int) -> tuple[memoryview, memoryview, memoryview]:
    """``walk`` between blocks, ``threads``, ``numbers``."""
    walk, threads, numbers = (
        memoryview(array(kind, bytes(8 * size))) for kind, size in (("q", 11), ("Q", slots), ("q", slots))
    )
    walk[8] = -1
    return walk, threads, numbers


def followed(kernels: Any, data: bytes, cuts: list[int], left: int, slots: int) -> list[Any]:
    """Where the last call stopped, and all tables afterwards, of a block that begins with the data."""
    walk, threads, numbers = tables(slots)
    walk[8] = left
    at = 0
    for cut in cuts:
        at += kernels.follow(memoryview(data)[at:cut], 0, at, loss_count._USUAL, walk, threads, numbers)
    kernels.close_segment(memoryview(data), 0, min(3, len(data) // 12), walk, threads, numbers)
    return [at, list(walk), list(threads), list(numbers)]


@needs_kernels
def test_any_bytes_are_followed_in_pieces_as_at_once() -> None:
    rng = np.random.default_rng(3)
    behind = stuck = 0
    for turn in range(600):
        parts = []
        for _ in range(int(rng.integers(1, 40))):
            flags = int(rng.choice([0, 0, 64, 2, 3, 130, 128, int(rng.integers(0, 256))]))
            parts.append(bytes([flags]) + rng.integers(0, 140, int(rng.integers(1, 12))).astype(np.uint8).tobytes())
        data = b"".join(parts)
        cuts = sorted(rng.integers(0, len(data) + 1, 3).tolist())
        left = len(data) + int(rng.choice([0, -1, 10, 1000]))
        slots = 8 if turn % 3 else 64
        (stop, walk, *tables), whole = (followed(KERNELS, data, [*at, len(data)], left, slots) for at in (cuts, []))
        assert walk[7] == whole[1][7]
        assert walk[7] or [stop, walk[:10], *tables] == [whole[0], whole[1][:10], *whole[2:]]
        behind += stop
        stuck += walk[7]
    assert behind > 10_000
    assert 100 < stuck < 500


def test_kernels_touch_nothing_outside_of_what_they_are_given() -> None:
    data = memoryview(small_trace(5))
    for kernels in COMPILED_FORMS:
        for at in (-1, len(data) + 1):
            assert kernels.follow(data, at, 0, loss_count._USUAL, *tables(8)) == at
        walk, threads, numbers = tables(8)
        assert kernels.follow(data, 0, 0, loss_count._USUAL, walk[:10], threads, numbers) == 0
        assert kernels.follow(data, 0, 0, loss_count._USUAL, walk, threads[:4], numbers) == 0
        assert kernels.follow(data, 0, 0, loss_count._USUAL, walk, threads[:0], numbers[:0]) == 0
        for place, value in ((3, -1), (3, 8), (4, -1), (4, 1 << 32), (9, -1)):
            walk, threads, numbers = tables(8)
            walk[0], walk[8], walk[place] = 1, len(data), value
            assert kernels.follow(data, 0, 0, loss_count._USUAL, walk, threads, numbers) == 0
            assert not any(numbers)
        walk, threads, numbers = tables(8)
        kernels.close_segment(data, 0, 1, walk[:10], threads, numbers)
        kernels.close_segment(data, 0, 1, walk, threads[:0], numbers[:0])
        assert walk[7] == 0
        kernels.close_segment(data, 0, len(data) // 12 + 1, walk, threads, numbers)
        assert walk[7] == 1
        assert not any(numbers)


# what is counted here, and what is left to the reader -----------------------------------------------------------------

HEADER = struct.pack("<hhqq", 20, 1, 0, 0)
RECORD = bytes(4) + b"P\0\0\0" + bytes(4) + b"\0\0" + bytes(16)
EVENT = bytes([0x82, 4, 1, 0, 0, 3]) + b"abc"
"""Number 5 of thread 1."""


def headed(header: int, flags: int, content: bytes) -> bytes:
    return struct.pack("<hhqq", header, flags, 0, 0) + content


def record(flags: int, fields: bytes, size: int = len(RECORD)) -> bytes:
    return bytes([flags | 128]) + fields + varuint(size) + RECORD


LONG_32, LONG_64, TOO_LONG_32, TOO_LONG_64 = (b"\x80" * n + b"\1" for n in (4, 9, 5, 10))
ORDINARY: dict[str, tuple[str, bytes]] = {
    "no metadata": ("MetadataBlock", HEADER),
    "a record": ("MetadataBlock", HEADER + record(0, b"\1")),
    "a record that states its id": ("MetadataBlock", HEADER + record(1, LONG_32 + LONG_64)),
    "a record that states its place": ("MetadataBlock", HEADER + record(2, LONG_32 + LONG_64 + LONG_32 + b"\0")),
    "a record that states its thread": ("MetadataBlock", HEADER + record(4, LONG_64 + b"\0")),
    "a record that states its stack": ("MetadataBlock", HEADER + record(8, LONG_32 + b"\0")),
    "a record with an activity": ("MetadataBlock", HEADER + record(16, b"\0" + b"\xff" * 16)),
    "a record with a related activity": ("MetadataBlock", HEADER + record(32, b"\0" + b"\xff" * 16)),
    "a record with both": ("MetadataBlock", HEADER + record(48, b"\0" + b"\xff" * 32)),
    "a record that states all": (
        "MetadataBlock",
        HEADER + record(127, b"\1" + LONG_32 + LONG_64 + LONG_32 + LONG_64 + LONG_32 + LONG_64 + b"\xff" * 32),
    ),
    "records of one size": ("MetadataBlock", HEADER + record(0, b"\1") + b"\0\1" + RECORD + b"\x40\1" + RECORD),
    "a record with more": ("MetadataBlock", HEADER + record(0, b"\1", len(RECORD) + 9) + b"\xff" * 9),
    "a longer header": ("MetadataBlock", headed(23, 1, b"\xff" * 3 + record(0, b"\1"))),
    "no stacks": ("StackBlock", struct.pack("<II", 1, 0)),
    "stacks": ("StackBlock", struct.pack("<IIIQI", 1, 2, 8, 7, 0)),
    "stacks and more": ("StackBlock", struct.pack("<IIIQ", 1, 1, 8, 7) + b"\xff" * 7),
    "the last stack": ("StackBlock", struct.pack("<III", 0xFFFFFFFF, 1, 0)),
    "a sequence point of none": ("SPBlock", struct.pack("<qI", 5, 0)),
    "a sequence point": ("SPBlock", struct.pack("<qIQI", 5, 1, 1, 9)),
    "a sequence point and more": ("SPBlock", struct.pack("<qIQI", 5, 1, 1, 9) + b"\xff" * 11),
    "events": ("EventBlock", HEADER + EVENT),
    "events behind a longer header": ("EventBlock", headed(25, 1, b"\xff" * 5 + EVENT)),
    "a block that is all header": ("EventBlock", headed(25, 1, b"\xff" * 5)),
}
UNUSUAL: dict[str, tuple[str, bytes]] = {
    "a short header of metadata": ("MetadataBlock", headed(19, 1, record(0, b"\1"))),
    "a header of metadata that is cut": ("MetadataBlock", headed(21, 1, b"")),
    "metadata in full": ("MetadataBlock", headed(20, 0, record(0, b"\1"))),
    "metadata of an unknown form": ("MetadataBlock", headed(20, 3, record(0, b"\1"))),
    "a record that is short": ("MetadataBlock", HEADER + record(0, b"\1", len(RECORD) - 1) + b"\0\1" + RECORD[1:]),
    "a record that is cut": ("MetadataBlock", HEADER + record(0, b"\1", len(RECORD) + 1)),
    "an id of too many bits": ("MetadataBlock", HEADER + record(1, TOO_LONG_32 + b"\0")),
    "a number of too many bits": ("MetadataBlock", HEADER + record(2, TOO_LONG_32 + b"\0\0\0")),
    "a thread of too many bits": ("MetadataBlock", HEADER + record(2, b"\0" + TOO_LONG_64 + b"\0\0")),
    "a processor of too many bits": ("MetadataBlock", HEADER + record(2, b"\0\0" + TOO_LONG_32 + b"\0")),
    "another thread of too many bits": ("MetadataBlock", HEADER + record(4, TOO_LONG_64 + b"\0")),
    "a stack of too many bits": ("MetadataBlock", HEADER + record(8, TOO_LONG_32 + b"\0")),
    "a time of too many bits": ("MetadataBlock", HEADER + record(0, TOO_LONG_64)),
    "an activity that is cut": ("MetadataBlock", HEADER + bytes([16, 1]) + bytes(15)),
    "two activities of which one is cut": ("MetadataBlock", HEADER + bytes([48, 1]) + bytes(31)),
    "a stack block of no size": ("StackBlock", bytes(7)),
    "a stack that is cut": ("StackBlock", struct.pack("<IIII", 1, 1, 5, 0)),
    "a stack without its size": ("StackBlock", struct.pack("<IIIQ", 1, 2, 8, 7) + bytes(3)),
    "stacks beyond 32 bits": ("StackBlock", struct.pack("<IIII", 0xFFFFFFFF, 2, 0, 0)),
    "a sequence point that is cut": ("SPBlock", bytes(11)),
    "a sequence point whose threads are cut": ("SPBlock", struct.pack("<qIQI", 5, 2, 1, 9) + bytes(11)),
    "a short header": ("EventBlock", headed(19, 1, EVENT)),
    "a header that is cut": ("EventBlock", headed(21, 1, b"")),
    "no header": ("EventBlock", HEADER[:19]),
    "events in full": ("EventBlock", headed(20, 0, b"")),
    "events of an unknown form": ("EventBlock", headed(20, 3, EVENT)),
    "events of another unknown form": ("EventBlock", headed(20, -32767, EVENT)),
    "an unknown object": ("EventBlocks", HEADER + EVENT),
    "the beginning of an object's name": ("Event", HEADER + EVENT),
}


def around(name: str, content: bytes) -> bytes:
    """A block between others."""
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.write_object("EventBlock", HEADER + EVENT)
        writer.write_object(name, content)
        writer.write_object("EventBlock", HEADER + EVENT)
    return out.getvalue()


@needs_kernels
@pytest.mark.parametrize("name", [*ORDINARY, *UNUSUAL])
def test_usual_blocks_are_counted_here_and_others_are_left_to_the_reader(name: str) -> None:
    data = around(*(ORDINARY[name] if name in ORDINARY else UNUSUAL[name]))
    expected = truth(data)
    for piece in (1, 7, len(data)):
        assert counted(data, piece) == (expected if name in ORDINARY else None)
    assert expected.complete or name in UNUSUAL
    assert count_losses(io.BytesIO(data)) == expected


@needs_kernels
@pytest.mark.parametrize("name", ["SPBlock", "StackBlock", "MetadataBlock"])
def test_object_of_a_version_or_an_end_that_is_not_usual_is_left_to_the_reader(name: str) -> None:
    data = around(name, next(content for kind, content in ORDINARY.values() if kind == name))
    at = data.index(name.encode())
    for place, value in ((-16, 4), (-15, 4), (-14, 2), (-12, 3), (-8, 1)):
        assert counted(data[: at + place] + bytes([value]) + data[at + place + 1 :]) is None
    second = data.rindex(b"EventBlock") - 16 - 1
    while data[second] != 6:
        second -= 1
    assert counted(data) == truth(data)
    assert counted(data[:second] + b"\7" + data[second + 1 :]) is None


@needs_kernels
def test_clock_that_no_reader_takes_is_left_to_the_reader() -> None:
    data = trace_of(row(1, 4))
    start = data.index(b"Trace\x06") + 6
    assert counted(data) == LossCount(complete=True, lost=3)
    for at, value, usual in (
        (24, struct.pack("<q", 0), False),
        (24, struct.pack("<q", -1), False),
        (24, struct.pack("<q", 1), True),
        (32, struct.pack("<i", 4), True),
        (32, struct.pack("<i", 8), True),
        (32, struct.pack("<i", 6), False),
        (48, b"\5", False),
        (-1, b"\5", False),
    ):
        odd = data[: start + at] + value + data[start + at + len(value) :]
        assert (counted(odd) is not None) == usual, (at, value)
        assert loss_count.is_usual(memoryview(odd)) == (at != -1)
    for cut in (start, start + 48, start + 49):
        assert loss_count.is_usual(memoryview(data)[:cut]) == (cut == start + 49)


@needs_kernels
def test_file_is_over_when_something_unusual_was_seen() -> None:
    counter = LossCounter()
    data = trace_of(row(1, 4))
    for at in range(len(data)):
        counter.feed(data[at : at + 1])
        assert not counter.is_over
    assert counter.close() == LossCount(complete=True, lost=3)
    counter.feed(b"more")
    assert counter.is_over
    counter = LossCounter()
    counter.feed(b"X")
    assert counter.is_over
    counter.feed(data)
    assert counter.close() is None
