"""A flood of events captured by both tools: what the collector costs, and what is lost.

The ``flood`` workload (2 threads × 2,000,000 events of 64 bytes) with 16 MB and with 256 MB of buffer in the target; a new workload
process for each run, the tools in turns. Processor time and peak memory are of the collector's whole process, its start included;
lost is 4,000,000 less the events in the file.

Wanted: processor time ≤ 0.5×, memory ≤ 1×, lost ≤ 1.05×. Run: ``python benchmarks/capture.py [rounds]``.
"""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import Usage, start
from benchmarks.record import append
from tests.live.runtimes import Target, unpack, workload

from dotnetdiag.nettrace import scan

THREADS, EACH = 2, 2_000_000
MORE = ("--rundown", "false", "-o")
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5"


def capture(tool: list[str], environment: dict[str, str], buffer_mb: int, path: Path) -> tuple[Usage, int]:
    """One run: the collector's usage, and how many of the events are missing."""
    with workload("10", "flood", f"threads={THREADS}", f"each={EACH}", "size=64", "wait=stdin") as target:
        collector = start(
            [
                *tool,
                "collect",
                "-p",
                str(target.pid),
                "--providers",
                PROVIDERS,
                "--buffersize",
                str(buffer_mb),
                *MORE,
                str(path),
            ],
            environment,
        )
        wait_for_session(target, path)
        target.say()
        target.expect("done flood")
        target.process.wait(60)
        usage = collector.finish()
    assert usage.exit_code == 0, usage
    arrived = max(count for count, _ in scan(path.read_bytes()).counts().values())  # the floods'; few others are there
    path.unlink()
    return usage, THREADS * EACH - arrived


def wait_for_session(target: Target, path: Path) -> None:
    """Until the file is there, and a second for the session to be: dotnet-trace writes nothing before it has a buffer full."""
    ends = time.monotonic() + 30
    while not path.exists():
        assert target.alive
        assert time.monotonic() < ends, "the collector did not start"
        time.sleep(0.01)
    time.sleep(1.0)


def main(rounds: int) -> None:
    folder = unpack()
    environment = {"DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    tools = {
        "ours": [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "trace"],
        "theirs": [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll")],
    }
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "flood.nettrace"
        for buffer_mb in (16, 256):
            found: dict[str, list[tuple[Usage, int]]] = {"ours": [], "theirs": []}
            for turn in range(rounds):
                for name in ("ours", "theirs") if turn % 2 else ("theirs", "ours"):
                    found[name].append(capture(tools[name], environment, buffer_mb, path))
                    usage, lost = found[name][-1]
                    print(
                        f"{buffer_mb:>4} MB {name:<7} cpu {usage.user_s:.2f}+{usage.system_s:.2f} s  {usage.peak_bytes / 1e6:.1f} MB  lost {lost}"
                    )
            report(buffer_mb, rounds, found)


def report(buffer_mb: int, rounds: int, found: dict[str, list[tuple[Usage, int]]]) -> None:
    pairs = list(zip(found["ours"], found["theirs"], strict=True))
    lost = {name: statistics.median(lost for _, lost in found[name]) for name in found}
    figures: dict[str, object] = {
        "buffer MB": buffer_mb,
        "cpu ratio": statistics.median(ours.cpu_s / theirs.cpu_s for (ours, _), (theirs, _) in pairs),
        "ours cpu s": statistics.median(usage.cpu_s for usage, _ in found["ours"]),
        "dotnet-trace cpu s": statistics.median(usage.cpu_s for usage, _ in found["theirs"]),
        "memory ratio": statistics.median(ours.peak_bytes / theirs.peak_bytes for (ours, _), (theirs, _) in pairs),
        "ours lost": int(lost["ours"]),
        "dotnet-trace lost": int(lost["theirs"]),
        "lost ratio": lost["ours"] / lost["theirs"] if lost["theirs"] else float(lost["ours"] > 0),
        "rounds": rounds,
    }
    for name, value in figures.items():
        print(f"{name:<20} {value:.3f}" if isinstance(value, float) else f"{name:<20} {value}")
    print("wanted: cpu ratio <= 0.5, memory ratio <= 1, lost ratio <= 1.05")
    append("capture.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
