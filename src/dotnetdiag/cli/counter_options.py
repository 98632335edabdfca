"""Options of the verbs that watch counters: whose, which, and how often."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.command import LAUNCHED
from dotnetdiag.cli.launching import SHOW_CHILD_IO, launch_of, startup_options, watched
from dotnetdiag.cli.options import NO_TARGET, complete_name, complete_pid
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError
from dotnetdiag.tui.counter_changes import change_text, process_text, silence_text

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterUpdate
    from dotnetdiag.recipes.launch import Launch

F = TypeVar("F", bound=Callable[..., Any])


def _interval(_: click.Context, __: click.Parameter, text: str) -> float:
    """Seconds, as dotnet-counters takes them, fractions too; or ``500ms``. Raises GrammarError, UsageError."""
    from dotnetdiag.durations import seconds_of

    try:
        seconds = float(text)
    except ValueError:
        seconds = seconds_of(text, "interval") or 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"an interval of {text} is none")
    return seconds


_COUNTERS = click.option(
    "--counters",
    multiple=True,
    help="As in System.Runtime,MyApp[orders,queue]; System.Runtime without it.",
)


def watch_options(function: F) -> F:
    """As the keywords ``targets``, ``options`` and ``duration``."""
    return _options(function, with_counters=True)


def alarm_options(function: F) -> F:
    """The same, where something else says which counters."""
    return _options(function, with_counters=False)


def _options(function: F, *, with_counters: bool) -> F:
    @wraps(function)
    def with_options(
        *args: Any,
        pids: tuple[int, ...],
        names: tuple[str, ...],
        ports: tuple[str, ...],
        everyone: bool,
        interval: float,
        max_histograms: int,
        max_time_series: int,
        resume: bool,
        variables: tuple[str, ...],
        hooks: tuple[str, ...],
        profilers: tuple[str, ...],
        show_child_io: bool,
        counters: tuple[str, ...] = (),
        **others: Any,
    ) -> Any:
        from dotnetdiag.recipes.counter_watch import DEFAULT_COUNTERS, CounterOptions, CounterTargets
        from dotnetdiag.recipes.startup import parse_startup

        startup = parse_startup(variables, hooks, profilers)
        command = click.get_current_context().meta.get(LAUNCHED, ())
        launch = launch_of(command, startup, shows=show_child_io, stops=False)
        is_targeted = bool(pids or names or ports or everyone)
        if launch is not None and is_targeted:
            raise UsageError(
                "a command that is started is what is watched: leave out -p, -n, --diagnostic-port and --all"
            )
        if launch is None and not is_targeted:
            raise UsageError(NO_TARGET)
        if launch is None and (variables or hooks or profilers):
            raise UsageError(
                "--env, --startup-hook and --profiler are of a command that is started: write it behind --"
            )
        options = CounterOptions(
            counters=",".join(counters) or DEFAULT_COUNTERS,
            interval=interval,
            max_histograms=max_histograms,
            max_time_series=max_time_series,
            resume=resume,
        )
        options.choices()  # mistakes are told before anything is waited for
        if launch is not None:
            return _watching(function, launch, args, {**others, "options": options})
        targets = CounterTargets(
            pids=tuple(dict.fromkeys(pids)),
            names=tuple(dict.fromkeys(names)),
            ports=tuple(port if "," in port else f"{port},connect" for port in dict.fromkeys(ports)),
            everyone=everyone,
        )
        return function(*args, targets=targets, options=options, **others)

    for option in (
        startup_options,
        SHOW_CHILD_IO,
        click.option(
            "--resume-runtime",
            "resume",
            type=click.BOOL,
            default=True,
            show_default=True,
            help="Let a runtime run that waits at its start, once it is watched.",
        ),
        click.option(
            "--maxTimeSeries",
            "max_time_series",
            type=click.IntRange(min=0),
            default=1000,
            show_default=True,
            help="Of all meters of a process together.",
        ),
        click.option(
            "--maxHistograms",
            "max_histograms",
            type=click.IntRange(min=0),
            default=10,
            show_default=True,
            help="Of a process.",
        ),
        click.option("--duration", help="End after 30s, 5m, 1h30m."),
        click.option(
            "--refresh-interval",
            "interval",
            callback=_interval,
            default="1",
            show_default=True,
            help="Seconds between two values; 0.5, 250ms.",
        ),
        *((_COUNTERS,) if with_counters else ()),
        click.option("--all", "everyone", is_flag=True, help="All processes, and those that start meanwhile."),
        click.option(
            "--diagnostic-port",
            "--dport",
            "ports",
            multiple=True,
            metavar="ADDRESS",
            help="A port where a runtime listens. May be repeated.",
        ),
        click.option(
            "-n",
            "--name",
            "names",
            multiple=True,
            help="Processes of this name, also later ones. May be repeated.",
            shell_complete=complete_name,
        ),
        click.option(
            "-p",
            "--process-id",
            "pids",
            type=int,
            multiple=True,
            help="Process id. May be repeated.",
            shell_complete=complete_pid,
        ),
    ):
        with_options = option(with_options)
    return with_options  # type: ignore[return-value]


def _watching(function: Callable[..., Any], launch: Launch, args: tuple[Any, ...], others: dict[str, Any]) -> Any:
    """Run the verb for a program that is started, whose exit code becomes ours."""
    from dotnetdiag.recipes.counter_watch import CounterTargets

    with watched(None, launch) as source:
        function(*args, **others, targets=CounterTargets(clients=(source.client,)))
    if source.exit_code:
        raise click.exceptions.Exit(source.exit_code)


def say_changes(update: CounterUpdate) -> None:
    """Who has come, who has gone, and who is silent, on stderr."""
    for change in update.changes:
        echo(change_text(change), err=True)
    for silence in update.silences:
        echo(silence_text(silence), err=True)
    for notice in update.notices:
        echo(f"{process_text(notice.process)}: {notice.text}", err=True)
