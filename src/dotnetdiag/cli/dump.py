"""``dump``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.processes import ps
from dotnetdiag.cli.render import echo

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target
    from dotnetdiag.table import Table


@click.group(commands=[ps])
def dump() -> None:
    """Write core dumps."""


@dump.command("collect", cls=Command)
@target_options
@click.option("-o", "--output", help="Path, as the target sees it.  [default: core_DATE_TIME]")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["Full", "Heap", "Mini", "Triage"], case_sensitive=False),
    default="Full",
    show_default=True,
)
@click.option("--diag", is_flag=True, help="Have createdump log what it does, on the target's console.")
@click.option("--crashreport", is_flag=True, help="Write a crash report beside the dump (.NET 6 and newer).")
@format_option
def dump_collect(
    target: Target,
    output: str | None,
    kind: str,
    diag: bool,
    crashreport: bool,
    form: str,
) -> None:
    """Have a runtime write a dump of itself. Takes up to minutes; the process stands still meanwhile.

    The target writes it, into its own file system. A relative path is one of this directory; for a process in a container, of the
    process's working directory. The path printed is the one to open here.

    \b
    dotnetdiag dump collect -p 1234 --type Heap -o /tmp/app.core
    """
    from dotnetdiag.recipes.dumps import write_dump

    with client_of(target) as client:
        echo("Writing the dump …", err=True)
        done = write_dump(client, output, kind, (1 if diag else 0) | (4 if crashreport else 0))
    told = {**done.to_json(), "type": kind}

    def people() -> None:
        echo(done.host_path)
        if done.host_path != done.path:
            echo(f"In the target's own file system it is {done.path}.", err=True)

    def tables() -> Table:
        from dotnetdiag.table import Table

        return Table.of_rows([told], title="dump")

    show(form, tables, people=people, document=lambda: told)
