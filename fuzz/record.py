"""One row in ``RESULTS.md`` for each run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import machine, versions

RESULTS = Path(__file__).with_name("RESULTS.md")
_HEADER = """\
# Results of fuzzing

One row for each run of `make fuzz`, or of `fuzz/server.py`, newest last. No case crashed, raised what is not an error of ours, took more
than 1 s or 512 MB, unless the last column says so.

| date | machine | versions | seconds | cases (per second) | kept inputs | failures |
|---|---|---|---|---|---|---|
"""


def append(
    how: str, cases: Sequence[str], kept: Sequence[str], failures: Sequence[str], *, file: Path = RESULTS
) -> None:
    """Add a row to the results. ``how``: the seconds, and what was special."""
    if not file.exists():
        file.write_text(_HEADER, encoding="utf-8")
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    row = [when, machine(), versions(), how, ", ".join(cases), ", ".join(kept), ", ".join(failures) or "none"]
    with file.open("a", encoding="utf-8") as out:
        out.write("| " + " | ".join(row) + " |\n")
