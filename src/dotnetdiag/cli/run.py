"""``run``: start a program with something that its runtime gets before the first instruction."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.launching import startup_options
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import handled
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.launch import Child

PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
OF_KEYS = ("SIGINT", "SIGQUIT", "SIGWINCH", "SIGHUP")
"""What a terminal sends to all of its foreground group."""


@click.command(cls=Command)
@startup_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    variables: tuple[str, ...], hooks: tuple[str, ...], profilers: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """Start COMMAND, and give its runtime what the options say before its first instruction: it waits at its start meanwhile.

    The program has our input and output, and gets the signals that we get; its exit code is ours. .NET programs that it starts
    are left alone.

    \b
    dotnetdiag run --env LOG_LEVEL=debug --startup-hook MyHook.dll -- dotnet MyApp.dll --its-own options
    dotnetdiag run --profiler cf0d821e-299b-5307-a3d8-b283c03916dd=libprofiler.so -- ./MyApp
    """
    from dotnetdiag.recipes.launch import Launch, Output
    from dotnetdiag.recipes.running import run_program
    from dotnetdiag.recipes.startup import parse_startup

    if not command[0]:
        raise UsageError("no program is named")
    came: list[int] = []
    begun: list[Child] = []
    at_terminal = _is_foreground()
    launch = Launch(
        command=command,
        startup=parse_startup(variables, hooks, profilers),
        output=Output.OURS,
        owns_terminal=at_terminal,
    )

    def pass_on(number: int, _: Any) -> None:
        if not (at_terminal and signal.Signals(number).name in OF_KEYS):  # it has got those itself
            (begun[0].send_signal if begun else came.append)(number)

    def on_start(child: Child) -> None:
        begun.append(child)
        while came:
            child.send_signal(came.pop(0))

    with handled(PASSED_ON, pass_on):
        end = run_program(launch, on_start=on_start)
    for note in end.notes:
        echo(note, err=True)
    if end.signal is not None and hasattr(signal, end.signal):
        echo(f"The program was ended by {end.signal}.", err=True)
    raise click.exceptions.Exit(end.code)


def _is_foreground() -> bool:
    """Whether what is typed at a terminal is for us."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except (OSError, AttributeError):  # not our terminal; Windows has no groups
        return False
