"""``trace collect``, ``trace list-profiles``, ``trace user-events``."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag._dataclasses import replace
from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import OK, TRACING_ERROR, exit_code, is_compatible, report
from dotnetdiag.cli.files import FileOrFolderPath, shown_path
from dotnetdiag.cli.keeping import KeptOptions, file_line, keeping_options
from dotnetdiag.cli.launching import source_options, watched
from dotnetdiag.cli.options import (
    joined,
    json_option,
    say_held,
    say_late,
    say_waiting,
)
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.recording import Display, ends_nicely, no_trace, outcome_notes
from dotnetdiag.cli.render import echo, json_text
from dotnetdiag.cli.session_options import session_options

if TYPE_CHECKING:
    from dotnetdiag.recipes.collect import Collected, CollectOptions
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.target import Target


@click.command(cls=Command)
@source_options
@click.option(
    "-o",
    "--output",
    type=FileOrFolderPath(),
    help="File to write (with --follow: folder); - for stdout, with all that is said on stderr.  [default: NAME_DATE_TIME.nettrace]",
)
@session_options
@keeping_options
@click.option(
    "--follow",
    is_flag=True,
    is_eager=True,
    help="Record everything .NET that the command starts, or that dials the port: a file for each process, into the folder of -o.",
)
@json_option
def collect(
    target: Target | None,
    launch: Launch | None,
    output: Path | None,
    session: CollectOptions,
    kept: KeptOptions,
    follow: bool,
    as_json: bool,
) -> None:
    """Record a trace of a process, of a diagnostic port, or of a COMMAND that is started for it.

    Ends after --duration, at the stopping event, at --max-size, with the process, or with Enter or Ctrl-C: then the runtime still writes the
    names of its methods, which may take a while. A second Ctrl-C ends at once and keeps the file.

    \b
    dotnetdiag trace collect -p 1234 --duration 30s
    dotnetdiag trace collect -n MyApp --profile gc-verbose -o app.nettrace
    dotnetdiag trace collect -p 1234 --providers Microsoft-Windows-DotNETRuntime:GC+Exception:Verbose
    dotnetdiag trace collect --clrevents gc -- dotnet MyApp.dll --its-own options
    dotnetdiag trace collect --follow -o traces -- dotnet build
    dotnetdiag trace collect -p 1234 --clrevents gc --stop-on "GC/Start where Depth >= 2" --stop-delay 5s
    dotnetdiag trace collect -p 1234 --rotate 100MB --keep 5
    dotnetdiag trace collect -p 1234 --ring 60s --dump-on signal
    """
    from dotnetdiag.errors import DiagnosticsError
    from dotnetdiag.recipes.collect import Observer, Stop
    from dotnetdiag.recipes.collect import collect as record
    from dotnetdiag.recipes.launch import Output
    from dotnetdiag.recipes.outputs import is_stdout

    shows_output = launch is not None and launch.output is not Output.NOWHERE
    if launch is not None and shows_output and as_json:  # standard output is for the result
        launch = replace(launch, output=Output.STDERR)
    to_stdout = output is not None and is_stdout(output)
    if to_stdout:
        _require_free_stdout(session.formats, shows_output)
    options = replace(session, target=target, launch=launch, output=output, keeping=kept.keeping)
    if follow:
        from dotnetdiag.cli.trace_follow import follow_all

        follow_all(options, as_json=as_json)
        return
    display = Display(options.duration, quiet=shows_output, enter_says=kept.enter_says)
    stop = Stop()
    trigger = kept.trigger()
    observer = Observer(
        trigger=trigger,
        held=display.held,
        dumped=display.dumped,
        started=display.started,
        progress=display.progress,
        waiting=say_waiting(target),
        suspended=say_held,
        stopping=display.stopping,
        late=say_late,
    )
    try:
        on_enter = trigger.ask if trigger is not None and kept.on_key else None
        with (
            ends_nicely(stop, observer, enter=not shows_output, on_enter=on_enter),
            kept.signals(trigger),
        ):
            done = record(options, observer, stop)
    except DiagnosticsError as error:
        if to_stdout and isinstance(error.__cause__, BrokenPipeError):  # `| head`
            echo("The reader of the recording has gone, and the recording has ended.", err=True)
            raise click.exceptions.Exit(OK) from error
        if not display.has_started:
            raise
        display.broken()
        report(str(error), error)
        raise click.exceptions.Exit(TRACING_ERROR) from error
    display.finish(done)
    _tell(done, display.notes, options, as_json=as_json, to_stdout=to_stdout)
    if done.child_exit_code is not None:
        raise click.exceptions.Exit(done.child_exit_code)
    if done.target_died or done.was_cut:
        raise click.exceptions.Exit(TRACING_ERROR)
    if (problem := no_trace(done)) is not None:
        raise click.exceptions.Exit(exit_code(problem, compatible=is_compatible()))


def _tell(done: Collected, notes: tuple[str, ...], options: CollectOptions, *, as_json: bool, to_stdout: bool) -> None:
    """Say what was recorded, and convert it; ``notes`` were shown at its start."""
    from dotnetdiag.recipes.collect import convert_recording

    outcome = (*done.notes, *outcome_notes(done))
    for note in outcome:
        echo(note, err=True)
    converted = convert_recording(done, options)
    if as_json:
        value = {**done.to_json(), "notes": [*notes, *outcome], "converted": [str(path) for path in converted]}
        json_text(value, err=to_stdout)
    else:
        from dotnetdiag.cli.render import size_text

        size = f"{size_text(done.size_bytes)} ({done.size_bytes} bytes)"
        name = shown_path(done.path) if len(done.files) == 1 else f"{len(done.files)} files"
        echo(f"{name}  {size} in {done.duration_s:.1f} s", err=to_stdout)
        for file in done.files if len(done.files) > 1 else ():
            echo(file_line(file), err=to_stdout)
        for path in converted:
            echo(path)
    if done.child_exit_code is not None:
        how = f" It was ended by {done.child_signal}." if done.child_signal else ""
        echo(f"Process exited with code '{done.child_exit_code}'.{how}", err=True)


def _require_free_stdout(formats: tuple[str, ...], show_child_io: bool) -> None:
    from dotnetdiag.errors import UsageError

    status = os.fstat(1)
    if formats or show_child_io:
        raise UsageError(f"a recording on stdout does not go with {'--format' if formats else '--show-child-io'}")
    if sys.stdout.isatty():
        raise UsageError("a recording is not for a terminal: name a file with -o")
    if stat.S_ISREG(status.st_mode) and status.st_size:
        raise UsageError(f"stdout is a file that has {status.st_size} bytes already; a recording begins an empty one")


@click.command("list-profiles", cls=Command)
@format_option
def list_profiles(form: str) -> None:
    """Show the named sets of providers that --profile takes.

    \b
    dotnetdiag trace list-profiles
    """
    from dotnetdiag.recipes.presets import list_presets
    from dotnetdiag.table import Table

    found = list_presets()

    def people() -> None:
        for entry in found:
            echo(entry["name"])
            echo(f"    {entry['description']}")
            for provider in entry["providers"]:
                echo(f"    {provider}")

    show(form, lambda: Table.of_rows(found, title="profiles"), people=people, document=lambda: found)


@click.command("user-events", cls=Command)
@source_options
@click.option("--providers", required=True, multiple=True, callback=joined(","), help="As in trace collect.")
@click.option("--tracepoint", required=True, help="Name of the kernel tracepoint that gets the events.")
@click.option("--duration", help="30s, 5m; without it until Ctrl-C.")
def user_events(
    target: Target | None, launch: Launch | None, providers: str, tracepoint: str, duration: str | None
) -> None:
    """Have a runtime write its events to the kernel's user_events, for perf or record-trace to collect (Linux, .NET 10).

    \b
    dotnetdiag trace user-events -p 1234 --providers Microsoft-Windows-DotNETRuntime:GC --tracepoint dotnet_gc
    """
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.user_events import hold_user_events

    stop = Stop()
    with watched(target, launch) as source:
        source.on_exit(stop.stop)
        hold_user_events(
            source.client,
            providers,
            tracepoint,
            duration,
            lambda: echo("Writing to user_events; Ctrl-C ends.", err=True),
            stop,
        )
    if source.exit_code is not None:
        raise click.exceptions.Exit(source.exit_code)
