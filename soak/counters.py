"""Counters of many processes for ten minutes: does every interval have its values, and does nothing grow?

``dotnetdiag counters monitor --all --json`` and ``dotnetdiag counters serve --all``, which is scraped each second, beside workloads on .NET 10, 9,
8 and NativeAOT that stay, and others that come and are killed every few seconds. Of those that stay each interval of a second must have a value
of a series that the runtime tells each time; memory of both is looked at in the second fifth of the run and in the last.

    python soak/counters.py [--seconds 600] [--no-record]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import machine, versions
from soak.record import record
from soak.run import resident_bytes
from tests.live.runtimes import workload

STAYING = ("10", "9", "8", "NativeAOT", "NativeAOT")
COUNTERS = "Workload.Meter,Workload-Counters"
STEADY = ("temperature", {"room": "a,b"})
LIVES_S = (2.0, 12.0)
LATE_MS = 1500.0
GROWTH_MB = 12.0
DOTNETDIAG = [sys.executable, "-m", "dotnetdiag", "counters"]
WAIT_S = 60.0
_ABOUT = """\
One row for each run of the counters of many processes, newest last. *stay* are workloads that run all the time, *came* those that were
started and killed meanwhile; *missed* are intervals of those that stay without a value. Memory is resident: the largest of the second fifth of
the run and of its last fifth.
"""
_COLUMNS = (
    "date", "machine", "versions", "seconds", "stay", "came", "values", "missed", "scrapes", "monitor MB", "serve MB",
)  # fmt: skip


class Monitor:
    """Reads what ``monitor`` prints."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*DOTNETDIAG, "monitor", "--all", "--json", "--counters", COUNTERS],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.values = 0
        self.times: dict[int, list[float]] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            row = json.loads(line)
            self.values += 1
            if (row["instrument"], row["tags"]) == STEADY:
                self.times.setdefault(row["pid"], []).append(row["ms"])

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self._thread.join(WAIT_S)
        assert self.process.wait(WAIT_S) == 0, "it did not end well"


class Served:
    """Scrapes ``serve``."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*DOTNETDIAG, "serve", "--all", "--bind", "127.0.0.1:0", "--counters", COUNTERS],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.address = next(word for line in self.process.stderr for word in line.split() if word.startswith("http"))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.scrapes = 0

    def scrape(self) -> None:
        with urllib.request.urlopen(self.address, timeout=WAIT_S) as page:
            assert b"dotnetdiag_up" in page.read() or not self.scrapes
        self.scrapes += 1

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(WAIT_S) == 0, "it did not end well"


def come_and_go(until: threading.Event, count: list[int]) -> None:
    """Workloads that are killed after a while."""
    chance = random.Random(7)  # the same in each run
    while not until.is_set():
        with suppress(AssertionError), workload(chance.choice(STAYING), "counters+meters"):
            count.append(1)
            until.wait(chance.uniform(*LIVES_S))


def most_mb(seen: list[int], part: int) -> float:
    """The most of the n-th fifth."""
    size = len(seen) // 5
    return max(seen[part * size : (part + 1) * size], default=0) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_COUNTERS_SECONDS", "600")))
    parser.add_argument("--no-record", action="store_true")
    given = parser.parse_args()
    ends = threading.Event()
    came: list[int] = []
    memory: tuple[list[int], list[int]] = ([], [])
    with ExitStack() as stack:
        staying = [stack.enter_context(workload(runtime, "counters+meters")).pid for runtime in STAYING]
        monitor, served = Monitor(), Served()
        guests = threading.Thread(target=come_and_go, args=(ends, came))
        guests.start()
        begin = time.monotonic()
        while time.monotonic() - begin < given.seconds:
            time.sleep(1)
            served.scrape()
            for seen, pid in zip(memory, (monitor.process.pid, served.process.pid), strict=True):
                seen.append(resident_bytes(pid))
        monitor.end()
        served.end()
        ends.set()
        guests.join()
    gaps = [
        round((after - before) / 1000) - 1
        for pid in staying
        for before, after in pairwise(monitor.times.get(pid, [0.0, given.seconds * 1000]))
        if after - before > LATE_MS
    ]
    sizes = [(most_mb(seen, 1), most_mb(seen, 4)) for seen in memory]
    row = [
        datetime.now(UTC).strftime("%Y-%m-%d"), machine(), versions(), f"{given.seconds:.0f}", str(len(STAYING)), str(len(came)),
        f"{monitor.values:,}", str(sum(gaps)), str(served.scrapes), *(f"{early:.1f}, {late:.1f}" for early, late in sizes),
    ]  # fmt: skip
    print("\n".join(f"{name}: {cell}" for name, cell in zip(_COLUMNS, row, strict=True)))
    if not given.no_record:
        record(_ABOUT, _COLUMNS, row)
    problems = [f"{sum(gaps)} intervals have no value"] if gaps else []
    problems += [f"memory grew from {early:.1f} to {late:.1f} MB" for early, late in sizes if late - early > GROWTH_MB]
    if problems:
        sys.exit("; ".join(problems))


if __name__ == "__main__":
    main()
