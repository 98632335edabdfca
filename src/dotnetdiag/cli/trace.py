"""``trace``: record, and look into recordings."""

from __future__ import annotations

import click

from dotnetdiag.cli.lazy import LazyGroup

ENTRIES = {
    "collect": ("trace_collect", "collect", "Record a trace of one process."),
    "watch": ("trace_watch", "watch", "Show events as they happen, one a line."),
    "ps": ("processes", "ps", "List the .NET processes that can be reached."),
    "list-profiles": ("trace_collect", "list_profiles", "Show the named sets of providers."),
    "info": ("trace_files", "info", "What is in a recording: events, losses, threads, whether it is whole."),
    "events": ("trace_files", "events", "The events of a recording, as a table, JSON lines, CSV or Parquet."),
    "report": (
        "trace_report",
        "report",
        "What stands out in a recording; where the time goes, what allocates, what throws …",
    ),
    "sql": ("trace_sql", "sql", "Ask recordings in SQL: events and reports are tables."),
    "diff": ("trace_report", "diff", "What became slower from one recording to another; for CI."),
    "convert": ("trace_files", "convert", "Write a recording in another format."),
    "trim": ("trace_files", "trim", "Cut a recording to a range of time."),
    "filter": ("trace_files", "filter_command", "Keep some providers and events of a recording."),
    "merge": ("trace_files", "merge", "Make one recording of two."),
    "redact": ("trace_files", "redact", "Blank out command lines, environment and fields of a recording."),
    "dump": ("trace_files", "dump", "The blocks of a recording with their offsets, for debugging the format."),
    "user-events": (
        "trace_collect",
        "user_events",
        "Have a runtime write to the kernel's user_events (Linux, .NET 10).",
    ),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def trace() -> None:
    """Record traces, and look into them. A FILE to read may be -: what stdin brings."""
