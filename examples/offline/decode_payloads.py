"""Decode every payload of a recording, read as a stream: ``python decode_payloads.py FILE``.

A file at hand is read faster by ``nettrace.scan(data).iter_batches()``; the batches are decoded in the same way.
"""

import sys

from dotnetdiag.events import Decoder
from dotnetdiag.nettrace import Reader

reader, decoder = Reader(), Decoder()
with open(sys.argv[1], "rb") as file:
    for data in iter(lambda: file.read(1 << 16), b""):
        for batch in reader.feed(data):
            for part in decoder.tables(batch):
                times, threads = batch.headers.time[part.rows], batch.headers.thread[part.rows]
                print(f"{len(part.table)} × {part.schema.provider}/{part.schema.name}, from tick {times[0]}")
                print(f"  first at byte {part.file_offsets[0]}, of thread {threads[0]}: {part.table.row(0)}")
