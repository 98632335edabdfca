"""``ps``, ``info``, ``env``, ``setenv``, ``resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.process_list import show_processes
from dotnetdiag.cli.render import echo
from dotnetdiag.tui.resuming import how_to_resume

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target


@click.command(cls=Command)
@format_option
def ps(form: str) -> None:
    """List the .NET processes that can be reached.

    Each runtime is asked who it is, all at the same time; those in other pid namespaces (containers) are marked.

    \b
    dotnetdiag ps
    dotnetdiag ps --json | jq '.[] | select(.runtime_version | startswith("8."))'
    """
    from dataclasses import asdict, fields

    from dotnetdiag.recipes.processes import Process, list_processes
    from dotnetdiag.table import Table

    def tables() -> Table:
        rows = [asdict(process) for process in list_processes()]
        return Table.of_rows(rows, columns=[field.name for field in fields(Process)], title="processes")

    show(form, tables, people=show_processes, document=lambda: tables().to_json())


@click.command(cls=Command)
@target_options
@format_option
def info(target: Target, form: str) -> None:
    """Show who a runtime is: pid, version, entry assembly, command line, operating system.

    \b
    dotnetdiag info -p 1234
    dotnetdiag info -n MyApp --json
    """
    from dotnetdiag.recipes.details import process_details

    with client_of(target) as client:
        details = process_details(client)
    from dotnetdiag.table import Table

    def people() -> None:
        for key, value in details.items():
            echo(f"{key.replace('_', ' '):<20} {value}")

    show(form, lambda: Table.of_rows([details], title="process"), people=people, document=lambda: details)


@click.command(cls=Command)
@target_options
@format_option
def env(target: Target, form: str) -> None:
    """Show a runtime's environment, as it was at its start and was changed by setenv.

    \b
    dotnetdiag env -p 1234 | grep ^DOTNET_
    """
    with client_of(target) as client:
        variables = client.environment()
    from dotnetdiag.table import Table

    def people() -> None:
        for key in sorted(variables):
            echo(f"{key}={variables[key]}")

    def tables() -> Table:
        names = sorted(variables)
        return Table({"name": names, "value": [variables[key] for key in names]}, title="environment")

    show(form, tables, people=people, document=lambda: variables)


@click.command(cls=Command)
@target_options
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE...")
def setenv(target: Target, assignments: tuple[str, ...]) -> None:
    """Set variables of a runtime's environment; NAME alone removes one.

    Of use while the runtime is suspended at startup: it reads most of its own variables then.

    \b
    dotnetdiag setenv -p 1234 DOTNET_gcServer=1 LOG_LEVEL=debug
    dotnetdiag setenv -p 1234 LOG_LEVEL
    """
    from dotnetdiag.recipes.details import set_variables

    with client_of(target) as client:
        set_variables(client, assignments)


@click.command(cls=Command)
@target_options
def resume(target: Target) -> None:
    """Let a runtime run that is suspended at startup: by a port of DOTNET_DiagnosticPorts, over that port.

    \b
    DOTNET_DefaultDiagnosticPortSuspend=1 dotnet app.dll &
    dotnetdiag resume -p $!
    DOTNET_DiagnosticPorts=/tmp/port dotnet app.dll &
    dotnetdiag resume --diagnostic-port /tmp/port
    """
    from dotnetdiag.recipes.suspension import resume as resume_runtime

    with client_of(target, resumes=True) as client:
        for hold in resume_runtime(client, over=target.address if target.port else None):
            whose = "It still waits at its own socket" if hold.port is None else "Its port still holds it"
            echo(f"{whose}: {how_to_resume(hold)}", err=True)
