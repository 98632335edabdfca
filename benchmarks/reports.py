"""``trace report FILE gc`` and ``jit`` against TraceEvent's own analysis of the same file: whole processes in alternating pairs; and what the
other reports take.

    python benchmarks/reports.py [rounds] [--no-record] [--pairs]

On the traces of :mod:`traces` but ``flood``. Wanted: gc and jit in a fifth of the time of
``gcstats`` and ``jitstats``, which read the file with TraceEvent, and each report in 150 MB. Ours print what people read, and then all rows as
JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import run
from benchmarks.record import append, pairs
from benchmarks.traces import VERSION, oracle, trace
from tests.live.runtimes import unpack

FASTER, MOST_MB = 5.0, 150.0
THEIRS = {"gc": ("gcstats", "collections"), "jit": ("jitstats", "compilations")}
ROWS = (
    ("exceptions", "thrown"),
    ("requests", "requested"),
    ("logs", "requested"),
    ("gc", "many"),
    ("advice", "many"),
    ("advice", "long"),
    ("startup", "long"),
    ("threads", "sampled"),
    ("advice", "sampled"),
    ("startup", "sampled"),
    ("tasks", "awaited"),
)
"""What has a row for each of very many, and what asks all questions of them."""
PAGES = ("many", "long", "requested", "thrown", "sampled", "awaited")
"""Of what a page of all reports is written."""
OTHERS = (
    "allocations",
    "exceptions",
    "contention",
    "threadpool",
    "tasks",
    "loader",
    "threads",
    "requests",
    "logs",
    "startup",
    "advice",
)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--no-record", action="store_true", help="do not add a row to RESULTS.md")
    parser.add_argument("--pairs", action="store_true", help="gc and jit against TraceEvent alone: some minutes")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    root = unpack()
    environment = {"DOTNET_ROOT": str(root / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    ours = [str(Path(sysconfig.get_path("scripts")) / "dotnetdiag"), "trace", "report"]
    figures: dict[str, float] = {}
    peaks: dict[str, float] = {}

    def measured(label: str, command: list[str]) -> float:
        usage = run(command, environment)
        if usage.exit_code:
            raise SystemExit(f"{' '.join(command)}: exit code {usage.exit_code}")
        peaks[label] = max(peaks.get(label, 0.0), usage.peak_bytes / 1e6)
        return usage.wall_s

    for kind, (verb, name) in THEIRS.items():
        for of in (name, "mixed", "long"):
            file, label = str(trace(of)), f"{kind} {of}"
            commands = {f"{label} ours": [*ours, file, kind], f"{label} theirs": [*oracle(), verb, file]}
            a, b = (partial(measured, who, command) for who, command in commands.items())
            found = pairs(a, b, options.rounds)
            as_json = [measured(f"{label} json", [*commands[f"{label} ours"], "--json"]) for _ in range(options.rounds)]
            figures |= {
                f"{label} ×": 1 / found.ratio,
                f"{label} s": found.median_a,
                f"{label} theirs s": found.median_b,
                f"{label} json s": median(as_json),
            }
    for kind in () if options.pairs else OTHERS:
        figures[f"{kind} mixed s"] = measured(f"{kind} mixed ours", [*ours, str(trace("mixed")), kind])
    for kind, of in () if options.pairs else ROWS:
        figures[f"{kind} {of} s"] = measured(f"{kind} {of} ours", [*ours, str(trace(of)), kind])
    with TemporaryDirectory() as folder:
        for of in () if options.pairs else PAGES:
            page = str(Path(folder) / f"{of}.html")
            figures[f"page {of} s"] = measured(f"page {of} ours", [*ours, str(trace(of)), "all", "--html", page])
    figures |= {f"{label} MB": peak for label, peak in peaks.items()}
    for label, value in figures.items():
        print(f"{label:<28} {value:.3f}")
    for label, value in figures.items():
        if label.endswith(" ×"):
            print(f"{label} {'ok' if value >= FASTER else 'FAILS'} ≥ {FASTER:g}")
        if label.endswith("ours MB"):
            print(f"{label} {'ok' if value <= MOST_MB else 'FAILS'} ≤ {MOST_MB:g}")
    if not options.no_record:
        append("reports.py", {**figures, "rounds": options.rounds}, dotnet=VERSION)


if __name__ == "__main__":
    main()
