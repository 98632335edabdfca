"""The traces that benchmarks read: recorded from real runtimes once (one is made), and kept outside of the checkout.

============  ==========  ============================================================================================
trace         events      how
============  ==========  ============================================================================================
flood         4 million   two threads write ``Blob(thread, n, 64 bytes)`` as fast as they can, each event with its stack
mixed         1 million   the gc-verbose profile and the sample profiler over a workload that allocates 80 KB arrays:
                          allocation ticks, GC events with bulk values, exceptions, samples, and the rundown
long          5 million   the same for five times as long
collections   300,000     twenty thousand induced collections, as the profile gc-collect has them
many          2 million   a hundred thousand collections of a program that makes large objects
compilations  some 1,000  what a program that does a little of everything lets the compiler do
thrown        2 million   four hundred thousand exceptions, with who caught them
requested     1.4 million two hundred thousand requests, each with one within it, made by :mod:`requested`
sampled       3.2 million samples of eight threads, made by :mod:`sampled`
awaited       3.2 million 1.6 million awaits, five in each other, made by :mod:`awaited`
============  ==========  ============================================================================================

How often the collector runs follows from the processor's caches: on one machine mixed has 2,000 collections and 67 MB, on another 32,000 and 109.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import awaited, requested, sampled
from tests.live.runtimes import Target, unpack, workload

from dotnetdiag.client import Client, TraceSession
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD

CACHE = Path(os.environ.get("DOTNETDIAG_BENCHMARKS") or Path.home() / ".cache" / "dotnetdiag" / "benchmarks")
RUNTIME, VERSION = "10", "10.0.14"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a trace is recorded. ``seconds`` bounds it."""

    workload: tuple[str, ...]
    providers: str
    rundown: bool
    seconds: float = 600.0


RECIPES = {
    "flood": Recipe(
        workload=("flood", "threads=2", "each=2000000", "size=64"),
        providers="Workload-Manifest:0xffffffffffffffff:5",
        rundown=False,
    ),
    "mixed": Recipe(
        workload=("alloc+exceptions", "widgets=1650000", "size=81920", "rounds=1000"),
        providers="Microsoft-Windows-DotNETRuntime:0x8003:5,Microsoft-DotNETCore-SampleProfiler:0:5",
        rundown=True,
    ),
    "long": Recipe(
        workload=("alloc+exceptions", "widgets=8250000", "size=81920", "rounds=5000"),
        providers="Microsoft-Windows-DotNETRuntime:0x8003:5,Microsoft-DotNETCore-SampleProfiler:0:5",
        rundown=True,
    ),
    "collections": Recipe(
        workload=("gc", "gen0=12000", "gen1=6000", "gen2=2000"),
        providers="Microsoft-Windows-DotNETRuntime:0x1:4",
        rundown=True,
    ),
    "many": Recipe(
        workload=("alloc", "widgets=1500000", "size=327680"),
        providers="Microsoft-Windows-DotNETRuntime:0x1:4",
        rundown=True,
    ),
    "compilations": Recipe(
        workload=("generics+async+exceptions+contention+events+cpu+threadpool", "rounds=200", "jobs=8"),
        providers="Microsoft-Windows-DotNETRuntime:0x3000001018:5",
        rundown=True,
    ),
    "thrown": Recipe(
        workload=("exceptions", "rounds=100000"),
        providers="Microsoft-Windows-DotNETRuntime:0x8000:4",
        rundown=True,
    ),
}
MADE = {"requested": requested.make, "sampled": sampled.make, "awaited": awaited.make}


def trace(name: str) -> Path:
    """The file of a trace; recorded when it is not there."""
    path = CACHE / f"{name}.nettrace"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        if name in MADE:
            MADE[name](unfinished)
        else:
            record(RECIPES[name], unfinished)
        unfinished.rename(path)
    return path


def record(recipe: Recipe, path: Path) -> None:
    """Run the workload and save its trace; the session ends when the work is done."""
    modes = recipe.workload[0].count("+") + 1
    with workload(RUNTIME, *recipe.workload, "wait=stdin", "linger=stdin") as target:
        rundown = DEFAULT_RUNDOWN_KEYWORD if recipe.rundown else 0
        with Client(target.pid).trace(recipe.providers, buffer_mb=1024, rundown_keyword=rundown) as session:
            watcher = threading.Thread(target=_stop_when_done, args=(target, session, modes), daemon=True)
            watcher.start()
            session.save(path, duration=recipe.seconds)
            watcher.join(10)


def _stop_when_done(target: Target, session: TraceSession, modes: int) -> None:
    """Let the work begin; stop the session when every mode has said that it is done."""
    assert target.process.stdin is not None
    assert target.process.stdout is not None
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    for _ in range(modes):
        while not (line := target.process.stdout.readline()).startswith(b"done"):
            if not line:
                return
    session.stop()


def oracle() -> list[str]:
    """The command that runs the reference reader; ``DOTNET_ROOT`` need not be set for it."""
    folder = unpack()
    return [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "oracle.dll")]
