"""What a reader may hold, whatever a stream says: tried in a process that gets no more memory than that."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.nettrace.by_hand import (
    block,
    event,
    event_type,
    labels,
    metadata,
    removed,
    sequence_point,
    text,
    thread,
    threads,
    trace,
    varuint,
)
from tests.nettrace.traces import SMALL

from dotnetdiag.nettrace import Reader, constants, iter_blocks, read
from dotnetdiag.nettrace.rows import Rows

LIMIT_MB = 400
"""Address space beyond what the process has when it begins."""
FEED_BYTES = 1 << 20
V5_OPENING = SMALL["nettrace 5"][: next(iter_blocks(SMALL["nettrace 5"])).end]  # with its Trace object


def v5_object(name: str, content: bytes, at: int) -> bytes:
    opening = (
        struct.pack("<3Biii", 5, 5, 1, 2, 2, len(name)) + name.encode() + b"\x06" + struct.pack("<i", len(content))
    )
    return opening + bytes(-(at + len(opening)) % 4) + content + b"\x06"


def repeated(piece: bytes, size_mb: int) -> bytes:
    return piece * ((size_mb << 20) // len(piece))


def hostile() -> Iterator[tuple[str, bytes]]:
    """(what is too much there, a stream)."""
    field = struct.pack("<H", 2) + b"\0\x06"
    fields = struct.pack("<H", 15_000) + field * 15_000
    opening = (threads(thread(1)), metadata(event_type(1)))
    rows = (metadata(*(event_type(number + part, "F", fields) for part in range(250))) for number in range(1, 750, 250))
    yield "fields", trace(*rows)
    pairs = b"\x04\0\0" * 21_000
    rows = (
        threads(*(struct.pack("<H", len(pairs) + 3) + b"\xff\xff" + bytes([n]) + pairs for n in range(120)))
        for _ in "ab"
    )
    yield "pairs of threads", trace(*rows)
    yield "labels of one list", trace(labels(1, repeated(b"\x06\0\0", 15) + b"\x86\0\0"))
    lists = b"".join(b"\x86" + text(str(n)) + b"\0" for n in range(10**6))
    yield "label lists", trace(block(8, struct.pack("<II", 1, 10**6) + lists))
    table = np.zeros(10**6, [("size", "<u4"), ("address", "<u8")])
    table["size"] = 8
    stacks = []
    for part in range(4):
        table["address"] = np.arange(part * 10**6, (part + 1) * 10**6)
        stacks.append(block(5, struct.pack("<II", 1 + part * 10**6, 10**6) + table.tobytes()))
    yield "stacks", trace(*stacks)
    listed = block(4, struct.pack("<qII", 0, 0, 7 << 20) + repeated(b"\x01\x01", 14))
    yield "threads of a sequence point", trace(*opening, listed)
    keys = block(1, trace()[24:56] + struct.pack("<ii", 8, 7 << 20) + repeated(b"\0\0", 14))
    yield "keys", trace()[:20] + keys
    small = struct.pack("<hhqq", 20, 1, 0, 0) + event(1) + repeated(b"\0\1", 15)
    yield "small events", trace(*opening, block(2, small))
    plain = struct.pack("<IIIQQIIQII", 48, 1, 1, 1, 1, 0, 0, 1, 0, 0)
    yield "uncompressed events", trace(*opening, block(2, struct.pack("<hhqq", 20, 0, 0, 0) + repeated(plain, 15)))
    far = (metadata(*(event_type((n << 10) + part) for n in range(200_000))) for part in range(1, 6))
    yield "far metadata ids", trace(*far)
    ids = b"".join(b"\x31\1\0" + struct.pack("<4Q", n, n, ~n & (1 << 64) - 1, n) for n in range(1, 500_000))
    yield "activity ids", V5_OPENING + v5_object("EventBlock", struct.pack("<hhqq", 20, 1, 0, 0) + ids, len(V5_OPENING))
    name = struct.pack("<i", 1) + (b"P\0" * (8 << 20)) + bytes(100)
    record = bytes([0x80, 0]) + varuint(len(name)) + name
    yield "names", V5_OPENING + v5_object("MetadataBlock", struct.pack("<hhqq", 20, 1, 0, 0) + record, len(V5_OPENING))
    out = bytearray(V5_OPENING)
    for number in range(200_000):
        out += v5_object(f"Unknown{number:031}", b"", len(out))
    yield "names of blocks", bytes(out)
    out = bytearray(V5_OPENING)
    out += struct.pack("<3Biii", 5, 5, 1, 2, 2, 10) + b"EventBlock\x06" + struct.pack("<i", 1 << 30) + bytes(80 << 20)
    yield "one block", bytes(out)


def read_all() -> None:
    import resource

    Reader().feed(SMALL["nettrace 5"])  # what is imported once
    for what, data in hostile():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (LIMIT_MB << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        reader = Reader()
        for at in range(0, len(data), FEED_BYTES):
            for batch in reader.feed(data[at : at + FEED_BYTES]):
                assert len(batch)
        reader.close()
        print(what, len(data) >> 20, reader.warnings or reader.damage, flush=True)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        del reader, data


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells what a process has")
def test_no_stream_takes_more_memory_than_the_budget() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.nettrace.test_budget import read_all; read_all()"],
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("index", [5, 300_000])
@pytest.mark.parametrize("make", [lambda rows: removed(*rows), lambda rows: sequence_point(*rows)])
def test_threads_that_a_file_lists_take_room_in_proportion(
    index: int, make: Callable[[list[tuple[int, int]]], bytes]
) -> None:
    count = 50_000
    data = trace(make([(index, 1)] * count))
    read(trace())
    tracemalloc.start()
    contents = read(data)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < peak < 25 * count + 100_000
    listed = contents.removals or contents.sequence_points[0][2]
    assert (len(listed), listed[-1][-2:]) == (count, (index, 1))


def test_rows_are_tuples_when_somebody_looks_at_them() -> None:
    rows: Sequence[tuple[int, int]] = [(1 << 63, 2), (3, 4), (5, (1 << 32) - 1)]
    made = Rows[tuple[int, int]]("QI")
    for row in rows:
        made.append(row)
    assert (made, made[1], made[-1], made[1:], made[::-1]) == (rows, rows[1], rows[-1], rows[1:], rows[::-1])
    assert (list(made), sorted(made), repr(made)) == (rows, sorted(rows), repr(rows))
    assert made != rows[1:]
    assert made != [*rows[1:], (1, 1)]
    assert made != 5
    with pytest.raises(IndexError):
        made[3]


def different_arrays(number: int) -> bytes:
    """32 types in each other, in 32 bytes: ARRAY, REL_LOC, DATA_LOC."""
    return b"\0" + bytes((19, 24, 25)[number * 7919 // 3**digit % 3] for digit in range(31)) + b"\x06"


def kept_and_counted(field: Callable[[int], bytes]) -> tuple[int, int]:
    """Bytes that three event types of 1,500 fields take, and what the budget says."""
    fields = [field(number) for number in range(1_500)]
    packed = struct.pack("<H", len(fields)) + b"".join(struct.pack("<H", len(each)) + each for each in fields)
    data = trace(*(metadata(event_type(number, "F", packed)) for number in range(1, 4)))
    reader = Reader()
    tracemalloc.start()
    reader.feed(data)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(reader.metadata) == 3
    return kept, constants.STREAM_TABLES_LIMIT - reader._state._budget.left


@pytest.mark.parametrize(
    "field",
    [
        different_arrays,
        lambda number: b"\0" + b"\x13" * 20 + b"\x01\0\0",
        lambda number: b"\0" + b"\x16" * 8 + b"\x06" + struct.pack("<8H", *range(number, number + 8)),
        lambda number: b"\0\x13" + bytes([30 + number % 200]),
        lambda number: b"\0\x01\x01\0\x04\0\0\x01\0\0",
        lambda number: text(chr(0x10000 + number)) + b"\x06",
        lambda number: b"\0\x06",
    ],
    ids=["different arrays", "arrays of objects", "fixed arrays", "unknown", "objects", "names", "small"],
)
def test_types_take_no_more_than_the_budget_counts(field: Callable[[int], bytes]) -> None:
    kept, counted = kept_and_counted(field)
    assert kept < counted


def test_types_that_are_the_same_are_one() -> None:
    kept, counted = kept_and_counted(lambda number: b"\0" + b"\x13" * 31 + b"\x06")
    assert kept < counted // 8


def test_limits_are_those_of_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    megabytes = (constants.STREAM_BLOCK_LIMIT, constants.STREAM_TABLES_LIMIT, constants.STACK_BYTES_LIMIT)
    counts = (constants.BATCH_ROWS, constants.GUIDS_LIMIT, constants.THREADS_LIMIT, constants.GAPS_LIMIT)
    for said in (*(f" {size >> 20} MB" for size in megabytes), *(f" {count:,}" for count in counts)):
        assert said in text
