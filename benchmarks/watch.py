"""How long after it was written ``trace watch`` prints an event, and how many it prints in a second.

Latency: the time at which a line is read from the pipe of ``trace watch --json``, less the event's own time, for single
events that come about every 130 ms (collections that the target is asked for one by one would need its help: these are the
counters of System.Runtime at an interval of 1 s, of which every burst counts once). The date of a session is cut to a
millisecond, so a figure may be 1 ms too large. Throughput: a flood with 256 MB of buffer, lines read as fast as they come.

End: from Ctrl-C in the middle of a flood, while all lines are read, to the end of the process.

Wanted: latency ≤ 200 ms, end ≤ 200 ms. Run: ``python benchmarks/watch.py [events]``.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import time
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import append
from tests.live.runtimes import Target, workload

WATCH = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "trace", "watch", "--json"]
COUNTERS = "System.Runtime:0:4:EventCounterIntervalSec=1"
FLOOD = "Workload-Manifest:0xffffffffffffffff:5"


def watching(target: Target, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*WATCH, "-p", str(target.pid), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"Watching")
    return process


def latencies(count: int) -> list[float]:
    """Seconds, one for each burst of counters."""
    found: list[float] = []
    with workload("10", "idle", "seconds=1000") as target:
        watcher = watching(target, "--providers", COUNTERS)
        assert watcher.stdout is not None
        remainder = b""
        while len(found) < count:
            data = remainder + os.read(watcher.stdout.fileno(), 1 << 20)
            now = time.time()
            *lines, remainder = data.split(b"\n")
            written = [json.loads(line)["utc"] for line in lines]
            if written:
                found.append(now - datetime.fromisoformat(written[0][:26] + "+00:00").timestamp())
        watcher.send_signal(signal.SIGINT)
        watcher.communicate()
    return found


def throughput() -> float:
    """Lines per second while a flood is printed."""
    with workload("10", "flood", "threads=2", "each=1500000", "size=64", "wait=stdin", "linger=stdin") as target:
        watcher = watching(target, "--providers", FLOOD)
        assert watcher.stdout is not None
        target.say()
        lines = 0
        begin = time.monotonic()
        while time.monotonic() - begin < 3:
            lines += os.read(watcher.stdout.fileno(), 1 << 20).count(b"\n")
        elapsed = time.monotonic() - begin
        watcher.send_signal(signal.SIGINT)
        watcher.communicate()
    return lines / elapsed


def ends(count: int) -> list[float]:
    """Seconds from Ctrl-C to the end of the process."""
    found = []
    for _ in range(count):
        with workload("10", "flood", "threads=2", "each=50000000", "size=64", "wait=stdin") as target:
            watcher = watching(target, "--providers", FLOOD)
            assert watcher.stdout is not None
            target.say()
            os.read(watcher.stdout.fileno(), 1)
            begin = time.monotonic()
            while time.monotonic() - begin < 1:
                os.read(watcher.stdout.fileno(), 1 << 20)
            begin = time.monotonic()
            watcher.send_signal(signal.SIGINT)
            while os.read(watcher.stdout.fileno(), 1 << 20):
                pass
            watcher.wait(30)
            found.append(time.monotonic() - begin)
            watcher.communicate()
    return found


def main(count: int) -> None:
    found, ended = latencies(count), ends(5)
    figures: dict[str, object] = {
        "latency median ms": statistics.median(found) * 1e3,
        "latency worst ms": max(found) * 1e3,
        "bursts": count,
        "lines per second": throughput(),
        "end after Ctrl-C median ms": statistics.median(ended) * 1e3,
        "end after Ctrl-C worst ms": max(ended) * 1e3,
    }
    for name, value in figures.items():
        print(f"{name:<28} {value:,.1f}" if isinstance(value, float) else f"{name:<28} {value}")
    print("wanted: latency <= 200 ms, end <= 200 ms")
    append("watch.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
