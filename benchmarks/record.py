"""What all benchmarks share: runs in alternating pairs, and one row in ``RESULTS.md`` for each run.

A row says what kind of machine it was and which versions; never a host's name.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
PACKAGES = ("dotnetdiag", "numpy")
_HEADER = """\
# Results of the benchmarks

One row for each run, newest last; what the figures mean stands in the file of that name in this folder. Ratios are
medians over runs in alternating pairs, so that a busy machine is busy for both.

| date | benchmark | machine | versions | figures |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Figures of two things that took turns. ``a[i]`` and ``b[i]`` were measured right after each other."""

    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of ``a[i] / b[i]``."""
        return statistics.median(one / other for one, other in zip(self.a, self.b, strict=True))

    @property
    def median_a(self) -> float:
        """Median of ``a``."""
        return statistics.median(self.a)

    @property
    def median_b(self) -> float:
        """Median of ``b``."""
        return statistics.median(self.b)


def seconds(act: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def pairs(a: Callable[[], object], b: Callable[[], object], rounds: int = 5) -> Pairs:
    """Run ``a`` and ``b`` in turns after one unmeasured run of each.

    A figure is what the call returns when that is a float (its own idea of the seconds it took), else its wall time.
    """

    def figure(act: Callable[[], object]) -> float:
        begin = time.perf_counter()
        made = act()
        wall = time.perf_counter() - begin
        return made if isinstance(made, float) else wall

    figure(a), figure(b)
    found = [(figure(a), figure(b)) if turn % 2 else (figure(b), figure(a))[::-1] for turn in range(rounds)]
    return Pairs(a=tuple(one for one, _ in found), b=tuple(other for _, other in found))


def machine() -> str:
    """Processor model and number of processors this process may use."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {usable} CPUs, {platform.system()} {platform.machine()}"


def versions(**more: str) -> str:
    """Python, our packages, and what the caller adds (``dotnet="10.0.14"``)."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "?"
    return ", ".join(f"{name} {number}" for name, number in {**found, **more}.items())


def append(benchmark: str, figures: Mapping[str, object], *, file: Path = RESULTS, **more_versions: str) -> None:
    """Add a row to the results; numbers are written with three digits that count."""
    texts = (
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in figures.items()
    )
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    row = [when, benchmark, machine(), versions(**more_versions), "; ".join(texts)]
    if not file.exists():
        file.write_text(_HEADER, encoding="utf-8")
    with file.open("a", encoding="utf-8") as out:
        out.write("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |\n")
