"""Options that many verbs share, and what they make."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.render import clean, echo

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Client, Target

F = TypeVar("F", bound=Callable[..., Any])


def _complete_pid(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from dotnetdiag.recipes.processes import list_processes

    return [
        CompletionItem(str(process.pid), help=clean(process.entry_assembly or process.name))
        for process in list_processes()
        if str(process.pid).startswith(incomplete)
    ]


def _complete_name(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from dotnetdiag.recipes.processes import list_processes

    names = {
        name for process in list_processes() for name in (process.entry_assembly, process.name) if name.isprintable()
    }
    return sorted(name for name in names if name and name.startswith(incomplete))


def target_options(function: F) -> F:
    """``-p``, ``-n``, ``--diagnostic-port``: passed on as one keyword, ``target``, made by :func:`target_of`."""
    function = click.option(
        "--diagnostic-port",
        "--dport",
        "port",
        metavar="ADDRESS[,connect|listen]",
        help="A diagnostic port. listen (the default): wait there for a runtime started with DOTNET_DiagnosticPorts=ADDRESS; "
        "connect: dial a runtime that listens there. The runtime waits at its start until it is resumed over that port, unless "
        "the variable ends with ,nosuspend.",
    )(function)
    function = click.option(
        "-n", "--name", help="Name of the process or of its entry assembly.", shell_complete=_complete_name
    )(function)
    return click.option("-p", "--process-id", "pid", type=int, help="Process id.", shell_complete=_complete_pid)(
        function
    )


def provider_options(function: F) -> F:
    """What a session records: ``--providers``, ``--profile``, ``--clrevents``, ``--clreventlevel``, ``--event-filter``."""
    for option in (
        click.option(
            "--event-filter",
            "event_filters",
            multiple=True,
            metavar="PROVIDER=ID,…",
            help="Only (=) or all but (!=) these event ids (.NET 10).",
        ),
        click.option("--clreventlevel", help="Level of --clrevents: 0 to 5, or a name.  [default: informational]"),
        click.option("--clrevents", help="Keywords of the runtime's provider, joined by +: gc+exception."),
        click.option("--profile", "presets", help="Named sets of providers, joined by commas; see list-profiles."),
        click.option(
            "--providers", help="Name[:keywords[:level[:arguments]]],…; keywords as hex or names joined by +."
        ),
    ):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """``--json``, as the keyword ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")(function)


def target_of(pid: int | None, name: str | None, port: str | None) -> Target:
    """Raises UsageError unless exactly one is given."""
    from dotnetdiag.recipes.target import Target

    return Target(pid=pid, name=name, port=port)


@contextmanager
def client_of(pid: int | None, name: str | None, port: str | None, *, resumes: bool = False) -> Iterator[Client]:
    """A client of the target that the options mean. SIGTERM and SIGHUP end what is done with it as Ctrl-C does: nothing is left behind.

    A runtime that has dialled our port is left suspended, and how it goes on is said, unless what is done with it ``resumes`` it.
    """
    from dotnetdiag.recipes.target import connected

    target = target_of(pid, name, port)
    with _terminated_as_interrupted(), connected(target, waiting=say_waiting, resumes=resumes) as client:
        try:
            yield client
        finally:
            if target.listens and not resumes:
                _say_suspended(client, target)


def _say_suspended(client: Client, target: Target) -> None:
    from dotnetdiag.recipes.suspension import is_held

    held = is_held(client)
    if held is not False:
        state = (
            "The runtime is still suspended at startup."
            if held
            else "If the runtime is suspended at startup, it still is."
        )
        echo(f"{state} Let it run: dotnetdiag resume --diagnostic-port {target.address}", err=True)


def say_held(ports: tuple[str, ...]) -> None:
    """Nothing comes of a session: the runtime waits at its start, for a resume over ``ports``, or any."""
    state = (
        "The runtime is suspended at startup and is not resumed here: nothing comes before something else resumes it "
    )
    if ports:
        state = "The runtime is suspended at startup, by a port: nothing comes before it is resumed over that "
    how = [f"dotnetdiag resume --diagnostic-port {port}" for port in ports]
    echo(f"{state}({'; '.join(how) or 'dotnetdiag resume, or --resume-runtime true'}).", err=True)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is signal.SIG_DFL:  # one that is ignored (nohup) stays so
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say_waiting(address: str) -> None:
    """What dotnet-trace says there."""
    echo(f"Waiting for connection on {address}", err=True)
    echo(f"Start an application with the following environment variable: DOTNET_DiagnosticPorts={address}", err=True)
