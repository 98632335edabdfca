"""How fast header columns are made, and in how much memory.

    python benchmarks/decode_headers.py [FILE.nettrace ...] [--events N] [--stream-gb N]

Without files two traces are written in memory: *flood* (one event type, one payload size, as the flood workload makes
it) and *mixed* (type, stack and size change with every event: worse than any runtime). Figures are the best of five.
"""

from __future__ import annotations

import argparse
import io
import mmap
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dotnetdiag.nettrace import COMPILED, HeaderColumns, Metadata, Reader, Writer, plain, scan
from dotnetdiag.nettrace.decode import Form
from dotnetdiag.nettrace.reader import Scan

RUNS = 5
FEED_BYTES = 1 << 20
THREADS = 2


def columns(
    events: int, *, mixed: bool, first: int = 1
) -> tuple[HeaderColumns, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """Events as a writer takes them, and a buffer for their payloads."""
    rng = np.random.default_rng(7)
    headers = HeaderColumns.allocate(events)
    switch = np.arange(events) // 2000 % 3
    headers.metadata_id[:] = rng.integers(1, 20, events) if mixed else 1
    headers.capture_thread[:] = 11_720 + switch
    headers.thread[:] = headers.capture_thread
    for thread in range(3):
        rows = switch == thread
        headers.sequence[rows] = first // 3 + np.arange(rows.sum())
    headers.processor[:] = 0xFFFFFFFF
    headers.stack[:] = rng.integers(1, 500, events) if mixed else 0
    headers.time[:] = first * 1000 + np.cumsum(rng.integers(100, 3000, events))
    headers.payload_length[:] = rng.integers(10, 120, events) if mixed else 52
    headers.payload_offset[:] = rng.integers(0, 1000, events)
    headers.is_sorted[:] = np.arange(events) % 2000 == 0
    return headers, rng.integers(0, 255, 4096).astype(np.uint8)


def build(file: io.BufferedIOBase, events: int, *, mixed: bool, rounds: int = 1) -> None:
    """Write a trace of ``rounds * events`` events."""
    with Writer(file, process_id=1) as writer:
        for number in range(1, 20):
            writer.add_metadata(Metadata(metadata_id=number, provider="Benchmark", event_id=number, name=f"E{number}"))
        for turn in range(rounds):
            for number in range(1, 500):
                writer.add_stack([0x7F0000000000 + 64 * number + frame for frame in range(1 + number % 30)])
            writer.write_events(*columns(events, mixed=mixed, first=1 + turn * events))
            writer.write_sequence_point()


def best(act: Callable[[], object]) -> float:
    """Seconds of the fastest of five runs."""
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def stream(data: memoryview) -> int:
    """Events, counted by a reader that is fed."""
    reader = Reader()
    events = 0
    for at in range(0, len(data), FEED_BYTES):
        events += sum(len(batch) for batch in reader.feed(data[at : at + FEED_BYTES]))
    return events + sum(len(batch) for batch in reader.close().batches)


def batches(data: memoryview, threads: int, pool: ThreadPoolExecutor) -> int:
    """Events, counted over the batches of a scan."""
    return sum(len(batch) for batch in scan(data).iter_batches(threads=threads, map=pool.map))


def without_compiler(scanned: Scan, data: memoryview) -> int:
    """Events, decoded block by block by the fall-back."""
    events = 0
    for event in scanned._events:
        events += len(plain.decode(data, event.job.start, event.job.end, v6=event.job.form is Form.COMPRESSED_V6)[0])
    return events


def measure(name: str, data: memoryview) -> None:
    """Print one block of figures."""
    events = len(scan(data).decode())
    print(f"{name}: {events:,} events, {len(data) / 1e6:.0f} MB")

    def show(what: str, seconds: float) -> None:
        rate, speed = events / seconds / 1e6, len(data) / seconds / 1e9
        print(f"  {what:<44} {rate:8.1f} M events/s {speed:6.2f} GB/s {seconds:7.3f} s")

    with ThreadPoolExecutor(THREADS) as pool:
        show("counts per event type, 1 thread", best(lambda: scan(data).counts()))
        show(
            f"counts per event type, {THREADS} threads", best(lambda: scan(data).counts(threads=THREADS, map=pool.map))
        )
        show("batches of a scan, 1 thread", best(lambda: batches(data, 1, pool)))
        show(f"batches of a scan, {THREADS} threads", best(lambda: batches(data, THREADS, pool)))
        show("whole file into columns, 1 thread", best(lambda: scan(data).decode()))
        show(
            f"whole file into columns, {THREADS} threads",
            best(lambda: scan(data).decode_parallel(threads=THREADS, map=pool.map)),
        )
        show("stream fed 1 MB at a time", best(lambda: stream(data)))
        contents = scan(data).decode()
        show("order in time", best(contents.order))
        part = scan(data[:20_000_000])
        assert part.counts()
        rows = without_compiler(part, data)
        seconds = best(lambda: without_compiler(part, data))
        print(f"  {'without a compiler':<44} {rows / seconds / 1e6:8.1f} M events/s")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument(
        "--stream-gb", type=float, default=0, help="also stream a file of this size, for its peak memory"
    )
    options = parser.parse_args()
    print(
        f"kernels {'compiled' if COMPILED else 'not compiled'}, Python {sys.version.split()[0]}, numpy {np.__version__}"
    )
    if options.stream_gb:
        with tempfile.NamedTemporaryFile(suffix=".nettrace") as file:
            rounds = max(1, round(options.stream_gb * 1e9 / 55 / 250_000))
            build(file, 250_000, mixed=False, rounds=rounds)  # type: ignore[arg-type]
            file.flush()
            size = Path(file.name).stat().st_size
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            reader, events, begin = Reader(), 0, time.perf_counter()
            with open(file.name, "rb") as source:
                while piece := source.read(FEED_BYTES):
                    events += sum(len(batch) for batch in reader.feed(piece))
            verdict = reader.close()
            seconds = time.perf_counter() - begin
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(
                f"streamed {size / 1e9:.2f} GB, {events:,} events in {seconds:.2f} s, complete {verdict.complete}; "
                f"peak memory {peak / 1024:.0f} MB (before {before / 1024:.0f} MB)"
            )
    for path in options.files:
        with path.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            measure(path.name, memoryview(bytes(mapped)))
    if not options.files:
        for name, mixed in (("flood", False), ("mixed", True)):
            out = io.BytesIO()
            begin = time.perf_counter()
            build(out, options.events, mixed=mixed)
            print(f"{name}: written in {time.perf_counter() - begin:.2f} s")
            measure(name, memoryview(out.getvalue()))


if __name__ == "__main__":
    main()
