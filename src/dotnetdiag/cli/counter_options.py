"""Options of the verbs that watch counters: whose, which, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli.command import LAUNCHED
from dotnetdiag.cli.launching import SHOW_CHILD_IO, launch_of, startup_options, watched
from dotnetdiag.cli.options import complete_name, complete_pid
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.tui.counter_changes import change_text, missing_text, process_text, silence_text

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterChange, CounterOptions, CounterTargets, CounterUpdate
    from dotnetdiag.recipes.launch import Launch

F = TypeVar("F", bound=Callable[..., Any])
_HELD = "dotnetdiag.cli.counter_options.held"
"""In ``ctx.meta``: the first failure of a verb, as long as it may be what ends it."""
NOBODY = (
    "Must specify which processes: -p (--process-id), -n (--name), --diagnostic-port, --all, or a command behind --."
)


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
    help="As in System.Runtime,MyApp[orders,queue]; System.Runtime without it. EventCounters\\NAME means no meter of that name.",
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
        help="A port where runtimes dial us (or ADDRESS,connect: where one listens). May be repeated.",
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
            raise UsageError(NOBODY)
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

    def targets(self, *, stays: bool) -> CounterTargets:
        """Whose; ``stays``: others may come to a port when all have gone."""
        from dotnetdiag.recipes.counter_watch import CounterTargets

        return CounterTargets(
            pids=tuple(dict.fromkeys(self.pids)),
            names=tuple(dict.fromkeys(self.names)),
            ports=tuple(port if "," in port else f"{port},listen" for port in dict.fromkeys(self.ports)),
            everyone=self.everyone,
            stays=stays,
        )


def watch_options(function: F) -> F:
    """As the keywords ``targets``, ``options`` and ``duration``. The watch of ports ends with the last of those who came."""
    return _declared(function, (*_TARGETS, _COUNTERS, *_MANNERS), stays=False)


def service_options(function: F) -> F:
    """The same of a verb that waits for others when all have gone."""
    return _declared(function, (*_TARGETS, _COUNTERS, *_MANNERS), stays=True)


def alarm_options(function: F) -> F:
    """The same, where something else says which counters."""
    return _declared(function, (*_TARGETS, *_MANNERS), stays=True)


def _declared(function: F, declared: tuple[Callable[[Any], Any], ...], *, stays: bool) -> F:
    names = [field.name for field in fields(_Given)]

    @wraps(function)
    def with_options(*args: Any, **values: Any) -> Any:
        given = _Given(**{name: values.pop(name) for name in names if name in values})
        launch, options = given.launch(), given.options()
        if launch is not None:
            return _watching(function, launch, args, {**values, "options": options})
        targets = given.targets(stays=stays)
        with _telling(targets):
            return function(*args, targets=targets, options=options, **values)

    for option in reversed(declared):
        with_options = option(with_options)
    return with_options  # type: ignore[return-value]


def _watching(function: Callable[..., Any], launch: Launch, args: tuple[Any, ...], others: dict[str, Any]) -> Any:
    """Run the verb for a program that is started, whose exit code becomes ours."""
    from dotnetdiag.recipes.counter_watch import CounterTargets

    with watched(None, launch) as source:
        targets = CounterTargets(clients=(source.client,))
        with _telling(targets):
            function(*args, **others, targets=targets)
    if source.exit_code:
        raise click.exceptions.Exit(source.exit_code)


@contextmanager
def _telling(targets: CounterTargets) -> Iterator[None]:
    """Why nobody could be watched is the error that ends a verb then: it is not said as what happened before, too."""
    held: list[CounterChange] = []
    if not targets.grows:
        click.get_current_context().meta[_HELD] = held
    text = ""
    try:
        yield
    except DiagnosticsError as error:
        text = str(error)
        raise
    finally:
        for change in held:
            if change.why != text:
                echo(change_text(change), err=True)


def say_changes(update: CounterUpdate) -> None:
    """Who has come, who has gone, and who is silent, on stderr."""
    context = click.get_current_context(silent=True)
    held: list[CounterChange] | None = None if context is None else context.meta.get(_HELD)
    for change in update.changes:
        if context is not None and held is not None:
            if not change.joined and change.why and not held:
                held.append(change)
                continue
            if change.joined:
                for before in held:
                    echo(change_text(before), err=True)
                held.clear()
                held = context.meta[_HELD] = None
        echo(change_text(change), err=True)
    for silence in update.silences:
        echo(silence_text(silence), err=True)
    for notice in update.notices:
        echo(f"{process_text(notice.process)}: {notice.text}", err=True)
    if update.missing:
        echo(missing_text(update.missing), err=True)


def waiting_text(targets: CounterTargets) -> str:
    """A line for whoever is not there yet; empty where nobody is waited for."""
    from dotnetdiag.recipes.processes import names_of_nobody
    from dotnetdiag.recipes.target import Target

    texts = [f"waiting for a process named {name}" for name in names_of_nobody(targets.names)]
    for port in targets.ports:
        target = Target(port=port)
        if target.listens:
            where = target.watched_address
            texts.append(f"waiting for a runtime at {where}; start it with DOTNET_DiagnosticPorts={where}")
    return "; ".join(texts)


def say_waiting(targets: CounterTargets) -> None:
    """:func:`waiting_text`, on stderr."""
    if text := waiting_text(targets):
        echo(text, err=True)
