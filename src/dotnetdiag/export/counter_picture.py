"""Counters over time as a picture (PNG). Needs matplotlib (extra ``plot``)."""

from __future__ import annotations

from typing import IO
from warnings import catch_warnings, filterwarnings

from dotnetdiag.errors import MissingDependency
from dotnetdiag.export.counter_charts import charts_of, counters_only
from dotnetdiag.export.texts import clean

MOST_CHARTS = 200
"""Of one picture, which is 40,000 points high then; of the others it says that they are left out."""
LEGEND_LINES = 12
"""Lines that a legend names: more would hide the chart."""
_WIDTH, _HEIGHT = 12.0, 2.0
_DPI = 100


def write(result: object, file: IO[bytes], *, name: str = "") -> None:
    """Write counters; ``name`` is that of the recording. Raises UsageError for anything else, MissingDependency without matplotlib."""
    counters = counters_only(result, "a picture of counters")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("matplotlib", extra="plot", purpose="a picture as PNG") from error
    charts, left_out = charts_of(counters)
    shown = charts[:MOST_CHARTS]
    figure = Figure(figsize=(_WIDTH, _HEIGHT * max(len(shown), 1) + 1), layout="constrained")
    FigureCanvasAgg(figure)
    title = f"Counters of {name}" if name else "Counters"
    title += f"; {len(charts) - len(shown):,} charts are left out" if len(charts) > len(shown) else ""
    title += f"; {left_out:,} points are left out" if left_out else ""
    figure.suptitle(_plain(clean(title)))
    axes = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)[:, 0]
    for chart, axis in zip(shown, axes, strict=False):
        drawn = [axis.plot(line.ms / 1e3, line.values, ".-", markersize=3, linewidth=1)[0] for line in chart.lines]
        axis.set_title(_plain(chart.title), loc="left", fontsize="small")
        axis.set_ylabel(_plain(chart.unit), fontsize="small")
        axis.tick_params(labelsize="small")
        axis.grid(visible=True, alpha=0.3)
        labels = [_plain(line.label or "without tags") for line in chart.lines]
        if len(labels) > 1 or chart.lines[0].label:
            axis.legend(
                drawn[:LEGEND_LINES], labels[:LEGEND_LINES], fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1)
            )
    if not shown:
        axes[0].text(0.5, 0.5, "there are no values of counters", ha="center", transform=axes[0].transAxes)
    axes[-1].set_xlabel("seconds since the start")
    with catch_warnings():
        filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names may be in any script; it draws a box
        figure.savefig(file, format="png", dpi=_DPI)


def _plain(text: str) -> str:
    """What matplotlib takes as it is: a dollar begins a formula, and what begins with ``_`` is in no legend."""
    text = text.replace("$", "\\$")
    return f" {text}" if text.startswith("_") else text
