"""``trace convert --format speedscope`` and ``trace report topN`` against dotnet-trace: whole processes in alternating pairs.

    python benchmarks/convert.py [rounds] [--no-record]

On the trace ``mixed`` of :mod:`traces` (about a million events). Wanted, of each: a wall time ≥ 8 times shorter, and no
more memory. dotnet-trace leaves a file of its own beside the trace, which is removed before each of its runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import Usage, run
from benchmarks.record import append, pairs
from benchmarks.traces import VERSION, trace
from tests.live.runtimes import unpack

FASTER = 8.0


def measure(name: str, ours: list[str], theirs: list[str], folder: Path, rounds: int) -> dict[str, float]:
    """Figures of one verb; both write into ``folder``."""
    root = unpack()
    environment = {"DOTNET_ROOT": str(root / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    usages: dict[str, list[Usage]] = {"ours": [], "theirs": []}

    def measured(who: str, command: list[str]) -> float:
        for left in folder.glob("*.etlx"):
            left.unlink()
        usage = run(command, environment)
        if usage.exit_code:
            raise SystemExit(f"{' '.join(command)}: exit code {usage.exit_code}")
        usages[who].append(usage)
        return usage.wall_s

    found = pairs(lambda: measured("ours", ours), lambda: measured("theirs", theirs), rounds)
    memory = {who: max(one.peak_bytes for one in some) / 1e6 for who, some in usages.items()}
    cpu = {who: min(one.cpu_s for one in some) for who, some in usages.items()}
    return {
        f"{name} ×": 1 / found.ratio,
        f"{name} ours s": found.median_a,
        f"{name} dotnet-trace s": found.median_b,
        f"{name} cpu ×": cpu["theirs"] / cpu["ours"],
        f"{name} ours MB": memory["ours"],
        f"{name} dotnet-trace MB": memory["theirs"],
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rounds", type=int, nargs="?", default=9)
    parser.add_argument("--no-record", action="store_true", help="do not add a row to RESULTS.md")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    root = unpack()
    ours = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "trace"]
    theirs = [str(root / "dotnet" / "dotnet"), str(root / "dotnet-trace" / "dotnet-trace.dll")]
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = str(shutil.copy(trace("mixed"), folder / "mixed.nettrace"))
        convert = ["convert", file, "--format", "Speedscope", "-o"]
        report = ["report", file, "topN"]
        figures |= measure(
            "convert",
            [*ours, *convert, str(folder / "ours.speedscope.json"), "--force"],
            [*theirs, *convert, str(folder / "theirs")],
            folder,
            options.rounds,
        )
        figures |= measure("report", [*ours, *report], [*theirs, *report], folder, options.rounds)
    for label, value in figures.items():
        print(f"{label:<28} {value:.3f}")
    for verb in ("convert", "report"):
        fast = figures[f"{verb} ×"] >= FASTER
        small = figures[f"{verb} ours MB"] <= figures[f"{verb} dotnet-trace MB"]
        print(f"{verb}: {'ok' if fast else 'FAILS'} ≥ {FASTER:g} ×, {'ok' if small else 'FAILS'} memory")
    if not options.no_record:
        append("convert.py", {**figures, "rounds": options.rounds}, dotnet=VERSION)


if __name__ == "__main__":
    main()
