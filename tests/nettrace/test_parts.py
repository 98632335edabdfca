"""A stream divided into parts: each is valid by itself, together they are the whole, and numbers count what was lost once."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from tests.nettrace.kernel_forms import FORM_IDS, without_kernels
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import (
    BlockKind,
    Contents,
    Metadata,
    Reader,
    ThreadInfo,
    Writer,
    count_losses,
    read,
    rewrite,
)
from dotnetdiag.nettrace.loss_count import LossCount
from dotnetdiag.nettrace.part import METADATA_LIMIT, Part
from dotnetdiag.nettrace.rotation import Rotation
from dotnetdiag.nettrace.stream_blocks import StreamBlocks


@pytest.fixture(autouse=True, params=FORM_IDS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kernels, and as where nothing could be compiled."""
    if request.param == "fallback":
        without_kernels(monkeypatch)


DIVISIBLE = [name for name in recordings() if ".nettrace" in name]


class Divided:
    """The files of a rotation."""

    def __init__(self, size_bytes: int) -> None:
        self.files: list[io.BytesIO] = []
        self.counts: list[LossCount | None] = []
        self.rotation = Rotation(size_bytes, self._begin, self._end)

    def _begin(self) -> io.BytesIO:
        self.files.append(io.BytesIO())
        return self.files[-1]

    def _end(self, part: Part, complete: bool) -> None:
        self.counts.append(part.close(complete=complete))


def divided(data: bytes, size_bytes: int = 1, piece: int = 1 << 16) -> Divided:
    made = Divided(size_bytes)
    for at in range(0, len(data), piece):
        made.rotation.feed(data[at : at + piece])
    made.rotation.close()
    return made


def rows(contents: Contents) -> Iterator[tuple[object, ...]]:
    """Every event with all that it refers to, in file order."""
    headers, v6 = contents.headers, contents.format.startswith("nettrace 6")
    for row in range(len(headers)):
        metadata = contents.metadata[int(headers.metadata_id[row])]
        threads = [int(headers.thread[row]), int(headers.capture_thread[row])]
        labels = contents.labels[int(headers.label_list[row])]
        yield (
            metadata,
            int(headers.time[row]),
            int(headers.sequence[row]),
            [contents.threads.get(one) for one in threads] if v6 else threads,
            contents.stacks.raw(int(headers.stack[row])),
            (contents.guids[int(headers.activity[row])], contents.guids[int(headers.related[row])], labels),
            contents.payload(row),
        )


def with_points(data: bytes, every: int, version: int) -> bytes:
    """The events of a trace with a sequence point behind so many."""
    contents = read(data)
    assert contents.info is not None
    out = io.BytesIO()
    writer = Writer.like(out, contents.info, version=version)
    for metadata in contents.metadata.values():
        writer.add_metadata(metadata)
    headers = contents.headers[contents.order()]
    headers.is_sorted[:] = True
    stacks, count = headers.stack.copy(), len(headers)
    if version == 6:
        for thread in np.unique(np.concatenate([headers.thread, headers.capture_thread])).tolist():
            writer.add_thread(ThreadInfo(index=thread, os_thread_id=thread))
    for first, last in pairwise([*range(0, count, every), count]):
        some = headers[first:last]
        some.stack[:] = [
            writer.add_stack(contents.stacks.raw(one)) if one else 0 for one in stacks[first:last].tolist()
        ]
        writer.write_events(some, contents.buffer, guids=contents.guids)
        writer.write_sequence_point()
    writer.close(sequence_point=False)
    return out.getvalue()


def check_divided(data: bytes, made: Divided) -> list[Contents]:
    whole = read(data)
    parts = [read(file.getvalue()) for file in made.files]
    assert [row for part in parts for row in rows(part)] == list(rows(whole))
    assert all(part.damage is None and not part.warnings for part in parts[:-1])
    assert [part.complete for part in parts] == [True] * (len(parts) - 1) + [whole.complete]
    assert sum(part.lost.total for part in parts) == whole.lost.total
    for file, part, counted in zip(made.files, parts, made.counts, strict=True):
        expected = LossCount(complete=part.complete, lost=part.lost.total)
        assert count_losses(io.BytesIO(file.getvalue())) == expected
        assert counted in (expected, None)
    return parts


@pytest.mark.parametrize("name", DIVISIBLE)
def test_the_parts_of_a_recording_are_the_recording(name: str) -> None:
    check_divided(data_of(name), divided(data_of(name)))


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("name", ["gccollect-10.nettrace", "events-3.1.nettrace", "cpu-only-10.nettrace"])
def test_a_part_begins_behind_each_sequence_point_and_has_all_that_it_needs(name: str, version: int) -> None:
    count = len(read(data_of(name)))
    data = with_points(data_of(name), count // 7 + 1, version)
    parts = check_divided(data, divided(data))
    assert len(parts) == 7
    assert parts[0].part_ticks is None
    for before, part in pairwise(parts):
        assert part.begins_late
        assert part.part_ticks == (before.sequence_points[-1][0], None)


def test_parts_are_as_large_as_they_were_wanted_or_end_at_the_next_sequence_point() -> None:
    data = with_points(data_of("events-10.nettrace"), 100, 5)
    made = divided(data, 100_000)
    check_divided(data, made)
    sizes = [len(file.getvalue()) for file in made.files]
    assert len(sizes) > 3
    assert all(100_000 <= size < 150_000 for size in sizes[:-1])


def test_what_was_lost_is_counted_in_the_part_where_it_was_lost() -> None:
    data = lossy(4)
    parts = check_divided(data, divided(data))
    assert [part.lost.total for part in parts] == [2, 3, 0, 1]


def lossy(version: int) -> bytes:
    """Two lost before the first event of a thread, three at a sequence point, and one in the fourth segment."""
    out = io.BytesIO()
    writer = Writer(out, version=version, sync_ticks=5)
    writer.add_metadata(Metadata(metadata_id=1, provider="Maker", event_id=7, name="Plain"))
    if version == 6:
        for thread in (1, 2, 3):
            writer.add_thread(ThreadInfo(index=thread, os_thread_id=thread))
    stack = writer.add_stack(bytes(16))
    for time, (thread, number) in enumerate(((1, 1), (2, 3), (1, 2)), 10):
        writer.write_event(1, time, b"abcd", thread=thread, sequence=number, stack=stack)
    writer.write_sequence_point(20, {1: 2, 2: 3})
    stack = writer.add_stack(bytes(24))
    writer.write_event(1, 30, b"abcd", thread=2, sequence=4, stack=stack)
    writer.write_sequence_point(40, {1: 5, 2: 4})
    writer.write_event(1, 50, b"abcd", thread=3, sequence=1)
    writer.write_event(1, 51, b"abcd", thread=1, sequence=6)
    writer.write_sequence_point(60, {1: 6, 3: 1})
    writer.write_event(1, 70, b"abcd", thread=1, sequence=8)
    writer.write_event(1, 71, b"abcd", thread=2, sequence=5)  # the last point did not list it: it had ended
    writer.close()
    return out.getvalue()


@pytest.mark.parametrize("version", [4, 6])
def test_pieces_of_any_length_give_the_same_parts(version: int) -> None:
    data = lossy(version)
    expected = [file.getvalue() for file in divided(data).files]
    assert len(expected) == 4
    for piece in (1, 2, 3, 7, 50, 333):
        assert [file.getvalue() for file in divided(data, piece=piece).files] == expected, piece


@pytest.mark.parametrize("version", [4, 6])
def test_a_stream_that_is_cut_anywhere_gives_what_was_whole_and_says_that_it_has_no_end(version: int) -> None:
    data = lossy(version)
    for cut in range(len(data)):
        expected, parts = read(data[:cut]), [read(file.getvalue()) for file in divided(data[:cut]).files]
        assert [row for part in parts for row in rows(part)] == list(rows(expected)), cut
        assert all(part.complete for part in parts[:-1])
        assert not any(part.complete for part in parts[-1:])


@pytest.mark.parametrize("version", [4, 6])
def test_one_wrong_byte_is_an_error_of_ours_or_is_in_a_part_as_it_was(version: int) -> None:
    data = lossy(version)
    for at in range(len(data)):
        try:
            made = divided(data[:at] + bytes([(0, 0xFF)[at % 2]]) + data[at + 1 :])
        except (FormatError, UsageError):
            continue
        for file in made.files:
            read(file.getvalue())


def test_netperf_has_nowhere_to_be_divided() -> None:
    name = next(name for name in recordings() if ".netperf" in name)
    with pytest.raises(UsageError, match=r"NetPerf \d cannot be divided"):
        divided(data_of(name))


def test_event_types_beyond_a_limit_are_an_error() -> None:
    made = Divided(1)
    data = lossy(4)
    made.rotation.feed(data[: data.index(b"\x05\x05\x01", 40)])
    stream = StreamBlocks()
    block = next(one for one in stream.feed(data) if one.kind is BlockKind.METADATA)
    assert made.rotation.head is not None
    made.rotation.head._metadata_bytes = METADATA_LIMIT - block.size_bytes
    made.rotation.head.follow(block)
    with pytest.raises(FormatError, match="more than"):
        made.rotation.head.follow(block)


def test_a_part_of_a_part_counts_no_loss_of_what_came_before() -> None:
    data = with_points(data_of("events-10.nettrace"), 100, 5)
    middle = divided(data, 100_000).files[2].getvalue()
    contents = read(middle)
    assert int(contents.headers.sequence.min()) > 1
    assert contents.lost.total == 0
    check_divided(middle, divided(middle))
    reader = Reader()
    for at in range(0, len(middle), 999):
        reader.feed(middle[at : at + 999])
    reader.close()
    assert (reader.complete, reader.lost.total) == (True, 0)


def test_a_sequence_point_before_the_start_counts_only_before_all_events() -> None:
    out = io.BytesIO()
    with Writer(out, sync_ticks=5) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="Maker", event_id=7, name="Plain"))
        writer.write_event(1, 10, b"", thread=1, sequence=1)
        writer.flush()
        writer.write_object("SPBlock", struct.pack("<qIQI", 4, 1, 1, 5))
    assert read(out.getvalue()).lost.total == 4
    assert count_losses(io.BytesIO(out.getvalue())).lost == 4


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_selection_of_a_part_loses_what_the_part_lost(version: int) -> None:
    for file in divided(lossy(4)).files:
        contents = read(file.getvalue())
        out = io.BytesIO()
        assert contents.info is not None
        keep = np.arange(len(contents)) % 2 == 0
        rewrite(contents, Writer.like(out, contents.info, version=version), keep=keep)
        assert read(out.getvalue()).lost.total == contents.lost.total


@pytest.mark.parametrize("version", [4, 5])
def test_a_part_that_is_written_again_is_a_part(version: int) -> None:
    for file in divided(lossy(4)).files:
        contents = read(file.getvalue())
        out = io.BytesIO()
        assert contents.info is not None
        rewrite(contents, Writer.like(out, contents.info, version=version))
        again = read(out.getvalue())
        assert (again.lost.total, again.lost.restarts) == (contents.lost.total, contents.lost.restarts)
        assert list(rows(again)) == list(rows(contents))
