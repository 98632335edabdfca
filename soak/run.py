"""A flood of events watched for a long time: is the memory flat, and is every event accounted for?

Two threads of the ``flood`` workload write as fast as they can while ``dotnetdiag trace watch --json`` prints what it can
keep up with into a pipe, which this program reads and counts. The flood is measured for a few seconds first, so that it
lasts about as long as was asked for. In the end the events shown, filtered and missed must be those that were written.
Then come the sessions of ``soak/sessions.py``, whose targets are in trouble.

    python soak/run.py [--seconds 600] [--sessions-seconds 240] [--buffer-mb 16] [--no-record]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import machine, versions
from soak.record import record
from soak.sessions import default_seconds, judge_and_record, soak_sessions
from tests.live.runtimes import workload

THREADS = 2
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5"
WATCH = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", "watch", "--json", "--providers", PROVIDERS]
ACCOUNT = re.compile(
    r"([\d,]+) events shown, ([\d,]+) filtered out, ([\d,]+) missed in the target, ([\d,]+) missed here"
)
GROWTH_MB = 16.0
"""So much more in the last fifth than in the second is growth and no noise."""
_ABOUT = """\
One row for each run of `make soak`, newest last. Memory is resident, of the process that watches: the largest of the
second fifth of the run and of its last fifth. *unaccounted* is what was written less what was shown, filtered and missed.
"""
_COLUMNS = (
    "date",
    "machine",
    "versions",
    "seconds",
    "written",
    "shown",
    "missed in the target",
    "missed here",
    "memory MB",
    "unaccounted",
)


@dataclass(kw_only=True)
class Outcome:
    """Of one flood. ``memory`` is (seconds, bytes)."""

    seconds: float
    written: int
    shown: int
    filtered: int
    missed_in_target: int
    missed_here: int
    lines: int
    memory: list[tuple[float, int]] = field(default_factory=list)

    @property
    def unaccounted(self) -> int:
        """What nobody says anything of; the runtime's own event at the end may be counted, or not."""
        others = min(self.filtered, 1)
        return self.written + others - self.shown - self.filtered - self.missed_in_target - self.missed_here

    def peak_mb(self, first: float, last: float) -> float:
        """Largest between two shares of the time."""
        end = self.memory[-1][0]
        return max((size for at, size in self.memory if first * end <= at <= last * end), default=0) / 1e6


def flood(each: int, buffer_mb: int, *, quiet: bool) -> Outcome:
    """Watch ``each`` events of each thread."""
    words = ["flood", f"threads={THREADS}", f"each={each}", "size=64", "wait=stdin", "linger=stdin"]
    with workload("10", *words) as target:
        watcher = subprocess.Popen(
            [*WATCH, "-p", str(target.pid), "--buffersize", str(buffer_mb)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert watcher.stdout is not None
        assert watcher.stderr is not None
        assert watcher.stderr.readline().startswith(b"Watching")
        outcome = Outcome(
            seconds=0.0, written=THREADS * each, shown=0, filtered=0, missed_in_target=0, missed_here=0, lines=0
        )
        said: list[str] = []
        threads = [
            threading.Thread(target=_count, args=(watcher.stdout.fileno(), outcome)),
            threading.Thread(target=lambda: said.extend(line.decode() for line in watcher.stderr or ())),
        ]
        for thread in threads:
            thread.start()
        done = threading.Event()
        waiter = threading.Thread(target=lambda: done.set() if target.expect("done flood") else None)
        begin = time.monotonic()
        target.say()
        waiter.start()
        shown_at = 0.0
        while not done.wait(0.5):
            now = time.monotonic() - begin
            outcome.memory.append((now, resident_bytes(watcher.pid)))
            if not quiet and now - shown_at >= 10:
                shown_at = now
                print(f"{now:7.0f} s  {outcome.memory[-1][1] / 1e6:6.1f} MB  {outcome.lines:,} lines", flush=True)
        outcome.seconds = time.monotonic() - begin
        outcome.memory.append((outcome.seconds, resident_bytes(watcher.pid)))
        watcher.send_signal(signal.SIGINT)
        for thread in threads:
            thread.join()
        code = watcher.wait()
    if not quiet:
        print("".join(said[-3:]), end="")
    assert code == 0, (code, said)
    found = ACCOUNT.match(said[-1])
    assert found is not None, said[-1]
    outcome.shown, outcome.filtered, outcome.missed_in_target, outcome.missed_here = (
        int(text.replace(",", "")) for text in found.groups()
    )
    return outcome


def _count(descriptor: int, outcome: Outcome) -> None:
    while data := os.read(descriptor, 1 << 20):
        outcome.lines += data.count(b"\n")


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    """Calibrate, soak, judge, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "600")))
    parser.add_argument("--sessions-seconds", type=float, default=default_seconds())
    parser.add_argument("--buffer-mb", type=int, default=16)
    parser.add_argument("--no-record", action="store_true")
    chosen = parser.parse_args()
    trial = flood(1_000_000, chosen.buffer_mb, quiet=True)
    each = int(trial.written / THREADS / trial.seconds * chosen.seconds)
    print(f"{trial.written / trial.seconds:,.0f} events per second: {each:,} for each thread", flush=True)
    outcome = flood(each, chosen.buffer_mb, quiet=False)
    early, late = outcome.peak_mb(0.2, 0.4), outcome.peak_mb(0.8, 1.0)
    problems = []
    if outcome.unaccounted:
        problems.append(f"{outcome.unaccounted:,} events are not accounted for")
    if outcome.lines != outcome.shown:
        problems.append(f"{outcome.lines:,} lines for {outcome.shown:,} events")
    if late > early + GROWTH_MB:
        problems.append(f"memory grew from {early:.1f} to {late:.1f} MB")
    print(f"memory {early:.1f} MB early, {late:.1f} MB late; unaccounted {outcome.unaccounted}")
    if not chosen.no_record:
        _record(outcome, early, late)
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"sessions whose targets are in trouble: seed {seed}", flush=True)
    failed = judge_and_record(soak_sessions(chosen.sessions_seconds, seed), keep=not chosen.no_record)
    return 1 if problems or failed else 0


def _record(outcome: Outcome, early: float, late: float) -> None:
    row = [
        datetime.now(UTC).strftime("%Y-%m-%d"),
        machine(),
        versions(dotnet="10.0.14"),
        f"{outcome.seconds:.0f}",
        f"{outcome.written:,}",
        f"{outcome.shown:,}",
        f"{outcome.missed_in_target:,}",
        f"{outcome.missed_here:,}",
        f"{early:.1f}, {late:.1f}",
        f"{outcome.unaccounted:,}",
    ]
    record(_ABOUT, _COLUMNS, row)


if __name__ == "__main__":
    sys.exit(main())
