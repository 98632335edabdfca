"""Heaps of 1.6 and 5.6 million objects: collected into a ``.gcdump``, opened, reported, dominated.

The runtime is that of the ``heap`` workload, .NET 10. What it needs to send the heap is seen by a session whose bytes go nowhere: from the
request to the last byte of the walk. Ours is the whole process, ``dotnetdiag gcdump collect``, in turns with that, from its start to the
finished file. The reference for opening is ``oracle.dll gcdump``, which is dotnet-gcdump's own reader, on the file that ours wrote; ours is
the whole process ``dotnetdiag gcdump report``, which reckons what each type keeps alive besides. dotnet-gcdump itself needs a package of its
own and is not run here.

What collecting cannot do without, besides what the runtime needs: 0.06 s of Python and its modules until the session is asked for, and 0.03 to 0.1
s for the file behind all. The runtime answers when it has walked (0.18 and 0.5 s), and then sends; meanwhile numpy is loaded and memory had at
hand. What it sends is taken in 0.08 to 0.1 and 0.24 s, where that into /dev/null takes 0.07 and 0.17: the runtime, who reads and who works on it
share two processors. References are resolved in 0.02 and 0.04 s. The end of the session, 0.1 s later, is not waited for, for another one, which
began before, tells of modules by then (.NET 9 and later; when it began behind the walk it was waited for 0.08 s of 0.46, for 90 MB come faster than
it ends). So of 1.6 million objects, of which sending is 0.26 s in all, 0.06 + 0.18 + 0.07 + 0.02 + 0.03 is 1.4 without a byte being looked at.
Of the report 0.065 s are Python and click, 0.01 s our modules, and 0.08 s the records of 5.9 million nodes; numpy is not loaded.

Wanted: collect <= 1.6 x sending, peak <= 250 MB; dominators and retained sizes of 5.6 million objects <= 3 s; report <= 0.2 x the reference.
Run: ``python benchmarks/heap.py [rounds]``.
"""

from __future__ import annotations

import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import run
from benchmarks.record import append
from tests.live.heaps import heap_workload
from tests.live.runtimes import unpack

import dotnetdiag as dd
from dotnetdiag.recipes.heap_collect import PROVIDERS

SIZES = {"1.6 M": 1_000_000, "5.6 M": 5_000_000}
LEAVES = 300_000
"""Each with a text beside it."""
QUIET_S = 1.0


def sent(pid: int) -> tuple[float, int]:
    """(seconds, bytes) of a walk whose bytes go nowhere."""
    with open("/dev/null", "wb", buffering=0) as nowhere:
        began = ended = time.monotonic()
        size = 0
        with dd.Client(pid).trace(PROVIDERS, buffer_mb=1024, rundown_keyword=0) as session:
            while True:
                try:
                    data = session.read(1 << 20, timeout_s=QUIET_S)
                except dd.TimedOut:
                    return ended - began, size
                nowhere.write(data)
                size += len(data)
                ended = time.monotonic()


def main(rounds: int) -> None:
    folder = unpack()
    environment = {"DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    ours = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "gcdump"]
    theirs = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "oracle.dll"), "gcdump"]
    figures: dict[str, object] = {"rounds": rounds}
    for label, nodes in SIZES.items():
        with (
            heap_workload("10", nodes, LEAVES) as target,
            tempfile.TemporaryDirectory() as place,
        ):
            path = Path(place) / "x.gcdump"
            sending, collecting, peaks = [], [], []
            for _ in range(rounds):
                seconds, size = sent(target.pid)
                sending.append(seconds)
                path.unlink(missing_ok=True)
                used = run([*ours, "collect", "-p", str(target.pid), "-o", str(path)], environment)
                assert used.exit_code == 0
                collecting.append(used.wall_s)
                peaks.append(used.peak_bytes)
            reading, opening, report_peaks = [], [], []
            for _ in range(rounds):
                used = run([*theirs, str(path)], environment)
                assert used.exit_code == 0
                reading.append(used.wall_s)
                used = run([*ours, "report", str(path)], environment)
                assert used.exit_code == 0
                opening.append(used.wall_s)
                report_peaks.append(used.peak_bytes)
            heap = dd.heap(path)
            began = time.monotonic()
            assert len(heap.retained) == heap.nodes
            dominated = time.monotonic() - began
        ratios = [one / other for one, other in zip(collecting, sending, strict=True)]
        figures |= {
            f"{label} sent MB": size / 1e6,
            f"{label} send s": statistics.median(sending),
            f"{label} collect s": statistics.median(collecting),
            f"{label} collect ratio": statistics.median(ratios),
            f"{label} collect peak MB": statistics.median(peaks) / 1e6,
            f"{label} dominators s": dominated,
            f"{label} reference opens s": statistics.median(reading),
            f"{label} report s": statistics.median(opening),
            f"{label} report ratio": statistics.median(opening) / statistics.median(reading),
            f"{label} report peak MB": statistics.median(report_peaks) / 1e6,
        }
    for name, value in figures.items():
        print(f"{name:<32} {value:.3f}" if isinstance(value, float) else f"{name:<32} {value}")
    print("wanted: collect ratio <= 1.6, peak MB <= 250; dominators s <= 3; report ratio <= 0.2")
    append("heap.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
