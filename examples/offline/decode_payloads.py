"""Decode every payload of a recording, read as a stream: python decode_payloads.py FILE.

A file at hand is read faster by ``nettrace.scan(data).iter_batches()``; the batches are decoded in the same way.
"""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from dotnetdiag.nettrace import EventBatch, Reader


def batches(file: BinaryIO) -> Iterator[EventBatch]:
    """The events of a stream, as it comes."""
    reader = Reader()
    while data := file.read(1 << 16):
        yield from reader.feed(data)
    yield from reader.close()


with open(sys.argv[1], "rb") as recording:
    for batch in batches(recording):
        for part in batch.tables():
            times, threads = batch.headers.time[part.rows], batch.headers.thread[part.rows]
            print(f"{len(part.table)} × {part.schema.provider}/{part.schema.name}, from tick {times[0]}")
            print(f"  first at byte {part.file_offsets[0]}, of thread {threads[0]}: {part.table.row(0)}")
