"""``trace collect``, ``trace list-profiles``, ``trace user-events``."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import OK, TRACING_ERROR, report
from dotnetdiag.cli.files import FileOrFolderPath, shown_path
from dotnetdiag.cli.keeping import KeptOptions, file_line, keeping_options
from dotnetdiag.cli.launching import source_options, watched
from dotnetdiag.cli.options import (
    formats_option,
    joined,
    json_option,
    provider_options,
    say_held,
    say_waiting,
)
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.render import clean, echo, json_text, seconds_text, timespan_text, write_raw
from dotnetdiag.cli.signals import ending, pressed
from dotnetdiag.cli.widths import LEAST_WIDTH, cells, padded, shortened

if TYPE_CHECKING:
    from dotnetdiag.recipes.collect import Collected, CollectOptions, Composition, Observer, Stop
    from dotnetdiag.recipes.follow import FollowObserver
    from dotnetdiag.recipes.kept_files import KeptFile
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.target import Target

OPTIONS = {"providers": "--providers", "preset": "--profile", "clr_events": "--clrevents"}
"""Which option each source of providers is here."""
LEVELS = {0: "LogAlways", 1: "Critical", 2: "Error", 3: "Warning", 4: "Informational", 5: "Verbose"}


def _refuse_router(_: click.Context, __: click.Parameter, kind: str | None) -> None:
    if kind is not None:
        from dotnetdiag.errors import NotPossible

        raise NotPossible("--dsrouter", f"start `dotnet-dsrouter {kind}` beside this, and give its process id with -p")


@click.command(cls=Command)
@source_options
@click.option(
    "-o",
    "--output",
    type=FileOrFolderPath(),
    help="File to write (with --follow: folder); - for stdout, with all that is said on stderr.  [default: NAME_DATE_TIME.nettrace]",
)
@provider_options
@click.option("--buffersize", type=click.IntRange(min=1), default=256, show_default=True, help="MB, in the target.")
@click.option(
    "--buffering-mode",
    type=click.Choice(["Drop", "Block", "0", "1"], case_sensitive=False),
    default="Drop",
    show_default=True,
    help="Block: threads of the target wait, nothing is lost (.NET 11).",
)
@click.option("--duration", help="Of the session: 30s, 5m, 1h30m, or dd:hh:mm:ss.")
@click.option(
    "--rundown", type=bool, help="true (also without a value) or false: names of methods at the end, or none."
)
@click.option("--no-stacks", is_flag=True, help="Record no stacks (.NET 9).")
@click.option(
    "--resume-runtime",
    type=bool,
    default=True,
    show_default=True,
    help="Resume a suspended runtime once the session runs.",
)
@formats_option("Also convert the recording; the .nettrace file stays.")
@click.option("--stopping-event-provider-name", "stop_provider", help="Stop at an event of this provider …")
@click.option("--stopping-event-event-name", "stop_event", help="… of this name …")
@click.option("--stopping-event-payload-filter", "stop_payload", help="… with these values: field:value,field:value.")
@keeping_options
@click.option(
    "--dsrouter",
    type=click.Choice(["ios", "ios-sim", "android", "android-emu"]),
    expose_value=False,
    callback=_refuse_router,
    help="Not done here: start dotnet-dsrouter, and give its process id with -p.",
)
@click.option(
    "--force", is_flag=True, help="Overwrite files of --format that are there; the recording's own always is."
)
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
    providers: str | None,
    presets: str | None,
    clrevents: str | None,
    clreventlevel: str | None,
    event_filters: tuple[str, ...],
    buffersize: int,
    buffering_mode: str,
    duration: str | None,
    rundown: bool | None,
    no_stacks: bool,
    resume_runtime: bool,
    formats: tuple[str, ...],
    stop_provider: str | None,
    stop_event: str | None,
    stop_payload: str | None,
    kept: KeptOptions,
    force: bool,
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
    from dotnetdiag.errors import DiagnosticsError, UsageError
    from dotnetdiag.recipes.collect import CollectOptions, Observer, Stop
    from dotnetdiag.recipes.collect import collect as record
    from dotnetdiag.recipes.launch import Output
    from dotnetdiag.recipes.outputs import is_stdout

    shows_output = launch is not None and launch.output is not Output.NOWHERE
    wanted = tuple(name for name in formats if name != "nettrace")
    to_stdout = output is not None and is_stdout(output)
    if to_stdout:
        _require_free_stdout(wanted, shows_output)
    stopping_event = None
    if stop_provider or stop_event or stop_payload:
        from dotnetdiag.recipes.stopping import parse_stopping_event

        if stop_provider is None:
            raise UsageError("--stopping-event-event-name and -payload-filter need --stopping-event-provider-name")
        if stop_payload and not stop_event:
            raise UsageError("--stopping-event-payload-filter needs --stopping-event-event-name")
        stopping_event = parse_stopping_event(stop_provider, stop_event, stop_payload)
    options = CollectOptions(
        target=target,
        launch=launch,
        output=output,
        providers=providers,
        presets=presets,
        clr_events=clrevents,
        clr_event_level=clreventlevel,
        event_filters=event_filters,
        rundown=rundown,
        stacks=not no_stacks,
        buffer_mb=buffersize,
        block=buffering_mode.lower() in ("block", "1"),
        duration=duration,
        resume=resume_runtime,
        stopping_event=stopping_event,
        keeping=kept.keeping,
        formats=wanted,
        force=force,
    )
    if follow:
        from dotnetdiag.cli.trace_follow import follow_all

        follow_all(options, as_json=as_json)
        return
    display = Display(duration, quiet=shows_output, enter_says=kept.enter_says)
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
    if done.target_died:
        raise click.exceptions.Exit(TRACING_ERROR)


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


def notes_on(composition: Composition) -> Iterator[str]:
    """What dotnet-trace says there, and providers that are probably misspelled."""
    if composition.is_default:
        from dotnetdiag.recipes.presets import DEFAULT_PRESETS

        names = " + ".join(f"'{name}'" for name in DEFAULT_PRESETS)
        yield f"No profile or providers specified, defaulting to trace profiles {names}."
    if composition.clr_events_ignored:
        yield "The CLR provider was already specified through --providers or --profile. Ignoring --clrevents."
    yield from misspelled_providers(composition)


def misspelled_providers(composition: Composition) -> Iterator[str]:
    """A line for each: a runtime takes any name, and records nothing of one that it has not."""
    from dotnetdiag.recipes.collect import misspelled

    for provider in composition.providers:
        if (meant := misspelled(provider.name or "")) is not None:
            yield f"The provider {provider.name} is recorded, if there is one; near: {meant}."


def outcome_notes(done: Collected) -> Iterator[str]:
    """How the recording went, where it did not go as one would like."""
    who = "The process" if done.pid is None else f"Process {done.pid}"
    if done.target_died:
        yield (
            f"{who} was gone before the trace had its end: all that had come is in the file, "
            "but names of methods and the last events may be missing."
        )
    elif done.target_exited and done.child_exit_code is None:
        yield f"{who} has exited, and the trace ended with it."
    elif not done.was_stopped and done.child_exit_code is None:
        yield f"The session was ended from elsewhere; {who.lower() if done.pid is None else who} still runs."
    if not done.files:
        yield "No dump was asked for: nothing was kept."
    elif not done.size_bytes:
        yield "Nothing has come: the file is empty."
    elif done.complete is False and not done.target_died:
        yield "The trace has no end: names of methods and the last events may be missing."
    if done.lost_events:
        yield (
            f"{done.lost_events:,} events were lost: the target's buffer of {done.buffer_mb} MB was full. A larger --buffersize "
            "helps, and so do fewer events: fewer keywords, a lower level."
        )


def provider_lines(composition: Composition, width: int | None = None) -> list[str]:
    """A table; where that is wider than the terminal, names give way in their middle."""
    rows = [("Provider Name", "Keywords", "Level", "Enabled By")]
    for provider, source in zip(composition.providers, composition.sources, strict=True):
        level = f"{LEVELS.get(provider.level, '?')}({provider.level})"
        rows.append((clean(provider.name or ""), f"0x{provider.keywords:016X}", level, OPTIONS[source.value]))
    name, *rest = (max(map(cells, column)) for column in zip(*rows, strict=True))
    if width is not None:
        name = min(name, max(width - sum(rest) - 2 * len(rest), LEAST_WIDTH))
    widths = (name, *rest)
    return [
        "  ".join(
            padded(cell, width) for cell, width in zip((shortened(row[0], name), *row[1:]), widths, strict=True)
        ).rstrip()
        for row in rows
    ]


class Display:
    """What is seen of a recording on stderr: what is recorded, then bytes, rate and time left on one line."""

    def __init__(self, duration: str | None, *, quiet: bool, enter_says: str | None = None) -> None:
        """``enter_says`` is what the Enter key does; None: it ends the recording."""
        self._enter_says = enter_says
        self._held = ""
        self._quiet = quiet
        self._is_terminal = os.isatty(2)
        self._live = sys.stderr.isatty() and not quiet
        self._left_s: float | None = None
        self._duration = duration
        self._last = (0.0, 0)
        self._rate = 0.0
        self._shown = False
        self._path: Path | None = None
        self._size_bytes = 0
        self.notes: tuple[str, ...] = ()
        """What was said of the composition at the start."""

    def started(self, composition: Composition, path: Path, pid: int | None) -> None:
        self.notes = tuple(notes_on(composition))
        self._path = path
        for note in self.notes:
            echo(note, err=True)
        if self._quiet:
            return
        if self._duration is not None:
            from dotnetdiag.durations import seconds_of

            self._left_s = seconds_of(self._duration)
        for line in provider_lines(composition, os.get_terminal_size(2).columns or None if self._is_terminal else None):
            echo(line, err=True)
        echo(f"Process        : {'' if pid is None else pid}", err=True)
        echo(f"Output File    : {path}", err=True)
        if self._left_s is not None:
            echo(f"Trace Duration : {timespan_text(self._left_s)}", err=True)
        if sys.stdin.isatty() and self._enter_says is not None:
            echo(f"Press <Enter> to {self._enter_says}, <Ctrl+C> to exit...", err=True)
        elif sys.stdin.isatty():
            echo("Press <Enter> or <Ctrl+C> to exit...", err=True)
        elif not self._live:
            echo("Recording trace in progress. Press <Ctrl+C> to exit...", err=True)

    def progress(self, size_bytes: int, elapsed_s: float) -> None:
        self._size_bytes = size_bytes
        if not self._live:
            return
        from dotnetdiag.cli.render import size_text

        then, before = self._last
        if elapsed_s - then < 0.1:
            return
        now = (size_bytes - before) / (elapsed_s - then)
        self._rate = now if not self._shown else self._rate * 0.8 + now * 0.2
        self._last = (elapsed_s, size_bytes)
        left = ""
        if self._left_s is not None:
            left = f"   {seconds_text(max(0.0, self._left_s - elapsed_s))} left"
        text = f"[{seconds_text(elapsed_s)}]  Recording trace {size_text(size_bytes)}  {size_text(self._rate)}/s{self._held}{left}"
        write_raw(f"\r\x1b[K{text}", err=True)
        self._shown = True

    def held(self, seconds: float, size_bytes: int) -> None:
        """What a flight recorder has, for the next line."""
        from dotnetdiag.cli.render import size_text

        self._held = f"   holds {seconds_text(seconds)}, {size_text(size_bytes)}"

    def dumped(self, file: KeptFile) -> None:
        """A flight recorder has written a file."""
        if self._live:
            write_raw("\r\x1b[K", err=True)
        echo(f"Wrote {file_line(file)}", err=True)

    def stopping(self) -> None:
        if self._shown:
            echo(err=True)
        echo("Stopping the trace. This may take several minutes depending on the application being traced.", err=True)
        self._left_s = None

    @property
    def has_started(self) -> bool:
        """Whether a session was there: what goes wrong from then on is a broken recording."""
        return self._path is not None

    def broken(self) -> None:
        """The recording ended in an error, which is told elsewhere."""
        if self._shown:
            echo(err=True)
        if self._size_bytes and self._path is not None and self._path.is_file():
            echo(f"What had come is in {self._path} ({self._path.stat().st_size} bytes).", err=True)

    def finish(self, done: Collected) -> None:
        if self._shown:
            echo(err=True)
        if not self._quiet:
            echo("Trace ended." if done.target_died or done.complete is False else "Trace completed.", err=True)


@contextmanager
def ends_nicely(
    stop: Stop, observer: Observer | FollowObserver, *, enter: bool, on_enter: Callable[[], None] | None = None
) -> Iterator[None]:
    """Ctrl-C, SIGTERM, SIGHUP, SIGQUIT (and Enter on a terminal) stop the recording; a second one ends it at once. What is not recorded yet
    they end as they end every verb. ``on_enter`` is what Enter does instead, each time.
    """
    from dotnetdiag.errors import Cancelled

    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]  # one that has gone does not say so

    last: int | None = None

    def on_press(number: int, *, again: bool) -> None:
        nonlocal last
        last = number
        if number == getattr(signal, "SIGHUP", None):
            _lead_nowhere(terminals)
        if not stop.has_begun:  # nothing is recorded yet: a runtime is waited for, a program started
            stop.cancel()
            if again or stop.may_raise:
                raise ending(number)
        elif again or stop.is_stopping:
            stop.cancel()
        else:
            observer.child_signal = number
            stop.stop()

    ended = threading.Event()
    if enter and sys.stdin.isatty():
        threading.Thread(target=_wait_for_enter, args=(stop, ended, on_enter), daemon=True).start()
    try:
        with pressed(on_press):
            yield
    except Cancelled as error:
        raise ending(last) from error
    finally:
        ended.set()


def _lead_nowhere(descriptors: Sequence[int]) -> None:
    """Of a terminal that has gone: writing to it would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _wait_for_enter(stop: Stop, ended: threading.Event, on_enter: Callable[[], None] | None) -> None:
    """Looks at the terminal without holding Python's lock on stdin, which would hang the interpreter's end."""
    if sys.platform == "win32":
        import msvcrt

        while not ended.wait(0.1):
            if msvcrt.kbhit() and msvcrt.getwch() == "\r":
                if on_enter is None:
                    stop.stop()
                    return
                on_enter()
        return
    from dotnetdiag.recipes.terminal import typed

    for data in typed(ended.is_set):
        if on_enter is None:
            stop.stop()
            return
        if b"\n" in data:
            on_enter()


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
