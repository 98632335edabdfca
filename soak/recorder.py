"""The flight recorder on a flood: are memory and disk flat, does each dump read clean, and does it hold the last minute?

The ``flood`` workload writes as fast as it can into ``dotnetdiag trace collect --ring``, which is asked for a dump every minute. The flood
is measured for a few seconds first, so that the ring has the room that the window needs. Each dump must be complete, lose nothing that the
target did not lose itself, and reach from before the window's begin to the moment when it was asked for.

    python soak/recorder.py [--minutes 10] [--window 60] [--threads 1] [--size 0] [--no-record]
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import machine, versions
from soak.record import record
from soak.run import PROVIDERS, resident_bytes
from tests.live.runtimes import Target, workload

from dotnetdiag.nettrace import BlockKind, count_losses, header_fields, iter_blocks

COLLECT = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", "collect", "--json", "--providers", PROVIDERS]
KEPT = 2
ROOM = 3
"""Of the ring, above what the flood was measured to write in the window: it is not always equally fast."""
GROWTH_MB = 64.0
"""So much more at the end than when the window was first full is growth and no noise, unless a dump has so much more too: a flood is not
always equally fast.
"""
TRIAL_S = 5.0
DUMP_S = 120.0
_ABOUT = """\
One row for each run of the flight recorder on a flood, newest last. Memory is resident, of the process that records: when the window was first
full, at the end, and the most while a dump was written. Disk is what its folder had: the dumps that are kept. *reach* is how far the dump that
reaches least goes back from the moment when it was asked for.
"""
_COLUMNS = (
    "date", "machine", "versions", "minutes", "window s", "MB/s", "dumps", "not clean", "least reach s", "lost in the target",
    "memory MB", "disk MB",
)  # fmt: skip


@dataclass(kw_only=True)
class Outcome:
    """Of one run; sizes in bytes."""

    window_s: float
    rate: float = 0.0
    memory: list[int] = field(default_factory=list)
    """At each minute from when the window was full, before the dump."""
    beside: list[int] = field(default_factory=list)
    """The same without what the dump has."""
    disk: list[int] = field(default_factory=list)
    peak: int = 0
    reaches: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lost: int = 0
    dumps: int = 0
    unclean: int = 0


def rate_of_flood(words: list[str]) -> float:
    """Bytes per second of the recording."""
    with workload("10", *words) as target, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.nettrace"
        recording = _recording(target, path, "--duration", f"{TRIAL_S:.0f}s")
        target.say()
        recording.communicate(timeout=DUMP_S)
        return path.stat().st_size / TRIAL_S


def _recording(target: Target, path: Path, *options: str) -> subprocess.Popen[str]:
    """Begun: it has said so."""
    process = subprocess.Popen(
        [*COLLECT, "-p", str(target.pid), "-o", str(path), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Recording"):
            return process
    raise AssertionError(f"it ended with {process.wait()}")


def soak(words: list[str], *, minutes: int, window_s: int, ring_bytes: int) -> Outcome:
    """Record, and have a dump written every minute."""
    outcome = Outcome(window_s=window_s)
    with tempfile.TemporaryDirectory() as name, workload("10", *words) as target, ExitStack() as ending:
        folder = Path(name)
        options = ["--ring", f"{window_s}s", "--ring-size", str(ring_bytes), "--keep", str(KEPT), "--dump-on", "signal"]
        recorder = _recording(target, folder / "soak.nettrace", *options)
        assert recorder.stderr is not None
        ending.callback(recorder.kill)
        ended = threading.Event()
        ending.callback(ended.set)
        watcher = threading.Thread(target=_watch_peak, args=(recorder.pid, outcome, ended))
        watcher.start()
        target.say()
        begin = time.monotonic()
        for minute in range(1, minutes + 1):
            ended.wait(max(0.0, begin + 60 * minute - time.monotonic()))
            memory, disk = resident_bytes(recorder.pid), _bytes_in(folder)
            if 60 * minute > window_s:
                outcome.memory.append(memory)
                outcome.disk.append(disk)
            print(f"{minute:4} min  {memory / 1e6:8.1f} MB resident  {disk / 1e6:8.1f} MB on disk", flush=True)
            asked = time.clock_gettime_ns(time.CLOCK_MONOTONIC)  # what events have on Linux
            recorder.send_signal(signal.SIGUSR1)
            path = _path_written(recorder.stderr)
            if 60 * minute > window_s:
                outcome.beside.append(memory - path.stat().st_size)
            _check(path, asked, min(float(window_s), 60.0 * minute - 1), outcome)
        recorder.terminate()  # SIGINT may be ignored: what a script starts in the background inherits that
        out, said = recorder.communicate(timeout=DUMP_S)
        ended.set()
        watcher.join()
        if recorder.returncode:
            outcome.problems.append(f"it ended with {recorder.returncode}: {said[-300:]}")
        else:
            told = json.loads(out)
            outcome.lost = told["lost_events"] or 0
            outcome.problems += [f"{file['path']}: {file['problem']}" for file in told["files"] if file["problem"]]
            if not told["complete"]:
                outcome.problems.append("the session has no end")
    return outcome


def _watch_peak(pid: int, outcome: Outcome, ended: threading.Event) -> None:
    while not ended.wait(0.5):
        with suppress(OSError, ValueError):  # it has just ended
            outcome.peak = max(outcome.peak, resident_bytes(pid))


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _path_written(stderr: IO[str]) -> Path:
    """Of the next dump."""
    for line in stderr:
        if line.startswith("Wrote "):
            return Path(line.removeprefix("Wrote ").partition("  ")[0])
    raise AssertionError("the recorder has ended")


def _check(path: Path, asked: int, window_s: float, outcome: Outcome) -> None:
    """Whether a dump is whole and goes from the begin of the window to the moment when it was asked for."""
    outcome.dumps += 1
    with path.open("rb") as file:
        counted = count_losses(file)
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data, memoryview(data) as view:
        blocks = list(iter_blocks(view))
        points = [number for number, block in enumerate(blocks) if block.kind is BlockKind.SEQUENCE_POINT]
        # behind the last sequence point are the names of methods
        times = [header_fields(block, view) for block in blocks[: points[-1]] if block.kind is BlockKind.EVENT]
    reach = (asked - min(one["min_time"] for one in times)) / 1e9
    late = (asked - max(one["max_time"] for one in times)) / 1e9
    outcome.reaches.append(reach)
    found = []
    if not counted.complete:
        found.append("it has no end")
    if reach < window_s:
        found.append(f"it goes back {reach:.2f} s")
    if late > 0:
        found.append(f"it ends {late:.3f} s before it was asked for")
    print(
        f"          {path.name}: {reach:.2f} s, {counted.lost} lost in it{''.join(f'; {one}' for one in found)}",
        flush=True,
    )
    outcome.unclean += bool(found)
    outcome.problems += [f"{path.name}: {one}" for one in found]


def main() -> int:
    """Measure, soak, judge, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=int(os.environ.get("SOAK_RECORDER_MINUTES", "10")))
    parser.add_argument("--window", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--no-record", action="store_true")
    chosen = parser.parse_args()
    words = [
        "flood",
        f"threads={chosen.threads}",
        "each=2000000000",
        f"size={chosen.size}",
        "wait=stdin",
        "linger=stdin",
    ]
    rate = rate_of_flood(words)
    ring_bytes = int(rate * chosen.window * ROOM)
    print(f"{rate / 1e6:.1f} MB/s: a ring of {ring_bytes / 1e6:.0f} MB", flush=True)
    outcome = soak(words, minutes=chosen.minutes, window_s=chosen.window, ring_bytes=ring_bytes)
    outcome.rate = rate
    early, late = outcome.memory[0] / 1e6, outcome.memory[-1] / 1e6
    if min(outcome.beside[-1] - outcome.beside[0], outcome.memory[-1] - outcome.memory[0]) > GROWTH_MB * 1e6:
        outcome.problems.append(f"memory grew from {early:.1f} to {late:.1f} MB")
    if max(outcome.disk) > KEPT * 1.1 * ring_bytes:  # the files that are kept, and one that is written
        outcome.problems.append(f"{max(outcome.disk) / 1e6:.1f} MB on disk")
    beside = ", ".join(f"{size / 1e6:.1f}" for size in outcome.beside)
    print(
        f"memory {early:.1f} MB early, {late:.1f} MB late, {outcome.peak / 1e6:.1f} MB at most; beside what a dump has {beside} MB"
    )
    if not chosen.no_record:
        _record(outcome, chosen.minutes, early, late)
    for problem in outcome.problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


def _record(outcome: Outcome, minutes: int, early: float, late: float) -> None:
    row = [
        datetime.now(UTC).strftime("%Y-%m-%d"),
        machine(),
        versions(dotnet="10.0.14"),
        str(minutes),
        f"{outcome.window_s:.0f}",
        f"{outcome.rate / 1e6:.1f}",
        str(outcome.dumps),
        str(outcome.unclean),
        f"{min(outcome.reaches[1:] or outcome.reaches):.2f}",
        f"{outcome.lost:,}",
        f"{early:.1f}, {late:.1f}, {outcome.peak / 1e6:.1f}",
        f"{max(outcome.disk) / 1e6:.1f}",
    ]
    record(_ABOUT, _COLUMNS, row)


if __name__ == "__main__":
    sys.exit(main())
