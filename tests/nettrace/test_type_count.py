"""Events are counted by type without columns, and the count is that of the index; what is not as usual is left to it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.alone import printed_alone
from tests.nettrace.kernel_forms import without_kernels
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import PLAIN, SMALL, large_trace, small_trace

from dotnetdiag.nettrace import COMPILED, LossCounter, Metadata, Writer, scan, type_count
from dotnetdiag.nettrace.loss_count import Unusual
from dotnetdiag.nettrace.records import pack_record
from dotnetdiag.nettrace.type_count import IDS, TypeTally, count_types
from dotnetdiag.wire import Cursor

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")


def counted(data: bytes) -> dict[int, tuple[int, int]] | None:
    found = count_types(memoryview(data))
    return None if found is None else dict(found.by_type)


def in_pieces(data: bytes, piece: int) -> dict[int, tuple[int, int]] | None:
    types = TypeTally()
    counter = LossCounter(types=types)
    for at in range(0, len(data), piece):
        counter.feed(data[at : at + piece])
    done, found = counter.close(), types.counts()
    return dict(found.by_type) if found is not None and done is not None and done.complete else None


def trace_of(*steps: Metadata | int) -> bytes:
    """A definition, or an event of that type, each in a block of its own."""
    out = io.BytesIO()
    with Writer(out) as writer:
        for time, step in enumerate(steps):
            if isinstance(step, Metadata):
                writer.add_metadata(step)
            else:
                writer.write_event(step, time, bytes(5), thread=1)
            writer.flush()
    return out.getvalue()


@pytest.mark.parametrize("name", recordings())
def test_recordings_are_counted_as_the_index_counts_them(name: str) -> None:
    data = data_of(name)
    whole = scan(data)
    found = count_types(memoryview(data))
    if whole.format != "nettrace 4" or not whole.complete:
        assert found is None
    else:
        assert found is not None
        assert dict(found.by_type) == whole.counts()
        assert found.records == whole.metadata


@pytest.mark.parametrize("name", SMALL)
def test_other_forms_are_left_to_the_index(name: str) -> None:
    assert counted(SMALL[name]) == (scan(SMALL[name]).counts() if name in ("nettrace 4", "nettrace 5") else None)


@pytest.mark.parametrize("version", [4, 5])
def test_pieces_of_every_size_give_the_same(version: int) -> None:
    data = small_trace(version)
    expected = scan(data).counts()
    for piece in range(1, len(data) + 1):
        assert in_pieces(data, piece) == expected, piece


def test_blocks_of_many_events() -> None:
    data = large_trace()
    assert counted(data) == in_pieces(data, 50_021) == scan(data).counts()


def test_what_is_cut_is_left_to_the_index() -> None:
    data = small_trace(5)
    assert [cut for cut in range(len(data)) if counted(data[:cut]) is not None] == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damage_is_judged_by_the_index(draw: st.DataObject) -> None:
    data = bytearray(draw.draw(st.sampled_from([small_trace(4), small_trace(5), data_of("gccollect-10.nettrace")])))
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data) - 1))
        data[at : at + 1] = draw.draw(st.binary(max_size=3))
    assert counted(bytes(data)) in (None, scan(bytes(data)).counts())


def test_every_byte_of_a_trace_may_be_wrong() -> None:
    data = small_trace(5)
    for at in range(len(data)):
        for value in ((0, 6, 0x80), (1, 0x7F, 0xFF))[at % 2]:
            broken = data[:at] + bytes([value]) + data[at + 1 :]
            found = counted(broken)
            assert found is None or found == scan(broken).counts(), (at, value)


SECOND = replace(PLAIN, metadata_id=2, name="Second")


@pytest.mark.parametrize(
    ("steps", "is_usual"),
    [
        ((PLAIN, SECOND, 1, 2, 2, 1), True),
        ((PLAIN, 1, SECOND, 2, 1), True),
        ((PLAIN, 1, 1), True),
        ((PLAIN, replace(PLAIN, metadata_id=IDS - 1), 1, IDS - 1), True),
        ((PLAIN, replace(PLAIN, metadata_id=IDS), 1), False),
        ((PLAIN, replace(PLAIN, metadata_id=IDS), 1, IDS), False),
    ],
)
def test_types_that_are_defined_as_usual(steps: tuple[Metadata | int, ...], is_usual: bool) -> None:
    data = trace_of(*steps)
    assert counted(data) == (scan(data).counts() if is_usual else None)


def swapped(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


def test_types_that_are_defined_twice_or_late_or_never_are_left_to_the_index() -> None:
    first, second = trace_of(PLAIN, SECOND, 2), trace_of(PLAIN, SECOND, 1)
    named = [
        b"".join(map(bytes, ([number, 0, 0, 0], one.provider.encode("utf-16le"))))
        for number, one in ((1, PLAIN), (2, SECOND))
    ]
    for data in (first, second):
        assert counted(swapped(data, named[1], named[0][:4] + named[1][4:])) is None  # 1 twice
    late = trace_of(PLAIN, 1, SECOND)
    swap = swapped(late, named[0], named[1][:4] + named[0][4:])  # 2 first, events of 1, then 2
    assert counted(swap) is None
    assert scan(swap).counts() != {1: (1, 5)}


def test_more_metadata_than_runtimes_write_is_left_to_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    data = trace_of(PLAIN, 1)
    monkeypatch.setattr(type_count, "RECORDS_LIMIT", 20)
    assert counted(data) is None


def test_without_kernels_the_index_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernels(monkeypatch)
    assert counted(trace_of(PLAIN, 1)) is None


def test_pages_of_a_large_file_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    data, released = large_trace(), list[tuple[int, int]]()
    monkeypatch.setattr(type_count, "PIECE_BYTES", 1 << 14)
    monkeypatch.setattr(type_count, "RELEASE_BYTES", 1 << 15)
    assert count_types(memoryview(data), lambda *part: released.append(part)) is not None
    assert released == []
    monkeypatch.setattr(type_count, "KEPT_BYTES", 1 << 16)
    assert count_types(memoryview(data), lambda *part: released.append(part)) is not None
    assert released[0] == (0, 1 << 15)
    assert [end for _, end in released[:-1]] == [start for start, _ in released[1:]]
    assert len(data) - released[-1][1] <= (1 << 15) + (1 << 14)


def test_numpy_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "small.nettrace"
    path.write_bytes(small_trace(5))
    code = (
        "import sys, dotnetdiag; trace = dotnetdiag.open(sys.argv[1]); counts = trace.counts();"
        "print(len(trace), 'numpy' in sys.modules, counts == dotnetdiag.open(sys.argv[1]).counts(),"
        "trace.source.counts() and trace.counts() == counts)"
    )
    events = sum(count for count, _ in scan(small_trace(5)).counts().values())
    assert printed_alone(code, path).split() == [str(events), "False", "True", "True"]


def test_event_without_payload_before_the_definition_of_its_type_is_left_to_the_index() -> None:
    tally = TypeTally()
    tally.rows[0, 7] = 1
    with pytest.raises(Unusual):
        tally.define(Cursor(pack_record(replace(PLAIN, metadata_id=7), version=5)))
    tally.define(Cursor(pack_record(replace(PLAIN, metadata_id=8), version=5)))
    assert tally.counts() is None
    tally.rows[0, 7], tally.rows[0, 8], tally.rows[1, 8] = 0, 3, 40
    counts = tally.counts()
    assert counts is not None
    assert (dict(counts.by_type), list(counts.records)) == ({8: (3, 40)}, [8])


@pytest.mark.parametrize(("number", "is_followed"), [(0, False), (1, True), (IDS - 1, True), (IDS, False)])
def test_so_many_ids_are_followed(number: int, is_followed: bool) -> None:
    tally, record = TypeTally(), pack_record(replace(PLAIN, metadata_id=number), version=5)
    if is_followed:
        tally.define(Cursor(record))
    for _ in range(1 if is_followed else 2):  # twice is once too often
        with pytest.raises(Unusual):
            tally.define(Cursor(record))
    assert list(tally.records) == ([number] if is_followed else [])


def test_so_many_bytes_of_metadata_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [pack_record(replace(PLAIN, metadata_id=number), version=5) for number in (1, 2)]
    for limit, taken in ((0, 0), (len(records[0]) - 1, 0), (len(records[0]), 1), (2 * len(records[0]), 2)):
        monkeypatch.setattr(type_count, "RECORDS_LIMIT", limit)
        tally = TypeTally()
        for at, record in enumerate(records):
            if at < taken:
                tally.define(Cursor(record))
            else:
                with pytest.raises(Unusual):
                    tally.define(Cursor(record))


@pytest.mark.parametrize("name", [*SMALL, *recordings()])
def test_losses_that_are_counted_beside_are_those_of_a_pass(name: str) -> None:
    data = SMALL[name] if name in SMALL else data_of(name)
    found = count_types(memoryview(data))
    if found is None:
        return
    whole = scan(data)
    for _ in whole.iter_batches():
        pass
    assert (found.lost, None) == (whole.lost.total, whole.damage)
    assert whole.lost.known
