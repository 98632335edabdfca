"""``stack report`` beside ``dotnet-trace collect`` with the same session, as whole processes, in turns.

Both attach to the ``stacks`` workload on .NET 10, sample its threads, have the names of methods written, and end; ours also
resolves and prints, theirs leaves a file that another run has to convert. dotnet-trace documents durations from one second
on (``dd:hh:mm:ss``), and that is what the ratio is of. It takes ``00:00:00.02`` as well: the 20 ms that ours lets the
sampler run; that ratio is written down beside it. Of either, 0.1 s is the runtime's, which looks at its buffers ten times a
second.

Wanted: wall time ≤ 0.5×. Run: ``python benchmarks/stack.py [rounds]``.
"""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import run
from benchmarks.record import append, pairs
from tests.live.runtimes import unpack, workload

from dotnetdiag.recipes.stack_report import RUNS_S

PROVIDER = "Microsoft-DotNETCore-SampleProfiler:0:4"


def main(rounds: int) -> None:
    folder = unpack()
    environment = {"DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    ours = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "stack", "report", "-p"]
    theirs = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll"), "collect", "-p"]
    memory: dict[str, list[int]] = {"ours": [], "theirs": []}
    with workload("10", "stacks", "linger=stdin") as target, tempfile.TemporaryDirectory() as place:
        file = Path(place) / "x.nettrace"

        def report() -> float:
            used = run([*ours, str(target.pid)], environment)
            assert used.exit_code == 0
            memory["ours"].append(used.peak_bytes)
            return used.wall_s

        def collect(duration: str) -> float:
            file.unlink(missing_ok=True)
            words = [str(target.pid), "--providers", PROVIDER, "--duration", duration, "-o", str(file)]
            used = run([*theirs, *words], environment)
            assert used.exit_code == 0
            assert file.stat().st_size
            memory["theirs"].append(used.peak_bytes)
            return used.wall_s

        shortest = pairs(report, lambda: collect("00:00:00:01"), rounds)
        equal = pairs(report, lambda: collect(f"00:00:00.{round(RUNS_S[0] * 100):02}"), rounds)
    figures: dict[str, object] = {
        "wall ratio": shortest.ratio,
        "ours s": shortest.median_a,
        "dotnet-trace s": shortest.median_b,
        "wall ratio at 20 ms": equal.ratio,
        "dotnet-trace at 20 ms s": equal.median_b,
        "memory ratio": statistics.median(memory["ours"]) / statistics.median(memory["theirs"]),
        "ours MB": statistics.median(memory["ours"]) / 1e6,
        "rounds": rounds,
    }
    for name, value in figures.items():
        print(f"{name:<36} {value:.3f}" if isinstance(value, float) else f"{name:<36} {value}")
    print("wanted: wall ratio <= 0.5")
    append("stack.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
