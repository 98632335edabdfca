"""``dotnetdiag ps`` against ``dotnet-trace ps``, whole processes in alternating pairs, with one runtime of each kind to list.

Wanted: wall time ≤ 0.8×, peak memory ≤ 1×. Run: ``python benchmarks/startup.py [rounds]``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import run
from benchmarks.record import append, pairs
from tests.live.runtimes import unpack, workload


def main(rounds: int) -> None:
    folder = unpack()
    ours = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "ps"]
    theirs = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll"), "ps"]
    environment = {"DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}

    def listing(command: list[str]) -> None:  # without the small process that measures memory: it would count for both
        subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)

    with ExitStack() as stack:
        for runtime in ("3.1", "8", "9", "10", "NativeAOT"):
            stack.enter_context(workload(runtime, "idle", "seconds=600"))
        found = pairs(lambda: listing(ours), lambda: listing(theirs), rounds)
        memory = [max(run(command, environment).peak_bytes for _ in range(5)) / 1e6 for command in (ours, theirs)]
    figures = {
        "wall ratio": found.ratio,
        "ours s": found.median_a,
        "dotnet-trace s": found.median_b,
        "memory ratio": memory[0] / memory[1],
        "ours MB": memory[0],
        "dotnet-trace MB": memory[1],
        "rounds": rounds,
    }
    for name, value in figures.items():
        print(f"{name:<16} {value:.3f}")
    print("wanted: wall ratio <= 0.8, memory ratio <= 1")
    append("startup.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
