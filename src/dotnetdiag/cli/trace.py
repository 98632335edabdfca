"""``trace``: record, and look into recordings."""

from __future__ import annotations

import click

from dotnetdiag.cli.lazy import LazyGroup

ENTRIES = {
    "collect": ("trace_collect", "collect", "Record a trace of one process."),
    "ps": ("processes", "ps", "List the .NET processes that can be reached."),
    "list-profiles": ("trace_collect", "list_profiles", "Show the named sets of providers."),
    "user-events": (
        "trace_collect",
        "user_events",
        "Have a runtime write to the kernel's user_events (Linux, .NET 10).",
    ),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def trace() -> None:
    """Record traces, and look into them."""
