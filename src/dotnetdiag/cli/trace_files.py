"""Commands for recorded files: ``trace info``, ``events``, ``dump``, ``convert``, ``trim``, ``filter``, ``merge``,
``redact``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.options import json_option
from dotnetdiag.cli.render import json_text, table
from dotnetdiag.errors import OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.trace_events import EventsOptions
    from dotnetdiag.trace.trace import Trace

_FILE = click.Path(dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


def _file(function: F) -> F:
    return click.argument("file", type=_FILE)(function)


def _output(function: F) -> F:
    function = click.option("--force", is_flag=True, help="Overwrite the output.")(function)
    return click.option("-o", "--output", type=_FILE, help="The file to write.")(function)


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Options given several times, or with commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _seconds(text: str | None) -> float | None:
    """``1.5``, ``1.5s``, ``2m``: seconds."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        from dotnetdiag.recipes.durations import parse_duration

        seconds = parse_duration(text)
    return seconds


@click.command()
@_file
@json_option
@click.option("--all", "everything", is_flag=True, help="All threads, not the busiest twenty.")
def info(file: Path, as_json: bool, everything: bool) -> None:
    """Say what is in a trace FILE: events, losses, threads, and whether it is whole."""
    from dotnetdiag.recipes.contents import describe
    from dotnetdiag.recipes.trace_files import open_trace

    contents = describe(open_trace(file))
    if as_json:
        json_text(contents.to_json())
        return
    _show_contents(contents, None if everything else 20)


def _show_contents(contents: TraceContents, threads: int | None) -> None:
    lost = "not known: the format does not tell" if contents.lost is None else f"{contents.lost:,}"
    rows = [
        ("Format", contents.format),
        ("Verdict", contents.verdict),
        ("Size", f"{contents.size_bytes:,} bytes"),
        ("Start", contents.start or "-"),
        ("Duration", f"{contents.duration_ms / 1e3:,.4f} s"),
        ("Events", f"{contents.events:,}"),
        ("Lost", lost),
    ]
    for process in contents.processes:
        said = [process.command_line, process.runtime, process.os, process.architecture]
        rows.append(("Process", "  ".join(str(text) for text in (process.pid, *said) if text is not None)))
    rows += [("Warning", warning) for warning in contents.warnings]
    for label, text in rows:
        click.echo(f"{label:<10}{text}")
    for thread, count in contents.lost_by_thread.items():
        click.echo(f"{'':<10}{count:,} of capture thread {thread}")
    cells = [
        (
            row.provider,
            row.event,
            f"{row.count:,}",
            f"{row.bytes:,}",
            "-" if row.rate is None else f"{row.rate:,.1f}",
            f"{row.first_ns / 1e6:,.3f}",
            f"{row.last_ns / 1e6:,.3f}",
        )
        for row in contents.summary
    ]
    click.echo()
    numbers = ("count", "bytes", "per s", "first ms", "last ms")
    table(("provider", "event", *numbers), cells, right=numbers, last_fills=False)
    click.echo()
    shown = contents.threads[:threads]
    names = [(str(one.tid), str(one.pid or "-"), f"{one.events:,}", one.name or "") for one in shown]
    table(("thread", "process", "events", "name"), names, right=("thread", "process", "events"))
    if len(shown) < len(contents.threads):
        click.echo(f"and {len(contents.threads) - len(shown)} more threads (--all)")


@click.command()
@_file
@click.option("--provider", "providers", multiple=True, help="Only events of these providers.")
@click.option("--event", "names", multiple=True, help="Only these: GC/Start, GCStart_V2, or Provider/Event.")
@click.option("--where", help='A filter, as in: Duration > 5 and Path ~ "^/api"')
@click.option(
    "--fields", multiple=True, help="Payload fields (and, but for jsonl, keys like ms and tid), in this order."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many events.")
@click.option("--from", "start", help="From so long after the start: 1.5, 1.5s, 2m.")
@click.option("--to", "end", help="Up to so long after the start.")
@click.option(
    "--format", "form", type=click.Choice(["table", "jsonl", "csv", "parquet"]), default="table", show_default=True
)
@click.option("--stacks", is_flag=True, help="With jsonl: add frames, leaf first.")
@_output
def events(
    file: Path,
    providers: tuple[str, ...],
    names: tuple[str, ...],
    where: str | None,
    fields: tuple[str, ...],
    limit: int | None,
    start: str | None,
    end: str | None,
    form: str,
    stacks: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Print the events of a trace FILE in time order."""
    from dotnetdiag.recipes import trace_events
    from dotnetdiag.recipes.trace_files import open_trace

    if stacks and form != "jsonl":
        raise UsageError("--stacks needs --format jsonl")
    options = trace_events.EventsOptions(
        providers=_names(providers),
        names=_names(names),
        where=where,
        fields=_names(fields),
        limit=limit,
        start_s=_seconds(start),
        end_s=_seconds(end),
        stacks=stacks,
    )
    trace = open_trace(file)
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise UsageError("parquet is not for a terminal: name a file with -o")
    writers: dict[str, Callable[[Trace, EventsOptions, IO[bytes]], int]] = {
        "jsonl": trace_events.write_jsonl,
        "csv": trace_events.write_csv,
        "parquet": trace_events.write_parquet,
        "table": _write_table,
    }
    write = writers[form]
    if output is not None:
        from dotnetdiag.recipes.trace_files import replacing

        with replacing(output, force=force) as target:
            write(trace, options, target)
        return
    stream = sys.stdout.buffer
    try:
        write(trace, options, stream)
        stream.flush()
    except BrokenPipeError as error:  # the reader had enough: `| head`
        raise click.exceptions.Exit(0) from error
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError("stdout", error.strerror or str(error)) from error


def _write_table(trace: Trace, options: EventsOptions, file: IO[bytes]) -> int:
    """Lines for people; cut to the width of a terminal, whole where they go elsewhere."""
    from dotnetdiag.recipes.trace_events import iter_shown, select, text_rows

    width = None
    if sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    found = select(trace, options)
    count = 0

    def line(text: str) -> None:
        cut = text if width is None or len(text) <= width else text[: width - 1] + "…"
        file.write((cut.translate(_CONTROLS) + "\n").encode("utf-8", "backslashreplace"))

    if options.fields:
        line("  ".join(options.fields))
        for rows in text_rows(found, options.fields):
            for row in rows:
                line("  ".join(row))
            count += len(rows)
        return count
    line(f"{'ms':>14}  {'tid':>8}  event")
    for event in iter_shown(found):
        payload = " ".join(f"{name}={value}" for name, value in event.payload)
        line(f"{event.ms:>14,.4f}  {event.tid:>8}  {event.provider}/{event.event}  {payload}")
        count += 1
    return count


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(0x80, 0xA0))}
"""Texts in a trace come from elsewhere: they do not drive the terminal."""

COMMANDS = (info, events)
