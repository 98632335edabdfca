"""Commands for recorded files: ``trace info``, ``events``, ``dump``, ``convert``, ``trim``, ``filter``, ``merge``,
``redact``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import ARGUMENT_ERROR, SESSION_ERROR, compatible_code, is_compatible
from dotnetdiag.cli.files import STDIN, FilePath, RecordingPath, shown_path
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import require_within, say_losses, say_losses_of
from dotnetdiag.cli.options import formats_option, json_option
from dotnetdiag.cli.output import (
    CHOICES,
    TABLE,
    format_option,
    refuse_second_output,
    refuse_terminal,
    show,
    to_stdout,
)
from dotnetdiag.cli.render import echo, fits, json_text, table
from dotnetdiag.cli.times import seconds_between, time_options
from dotnetdiag.cli.trace_report import state_option, view_of, view_options
from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import LEAST_WIDTH, aligned, cells, cut, padded, shortened

if TYPE_CHECKING:
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.trace_events import EventsOptions
    from dotnetdiag.recipes.trace_rewrite import Rewritten
    from dotnetdiag.trace.trace import Trace

_FILE = RecordingPath()
F = TypeVar("F", bound=Callable[..., Any])


def _file(function: F) -> F:
    return click.argument("file", type=_FILE)(function)


def _output(*, required: bool) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function = click.option("--force", is_flag=True, help="Overwrite a file that is there.")(function)
        return click.option(
            "-o",
            "--output",
            type=FilePath(),
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
    be_lean()
    from dotnetdiag.recipes.contents import describe
    from dotnetdiag.recipes.trace_files import open_trace

    contents = describe(open_trace(file))
    show(
        form,
        contents.tables,
        people=lambda: _show_contents(contents, None if everything else 20),
        document=contents.to_json,
    )


def _part(begin_ms: float, end_ms: float) -> str:
    return f"{begin_ms / 1e3:,.4f} s to {end_ms / 1e3:,.4f} s of it: {(end_ms - begin_ms) / 1e3:,.4f} s"


def _show_contents(contents: TraceContents, threads: int | None) -> None:
    lost = "not known: the format does not tell" if contents.lost is None else f"{contents.lost:,}"
    rows = [
        ("Format", contents.format),
        ("Verdict", contents.verdict + (f", but {contents.lost:,} events were lost" if contents.lost else "")),
        ("Size", f"{contents.size_bytes:,} bytes"),
        ("Start", contents.start or "-"),
        ("Duration", f"{contents.duration_ms / 1e3:,.4f} s"),
        *(() if contents.part_ms is None else [("Part", _part(*contents.part_ms))]),
        ("Events", f"{contents.events:,}"),
        ("Lost", lost),
        *(("", f"{count:,} of capture thread {thread}") for thread, count in contents.lost_by_thread.items()),
    ]
    for process in contents.processes:
        said = [process.command_line, process.runtime, process.os, process.architecture]
        rows.append(("Process", "  ".join(str(text) for text in (process.pid, *said) if text is not None)))
    rows += [("Warning", warning) for warning in contents.warnings]
    for label, text in rows:
        echo(f"{label:<10}{text}")
    rows_of_events = [
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
    _events_table(("provider", "event", *numbers), rows_of_events)
    echo()
    shown = contents.threads[:threads]
    names = [(str(one.tid), str(one.pid or "-"), f"{one.events:,}", one.name or "") for one in shown]
    table(("thread", "process", "events", "name"), names, right=("thread", "process", "events"))
    if len(shown) < len(contents.threads):
        echo(f"and {len(contents.threads) - len(shown)} more threads (--all)")


def _events_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """On a terminal that is too narrow a provider stands above its events."""
    numbers = columns[2:]
    if fits(columns, rows):
        table(columns, rows, right=numbers)
        return
    by_provider: dict[str, list[tuple[str, ...]]] = {}
    for provider, event, *more in rows:
        by_provider.setdefault(provider, []).append((clean(event), *more))
    widths = [max(map(cells, column)) for column in zip(numbers, *(row[2:] for row in rows), strict=True)]
    width = shutil.get_terminal_size().columns
    room = max(width - sum(widths) - 2 * len(widths) - 2, LEAST_WIDTH)

    def line(name: str, more: Sequence[str]) -> str:
        ends = (padded(cell, width, right=True) for cell, width in zip(more, widths, strict=True))
        return "  ".join([padded(shortened(name, room), room), *ends])

    echo(f"  {line('event', numbers)}")
    for provider, own in by_provider.items():
        echo(shortened(clean(provider), width))
        for event, *more in own:
            echo(f"  {line(event, more)}")


@click.command(cls=Command)
@_file
@click.option("--provider", "providers", multiple=True, help="Only events of these providers.")
@click.option("--event", "names", multiple=True, help="Only these: GC/Start, GCStart_V2, or Provider/Event.")
@click.option("--where", help='A filter, as in: Duration > 5 and Path ~ "^/api"')
@click.option(
    "--fields", multiple=True, help="Payload fields (and, but for jsonl, keys like ms and tid), in this order."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many events.")
@time_options
@click.option(
    "--format",
    "form",
    type=click.Choice(CHOICES),
    help="How to print them.  [default: what the name after -o ends in; otherwise table]",
)
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option(
    "--names/--numbers",
    "value_names",
    default=None,
    help="What the runtime numbers, as in Reason=Induced: by name or by number.  [default: names; of jsonl: numbers]",
)
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
    time: str | None,
    form: str | None,
    value_names: bool | None,
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

    form = form or _form_of(output)
    if stacks and form != "jsonl":
        raise UsageError("--stacks needs --format jsonl")
    if output is not None:
        from dotnetdiag.recipes.outputs import check_outputs

        check_outputs([output], force=force, sources=[file])
    start_s, end_s = seconds_between(start, end, time)
    options = trace_events.EventsOptions(
        providers=_names(providers),
        names=_names(names),
        where=where,
        fields=_names(fields),
        limit=limit,
        start_s=start_s,
        end_s=end_s,
        stacks=stacks,
        value_names=value_names,
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
        "table": partial(_write_table, width=None if output is not None else _terminal_width()),
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


_READ_BY_PEOPLE = ("", ".txt", ".log")


def _form_of(output: Path | None) -> str:
    """What the name of a file promises."""
    from dotnetdiag.recipes.outputs import is_stream

    if output is None or output.suffix.lower() in _READ_BY_PEOPLE or is_stream(output):
        return TABLE
    from dotnetdiag.export import format_of

    return format_of(str(output), table=True).name


def _terminal_width() -> int | None:
    """None: stdout is no terminal."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def _write_table(trace: Trace, options: EventsOptions, file: IO[bytes], *, width: int | None) -> int:
    """Lines for people; cut to the width of a terminal, whole where they go elsewhere."""
    from dotnetdiag.recipes.trace_events import iter_shown, right_aligned, select, text_rows

    found = select(trace, options)
    count = 0

    def line(text: str) -> None:
        cleaned = clean(text)
        shown = cleaned if width is None else cut(cleaned, width)
        file.write((shown + "\n").encode("utf-8", "backslashreplace"))

    if options.fields:
        right, widths = right_aligned(found, options.fields), list[int]()
        for rows in text_rows(found, options.fields, options):
            cleaned = [tuple(map(clean, row)) for row in rows]
            if not count:
                widths = _widths([options.fields, *cleaned], width)
                line(aligned(options.fields, widths, right))
            for row in cleaned:
                line(aligned(row, widths, right, shorten=width is not None))
            count += len(rows)
        if not count:
            line("  ".join(options.fields))
        return count
    line(f"{'ms':>14}  {'tid':>8}  event")
    for event in iter_shown(found, options):
        payload = " ".join(f"{name}={value}" for name, value in event.payload)
        head, rest = f"{event.ms:>14,.4f}  {event.tid:>8}  ", f"/{event.event}  {payload}"
        room = len(event.provider) if width is None else width - len(head) - len(rest)
        line(head + shortened(event.provider, max(room, LEAST_WIDTH)) + rest)
        count += 1
    return count


WIDEST = 60
"""A column that is not cut is no wider because of a few long values."""


def _widths(rows: Sequence[Sequence[str]], terminal: int | None) -> list[int]:
    """Of columns, by the rows that come first; on a terminal the widest give way until all fit."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    if terminal is None:
        return [min(width, WIDEST) for width in widths]
    room = terminal - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    return widths


@click.command(cls=Command)
@_file
@click.option("--events", "with_events", is_flag=True, help="Also the header of every event.")
@format_option
def dump(file: Path, with_events: bool, form: str) -> None:
    """Show the blocks of a trace FILE with their offsets and headers.

    \b
    dotnetdiag trace dump app.nettrace | head
    """
    from dotnetdiag._dataclasses import as_dict
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
            one = as_dict(block)
            if with_events and block.has_events:
                one["events"] = [as_dict(event) for event in iter_events(trace, block)]
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


def _rewritten(rewrite: Callable[..., Rewritten], *source: Any, output: Path, form: str, **options: Any) -> None:
    """Write ``output``, and say what is in it; on stderr where it is stdout."""
    from dotnetdiag.recipes.outputs import is_stdout

    aside = is_stdout(output)
    refuse_second_output(form, to_stdout=aside)
    done = rewrite(*source, output, **options)
    for damage in done.damage:
        echo(f"warning: {damage}; what was whole is in the output", err=True)
    for note in done.notes:
        echo(f"note: {note}", err=True)

    def people() -> None:
        events = "" if done.events is None else f"{done.events:,} events, "
        echo(f"{shown_path(done.path)}: {events}{done.size_bytes:,} bytes", err=aside)
        for name, count in done.replaced.items():
            echo(f"  {name}: {count:,} redacted", err=aside)
        for name, count in done.blanked.items():
            echo(f"  {name}: {count:,} bytes blanked", err=aside)
        for file, pid, number in done.renumbered:
            echo(f"  process {pid} of {file} is {number} here: another file has a process {pid}", err=aside)

    show(form, done.tables, people=people, document=done.to_json, err=aside)


@click.command(cls=Command)
@_file
@formats_option(
    "Formats to write, given several times or with commas: speedscope, chromium, perfetto, firefox, pprof, collapsed, "
    "flamegraph, json; the methods as csv, jsonl, parquet, sqlite, markdown, html; nettrace.",
    required=True,
)
@click.option(
    "--nettrace-version",
    type=click.Choice(["4", "5", "6"]),
    help="Write nettrace anew in this version.  [default: FILE byte for byte; what is cut is made whole]",
)
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
    dotnetdiag trace convert app.nettrace --format perfetto       what happened over time, for https://ui.perfetto.dev
    dotnetdiag trace convert app.nettrace --format firefox        the same for https://profiler.firefox.com
    dotnetdiag trace convert app.nettrace --format flamegraph     one HTML file, for a browser without a network

    Each file is named after FILE, or after -o. The options for what to show are those of `trace report`; nettrace takes
    none of them.
    """
    be_lean()
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file
    from dotnetdiag.recipes.outputs import is_stdout
    from dotnetdiag.recipes.trace_files import open_trace

    if file == STDIN and output is None:
        raise UsageError("what comes from stdin has no name to write beside: name a file with -o")
    version = None if nettrace_version is None else int(nettrace_version)
    options = ConvertOptions(view=view_of(**view), nettrace_version=version, force=force, suffixes=is_compatible())
    names = formats
    context = click.get_current_context()
    is_given = any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in view)
    if {*names} == {"nettrace"} and is_given and not is_compatible():
        raise UsageError(
            "nettrace has the whole recording: leave out the options for what to show, or cut it with trace trim or filter"
        )
    others = tuple(name for name in names if name != "nettrace")
    if others != names and output is None and version is None and file.suffix == ".nettrace":
        open_trace(file)  # it may be none
        _say_kept(file)
        names = others
    with compatible_code(FormatError, SESSION_ERROR if is_compatible() and _says_nettrace(file) else ARGUMENT_ERROR):
        made = convert_file(file, names, output, options) if names else []
    for one in made[:1]:
        say_losses(file.name, one.lost, one.damage)
    for note in dict.fromkeys(note for one in made for note in one.notes):
        echo(f"note: {note}", err=True)
    for one in made:
        if one.kept:
            _say_kept(one.path)
    made = [one for one in made if not one.kept]
    aside = any(is_stdout(one.path) for one in made)
    if as_json:
        files = [{"path": str(one.path), "format": one.format, "size_bytes": one.size_bytes} for one in made]
        json_text(files, err=aside)
        return
    for one in made:
        echo(f"{shown_path(one.path)}: {one.size_bytes:,} bytes", err=aside)


def _says_nettrace(file: Path) -> bool:
    """Whether it begins as one, however little of it is there."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(8) == b"Nettrace"


def _say_kept(path: Path) -> None:
    echo(f"note: {path.name} is a nettrace file already, and stays as it is", err=True)


_strict = click.option("--strict", is_flag=True, help="Drop also what names methods, types and processes.")


@click.command(cls=Command)
@_file
@time_options
@_strict
@_output(required=True)
@format_option
def trim(
    file: Path,
    start: str | None,
    end: str | None,
    time: str | None,
    strict: bool,
    output: Path,
    force: bool,
    form: str,
) -> None:
    """Keep a range of time of a trace FILE.

    Kept as well: method, module and type events and the rundown, which stacks need. Times stay relative to the start
    of FILE.

    \b
    dotnetdiag trace trim app.nettrace --from 10s --to 12.5s -o part.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import trim as trim_file

    if start is None and end is None and time is None:
        raise UsageError("give --from, --to, or --time")
    times = dict(zip(("start_s", "end_s"), seconds_between(start, end, time), strict=True))
    _rewritten(trim_file, file, output=output, form=form, strict=strict, force=force, **times)


@click.command("filter", cls=Command)
@_file
@click.option("--providers", multiple=True, help="Keep the events of these providers.")
@click.option("--events", "names", multiple=True, help="Keep these events.")
@_strict
@_output(required=True)
@format_option
def filter_command(
    file: Path,
    providers: tuple[str, ...],
    names: tuple[str, ...],
    strict: bool,
    output: Path,
    force: bool,
    form: str,
) -> None:
    """Keep some providers and events of a trace FILE.

    Kept as well: method, module and type events and the rundown, which stacks need.

    \b
    dotnetdiag trace filter app.nettrace --providers System.Net.Http -o http.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import filter_events

    if not _names(providers) and not _names(names):
        raise UsageError("nothing to filter by: give --providers or --events")
    chosen = {"providers": _names(providers), "names": _names(names)}
    _rewritten(filter_events, file, output=output, form=form, strict=strict, force=force, **chosen)


@click.command(cls=Command)
@click.argument("files", type=_FILE, nargs=-1, required=True, metavar="FILE FILE...")
@_output(required=True)
@format_option
def merge(files: tuple[Path, ...], output: Path, force: bool, form: str) -> None:
    """Make one trace (nettrace 6) of several, in time order.

    Clocks of one machine are taken as they are; others are aligned by the UTC dates of the files, to the millisecond.
    Processes of different files stay apart, also when they have one pid.

    \b
    dotnetdiag trace merge web.nettrace worker.nettrace -o both.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import merge_files

    _rewritten(merge_files, files, output=output, form=form, force=force)


@click.command(cls=Command)
@_file
@click.option("--field", "fields", multiple=True, help="Also this one: Provider/Event.Field")
@click.option(
    "--force-partial", is_flag=True, help="Also a FILE that is damaged: all that is not understood is blanked."
)
@_output(required=True)
@format_option
def redact(file: Path, fields: tuple[str, ...], force_partial: bool, output: Path, force: bool, form: str) -> None:
    """Copy a trace FILE with command lines, environments and chosen texts made unreadable.

    Texts keep their length; everything else is the same byte for byte. A FILE with parts that are not understood is refused.

    \b
    dotnetdiag trace redact app.nettrace --field MyCompany/Login.User -o safe.nettrace
    """
    from dotnetdiag.recipes.trace_rewrite import redact_file

    _rewritten(redact_file, file, output=output, form=form, fields=fields, force_partial=force_partial, force=force)


COMMANDS = (info, events, dump, convert, trim, filter_command, merge, redact)
