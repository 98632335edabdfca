"""Reading traces against the reference reader (TraceEvent, by ``oracle.dll``), on traces that :mod:`traces` records.

    python benchmarks/decode.py [--rounds N] [--no-record] [--stream-gb N]

=================  ===================================================================================================
figure             what is measured, the file being in memory
=================  ===================================================================================================
headers            all thirteen header columns of all events, made batch by batch on two threads (the gate: ≥ 30 times
                   the events per second of ``oracle count FILE``, which keeps nothing either)
headers, whole     the same into one set of columns that are kept
payloads           headers, and all payload columns of all events: numbers, texts as UTF-8, bytes; per event type and
                   slice of the file (the gate: ≥ 12 times ``oracle count FILE decode``)
counts             the whole process ``python -c 'dotnetdiag.open(FILE).counts()'`` against the whole process
                   ``oracle count FILE`` (the gate: ≤ 0.15 of its time for the flood, 0.28 for the mixed file)
info               the whole process ``dotnetdiag trace info FILE`` against that, too (the gate: ≤ 0.25 for the flood)
streaming          peak memory of a process that feeds a file of 2 GB to a reader (the gate: ≤ 150 MB)
fall-back          headers without a compiler, one thread, one in sixteen blocks (the gate: ≥ 1 million events/s)
=================  ===================================================================================================

Where our time goes (the flood, one thread, cProfile, whole file): 68 % in the kernel that fills the columns, which writes 55 bytes for each
event and is bound by memory; 15 % in the one that counts rows before; 17 % in Python, a few calls for each 32 MB: losses, ids, joining. Of
the 90 ms of ``counts`` Python's start takes 11, imports 20, page faults 25, counting 15; the rest is reading metadata and the end.

The oracle's seconds are those it prints itself: from opening the file to its last event, without the start of .NET.
Ours are wall time from ``scan`` to the last batch, the mean of calls that take as long together; each pair is measured
one right after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import append, pairs, seconds
from benchmarks.traces import CACHE, VERSION, oracle, trace

from dotnetdiag import events
from dotnetdiag.nettrace import COMPILED, HeaderColumns, Metadata, Reader, Writer, fallback, read, scan
from dotnetdiag.nettrace.group import COMPRESSED_FORMS
from dotnetdiag.nettrace.piece import Place

THREADS = 2
FEED_BYTES = 1 << 20
ENOUGH_S = 0.33
GATES = {
    "headers": 30.0,
    "payloads": 12.0,
    "flood counts": 0.15,
    "mixed counts": 0.28,
    "flood info": 0.25,
    "streaming": 150.0,
    "fall-back": 1.0,
}
ENVIRONMENT = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # whatever is installed has its bytecode
Ints = npt.NDArray[np.int64]


def oracle_seconds(path: Path, *arguments: str) -> float:
    """The oracle's own time."""
    done = subprocess.run([*oracle(), "count", str(path), *arguments], env=ENVIRONMENT, capture_output=True, check=True)
    return float(json.loads(done.stdout)["seconds"])


def headers(data: bytes, pool: ThreadPoolExecutor) -> int:
    """Events, over all header columns in batches."""
    return sum(len(batch) for batch in scan(data).iter_batches(executor=pool))


def whole(data: bytes, pool: ThreadPoolExecutor) -> int:
    """Events, over one set of columns."""
    return len(read(data, executor=pool))


@dataclass
class Payloads:
    """All payload columns of a file: how many values, and how many rows that broke."""

    pool: ThreadPoolExecutor
    values: int = 0
    broken: int = 0

    def run(self, data: bytes) -> Payloads:
        """Read it all."""
        for _, table in events.tables(scan(data).iter_batches(), executor=self.pool):
            self.values += len(table.columns) * len(table)
            self.broken += table.undecodable_count
        return self


def repeated(act: Callable[[], object]) -> float:
    """Seconds of one call, as the mean of as many as fill a third of a second: the other side runs as long."""
    took, calls = 0.0, 0
    while took < ENOUGH_S:
        took += seconds(act)
        calls += 1
    return took / calls


def without_compiler(data: bytes) -> float:
    """Million events per second of the fall-back, over every sixteenth event block."""
    scanned = scan(data)
    scanned.counts()
    blocks = [
        (run.form, *bounds)
        for run in scanned._indexed().runs
        for bounds in zip(run.starts.tolist(), run.ends.tolist(), strict=True)
    ]
    chosen = blocks[::16]
    assert all(form in COMPRESSED_FORMS for form, _, _ in chosen)
    view, rows = memoryview(data), 0

    def act() -> None:
        nonlocal rows
        rows = sum(len(fallback.decode(view, start, end, form, Place()).headers) for form, start, end in chosen)

    best = min(seconds(act) for _ in range(3))
    return rows / best / 1e6


def one_process(command: list[str]) -> None:
    """Run to the end."""
    subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)


# streaming ------------------------------------------------------------------------------------------------------------


def large_file(gigabytes: float) -> Path:
    """A file made by the writer, kept in the cache."""
    path = CACHE / f"written-{gigabytes:g}.nettrace"
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    count = 250_000
    columns = HeaderColumns.allocate(count)
    columns.metadata_id[:] = rng.integers(1, 20, count)
    columns.processor[:] = 0xFFFFFFFF
    columns.stack[:] = rng.integers(1, 500, count)
    columns.payload_length[:] = rng.integers(10, 120, count)
    columns.payload_offset[:] = rng.integers(0, 1000, count)
    columns.is_sorted[:] = np.arange(count) % 2000 == 0
    columns.capture_thread[:] = columns.thread[:] = 11_720 + np.arange(count) // 2000 % 3
    payload = rng.integers(0, 255, 4096).astype(np.uint8)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file, Writer(file, process_id=1) as writer:
        for number in range(1, 20):
            writer.add_metadata(Metadata(metadata_id=number, provider="Benchmark", event_id=number, name=f"E{number}"))
        turn = 0
        while file.tell() < gigabytes * 1e9:
            for number in range(1, 500):  # other stacks in every segment: interning must not grow without end
                writer.add_stack([turn << 32 | 64 * number + frame for frame in range(1 + number % 30)])
            for thread in range(3):
                rows = columns.capture_thread == 11_720 + thread
                columns.sequence[rows] = 1 + turn * int(rows.sum()) + np.arange(rows.sum())
            columns.time[:] = turn * 1_000_000_000 + np.cumsum(rng.integers(100, 3000, count))
            writer.write_events(columns, payload)
            writer.write_sequence_point()
            turn += 1
    unfinished.rename(path)
    return path


def _peak_kb() -> int:
    """Most memory of this program so far; ``ru_maxrss`` would begin with that of the process that started it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def stream(path: Path) -> None:
    """What the separate process does: feed the file, and print what came of it."""
    reader, count, begin = Reader(), 0, _peak_kb()

    def act() -> None:
        nonlocal count
        with path.open("rb") as source:
            while piece := source.read(FEED_BYTES):
                for batch in reader.feed(piece):
                    count += len(batch)
        count += sum(len(batch) for batch in reader.close())

    took = seconds(act)
    peak = _peak_kb()
    print(json.dumps({"events": count, "s": took, "mb": peak / 1024, "start": begin / 1024, "ok": reader.complete}))


# all ------------------------------------------------------------------------------------------------------------------


def verdict(name: str, figure: float, *, most: bool = False) -> str:
    """``ok`` or by what it fails."""
    gate = GATES[name]
    good = figure <= gate if most else figure >= gate
    return "ok" if good else f"FAILS {'≤' if most else '≥'} {gate:g}"


def measure(name: str, rounds: int, show: Callable[[str, float, str], None], figures: dict[str, object]) -> None:
    """One trace."""
    path = trace(name)
    data = path.read_bytes()
    with ThreadPoolExecutor(THREADS - 1) as pool:  # the caller's thread works too
        count = headers(data, pool)
        payloads = Payloads(pool).run(data)
        if payloads.broken:
            raise SystemExit(f"{name}: {payloads.broken} payloads were not decoded")
        print(f"{name}: {count:,} events, {len(data) / 1e6:.0f} MB, {payloads.values:,} payload values", flush=True)
        against = partial(oracle_seconds, path)
        found = pairs(lambda: repeated(lambda: headers(data, pool)), against, rounds)
        fast, slow = count / found.median_a / 1e6, count / found.median_b / 1e6
        show(f"headers, {fast:.1f} against {slow:.2f} M events/s", 1 / found.ratio, verdict("headers", 1 / found.ratio))
        figures[f"{name} headers M/s"], figures[f"{name} headers ×"] = fast, 1 / found.ratio
        found = pairs(lambda: repeated(lambda: whole(data, pool)), against, rounds)
        show(f"headers, whole, {count / found.median_a / 1e6:.1f} M events/s", 1 / found.ratio, "")
        figures[f"{name} whole ×"] = 1 / found.ratio
        found = pairs(
            lambda: repeated(lambda: Payloads(pool).run(data)), partial(oracle_seconds, path, "decode"), rounds
        )
        fast, slow = count / found.median_a / 1e6, count / found.median_b / 1e6
        ratio = 1 / found.ratio
        show(f"payloads, {fast:.1f} against {slow:.2f} M events/s", ratio, verdict("payloads", ratio))
        figures[f"{name} payloads M/s"], figures[f"{name} payloads ×"] = fast, ratio
    text = f"import dotnetdiag; dotnetdiag.open({str(path)!r}).counts()"
    verb = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", "info", str(path)]
    for what, ours in {"counts": [sys.executable, "-c", text], "info": verb}.items():
        found = pairs(partial(one_process, ours), lambda: one_process([*oracle(), "count", str(path)]), rounds)
        gate = verdict(f"{name} {what}", found.ratio, most=True) if f"{name} {what}" in GATES else ""
        show(f"{what}, {found.median_a * 1e3:.0f} against {found.median_b * 1e3:.0f} ms", found.ratio, gate)
        figures[f"{name} {what} of the time"] = found.ratio
    speed = without_compiler(data)
    show("fall-back, M events/s", speed, verdict("fall-back", speed))
    figures[f"{name} fall-back M/s"] = speed


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stream-gb", type=float, default=2.0)
    parser.add_argument("--no-record", action="store_true", help="do not add a row to RESULTS.md")
    parser.add_argument("--stream-only", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stream_only:
        stream(options.stream_only)
        return
    figures: dict[str, object] = {"kernels": "compiled" if COMPILED else "not compiled"}

    def show(what: str, figure: float, judged: str) -> None:
        print(f"  {what:<60} {figure:8.2f}  {judged}", flush=True)

    for name in ("flood", "mixed"):
        measure(name, options.rounds, show, figures)
    path = large_file(options.stream_gb)
    command = [sys.executable, __file__, "--stream-only", str(path)]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    if not said["ok"]:
        raise SystemExit("the large file was not read to its end")
    size = path.stat().st_size / 1e9
    print(f"streaming: {said['events']:,} events, {size:.2f} GB in {said['s']:.1f} s")
    show(f"peak memory in MB ({said['start']:.0f} before)", said["mb"], verdict("streaming", said["mb"], most=True))
    figures[f"streaming {size:.1f} GB MB"] = said["mb"]
    figures["load"] = os.getloadavg()[0]
    if not options.no_record:
        append("decode", figures, dotnet=VERSION)


if __name__ == "__main__":
    main()
