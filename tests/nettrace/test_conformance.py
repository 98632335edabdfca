"""Every recording, header by header, against what TraceEvent saw in it. A new one dropped in is checked as well."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, listing_of, recordings

from dotnetdiag.nettrace import Contents, Reader, read, scan
from dotnetdiag.nettrace.columns import HeaderColumns

# Where the reference is known to be wrong (nettrace.md says why): what is compared otherwise, or not.
INVENTED_IDS = {65524: 39}
"""TraceEvent shows GCDynamicEvent (39) under an id of its own (nettrace.md §10.5)."""
WRONG_RELATED = "NetPerf 3"
"""It reads `related` of NetPerf 3 at payload + 36."""
CUT = {"killed-10.nettrace": 81_066}
"""No end in the file: the reference throws, having delivered a part of these events."""
WRITTEN = {"lossy-10.nettrace": ("Workload-Manifest", 90_000)}


@pytest.fixture(params=recordings())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as made:
        yield made


def thread_id(contents: Contents, row: int) -> int:
    thread = int(contents.headers.thread[row])
    if contents.format.startswith("nettrace 6"):
        return contents.threads[thread].os_thread_id or 0
    return thread


def guid(contents: Contents, index: int) -> str | None:
    return str(contents.guids[index]) if index else None


def test_headers_are_what_the_reference_reader_saw_in_time_order(name: str) -> None:
    contents, listing = read(data_of(name)), listing_of(name)
    headers, order = contents.headers, contents.order()
    assert len(headers) == CUT.get(name, len(listing.events))
    assert contents.info is not None
    elapsed_ms = contents.info.elapsed_ns(headers.time[order]) / 1e6
    assert np.all(np.diff(headers.time[order]) >= 0)
    for place, said in enumerate(listing.events):
        row = int(order[place])
        metadata = contents.metadata[int(headers.metadata_id[row])]
        assert metadata.provider == said["provider"]
        assert metadata.event_id == INVENTED_IDS.get(said["id"], said["id"])
        assert elapsed_ms[place] == pytest.approx(said["ms"], abs=2e-4 if contents.info.frequency < 10**9 else 1e-6)
        assert thread_id(contents, row) == said["tid"]
        assert int(headers.payload_length[row]) == said["bytes"]
        assert guid(contents, int(headers.activity[row])) == said["activity"]
        if contents.format != WRONG_RELATED:
            assert guid(contents, int(headers.related[row])) == said["related"]


def test_verdict_and_losses_are_what_the_reference_reader_said(name: str) -> None:
    contents, listing = read(data_of(name)), listing_of(name)
    assert contents.complete == (name not in CUT)
    if listing.end is not None:
        assert contents.lost.total == listing.end["lost"]
        assert contents.info is not None
        assert contents.info.pointer_size == listing.end["pointer"]
        assert contents.info.processors == listing.end["cpus"]
        assert contents.damage is None
        assert not contents.warnings
        assert not contents.skipped


@pytest.mark.parametrize("name", WRITTEN)
def test_every_event_that_was_written_is_there_or_counted_as_lost(name: str) -> None:
    contents = read(data_of(name))
    provider, written = WRITTEN[name]
    ids = [number for number, metadata in contents.metadata.items() if metadata.provider == provider]
    arrived = int(np.isin(contents.headers.metadata_id, ids).sum())
    assert arrived + contents.lost.total == written
    assert sum(contents.lost.by_thread.values()) == contents.lost.total
    assert sum(contents.lost.by_segment.values()) == contents.lost.total
    assert sum(gap.count for gap in contents.lost.gaps) == contents.lost.total


def test_counts_without_columns_are_the_counts_of_the_columns(name: str) -> None:
    scanned = scan(data_of(name))
    counts = scanned.counts()
    headers = scanned.decode().headers
    assert {number: events for number, (events, _) in counts.items()} == collections.Counter(
        headers.metadata_id.tolist()
    )
    assert sum(size for _, size in counts.values()) == int(headers.payload_length.sum())


def flatten(contents: Contents) -> tuple[HeaderColumns, list[UUID], list[bytes]]:
    stacks = [contents.stacks.raw(number) for number in range(len(contents.stacks))]
    return contents.headers, list(contents.guids), stacks


@pytest.mark.parametrize("piece", [1 << 30, 4096, 61])
def test_stream_in_pieces_is_the_whole_file(name: str, piece: int) -> None:
    data = data_of(name)
    contents = read(data)
    reader = Reader()
    batches = [batch for at in range(0, len(data), piece) for batch in reader.feed(data[at : at + piece])]
    batches += reader.close()
    assert (reader.complete, reader.damage) == (contents.complete, contents.damage)
    parts = []
    for batch in batches:
        batch.headers.payload_offset[:] += batch.offset
        parts.append(batch.headers)
    headers, guids, stacks = flatten(contents)
    assert HeaderColumns.concatenate(parts).equals(headers)
    assert list(reader.guids) == guids
    assert [reader.stacks.raw(number) for number in range(len(reader.stacks))] == stacks
    assert dict(reader.metadata) == dict(contents.metadata)
    assert reader.warnings == contents.warnings
    assert reader.lost.by_thread == contents.lost.by_thread
    segments = np.repeat(np.arange(len(contents.segment_starts)), np.diff([*contents.segment_starts, len(headers)]))
    assert np.concatenate([np.full(len(batch), batch.segment) for batch in batches]).tolist() == segments.tolist()


def test_batches_of_a_scan_are_its_columns(name: str) -> None:
    scanned = scan(data_of(name))
    batches = list(scanned.iter_batches())
    assert HeaderColumns.concatenate([batch.headers for batch in batches]).equals(scanned.decode().headers)


def test_recording_cut_anywhere_gives_all_blocks_before_the_cut(name: str) -> None:
    data = data_of(name)
    whole = read(data)
    ends = whole.headers.payload_offset + whole.headers.payload_length
    for cut in np.linspace(0, len(data) - 1, 200).astype(int).tolist():
        contents = read(memoryview(data)[:cut])
        assert not contents.complete
        assert contents.damage is not None
        rows = len(contents)
        assert contents.headers.time.tolist() == whole.headers.time[:rows].tolist()
        if not contents.format.startswith("NetPerf"):
            assert rows == int((ends <= cut).sum())


def test_threads_change_nothing(name: str, pool: ThreadPoolExecutor) -> None:
    data = data_of(name)
    one = read(data)
    shared = read(data, executor=pool)
    assert shared.headers.equals(one.headers)
    assert shared.warnings == one.warnings
    assert scan(data).counts(executor=pool) == scan(data).counts()
    batches = list(scan(data).iter_batches(executor=pool))
    assert HeaderColumns.concatenate([batch.headers for batch in batches]).equals(one.headers)
