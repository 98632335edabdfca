"""``counters``: what programs count and measure."""

from __future__ import annotations

import click

from dotnetdiag.cli.lazy import LazyGroup

ENTRIES = {
    "monitor": ("counters_monitor", "monitor", "Values of counters of running processes, as they change."),
    "collect": ("counters_collect", "collect", "Values of counters of running processes, into a file."),
    "list": ("counters_list", "list_counters", "The meters, instruments and EventCounters that a process has."),
    "watch": ("counters_watch", "watch", "Do something when a counter of a running process crosses a limit."),
    "serve": ("counters_serve", "serve", "Counters of running processes, for Prometheus."),
    "push": ("counters_push", "push", "Counters of running processes, to a collector of OpenTelemetry."),
    "report": ("counters_report", "report", "The values of counters of a recording, as a table, a picture or lines."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def counters() -> None:
    """What programs count and measure: EventCounters, and System.Diagnostics.Metrics."""
