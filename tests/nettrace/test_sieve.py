"""A pass with a sieve has the rows that it keeps, and tells of the others, as a pass over all."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL, large_trace
from tests.trace.segments import Block, Event, any_segments, recording

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import (
    HeaderColumns,
    LossAccount,
    Metadata,
    Scan,
    Writer,
    decode,
    kernels,
    read,
    scan,
)
from dotnetdiag.nettrace.arena import Arenas
from dotnetdiag.nettrace.batch import EventBatch, Passed
from dotnetdiag.nettrace.kernel_types import BLOCK, SIFTED
from dotnetdiag.nettrace.kernels import COMPILED
from dotnetdiag.nettrace.sieve import AMOUNT, DROP, KEEP, MARK, Sieve
from dotnetdiag.nettrace.translation import Tables, Translation
from dotnetdiag.trace.settling import NEVER

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")

DATA = [name for name in (*SMALL, *recordings()) if scan(SMALL.get(name) or data_of(name)).sifts]


def data(name: str) -> bytes:
    return SMALL[name] if name in SMALL else data_of(name)


def random_sieve(ids: list[int], seed: int) -> Sieve:
    """Something else for each type; in one of three cases types with high ids are not listed."""
    rng = random.Random(seed)
    listed = max(ids, default=0) + 1 if seed % 3 else rng.randint(1, max(ids, default=0) + 1)
    actions = np.array([rng.choice([DROP, DROP, KEEP, AMOUNT, MARK]) for _ in range(listed)], np.uint8)
    places = np.array([[rng.choice([-1, 0, 1, 8]) for _ in range(listed)] for _ in range(2)], np.int64)
    return Sieve(actions, places)


def actions_of(headers: HeaderColumns, sieve: Sieve) -> np.ndarray[Any, Any]:
    ids = headers.metadata_id
    return np.where(ids < len(sieve.actions), sieve.actions[np.minimum(ids, len(sieve.actions) - 1)], KEEP)


def findings(seen: Scan) -> tuple[Any, ...]:
    lost = {name: getattr(seen.lost, name) for name in LossAccount.__slots__ if not name.startswith("_has")}
    return seen.damage, seen.damage_offset, seen.warnings, lost, seen.stacks.size_bytes, seen.complete


def passes(
    content: bytes, sieve: Sieve, **options: Any
) -> tuple[list[EventBatch], list[EventBatch], tuple[Scan, Scan]]:
    """Batches with all rows, batches with a sieve, and what either scan has found."""
    whole, sifting = scan(content), scan(content)
    seen: list[Scan] = []
    every = [
        replace(batch, headers=copied(batch.headers))
        for batch in whole.iter_batches(ended=seen.append, activities=False)
    ]
    some = [
        replace(batch, headers=copied(batch.headers))
        for batch in sifting.iter_batches(ended=seen.append, activities=False, sieve=sieve, **options)
    ]
    return every, some, (seen[0], seen[1])


def copied(headers: HeaderColumns) -> HeaderColumns:
    return headers[np.arange(len(headers))]


def items(passed: list[Passed], name: str, threads: Iterator[int] | None = None) -> list[tuple[int, ...]]:
    """Amounts or marks with the thread and the number of the event in the place of their order: -1 and the number where it is sorted."""
    found, events = [], 0
    for one in passed:
        known = one.threads.tolist()
        for time, order, *amount in getattr(one, name).T.tolist():
            run, event = order >> 32, order & 0xFFFFFFFF
            thread = known[run - 1 - one.before[0]] if run else -1
            found.append((time, thread, event - one.before[1] + events, *amount))
        events += one.events
    return found


def number_in(payload: bytes, wide: int, narrow: int) -> int:
    value = struct.unpack_from("<q", payload, wide)[0] if 0 <= wide <= len(payload) - 8 else -1
    if value < 0 and 0 <= narrow <= len(payload) - 4:
        value = struct.unpack_from("<I", payload, narrow)[0]
    return max(0, value)


def check_joined(batch: EventBatch, segments: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> None:
    """That a batch has events of the segments that it says, each of which is later than all before."""
    assert batch.segment == segments[0]
    assert segments[-1] <= batch.segment + batch.points
    for edge in (np.flatnonzero(np.diff(segments)) + 1).tolist():
        assert times[edge:].min() > times[:edge].max()
    if batch.points:
        is_last = segments == batch.segment + batch.points
        assert times[~is_last].max() <= batch.ended
        assert (times[is_last] > batch.ended).all()
    else:
        assert batch.ended == NEVER


def check(content: bytes, sieve: Sieve, **options: Any) -> int:
    """That both are alike; how many batches the second were."""
    every, some, seen = passes(content, sieve, **options)
    headers = HeaderColumns.concatenate([batch.headers for batch in every])
    action = actions_of(headers, sieve)
    kept = headers[(action == KEEP) | (action == MARK)]
    assert HeaderColumns.concatenate([batch.headers for batch in some]).equals(kept)
    passed = [batch.passed for batch in some if batch.passed is not None]
    assert len(passed) == len(some)
    assert sum(batch.events for batch in some) == len(headers)
    edges = np.cumsum([0, *(batch.events for batch in some)])
    for batch, first, last in zip(some, edges, edges[1:], strict=False):
        own = headers[first:last]
        assert (batch.earliest, batch.latest) == (own.time.min(), own.time.max())
        assert batch.start <= own.payload_offset[0]
        assert batch.passed is not None
        assert batch.passed.until == max([NEVER, *own.time[own.is_sorted].tolist()])
        changes = np.append(True, own.capture_thread[1:] != own.capture_thread[:-1])
        threads = batch.passed.threads
        assert own.capture_thread[changes].tolist() == threads[np.append(True, threads[1:] != threads[:-1])].tolist()
    segments = np.array([batch.segment for batch in every for _ in range(len(batch))], np.int64)
    for batch, first, last in zip(some, edges, edges[1:], strict=False):
        check_joined(batch, segments[first:last], headers.time[first:last])
    for name, wanted in (("amounts", AMOUNT), ("marks", MARK)):
        expected = []
        for row in np.flatnonzero(action == wanted).tolist():
            thread = -1 if headers.is_sorted[row] else int(headers.capture_thread[row])
            start, kind = int(headers.payload_offset[row]), int(headers.metadata_id[row])
            payload = content[start : start + int(headers.payload_length[row])]
            amount = (number_in(payload, *sieve.places[:, kind].tolist()),) if wanted == AMOUNT else ()
            expected.append((int(headers.time[row]), thread, row, *amount))
        assert items(passed, name) == expected
    assert findings(seen[0]) == findings(seen[1])
    return len(some)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", DATA)
def test_what_is_kept_is_what_a_pass_over_all_has(name: str, seed: int) -> None:
    content = data(name)
    assert check(content, random_sieve([*scan(content).metadata], seed))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_where_there_is_too_little_room_it_goes_on_behind(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = SMALL["nettrace 5"]
    whole = check(content, random_sieve([*scan(content).metadata], 1))
    take = Arenas.take

    def few(self: Arenas, size_bytes: int, spare: int = 0) -> Any:
        lent = take(self, size_bytes, spare)
        lent.headers = lent.headers[:rows]
        return lent

    monkeypatch.setattr(Arenas, "take", few)
    assert max(check(content, random_sieve([*scan(content).metadata], seed)) for seed in range(4)) > whole


def test_threads_of_an_executor_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "SIFTED_GROUP_BYTES", 1 << 16)
    content = large_trace(20_000)
    with ThreadPoolExecutor(2) as pool:
        for seed in range(3):
            assert check(content, random_sieve([1, 2], seed), executor=pool) > 5


@pytest.mark.parametrize("version", [4, 5])
def test_cut_at_every_offset_and_with_any_byte_changed(version: int) -> None:
    content, rng = SMALL[f"nettrace {version}"], random.Random(version)
    for at in range(0, len(content), 7):
        cut = scan(content[:at])
        if cut.sifts:
            check(content[:at], random_sieve([*cut.metadata], at))
    for _ in range(400):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        if scan(bytes(changed)).sifts:
            check(bytes(changed), random_sieve([*scan(content).metadata], rng.randrange(100)))


EVENTS = st.tuples(
    st.integers(0, 200),
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from([0, 3, 8, 20]),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=60), st.integers(0, 1000), st.sampled_from([4, 5]))
def test_of_any_events(events: list[tuple[int, int, int, int, bool, bool]], seed: int, version: int) -> None:
    out, now = io.BytesIO(), 0
    with Writer(out, version=version, process_id=1, start_ns=1) as writer:
        for kind in (1, 2, 3, 9):
            writer.add_metadata(Metadata(metadata_id=kind, provider="P", event_id=kind, name="E", version=0))
        for delta, kind, size, thread, is_sorted, ends in events:
            now += delta * delta
            payload = bytes((seed + at * 37) & 0xFF for at in range(size))
            stack = writer.add_stack([seed + 1, thread])
            writer.write_event(kind, now, payload, thread=thread, stack=stack, is_sorted=is_sorted)
            if ends:
                writer.flush()
                if thread == 1:
                    writer.write_sequence_point()
    content = out.getvalue()
    assert scan(content).sifts is bool(events)
    if events:
        check(content, random_sieve([1, 2, 3, 9], seed))


@settings(deadline=None)
@given(any_segments([1, 2, 3]), st.integers(0, 1000), st.sampled_from([1, 40, 200, 1 << 20]))
def test_of_any_segments(segments: list[list[Block]], seed: int, group_bytes: int) -> None:
    types = [Metadata(metadata_id=kind, provider="P", event_id=kind, name="E", version=0) for kind in (1, 2, 3)]
    content = recording(segments, types)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "FIRST_GROUP_BYTES", group_bytes)
        patch.setattr(decode, "SIFTED_GROUP_BYTES", group_bytes)
        if scan(content).sifts:
            batches = check(content, random_sieve([1, 2, 3], seed))
            assert batches <= sum(map(len, segments))


def test_segments_that_follow_each_other_are_one_batch() -> None:
    types = [Metadata(metadata_id=1, provider="P", event_id=1, name="E", version=0)]
    segments: list[list[Block]] = [[(1, [Event(10 * at, 1, False), Event(10 * at + 9, 1, False)])] for at in range(6)]
    assert check(recording(segments, types), random_sieve([1], 1)) == 1
    segments[3] = [(1, [Event(29, 1, False)])]  # as late as the last before it, and not later
    assert check(recording(segments, types), random_sieve([1], 1)) == 2


@pytest.mark.parametrize("rows", [1, 3])
def test_numbers_that_do_not_go_up_are_no_loss_where_it_goes_on(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of an id that is 0 take none; where a call ends between them the next begins with one that was there."""
    take = Arenas.take

    def few(self: Arenas, size_bytes: int, spare: int = 0) -> Any:
        lent = take(self, size_bytes, spare)
        lent.headers = lent.headers[:rows]
        return lent

    events = b"\x87\x01\x00\x05\x00\x05\x01\x00"  # of metadata 1, thread 5, without a payload
    events += b"\x00\x01" * 3 + b"\x01\x00\x01" + b"\x00\x01" * 9 + b"\x01\x01\x01" + b"\x00\x01" * 3
    out = io.BytesIO()
    with Writer(out, process_id=1, start_ns=1) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E", version=0))
        writer.flush()
        writer.write_object("EventBlock", struct.pack("<HHqq", 20, 1, 0, 0) + events)
        writer.write_sequence_point()
    content = out.getvalue()
    monkeypatch.setattr(Arenas, "take", few)
    kept = Sieve(np.ones(2, np.uint8), np.full((2, 2), -1, np.int64))
    assert check(content, kept) > 2
    assert scan(content).sifts


@pytest.mark.parametrize("points", [0, 1022, 1023, 1024])
def test_a_last_group_may_be_just_full(points: int) -> None:
    """By bytes, or by runs of events."""
    out = io.BytesIO()
    with Writer(out, process_id=1, start_ns=1) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E", version=0))
        for number in range(max(points + 1, 2)):
            writer.write_event(1, number, bytes(8), thread=1)
            writer.flush()
            if number < points:
                writer.write_sequence_point()
    assert check(out.getvalue(), Sieve(np.zeros(2, np.uint8), np.full((2, 2), -1, np.int64))) == 1 + (points >= 1024)


@pytest.mark.parametrize("size", [1000, 2000, 4000])
def test_a_group_ends_where_the_file_does(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = SMALL["nettrace 5"]
    (run, *_) = scan(content)._indexed().runs
    monkeypatch.setattr(decode, "SIFTED_GROUP_BYTES", run.size_bytes)
    assert check(content, random_sieve([*scan(content).metadata], size))


def test_other_formats_are_not_sifted() -> None:
    for name, content in SMALL.items():
        usual = not any(word in name for word in ("NetPerf", "nettrace 6", "uncompressed"))
        assert scan(content).sifts is usual, name
    assert not scan(by_hand.trace()).sifts


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    compiled = kernels.KERNELS
    assert compiled is not None
    content = SMALL["nettrace 5"]
    run = scan(content)._indexed().runs[0]
    tables = Tables.of([(len(run), Translation())])
    to, rows = HeaderColumns.allocate(64), 64
    names = ["metadata_id", "sequence", "capture_thread", "thread", "processor", "stack", "time", "activity", "related"]
    names += ["payload_offset", "payload_length", "is_sorted", "label_list"]
    wide = np.full((5, rows), 7, np.int64)
    good: list[Any] = [
        *(content, run.starts[:1], run.ends[:1], 0, 1, np.zeros(1, BLOCK), tables.meanings, np.zeros(1, np.uint32)),
        *(np.zeros(1, np.uint32), np.zeros(2, np.uint8), np.zeros((2, 2), np.int64)),
        np.array([(0, 0, 0, 0, rows, rows, rows, rows, 1)], SIFTED),
        np.zeros(compiled.STATE_WORDS, np.uint64),
        *(getattr(to, name).view(np.uint8) if name == "is_sorted" else getattr(to, name) for name in names),
        *(wide, np.full((3, rows), 7, np.int64), np.full((2, rows), 7, np.int64)),
    ]
    begun = [column.copy() for column in good[-3:]]

    def progress(**changed: int) -> Any:
        made = good[11].copy()
        for name, value in changed.items():
            made[name] = value
        return made

    wrong: list[tuple[int, Any]] = [
        (3, -1),
        (4, 2),
        (1, np.array([-1])),
        (2, np.array([len(content) + 1])),
        (5, np.zeros(0, BLOCK)),
        (9, np.zeros(3, np.uint8)),
        (10, np.zeros((1, 2), np.int64)),
        (11, progress(row=1)),
        (11, progress(run=1)),
        (11, progress(amount=1)),
        (11, progress(mark=1)),
        (11, progress(rows=rows + 1)),
        (11, progress(runs=rows + 1)),
        (11, progress(amounts=rows + 1)),
        (11, progress(marks=rows + 1)),
        (11, progress(rows=0)),
        (11, progress(marks=0)),
        (12, np.zeros(compiled.STATE_WORDS - 1, np.uint64)),
        (12, np.ones(compiled.STATE_WORDS, np.uint64)),
        (13, np.zeros(rows - 1, np.uint32)),
        (25, np.zeros(rows - 1, np.uint32)),
        (26, np.zeros((4, rows), np.int64)),
        (27, np.zeros((2, rows), np.int64)),
        (28, np.zeros((3, rows), np.int64)),
    ]
    for place, value in wrong:
        assert compiled.sift(*good[:place], value, *good[place + 1 :]) == -1, place
    assert [column.tolist() for column in good[-3:]] == [column.tolist() for column in begun]
    assert compiled.sift(*good) == 1


def test_a_whole_read_has_no_sieve() -> None:
    assert all(batch.passed is None for batch in scan(SMALL["nettrace 5"]).iter_batches())
    made = Sieve(np.zeros(1, np.uint8), np.zeros((2, 1), np.int64))
    for content, activities in ((SMALL["nettrace 5"], True), (SMALL["nettrace 6"], False)):
        with pytest.raises(UsageError, match="sieve"):
            scan(content).iter_batches(sieve=made, activities=activities)
    assert len(read(SMALL["nettrace 5"])) > 0
