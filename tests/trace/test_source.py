"""Windows in time order: the whole file's order, in bounded pieces, whatever is selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL, large_trace
from tests.trace.segments import Block, any_segments, recording

from dotnetdiag.nettrace import EventBatch, HeaderColumns, Metadata, Scan, StackTable, decode, read, scan, scanning
from dotnetdiag.recipes.contents import describe
from dotnetdiag.trace import payloads, source
from dotnetdiag.trace.payloads import Payloads
from dotnetdiag.trace.settling import Rows, Settling
from dotnetdiag.trace.source import Source, wanted_of
from dotnetdiag.trace.trace import Trace

DATA = [*SMALL, *recordings()]


def data(name: str) -> bytes:
    return SMALL[name] if name in SMALL else data_of(name)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
@pytest.mark.parametrize("name", DATA)
def test_windows_are_the_order_of_the_whole_file(name: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 1 << 40 if kept else 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 50)
    contents = read(data(name))
    made = Source(data(name))
    windows = list(made.windows())
    assert HeaderColumns.concatenate(windows).equals(made.typed(contents.headers)[contents.order()])
    if len(contents) > 20_000 and kept:
        assert max(map(len, windows)) == 50


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
@pytest.mark.parametrize("name", DATA)
def test_the_stacks_of_a_window_are_there_when_it_comes(name: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 1 << 40 if kept else 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 50)
    made = Source(data(name))
    told = [(window.stack, made.stacks_read.lengths(window.stack)) for window in made.windows()]
    assert made._passes == 1, "asking takes no pass"
    for ids, lengths in told:
        assert lengths.tolist() == made.stacks.lengths(ids).tolist()


def test_stacks_are_those_of_the_pass_that_is_farthest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that go on at once."""
    made = Source(large_trace(10))
    (batch,) = Source(large_trace(10)).batches()
    tables = [StackTable() for _ in range(2)]
    for table, count in zip(tables, (3, 1), strict=True):
        for number in range(count):
            table.intern(bytes([number] * 8))
    passes = iter([[replace(batch, stacks=table)] for table in tables])
    monkeypatch.setattr(Scan, "iter_batches", lambda *_, **__: iter(next(passes)))
    for _ in tables:
        next(made.batches())
        assert (len(made.stacks_read), made._passed) == (4, None)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "streamed"])
@pytest.mark.parametrize("name", DATA)
def test_a_selection_is_the_rows_of_the_whole_in_the_same_order(
    name: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 1 << 40 if kept else 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 50)
    contents = read(data(name))
    made = Source(data(name))
    whole = made.typed(contents.headers)[contents.order()]
    ids = np.unique(whole.metadata_id)[::2]
    middle = int(np.median(whole.time))
    rows = np.isin(whole.metadata_id, ids) & (whole.time >= middle)
    assert made.collect(wanted_of(ids.tolist()), (middle, 1 << 62)).equals(whole[rows])
    assert made.collect(wanted_of(ids.tolist())).equals(whole[np.isin(whole.metadata_id, ids)])
    assert made.collect(None, (middle, 1 << 62)).equals(whole[whole.time >= middle])
    assert len(made.collect(wanted_of([]))) == 0
    limited = HeaderColumns.concatenate(list(made.windows(limit=7)))
    assert limited.equals(whole[:7])


@pytest.mark.parametrize("name", ["killed-10.nettrace"])
def test_a_stream_is_released_in_small_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 1000)
    sizes = [len(window) for window in Source(data_of(name)).windows()]
    assert len(sizes) > 1
    assert sum(sizes) == len(read(data_of(name)))


def test_ids_that_no_dense_table_holds_are_selected_too() -> None:
    ids = np.array([5, 4_000_000_000, 7], np.uint32)
    assert source.lookup(wanted_of([4_000_000_000]), ids).tolist() == [False, True, False]
    assert source.lookup(wanted_of([7]), ids).tolist() == [False, False, True]


def test_findings_are_final_after_a_pass_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    made = Source(SMALL["nettrace 5"])
    next(iter(made.windows(limit=1)))
    assert made.passed().lost.total == 3
    made.counts()
    assert made.passed().lost.total == 3
    assert len(made.first_payloads(1).offsets) == made.counts()[1][0]
    assert made.passed().lost.total == 3
    assert made.passed().complete


def same(one: Payloads, other: Payloads) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.lengths, other.lengths)


@pytest.mark.parametrize("name", DATA)
def test_totals_bring_counts_and_the_first_rows_of_each_type(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    alone, together = Source(data(name)), Source(data(name))
    counts = dict(alone.counts())
    assert not together.has_totals
    totals = together.totals(counts)
    assert together.has_totals
    assert (
        {number: (row.count, row.bytes) for number, row in totals.by_type.items()} == counts == dict(together.counts())
    )
    monkeypatch.setattr(together, "scan", None)  # nothing is read again
    for number, (count, _) in counts.items():
        found = together.first_payloads(number)
        assert len(found.offsets) == min(count, payloads.FIRST_ROWS, payloads.MOST_ROWS // len(counts))
        assert same(found, alone.first_payloads(number, counts))


def test_many_types_share_the_rows_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    whole = data_of("gcverbose-10.nettrace")
    alone, together = Source(whole), Source(whole)
    counts = alone.counts()
    monkeypatch.setattr(payloads, "MOST_ROWS", 20 * len(counts))
    together.totals(counts)
    for number, (count, _) in counts.items():
        found = together.first_payloads(number)
        assert len(found.offsets) == min(count, 20)
        assert same(found, alone.first_payloads(number, counts))


@pytest.mark.parametrize("keep_bytes", [0, source.KEEP_BYTES])
def test_first_payloads_of_all_types_take_one_pass(monkeypatch: pytest.MonkeyPatch, keep_bytes: int) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", keep_bytes)
    types = 40
    metadata = by_hand.metadata(*[by_hand.event_type(number + 1, f"E{number}") for number in range(types)])
    rare = [b"\x81" + by_hand.varuint(number + 1) + b"\0\1x" for number in range(types)]
    made = Trace(by_hand.trace(metadata, by_hand.events(by_hand.event(1), *rare, b"\x81\1\0\0", *[b"\0\0"] * 1000)))
    passes = []
    batches = Scan.iter_batches

    def counting(*args: Any, **options: Any) -> Any:
        passes.append(1)
        return batches(*args, **options)

    monkeypatch.setattr(Scan, "iter_batches", counting)
    for _ in made.events().windows():
        for number in made.raw.type_ids:
            made.raw.schema(number)
    assert made.lost.total == 0
    assert made.complete
    assert len(passes) <= 3


def test_first_payloads_come_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "FIRST_ROWS", 10)
    found = payloads.FirstPayloads([1])
    for first, count in ((0, 4), (4, 1), (5, 4), (9, 3), (12, 1)):
        assert found.full == (first > 9)
        found.add(1, Payloads(np.arange(first, first + count), np.full(count, 2, np.uint32)))
    kept = found.of(1)
    assert kept is not None
    assert kept.offsets.tolist() == list(range(10))


def test_a_pass_within_another_that_is_left_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    made = Source(SMALL["nettrace 5"])
    for number, _ in enumerate(made.batches()):
        if not number:
            next(made.batches())
    assert made.passed().lost.total == 3


def test_a_pass_that_ends_while_another_has_begun_has_found_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when two threads ask one trace: each finds out by itself."""
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    made = Source(SMALL["nettrace 5"])
    first = made.batches()
    next(first)
    other = made.batches()
    next(other)
    assert [*first]
    assert made.passed().lost.total == 3
    assert made.passed().complete


def unsettled(blocks: int, events: int) -> bytes:
    """Events of two bytes at one time: nothing says that no older one can follow."""
    first = bytes([0xC7]) + b"".join(map(by_hand.varuint, (1, 0, 1, 0, 1, 1, 0)))
    block = by_hand.events(first + b"\x00\x01" * (events - 1))
    return by_hand.trace(by_hand.metadata(by_hand.event_type(1)), *[block] * blocks)


def test_columns_of_a_small_file_with_many_events_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_ROWS", 999)
    many, few = Source(unsettled(10, 100)), Source(unsettled(9, 100))
    for made, rows in ((many, 1000), (few, 900)):
        assert sum(map(len, made.windows())) == rows
        assert sum(len(found.offsets) for _, found in made.payloads()) == rows
    assert many._kept is None
    assert few._kept is not None


def test_no_more_rows_are_held_than_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_ROWS", 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 500)
    data = unsettled(40, 100)
    sorted_rows = []

    def order(settling: Settling, headers: HeaderColumns) -> Rows:
        sorted_rows.append(len(headers))
        return in_order(settling, headers)

    def small_batches() -> Iterator[EventBatch]:
        for batch in whole_batches():
            for first in range(0, len(batch), 100):
                yield replace(batch, headers=batch.headers[first : first + 100])

    in_order = Settling.order
    monkeypatch.setattr(Settling, "order", order)
    made = Source(data)
    whole_batches = made.batches
    monkeypatch.setattr(made, "batches", small_batches)
    limited = HeaderColumns.concatenate(list(made.windows(limit=7)))
    assert max(sorted_rows) < 1000
    contents = read(data)
    assert limited.equals(contents.headers[contents.order()][:7])


def test_what_a_large_recording_holds_is_found_out_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = describe(Trace(data_of("web-10.nettrace")))
    assert expected.processes[0].command_line
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    trace = Trace(data_of("web-10.nettrace"))
    monkeypatch.setattr("dotnetdiag.recipes.contents.CHECKED_BYTES", 0)
    found = describe(trace)
    assert trace.raw.source._passes == 1
    assert replace(found, warnings=()) == replace(expected, warnings=())


@settings(deadline=None)
@given(
    any_segments([1, 2, 3]),
    st.sampled_from([1, 40, 200, 1 << 20]),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_windows_of_some_types_are_the_order_of_the_whole_file_whatever_segments_there_are(
    segments: list[list[Block]], group_bytes: int, size: int, span: int
) -> None:
    types = [Metadata(metadata_id=kind, provider="P", event_id=kind, name="E", version=0) for kind in (1, 2, 3)]
    content = recording(segments, types)
    contents = read(content)
    whole = contents.headers[contents.order()]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRST_GROUP_BYTES", "SIFTED_GROUP_BYTES", "GROUP_BYTES"):
            patch.setattr(decode, name, group_bytes)
        patch.setattr(source, "SIFTED_SPAN_BYTES", span)
        made = Source(content)
        made.note(wanted_of([3]))
        windows = made.windows_once(wanted_of([1]), size=size, activities=False)
        found = [window[np.arange(len(window))] for window in windows]
        assert HeaderColumns.concatenate(found).equals(whole[whole.metadata_id == 1])
        assert made.collect(wanted_of([3])).equals(whole[whole.metadata_id == 3])


def event_at(time: int, *, number: int = 1, thread: int = 1, is_sorted: bool = True) -> bytes:
    """A block of one event without payload."""
    fields = (number, 0, thread, 0, thread, 0, time, 0, 0)
    return by_hand.events(bytes([0xDF if is_sorted else 0x9F]) + b"".join(map(by_hand.varuint, fields)))


def streamed(monkeypatch: pytest.MonkeyPatch, *blocks: bytes) -> Source:
    """Events of the types 1 and 2, of which each comes alone."""
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    made = Source(by_hand.trace(by_hand.metadata(by_hand.event_type(1), by_hand.event_type(2, "F")), *blocks))
    whole_batches = made.batches

    def one_by_one() -> Iterator[EventBatch]:
        for batch in whole_batches():
            for row in range(len(batch)):
                yield replace(batch, headers=batch.headers[row : row + 1])

    monkeypatch.setattr(made, "batches", one_by_one)
    return made


def test_what_is_asked_for_is_found_behind_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (2, 1, 1, 2, 1, 2)
    made = streamed(monkeypatch, *[event_at(10 + at, number=number) for at, number in enumerate(numbers)])
    assert made.collect(wanted_of([2])).time.tolist() == [10, 13, 15]
    assert made.collect(wanted_of([1])).time.tolist() == [11, 12, 14]
    assert made.collect(None, (12, 14)).time.tolist() == [12, 13]


def test_of_equal_times_sorted_events_come_first_then_the_threads_as_they_appear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = [event_at(10, thread=7, is_sorted=False), event_at(10, thread=3, is_sorted=False), event_at(10, thread=5)]
    made = streamed(monkeypatch, *blocks)
    assert made.collect().thread.tolist() == [5, 7, 3]
    made = streamed(monkeypatch, event_at(9, thread=1, is_sorted=False), *blocks)
    assert made.collect().thread.tolist() == [1, 5, 7, 3], "not only those of the first time"


def test_totals_count_the_events_of_threads_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [1, 2, 2, 1, 3, 1, 1, 1, 2, 3, 3, 3, 3, 1]
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    first = by_hand.event(1)
    same_type = [bytes([0xDF]) + by_hand.event(1, thread=thread)[1:] for thread in threads[1:]]
    made = Source(by_hand.trace(by_hand.metadata(by_hand.event_type(1)), by_hand.events(first, *same_type)))
    assert made.totals(made.counts()).by_thread == {1: 6, 2: 3, 3: 5}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_of_filtered_events_as_many_come_as_are_asked_for(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    monkeypatch.setattr(source, "WINDOW_ROWS", 2)
    blocks = [event_at(10 + at, number=2 if at % 5 == 4 else 1) for at in range(20)]
    trace = Trace(by_hand.trace(by_hand.metadata(by_hand.event_type(1), by_hand.event_type(2, "F")), *blocks))
    found = [event.ms for event in trace.events(where="event == 'F'", limit=limit)]
    assert found == [(14 + 5 * at) / 1e6 for at in range(limit)]


def test_a_pass_lets_go_of_what_it_has_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RELEASE_BYTES", 1000)
    blocks = [event_at(at) + by_hand.block(99, bytes(400)) for at in range(20)]
    data = by_hand.trace(by_hand.metadata(by_hand.event_type(1)), *blocks)
    released: list[tuple[int, int]] = []
    whole_batches = Scan.iter_batches

    def one_by_one(scan: Scan, **options: Any) -> Iterator[EventBatch]:
        for batch in whole_batches(scan, **options):
            for row in range(len(batch)):
                yield replace(batch, headers=batch.headers[row : row + 1])

    monkeypatch.setattr(Scan, "iter_batches", one_by_one)
    made = Source(data, release=lambda start, end: released.append((start, end)))
    assert sum(map(len, made.batches())) == 20
    assert (released[0][0], released[-1][1]) == (0, len(data))
    assert [end for _, end in released[:-1]] == [start for start, _ in released[1:]]
    assert len(released) > 3
    assert all(1000 <= end - start < 3000 for start, end in released[:-1])


@pytest.mark.parametrize("name", DATA)
def test_counts_and_losses_without_the_index_are_those_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Trace(data(name)).raw
    counts, _ = usual.source.counts(), usual.source.passed()
    monkeypatch.setattr(source, "KEEP_BYTES", 0)
    quick = Trace(data(name)).raw
    assert quick.source.counts() == counts
    assert quick.losses == usual.losses


def test_indexing_gives_back_what_it_has_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    data, released = large_trace(), list[tuple[int, int]]()
    monkeypatch.setattr(scanning, "RELEASE_BYTES", 1 << 20)
    made = scan(data, release=lambda start, end: released.append((start, end)))
    assert released[0][0] == 0
    assert [end for _, end in released[:-1]] == [start for start, _ in released[1:]]
    assert 1 << 20 <= released[-1][1] <= len(data)
    indexed = len(released)
    assert sum(map(len, made.iter_batches())) == len(read(data))
    assert released[indexed:] == released[:indexed]


@pytest.mark.parametrize("name", recordings())
def test_the_count_of_a_type_is_that_of_all_counts(name: str) -> None:
    made, known = Source(data_of(name)), Source(data_of(name)).counts()
    numbers = [*made.scan.metadata, *known, 1 << 30]
    assert {number: made.count_of(number) for number in numbers} == {n: known.get(n, (0, 0)) for n in numbers}


@pytest.mark.parametrize("name", recordings())
def test_the_count_of_a_type_that_carries_nothing_takes_no_pass(name: str) -> None:
    made = Source(data_of(name))
    if made.in_file_order:  # which defines types among the events
        return
    carriers = made._carried.carriers(made.scan.metadata)
    passes = made._passes
    for number in made.scan.metadata.keys() - carriers:
        made.count_of(number)
    assert made._passes == passes
