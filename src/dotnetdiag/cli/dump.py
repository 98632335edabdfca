"""``dump``."""

from __future__ import annotations

import click

from dotnetdiag.cli.options import client_of, json_option, target_options
from dotnetdiag.cli.processes import ps


@click.group(commands=[ps])
def dump() -> None:
    """Write core dumps."""


@dump.command("collect")
@target_options
@click.option("-o", "--output", help="Path, as the target sees it; made absolute here.  [default: core_DATE_TIME]")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["Full", "Heap", "Mini", "Triage"], case_sensitive=False),
    default="Full",
    show_default=True,
)
@click.option("--diag", is_flag=True, help="Have createdump log what it does, on the target's console.")
@click.option("--crashreport", is_flag=True, help="Write a crash report beside the dump (.NET 6 and newer).")
@json_option
def dump_collect(
    pid: int | None,
    name: str | None,
    port: str | None,
    output: str | None,
    kind: str,
    diag: bool,
    crashreport: bool,
    as_json: bool,
) -> None:
    """Have a runtime write a dump of itself. Takes up to minutes; the process stands still meanwhile.

    \b
    dotnetdiag dump collect -p 1234 --type Heap -o /tmp/app.core
    """
    from datetime import datetime

    from dotnetdiag.recipes.details import write_dump

    with client_of(pid, name, port) as client:
        click.echo("Writing the dump …", err=True)
        path = write_dump(
            client,
            output or f"core_{datetime.now():%Y%m%d_%H%M%S}",
            kind,
            (1 if diag else 0) | (4 if crashreport else 0),
        )
    if as_json:
        from dotnetdiag.cli.render import json_text

        json_text({"path": path, "type": kind})
        return
    click.echo(path)
