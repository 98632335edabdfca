"""A COMMAND behind ``--``, and what its runtime gets before its first instruction: options that many verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.cli.options import NO_TARGET, client_of, target_of, target_parameters
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.launch import Launch, Launched
    from dotnetdiag.recipes.startup import Startup
    from dotnetdiag.recipes.target import Client, Target

F = TypeVar("F", bound=Callable[..., Any])


def source_options(function: F) -> F:
    """What is recorded or watched: the options of :func:`target_options`, or a COMMAND that is started, and what goes with either. As the
    keywords ``target`` and ``launch``, of which one is None.
    """

    @wraps(function)
    def with_source(
        *args: Any,
        pid: int | None,
        name: str | None,
        wait_for: str | None,
        port: str | None,
        router: str | None,
        variables: tuple[str, ...],
        hooks: tuple[str, ...],
        profilers: tuple[str, ...],
        show_child_io: bool,
        stop_on_exit: bool,
        command: tuple[str, ...],
        **others: Any,
    ) -> Any:
        from dotnetdiag.recipes.startup import parse_startup

        startup = parse_startup(variables, hooks, profilers)
        target = target_of(pid, name, wait_for, port, router, startup=startup)
        launch = launch_of(command, startup, shows=show_child_io, stops=stop_on_exit)
        if launch is not None and target is not None:
            raise UsageError(
                "None of the --name, --process-id, or --diagnostic-port options may be specified when launching a child process."
            )
        if launch is None and target is None:
            raise UsageError(NO_TARGET)
        return function(*args, target=target, launch=launch, **others)

    return startup_options(_command_options(target_parameters(with_source)))  # type: ignore[return-value]


def startup_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--env``, ``--startup-hook``, ``--profiler``, as the keywords ``variables``, ``hooks``, ``profilers``."""
    for option in (
        click.option(
            "--profiler",
            "profilers",
            multiple=True,
            metavar="CLSID=FILE",
            help="A native profiler that is loaded before the first instruction (.NET 6).",
        ),
        click.option(
            "--startup-hook",
            "hooks",
            multiple=True,
            metavar="FILE",
            help="An assembly whose StartupHook runs before Main (.NET 8).",
        ),
        click.option(
            "--env",
            "variables",
            multiple=True,
            metavar="NAME=VALUE",
            help="A variable that is set before the first instruction.",
        ),
    ):
        function = option(function)
    return function


SHOW_CHILD_IO = click.option(
    "--show-child-io",
    is_flag=True,
    help="Leave the started command its input and output (its output goes to stderr where stdout has results).",
)


def _command_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.argument("command", nargs=-1, type=click.UNPROCESSED),
        click.option(
            "--stop-on-exit",
            is_flag=True,
            help="End with the started command, also where what it has started runs still.",
        ),
        SHOW_CHILD_IO,
    ):
        function = option(function)
    return function


def launch_of(command: tuple[str, ...], startup: Startup, *, shows: bool, stops: bool) -> Launch | None:
    if not command:
        if shows:
            raise UsageError("--show-child-io must not be specified when attaching to a process")
        if stops:
            raise UsageError("--stop-on-exit is of a command that is started: write it behind --")
        return None
    from dotnetdiag.recipes.launch import Launch, Output

    return Launch(command=command, startup=startup, output=Output.OURS if shows else Output.NOWHERE, stop_on_exit=stops)


@dataclass(slots=True, kw_only=True)
class Source:
    """What is watched, and the program that was started for it."""

    client: Client
    over: str | None
    """The address of the port that the client is of; None: the runtime's own socket."""
    child: Launched | None = None
    child_signal: int | None = None
    """What came for us, and is meant for the program too."""
    exit_code: int | None = None
    """Of the program, as a shell has it, once the block was left; None for one that we have ended."""

    def on_exit(self, do: Callable[[], None]) -> None:
        """Where the watch is to end with the program: call ``do`` then. A runtime of its own ends it by its end."""
        if self.child is not None and self.child.launch.stop_on_exit and self.client.target_pid() != self.child.pid:
            self.child.on_exit(do)


@contextmanager
def watched(target: Target | None, launch: Launch | None) -> Iterator[Source]:
    """A runtime to be watched, held at its start where it was started for that. What the program prints goes to standard error: standard
    output is for results. When the block is left, its end is waited for, and it is told to end when it was not its end that ended the watch.
    """
    if launch is None:
        assert target is not None, "a target or a program"
        with client_of(target, resumes=True) as client:
            yield Source(client=client, over=target.address if target.port else None)
        return
    from dotnetdiag.recipes.launch import Output, end_of, launched, shell_code, told_of_heirs
    from dotnetdiag.recipes.outcome import EXIT_WAIT_S, exit_of

    if launch.output is Output.OURS:
        launch = replace(launch, output=Output.STDERR)
    with launched(launch) as child:
        exited = exit_of(child.client)
        source = Source(client=child.client, over=child.address, child=child)
        yield source
        ended_by_us = source.child_signal is not None or exited(EXIT_WAIT_S) is None
        end = end_of(child, ended_by_us=ended_by_us, signal_for_it=lambda: source.child_signal)
    source.exit_code, name = shell_code(end.code)
    for note in (*end.notes, *told_of_heirs(child.heirs)):
        echo(note, err=True)
    if source.exit_code is not None:
        how = f" It was ended by {name}." if name else ""
        echo(f"Process exited with code '{source.exit_code}'.{how}", err=True)
