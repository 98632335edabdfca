"""Commands for recorded files: ``trace info``, ``events``, ``dump``, ``convert``, ``trim``, ``filter``, ``merge``,
``redact``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import is_compatible
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.losses import require_within, say_losses, say_losses_of
from dotnetdiag.cli.options import json_option
from dotnetdiag.cli.output import CHOICES, TABLE, format_option, refuse_terminal, show, to_stdout
from dotnetdiag.cli.render import LEAST_WIDTH, clean, echo, json_text, shortened, table
from dotnetdiag.cli.trace_report import state_option, view_of, view_options
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.trace_events import EventsOptions
    from dotnetdiag.recipes.trace_rewrite import Rewritten
    from dotnetdiag.trace.trace import Trace

_FILE = click.Path(dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])
LONGEST_S = 1e9
"""Thirty years; nanoseconds of three hundred have no room in a column."""


def _file(function: F) -> F:
    return click.argument("file", type=_FILE)(function)


def _output(*, required: bool) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function = click.option("--force", is_flag=True, help="Overwrite a file that is there.")(function)
        return click.option(
            "-o",
            "--output",
            type=_FILE,
            required=required,
            callback=_not_a_terminal,
            help="The file to write; - for stdout, with all that is said on stderr.",
        )(function)

    return decorate


def _not_a_terminal(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and sys.stdout.isatty():
        from dotnetdiag.recipes.outputs import is_stdout

        if is_stdout(path):
            raise UsageError("the output is not for a terminal: name a file with -o, or lead stdout elsewhere")
    return path


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
        from dotnetdiag.durations import parse_duration

        seconds = parse_duration(text)
    if not abs(seconds) <= LONGEST_S:  # also for what is no number
        raise UsageError(f"{text}: no trace is so long")
    return seconds


@click.command(cls=Command)
@_file
@format_option
@click.option("--all", "everything", is_flag=True, help="All threads, not the busiest twenty.")
def info(file: Path, form: str, everything: bool) -> None:
    """Say what is in a trace FILE: events, losses, threads, and whether it is whole.

    \b
    dotnetdiag trace info app.nettrace
    dotnetdiag trace info app.nettrace --json | jq .providers
    """
    lean_numpy()
    from dotnetdiag.recipes.contents import describe
    from dotnetdiag.recipes.trace_files import open_trace

    contents = describe(open_trace(file))
    show(
        form,
        contents.tables,
        people=lambda: _show_contents(contents, None if everything else 20),
        document=contents.to_json,
    )


def _show_contents(contents: TraceContents, threads: int | None) -> None:
    lost = "not known: the format does not tell" if contents.lost is None else f"{contents.lost:,}"
    rows = [
        ("Format", contents.format),
        ("Verdict", contents.verdict + (f", but {contents.lost:,} events were lost" if contents.lost else "")),
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
        echo(f"{label:<10}{text}")
    for thread, count in contents.lost_by_thread.items():
        echo(f"{'':<10}{count:,} of capture thread {thread}")
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
    echo()
    numbers = ("count", "bytes", "per s", "first ms", "last ms")
    table(("provider", "event", *numbers), cells, right=numbers, last_fills=False)
    echo()
    shown = contents.threads[:threads]
    names = [(str(one.tid), str(one.pid or "-"), f"{one.events:,}", one.name or "") for one in shown]
    table(("thread", "process", "events", "name"), names, right=("thread", "process", "events"))
    if len(shown) < len(contents.threads):
        echo(f"and {len(contents.threads) - len(shown)} more threads (--all)")


@click.command(cls=Command)
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
    "--format", "form", type=click.Choice(CHOICES), default=TABLE, show_default=True, help="How to print them."
)
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option("--stacks", is_flag=True, help="With jsonl: add frames, leaf first.")
@_output(required=False)
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
    """Print the events of a trace FILE in time order.

    \b
    dotnetdiag trace events app.nettrace --event GC/Start --where 'Depth > 1'
    dotnetdiag trace events app.nettrace --provider System.Net.Http --format jsonl
    """
    from dotnetdiag.export import find_format
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
    require_within(trace, options.start_s, options.end_s)
    chosen = None if form in ("table", "jsonl", "csv") else find_format(form, table=True)
    if chosen is not None:
        chosen.check()
        if output is None:
            refuse_terminal(form, is_text=chosen.is_text)
    writers: dict[str, Callable[[Trace, EventsOptions, IO[bytes]], object]] = {
        "jsonl": trace_events.write_jsonl,
        "csv": trace_events.write_csv,
        "table": _write_table,
    }

    def write_selected(trace: Trace, options: EventsOptions, file: IO[bytes]) -> None:
        assert chosen is not None
        chosen.write(trace_events.SelectedEvents(trace, options), file)

    write = writers.get(form, write_selected)
    if output is not None:
        from dotnetdiag.recipes.outputs import replacing

        with replacing(output, force=force) as target:
            write(trace, options, target)
        say_losses_of(trace)
        return
    with to_stdout(form) as stream:
        write(trace, options, stream)
    say_losses_of(trace)


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
        file.write((clean(cut) + "\n").encode("utf-8", "backslashreplace"))

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
        head, rest = f"{event.ms:>14,.4f}  {event.tid:>8}  ", f"/{event.event}  {payload}"
        room = len(event.provider) if width is None else width - len(head) - len(rest)
        line(head + shortened(event.provider, max(room, LEAST_WIDTH)) + rest)
        count += 1
    return count


@click.command(cls=Command)
@_file
@click.option("--events", "with_events", is_flag=True, help="Also the header of every event.")
@format_option
def dump(file: Path, with_events: bool, form: str) -> None:
    """Show the blocks of a trace FILE with their offsets and headers.

    \b
    dotnetdiag trace dump app.nettrace | head
    """
    from dataclasses import asdict

    from dotnetdiag.recipes.trace_dump import iter_blocks, iter_events
    from dotnetdiag.recipes.trace_files import open_trace

    trace = open_trace(file)
    if form not in (TABLE, "json"):
        from dotnetdiag.recipes.trace_dump import tables_of

        show(form, lambda: tables_of(trace, events=with_events), people=lambda: None)
        return
    if form == "json":
        blocks = []
        for block in iter_blocks(trace):
            one = asdict(block)
            if with_events and block.has_events:
                one["events"] = [asdict(event) for event in iter_events(trace, block)]
            blocks.append(one)
        json_text({"format": trace.format, "blocks": blocks, "complete": trace.complete, "damage": trace.damage})
        return
    echo(f"{trace.format}, {len(trace.raw.buffer):,} bytes")
    for block in iter_blocks(trace):
        said = " ".join(f"{name}={value}" for name, value in block.fields.items())
        cut = "" if block.whole else f"  CUT: {block.present} bytes are there"
        echo(f"0x{block.offset:08x}  {block.name:<14} content 0x{block.start:08x} +{block.size:<9} {said}{cut}")
        for event in iter_events(trace, block) if with_events and block.has_events else ():
            ids = "".join(f" {key}={value}" for key in ("activity", "related") if (value := getattr(event, key)))
            echo(
                f"  0x{event.offset:08x} +{event.length:<6} {event.provider}/{event.event} id={event.metadata_id} "
                f"seq={event.sequence} thread={event.thread} capture={event.capture_thread} "
                f"cpu={event.processor if event.processor != _NO_PROCESSOR else '-'} stack={event.stack} "
                f"time={event.time}{' sorted' if event.is_sorted else ''}{ids}"
            )
    echo("complete" if trace.complete else f"broken: {trace.damage}")


_NO_PROCESSOR = 0xFFFFFFFF


def _written(done: Rewritten, as_json: bool) -> None:
    """Say what was written; on stderr where that is stdout."""
    from dotnetdiag.recipes.outputs import is_stdout

    aside = is_stdout(done.path)
    for damage in done.damage:
        echo(f"warning: {damage}; what was whole is in the output", err=True)
    if as_json:
        json_text(
            {
                "path": str(done.path),
                "events": done.events,
                "size_bytes": done.size_bytes,
                "redacted": done.replaced,
                "blanked_bytes": done.blanked,
                "renumbered": [
                    {"file": str(file), "process_id": pid, "number": number} for file, pid, number in done.renumbered
                ],
            },
            err=aside,
        )
        return
    events = "" if done.events is None else f"{done.events:,} events, "
    echo(f"{done.path}: {events}{done.size_bytes:,} bytes", err=aside)
    for name, count in done.replaced.items():
        echo(f"  {name}: {count:,} redacted", err=aside)
    for name, count in done.blanked.items():
        echo(f"  {name}: {count:,} bytes blanked", err=aside)
    for file, pid, number in done.renumbered:
        echo(f"  process {pid} of {file} is {number} here: another file has a process {pid}", err=aside)


@click.command(cls=Command)
@_file
@click.option(
    "--format",
    "formats",
    multiple=True,
    required=True,
    metavar="FORMAT",
    help="Formats to write, given several times or with commas: "
    "speedscope, chromium, pprof, collapsed, flamegraph, json; the methods as csv, jsonl, parquet, sqlite, markdown, html; nettrace.",
)
@click.option("--nettrace-version", type=click.Choice(["4", "5", "6"]), help="[default: that of FILE, at least 5]")
@view_options
@state_option("all")
@_output(required=False)
@json_option
def convert(
    file: Path,
    formats: tuple[str, ...],
    nettrace_version: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **view: Any,
) -> None:
    """Write a trace FILE in other formats, for the programs that read them.

    \b
    dotnetdiag trace convert app.nettrace --format speedscope     for https://www.speedscope.app
    dotnetdiag trace convert app.nettrace --format flamegraph     one HTML file, for a browser without a network

    Each file is named after FILE, or after -o. The options for what to show are those of `trace report`; nettrace takes
    none of them.
    """
    lean_numpy()
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file
    from dotnetdiag.recipes.outputs import is_stdout
    from dotnetdiag.recipes.trace_files import open_trace

    version = None if nettrace_version is None else int(nettrace_version)
    options = ConvertOptions(view=view_of(**view), nettrace_version=version, force=force, suffixes=is_compatible())
    names = _names(formats)
    others = tuple(name for name in names if name.lower() != "nettrace")
    if others != names and output is None and version is None and file.suffix == ".nettrace":
        open_trace(file)  # it may be none
        echo(f"note: {file.name} is a nettrace file already, and stays as it is", err=True)
        names = others
    made = convert_file(file, names, output, options) if names else []
    for one in made[:1]:
        say_losses(file.name, one.lost, one.damage)
    for note in dict.fromkeys(note for one in made for note in one.notes):
        echo(f"note: {note}", err=True)
    aside = any(is_stdout(one.path) for one in made)
    if as_json:
        files = [{"path": str(one.path), "format": one.format, "size_bytes": one.size_bytes} for one in made]
        json_text(files, err=aside)
        return
    for one in made:
        echo(f"{one.path}: {one.size_bytes:,} bytes", err=aside)


_strict = click.option("--strict", is_flag=True, help="Drop also what names methods, types and processes.")


@click.command(cls=Command)
@_file
@click.option("--from", "start", help="From so long after the start: 1.5, 1.5s, 2m.")
@click.option("--to", "end", help="Up to so long after the start.")
@_strict
@_output(required=True)
@json_option
def trim(
    file: Path, start: str | None, end: str | None, strict: bool, output: Path, force: bool, as_json: bool
) -> None:
    """Keep a range of time of a trace FILE.

    Kept as well: method, module and type events and the rundown, which stacks need. Times stay relative to the start
    of FILE.

    \b
    dotnetdiag trace trim app.nettrace --from 10s --to 12.5s -o part.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import trim as trim_file

    if start is None and end is None:
        raise UsageError("give --from, --to, or both")
    _written(trim_file(file, output, start_s=_seconds(start), end_s=_seconds(end), strict=strict, force=force), as_json)


@click.command("filter", cls=Command)
@_file
@click.option("--providers", multiple=True, help="Keep the events of these providers.")
@click.option("--events", "names", multiple=True, help="Keep these events.")
@_strict
@_output(required=True)
@json_option
def filter_command(
    file: Path,
    providers: tuple[str, ...],
    names: tuple[str, ...],
    strict: bool,
    output: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Keep some providers and events of a trace FILE.

    Kept as well: method, module and type events and the rundown, which stacks need.

    \b
    dotnetdiag trace filter app.nettrace --providers System.Net.Http -o http.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import filter_events

    if not _names(providers) and not _names(names):
        raise UsageError("nothing to filter by: give --providers or --events")
    _written(
        filter_events(file, output, providers=_names(providers), names=_names(names), strict=strict, force=force),
        as_json,
    )


@click.command(cls=Command)
@click.argument("files", type=_FILE, nargs=-1, required=True, metavar="FILE FILE...")
@_output(required=True)
@json_option
def merge(files: tuple[Path, ...], output: Path, force: bool, as_json: bool) -> None:
    """Make one trace (nettrace 6) of several, in time order.

    Clocks of one machine are taken as they are; others are aligned by the UTC dates of the files, to the millisecond.
    Processes of different files stay apart, also when they have one pid.

    \b
    dotnetdiag trace merge web.nettrace worker.nettrace -o both.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import merge_files

    _written(merge_files(files, output, force=force), as_json)


@click.command(cls=Command)
@_file
@click.option("--field", "fields", multiple=True, help="Also this one: Provider/Event.Field")
@click.option(
    "--force-partial", is_flag=True, help="Also a FILE that is damaged: all that is not understood is blanked."
)
@_output(required=True)
@json_option
def redact(file: Path, fields: tuple[str, ...], force_partial: bool, output: Path, force: bool, as_json: bool) -> None:
    """Copy a trace FILE with command lines, environments and chosen texts made unreadable.

    Texts keep their length; everything else is the same byte for byte. A FILE with parts that are not understood is refused.

    \b
    dotnetdiag trace redact app.nettrace --field MyCompany/Login.User -o safe.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import redact_file

    _written(redact_file(file, output, fields=fields, force_partial=force_partial, force=force), as_json)


COMMANDS = (info, events, dump, convert, trim, filter_command, merge, redact)
