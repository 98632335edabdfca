"""``trace watch``: events as they happen, one line each; with ``--top`` the methods that take the time."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import TRACING_ERROR
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.launching import source_options, watched
from dotnetdiag.cli.options import provider_options, say_held, say_late
from dotnetdiag.cli.output import CHOICES, TABLE
from dotnetdiag.cli.recording import misspelled_providers
from dotnetdiag.cli.render import echo, stdout_bytes
from dotnetdiag.cli.signals import ending, pressed
from dotnetdiag.cli.standard_streams import lead_stdout_nowhere
from dotnetdiag.cli.trace_live_report import KINDS, Page, check_form, refuse_others, started
from dotnetdiag.cli.trace_top import blocks, top_of, top_options
from dotnetdiag.errors import OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.cli.launching import Source
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.target import Target
    from dotnetdiag.recipes.top import LiveTop, TopOptions
    from dotnetdiag.recipes.watching import Account, LiveEvents, WatchOptions

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # click 8.1 has one kind of it

STREAMED = (TABLE, "jsonl", "csv")
AS_JSON = "--json"
"""What ``--json`` says: lines of events, and the whole of a report."""
TICK_S = 0.1
LAST_LINES_S = 2.0
"""How long the last lines are held for somebody who does not read."""
_NOTE_EVERY_S = 1.0


class _Streamed(_Choice):
    """Some of the formats that other verbs take."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises UsageError for what is no format; :func:`_form` says why of others not all are taken."""
        return value if value in (*CHOICES, AS_JSON) else super().convert(value, param, ctx)


def _form(form: str, report: str | None) -> str:
    """The format that is meant. Raises UsageError that says why one is not taken."""
    if report is not None:
        return "json" if form == AS_JSON else form
    if form in CHOICES and form not in STREAMED:
        raise UsageError(
            f"{form} is written when its end is known, and a watch is read while it runs: table, jsonl, or csv"
        )
    return "jsonl" if form == AS_JSON else form


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Options given several times, or with commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


@click.command(cls=Command)
@source_options
@provider_options
@click.option("--event", "names", multiple=True, help="Only these: GC/Start, GCStart_V2, or Provider/Event.")
@click.option("--where", help='A filter, as in: Duration > 5 and Path ~ "^/api"')
@click.option("--fields", multiple=True, help="Only these payload fields (and keys like level).")
@click.option("--limit", type=click.IntRange(min=0), help="End after so many events.")
@click.option("--duration", help="End after 30s, 5m, 1h30m.")
@click.option("--buffersize", type=click.IntRange(min=1), default=256, show_default=True, help="MB, in the target.")
@top_options
@click.option(
    "--report",
    type=click.Choice(sorted(KINDS)),
    help="At the end a report of what came, as `trace report` has it of a file, instead of events.",
)
@click.option(
    "--html", "page", type=FilePath(), metavar="FILE", help="Write the --report as a page, as `trace report` does."
)
@click.option("--force", is_flag=True, help="Overwrite a page that is there.")
@click.option(
    "--json",
    "form",
    flag_value=AS_JSON,
    help="The same as --format jsonl; with --report all of it as one object.",
)
@click.option(
    "--format",
    "form",
    type=_Streamed(STREAMED),
    default=TABLE,
    show_default=True,
    help="How to print it; the table of a --report also in the other formats of `trace report`.",
)
def watch(
    target: Target | None,
    launch: Launch | None,
    providers: str | None,
    presets: str | None,
    clrevents: str | None,
    clreventlevel: str | None,
    event_filters: tuple[str, ...],
    names: tuple[str, ...],
    where: str | None,
    fields: tuple[str, ...],
    limit: int | None,
    duration: str | None,
    buffersize: int,
    report: str | None,
    page: Path | None,
    force: bool,
    form: str,
    **top: Any,
) -> None:
    """Print the events of a process as they happen: a line each, or with --json the objects of `trace events --format jsonl`; as csv the
    --fields, or else what all events have and the payload as JSON. With --top
    the methods that take its time: in % of the last interval and since the start, alone and with all that they called. With
    --report what a question comes to at the end, with the providers that it needs, and those that are named too.

    Ends with Ctrl-C, after --duration or --limit, or with the process. The last line on stderr says how many events were shown,
    how many --event and --where kept back, and how many were missed: in the target, whose buffers were full, or here.
    Without providers those of the profile dotnet-common are watched.

    \b
    dotnetdiag trace watch -p 1234 --providers System.Net.Http
    dotnetdiag trace watch -n MyApp --clrevents gc --event GC/Start --fields Depth,Reason
    dotnetdiag trace watch -p 1234 --clrevents exception --json | jq .payload.ExceptionMessage
    dotnetdiag trace watch --clrevents exception -- dotnet MyApp.dll
    dotnetdiag trace watch -p 1234 --top 20 --state cpu
    dotnetdiag trace watch -p 1234 --top --interval 10s --json | jq '.rows[0].name'
    dotnetdiag trace watch -p 1234 --top --profile gc-verbose --event GC/AllocationTick
    dotnetdiag trace watch -p 1234 --report gc --duration 30s
    dotnetdiag trace watch -n MyApp --report exceptions --duration 1m --json | jq .by_type
    dotnetdiag trace watch -n MyApp --report advice --duration 1m
    dotnetdiag trace watch -n MyApp --report gc --duration 1m --html gc.html
    dotnetdiag trace watch --report startup --duration 5s -- dotnet MyApp.dll
    """
    from dotnetdiag.recipes.watching import WatchOptions

    form = _form(form, report)
    options = WatchOptions(
        providers=providers,
        presets=presets,
        clr_events=clrevents,
        clr_event_level=clreventlevel,
        event_filters=event_filters,
        names=_names(names),
        where=where,
        fields=_names(fields),
        limit=limit,
        duration=duration,
        buffer_mb=buffersize,
    )
    if report is not None:
        refuse_others(options, top=top["top"])
        _report(target, launch, report, options, form, Page(path=page, force=force))
        return
    if page is not None:
        raise UsageError("--html is of a --report: name its kind")
    _show(target, launch, options, top_of(options, **top), form)


def _show(
    target: Target | None, launch: Launch | None, options: WatchOptions, top: TopOptions | None, form: str
) -> None:
    """Print events as they come, or the methods that ``top`` asks for, until the end."""
    from dotnetdiag.recipes.outcome import exit_of
    from dotnetdiag.recipes.watching import LiveEvents

    question = top or options
    for note in misspelled_providers(question.composed()):  # mistakes are told before anything is waited for
        echo(f"note: {note}", err=True)
    with (
        watched(target, launch) as source,
        _started(source, question) as (live, shown),
        _ends_nicely(live, source),
    ):
        exited = exit_of(source.client)
        source.on_exit(live.stop)
        echo("Watching. Press <Ctrl+C> to end.", err=True)
        if isinstance(shown, LiveEvents):
            finished = _print(live, _pieces(live, form, options.fields), stdout_bytes())
        else:
            finished = _print(live, blocks(shown, form), stdout_bytes(), says_missed=False)
    if not finished:
        lead_stdout_nowhere()
    is_filtered = bool(options.names or options.where)
    _end(live, shown.notes, source, exited, taken="shown" if shown is live else "read", is_filtered=is_filtered)


def _end(
    live: LiveEvents,
    notes: Iterable[str],
    source: Source,
    exited: Callable[..., int | None],
    *,
    taken: str,
    is_filtered: bool,
) -> None:
    """Say how the session ended, and end as that says: also of a process that was gone before."""
    from dotnetdiag.recipes.outcome import EXIT_WAIT_S

    for note in (*notes, *([live.ended] if live.ended else [])):
        echo(f"note: {note}", err=True)
    gone = exited(EXIT_WAIT_S if live.ended else 0)
    if gone is not None:
        died = " before the session had its end: the last events may be missing" if live.ended else ""
        echo(f"note: process {gone} has exited{died}", err=True)
    echo(account_text(live.account, taken, is_filtered=is_filtered), err=True)
    if live.aborted:
        raise KeyboardInterrupt
    if source.exit_code is not None:
        raise click.exceptions.Exit(source.exit_code)
    if gone is not None and live.ended:
        raise click.exceptions.Exit(TRACING_ERROR)


def _report(
    target: Target | None, launch: Launch | None, kind: str, options: WatchOptions, form: str, page: Page
) -> None:
    """Ask until the end, and show what came, or write it as a page."""
    from dotnetdiag.recipes.outcome import exit_of

    check_form(form)
    page.check(form)
    options.composed()
    with (
        watched(target, launch) as source,
        started(source, kind, options) as asked,
        _ends_nicely(asked.live, source, wants_all=True),
    ):
        exited = exit_of(source.client)
        source.on_exit(asked.live.stop)
        echo("Watching. Press <Ctrl+C> to end, and see the report.", err=True)
        made = asked.result()
    page.deliver(kind, made, form)
    _end(asked.live, asked.notes, source, exited, taken="read", is_filtered=False)


def _pieces(live: LiveEvents, form: str, fields: tuple[str, ...]) -> Iterator[bytes]:
    """What to write for each window."""
    from dotnetdiag.cli.live_lines import csv_lines, csv_names, csv_rows, json_lines, text_lines

    lines = {"jsonl": json_lines, "csv": csv_lines, TABLE: text_lines}[form](fields)
    if form == "csv":
        yield f"{csv_rows([csv_names(fields)])[0]}\n".encode()
    for window in live.windows():
        yield "\n".join([*lines(window), ""]).encode("utf-8", "backslashreplace")


@contextmanager
def _started(source: Source, options: WatchOptions | TopOptions) -> Iterator[tuple[LiveEvents, LiveEvents | LiveTop]]:
    """The session that runs, and what is shown of it."""
    from dotnetdiag.recipes.watching import WatchOptions, start_watching

    if isinstance(options, WatchOptions):
        with start_watching(source.client, options, over=source.over, suspended=say_held, late=say_late) as live:
            yield live, live
        return
    from dotnetdiag.recipes.top import start_top

    with start_top(source.client, options, over=source.over, suspended=say_held, late=say_late) as top:
        yield top.live, top


def _print(live: LiveEvents, pieces: Iterable[bytes], file: IO[bytes], *, says_missed: bool = True) -> bool:
    """Write pieces as they come; False when the reader of our output has gone. What is missed is told meanwhile, where it ``says_missed``."""
    told, said = 0, time.monotonic()
    try:
        for data in pieces:
            if not _write(file, data, live):
                raise OutputError("stdout", "nobody reads it any more")
            account = live.account
            missed = account.missed_here + (account.missed_in_target or 0)
            if says_missed and missed > told and time.monotonic() - said > _NOTE_EVERY_S:
                echo(f"note: {missed - told:,} events more were missed", err=True)
                told, said = missed, time.monotonic()
    except BrokenPipeError:  # `| head`
        return False
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError("stdout", error.strerror or str(error)) from error
    return True


def _write(file: IO[bytes], data: bytes, live: LiveEvents) -> bool:
    """All of ``data``; False when the watch has been over for a while, and nobody has taken anything meanwhile (a pager that waits)."""
    if sys.platform == "win32":
        file.write(data)
        file.flush()
        return True
    file.flush()
    left, descriptor, taken = memoryview(data), file.fileno(), time.monotonic()
    while left:
        # so much fits into a pipe that takes anything: the write does not block
        if select.select([], [descriptor], [], TICK_S)[1]:
            left, taken = left[os.write(descriptor, left[: select.PIPE_BUF]) :], time.monotonic()
        elif min(live.over_for_s, time.monotonic() - taken) > LAST_LINES_S:  # who is slow takes something now and then
            return False
    return True


def account_text(account: Account, taken: str = "shown", *, is_filtered: bool) -> str:
    """One line that says where the events went; those that were given out were ``taken``. Where nobody gave a filter nothing is said of those that
    it kept back: they are what the runtime says of itself in every session.
    """
    lost = account.missed_in_target
    parts = [
        f"{account.shown:,} events {taken}",
        *([f"{account.filtered:,} filtered out"] if is_filtered else []),
        "losses in the target not known" if lost is None else f"{lost:,} missed in the target",
        f"{account.missed_here:,} missed here",
    ]
    if account.naming:
        parts.append(f"{account.naming:,} named methods")
    if account.left:
        parts.append(f"{account.left:,} came after the end")
    return ", ".join(parts)


@contextmanager
def _ends_nicely(live: LiveEvents, source: Source, *, wants_all: bool = False) -> Iterator[None]:
    """Ctrl-C ends it at once, with the account of what came; where that ``wants_all``, and on SIGTERM, SIGHUP and SIGQUIT, the session comes to its
    end first.
    A second signal does not even wait for the account.
    """

    def on_press(number: int, *, again: bool) -> None:
        source.child_signal = number
        if again:
            live.abort()
            raise ending(number)  # also out of a write that nobody reads
        (live.stop_soon if number == signal.SIGINT and not wants_all else live.stop)()

    with pressed(on_press):
        yield


COMMANDS = (watch,)
