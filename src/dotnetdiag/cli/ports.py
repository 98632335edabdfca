"""``ports``: who dials a diagnostic port."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.output import TABLE
from dotnetdiag.cli.render import echo, json_text
from dotnetdiag.cli.security import security_options
from dotnetdiag.cli.signals import stopping

if TYPE_CHECKING:
    from dotnetdiag.recipes.ports import Visit


@click.command(cls=Command)
@click.argument("address")
@click.option("--resume", is_flag=True, help="Let runtimes run that wait at their start.")
@click.option("--duration", help="End after 30s, 5m, 1h30m.")
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option(
    "--format",
    "form",
    type=click.Choice([TABLE, "jsonl", "csv"]),
    default=TABLE,
    show_default=True,
    help="How to print it.",
)
@security_options
def ports(
    address: str,
    resume: bool,
    duration: str | None,
    form: str,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    token_file: str | None,
) -> None:
    """Listen at ADDRESS (a path, or host:port), and show which runtimes come and go: those that were started with
    DOTNET_DiagnosticPorts=ADDRESS. A line each, until Ctrl-C or --duration; a runtime that waits at its start waits until it is resumed.
    Beyond loopback only with TLS and a token, which a router beside the runtimes shows.

    \b
    dotnetdiag ports /tmp/app.sock
    dotnetdiag ports /tmp/app.sock --resume --json | jq .pid
    """
    from dotnetdiag.recipes.descriptors import raise_limit
    from dotnetdiag.recipes.ports import visits
    from dotnetdiag.recipes.security import security_of
    from dotnetdiag.recipes.stop import Stop

    raise_limit()
    stop = Stop()
    security = security_of(certificate=tls_cert or "", key=tls_key or "", ca=tls_ca or "", token_file=token_file or "")

    waiting = 0
    with stopping(lambda _: stop.stop()):
        if form == "csv":
            from dotnetdiag.cli.live_lines import csv_rows
            from dotnetdiag.recipes.ports import Visit

            echo(csv_rows([[field.name for field in fields(Visit)]])[0])
        for visit in visits(
            address,
            duration=duration,
            resume=resume,
            stop=stop,
            security=security if security.certificate or security.token else None,
            listening=lambda where: echo(f"listening on {where}", err=True),
        ):
            _show(visit, form)
            if visit.suspended and not resume:
                waiting += 1
                if waiting == 1:
                    echo("It waits at its start: --resume lets it run.", err=True)


def _show(visit: Visit, form: str) -> None:
    row = asdict(visit) | {"seconds": round(visit.seconds, 3)}
    if form == "jsonl":
        json_text(row, indent=None)
    elif form == "csv":
        from dotnetdiag.cli.live_lines import csv_rows

        echo(csv_rows([["" if value is None else value for value in row.values()]])[0])
    else:
        from dotnetdiag.recipes.processes import runtime_text

        state = {True: "suspended", False: "running", None: ""}[visit.suspended]
        pid, what = visit.pid or visit.namespace_pid, visit.what
        facts = f"{visit.seconds:9.1f} s  {what:<9}  {pid:>7}  {state:<9}  {runtime_text(visit) or '-':<8}"
        said = f"[{visit.problem}]" if visit.problem else visit.command_line
        echo(f"{facts}  {visit.name or '-'}  {said}".rstrip())
