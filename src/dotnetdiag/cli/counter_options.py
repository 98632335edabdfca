"""Options of the verbs that watch counters: whose, which, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
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
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets, CounterUpdate
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


_TARGETS = (
    click.option(
        "-p",
        "--process-id",
        "pids",
        type=int,
        multiple=True,
        help="Process id. May be repeated.",
        shell_complete=complete_pid,
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
        "--diagnostic-port",
        "--dport",
        "ports",
        multiple=True,
        metavar="ADDRESS",
        help="A port where a runtime listens. May be repeated.",
    ),
    click.option("--all", "everyone", is_flag=True, help="All processes, and those that start meanwhile."),
)
_MANNERS = (
    click.option(
        "--refresh-interval",
        "interval",
        callback=_interval,
        default="1",
        show_default=True,
        help="Seconds between two values; 0.5, 250ms.",
    ),
    click.option("--duration", help="End after 30s, 5m, 1h30m."),
    click.option(
        "--maxHistograms",
        "max_histograms",
        type=click.IntRange(min=0),
        default=10,
        show_default=True,
        help="Of a process.",
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
        "--resume-runtime",
        "resume",
        type=click.BOOL,
        default=True,
        show_default=True,
        help="Let a runtime run that waits at its start, once it is watched.",
    ),
    SHOW_CHILD_IO,
    startup_options,
)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What was given of the options above, and what it comes to."""

    pids: tuple[int, ...]
    names: tuple[str, ...]
    ports: tuple[str, ...]
    everyone: bool
    interval: float
    max_histograms: int
    max_time_series: int
    resume: bool
    variables: tuple[str, ...]
    hooks: tuple[str, ...]
    profilers: tuple[str, ...]
    show_child_io: bool
    counters: tuple[str, ...] = ()

    def launch(self) -> Launch | None:
        """The program that is started, if any is. Raises UsageError where there is none and nobody is named, or both."""
        from dotnetdiag.recipes.startup import parse_startup

        startup = parse_startup(self.variables, self.hooks, self.profilers)
        command = click.get_current_context().meta.get(LAUNCHED, ())
        launch = launch_of(command, startup, shows=self.show_child_io, stops=False)
        is_targeted = bool(self.pids or self.names or self.ports or self.everyone)
        if launch is not None and is_targeted:
            raise UsageError(
                "a command that is started is what is watched: leave out -p, -n, --diagnostic-port and --all"
            )
        if launch is None and not is_targeted:
            raise UsageError(NO_TARGET)
        if launch is None and (self.variables or self.hooks or self.profilers):
            raise UsageError(
                "--env, --startup-hook and --profiler are of a command that is started: write it behind --"
            )
        return launch

    def options(self) -> CounterOptions:
        """Which counters, and how often. Raises UsageError: mistakes are told before anything is waited for."""
        from dotnetdiag.recipes.counter_watch import DEFAULT_COUNTERS, CounterOptions

        options = CounterOptions(
            counters=",".join(self.counters) or DEFAULT_COUNTERS,
            interval=self.interval,
            max_histograms=self.max_histograms,
            max_time_series=self.max_time_series,
            resume=self.resume,
        )
        options.choices()
        return options

    def targets(self) -> CounterTargets:
        """Whose."""
        from dotnetdiag.recipes.counter_watch import CounterTargets

        return CounterTargets(
            pids=tuple(dict.fromkeys(self.pids)),
            names=tuple(dict.fromkeys(self.names)),
            ports=tuple(port if "," in port else f"{port},connect" for port in dict.fromkeys(self.ports)),
            everyone=self.everyone,
        )


def watch_options(function: F) -> F:
    """As the keywords ``targets``, ``options`` and ``duration``."""
    return _declared(function, (*_TARGETS, _COUNTERS, *_MANNERS))


def alarm_options(function: F) -> F:
    """The same, where something else says which counters."""
    return _declared(function, (*_TARGETS, *_MANNERS))


def _declared(function: F, declared: tuple[Callable[[Any], Any], ...]) -> F:
    names = [field.name for field in fields(_Given)]

    @wraps(function)
    def with_options(*args: Any, **values: Any) -> Any:
        given = _Given(**{name: values.pop(name) for name in names if name in values})
        launch, options = given.launch(), given.options()
        if launch is not None:
            return _watching(function, launch, args, {**values, "options": options})
        return function(*args, targets=given.targets(), options=options, **values)

    for option in reversed(declared):
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
