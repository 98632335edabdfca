"""Counters over time as one HTML page, drawn by a script of its own; nothing is loaded from anywhere.

See :mod:`dotnetdiag.export.pages` for what keeps it safe. The data::

    {"title": …, "facts": [...],
     "charts": [{"title": …, "unit": …, "description": …, "lines": [{"label": …, "ms": [...], "values": [number|null, …]}]}]}
"""

from __future__ import annotations

from typing import IO, Any

from dotnetdiag.export.counter_charts import ChartLine, charts_of, counters_only
from dotnetdiag.export.pages import Page
from dotnetdiag.export.texts import plain

PAGE = Page(
    title="Counters", body="counters/counters.html", styles=["counters/counters.css"], scripts=["counters/counters.js"]
)


def write(result: object, file: IO[bytes], *, name: str = "") -> None:
    """Write counters; ``name`` is that of the recording. Raises UsageError for anything else."""
    counters = counters_only(result, "a page of counters")
    charts, left_out = charts_of(counters)
    facts = [f"{len(counters):,} values of {len(counters.series):,} series", str(counters.rows.losses), *counters.notes]
    facts += [f"{left_out:,} points are left out"] if left_out else []
    data = {
        "title": plain(f"Counters of {name}" if name else "Counters"),
        "facts": [plain(fact) for fact in facts if fact],
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
    PAGE.write(data, file)


def _line(line: ChartLine) -> dict[str, Any]:
    values = [None if value != value else value for value in line.values.tolist()]
    return {"label": line.label, "ms": line.ms.round(3).tolist(), "values": values}
