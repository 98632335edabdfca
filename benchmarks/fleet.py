"""What it costs to watch the counters of many processes: ``counters monitor`` and ``counters serve`` beside NativeAOT workloads.

Each is a process of its own, measured from when all workloads have given values: processor time as a share of one core, per process and second,
and the most memory that it ever had. ``missed`` counts the intervals without a value of a series that the runtime tells each time, and ``lost``
the events for which a buffer had no room. ``monitor`` prints every value as JSON, which is read; ``serve`` is scraped each second. ``system``:
the System.Runtime meter, some forty series, as both do by default; ``own``: that of the workload too.

dotnet-counters was seen to take 0.6 s to start and 6.3 ms per process and second, one of it for each process; it is not run here.

Wanted: 50 processes at 1 s ≤ 5 % of a core, ≤ 150 MB, nothing missed; per process ≤ 1.26 ms a second (a fifth of dotnet-counters').
Run: ``python benchmarks/fleet.py [processes [seconds]]``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from benchmarks.record import append
from tests.live.runtimes import workload

DOTNETDIAG = str(Path(sysconfig.get_path("scripts")) / "dotnetdiag")
COUNTERS = {"system": "System.Runtime", "own": "System.Runtime,Workload.Meter"}
STEADY = "dotnet.process.memory.working_set"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WAIT_S = 60.0
LATE = 1.5
"""Intervals from one value to the next that mean that one is missing between them."""
SETTLE_S = 3.0


def used_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def most_mb(pid: int) -> float:
    """The most memory that it has had."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    raise AssertionError("the system does not say it")


def missed_intervals(times_ms: Iterable[list[float]]) -> int:
    """How many intervals of a second have no value, of each series' times."""
    return sum(
        round((after - before) / 1000) - 1
        for times in times_ms
        for before, after in itertools.pairwise(times)
        if after - before > LATE * 1000
    )


class Reader:
    """Takes what ``monitor`` prints: when each process gave its steady value."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.times_ms: dict[int, list[float]] = {}
        self.values = 0
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.values += 1
            if STEADY.encode() in line:
                row = json.loads(line)
                self.times_ms.setdefault(row["pid"], []).append(row["ms"])

    def wait(self) -> None:
        self._thread.join(WAIT_S)


def figures(name: str, cpu_s: float, seconds: float, count: int, megabytes: float, missed: int) -> dict[str, object]:
    share, each_ms = cpu_s / seconds * 100, cpu_s / seconds / count * 1000
    print(
        f"{name}: {share:.2f} % of a core, {each_ms:.2f} ms per process and second (of dotnet-counters: {each_ms / 6.3:.2f}), "
        f"{megabytes:.0f} MB, {missed} intervals missed"
    )
    return {f"{name} % of a core": share, "MB": megabytes, "missed": missed}


def monitored(pids: Sequence[int], counters: str, seconds: float) -> tuple[float, float, int]:
    """Processor time, memory, intervals that were missed."""
    words = [word for pid in pids for word in ("-p", str(pid))]
    process = subprocess.Popen(
        [DOTNETDIAG, "counters", "monitor", "--json", "--counters", counters, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    reader = Reader(process)
    ends = time.monotonic() + WAIT_S
    while len(reader.times_ms) < len(pids):
        assert time.monotonic() < ends, f"only {len(reader.times_ms)} of {len(pids)} give values"
        time.sleep(0.1)
    time.sleep(SETTLE_S)
    before, begin = used_s(process.pid), time.monotonic()
    time.sleep(seconds)
    used, took, megabytes = used_s(process.pid) - before, time.monotonic() - begin, most_mb(process.pid)
    process.send_signal(signal.SIGINT)
    reader.wait()
    assert process.wait(WAIT_S) == 0
    return used / took * seconds, megabytes, missed_intervals(reader.times_ms.values())


def served(pids: Sequence[int], counters: str, seconds: float) -> tuple[float, float, int]:
    """The same of ``serve``, scraped each second: a process that is not up then counts as missed."""
    words = [word for pid in pids for word in ("-p", str(pid))]
    process = subprocess.Popen(
        [DOTNETDIAG, "counters", "serve", "--bind", "127.0.0.1:0", "--counters", counters, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    address = next(word for line in process.stderr for word in line.split() if word.startswith("http://"))
    threading.Thread(target=process.stderr.read, daemon=True).start()

    def up() -> int:
        with urllib.request.urlopen(address, timeout=WAIT_S) as page:
            text = page.read().decode()
        return sum(line.startswith("dotnetdiag_up{") and line.endswith(" 1.0") for line in text.splitlines())

    ends = time.monotonic() + WAIT_S
    while up() < len(pids):
        assert time.monotonic() < ends
        time.sleep(0.2)
    time.sleep(SETTLE_S)
    missed, before, begin = 0, used_s(process.pid), time.monotonic()
    while time.monotonic() - begin < seconds:
        missed += len(pids) - up()
        time.sleep(1)
    used, took, megabytes = used_s(process.pid) - before, time.monotonic() - begin, most_mb(process.pid)
    process.send_signal(signal.SIGINT)
    process.wait(WAIT_S)
    return used / took * seconds, megabytes, missed


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    with ExitStack() as stack:
        pids = [stack.enter_context(workload("NativeAOT", "counters+meters")).pid for _ in range(count)]
        for form, counters in COUNTERS.items():
            for name, measure in (("monitor", monitored), ("serve", served)):
                used, megabytes, missed = measure(pids, counters, seconds)
                row = figures(f"{name} {form}", used, seconds, count, megabytes, missed)
                append("fleet", {"processes": count, "seconds": seconds, **row})


if __name__ == "__main__":
    main()
