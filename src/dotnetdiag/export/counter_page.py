"""Counters over time as one HTML page, drawn by a script of its own; nothing is loaded from anywhere.

The data are JSON in a script element of another type, with every ``<`` escaped; names are set as text only; and a Content-Security-Policy
lets the page's script run, by its hash, and nothing else::

    {"title": …, "facts": [...],
     "charts": [{"title": …, "unit": …, "description": …, "lines": [{"label": …, "ms": [...], "values": [number|null, …]}]}]}
"""

from __future__ import annotations

import json
from typing import IO, Any

from dotnetdiag.export.counter_charts import ChartLine, charts_of, counters_only
from dotnetdiag.export.pages import asset, digest
from dotnetdiag.export.texts import clean


def write(result: object, file: IO[bytes], *, name: str = "") -> None:
    """Write counters; ``name`` is that of the recording. Raises UsageError for anything else."""
    counters = counters_only(result, "a page of counters")
    charts, left_out = charts_of(counters)
    facts = [f"{len(counters):,} values of {len(counters.series):,} series", str(counters.rows.losses), *counters.notes]
    facts += [f"{left_out:,} points are left out"] if left_out else []
    data = {
        "title": clean(f"Counters of {name}" if name else "Counters"),
        "facts": [clean(fact) for fact in facts if fact],
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit,
                "description": chart.description,
                "lines": [_line(line) for line in chart.lines],
            }
            for chart in charts
        ],
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    before, after = page().split("@DATA@")
    file.write(before.encode("utf-8"))
    file.write(text.encode("ascii"))
    file.write(after.encode("utf-8"))


def _line(line: ChartLine) -> dict[str, Any]:
    values = [None if value != value else value for value in line.values.tolist()]
    return {"label": line.label, "ms": line.ms.round(3).tolist(), "values": values}


def page() -> str:
    """The page with everything but its data, which go to ``@DATA@``."""
    script = asset("counters/counters.js").strip()
    text = asset("counters/counters.html")
    for mark, part in {
        "@SCRIPTS@": f"'sha256-{digest(script)}'",
        "@STYLE@": asset("counters/counters.css").strip(),
        "@PAGE@": script,
    }.items():
        text = text.replace(mark, part, 1)
    return text
