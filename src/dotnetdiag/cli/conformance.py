"""``conformance``."""

from __future__ import annotations

import click

from dotnetdiag.cli import verdict
from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import process_options
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError

MARKS = {"passed": "ok  ", "failed": "FAIL", "differs": "diff", "not applicable": "n/a "}


@click.command(cls=Command)
@click.argument("address", required=False)
@process_options
@click.option(
    "--diagnostic-port",
    "--dport",
    "port",
    metavar="ADDRESS,connect",
    help="A diagnostic port where a server listens, as other verbs take it.",
)
@click.option(
    "--age", help="The .NET whose manners it is held to (3.1 to 11, NativeAOT); by default the one that it says it is."
)
@click.option("--dangerous", is_flag=True, help="Send also what is known to kill runtimes.")
@format_option
def conformance(
    address: str | None,
    pid: int | None,
    name: str | None,
    port: str | None,
    age: str | None,
    dangerous: bool,
    form: str,
) -> None:
    """Check the server at ADDRESS (a path, or host:port), or a process, against what the protocol asks of it.

    One check a line: ok, FAIL, diff (a known difference of that .NET), n/a. Sessions are started and stopped, and the variable
    DOTNETDIAG_CONFORMANCE of its environment is set; a process that waits at its start is refused. Exit code 1 when a check has failed.

    \b
    dotnetdiag conformance /tmp/server.sock
    dotnetdiag conformance -p 1234 --json
    """
    from dotnetdiag.table import Table
    from dotnetdiag.testing import Outcome, examine

    if sum(one is not None for one in (address, pid, name, port)) != 1:
        raise UsageError("name one server: ADDRESS, PID, -p, -n or --diagnostic-port")
    if port is not None:
        address, _, mode = port.rpartition(",")
        if mode.strip().lower() != "connect":
            raise UsageError(f"{port}: a server that listens is checked: write ADDRESS,connect")
    if name is not None:
        from dotnetdiag.recipes.processes import find_pid

        pid = find_pid(name)
    results = []
    for result in examine(address, pid=pid, age=age, dangerous=dangerous):
        results.append(result)
        verdict.settle(int(any(result.outcome is Outcome.FAILED for result in results)))
        if form == "table":
            echo(f"{MARKS[result.outcome.value]}  {result.name}" + (f": {result.detail}" if result.detail else ""))
    rows = [
        {
            "check": result.name,
            "outcome": result.outcome.value,
            "detail": result.detail,
            "sends": result.sends,
            "document": result.document,
        }
        for result in results
    ]

    def people() -> None:
        counts = [f"{sum(result.outcome is outcome for result in results)} {outcome.value}" for outcome in Outcome]
        echo(", ".join(counts), err=True)

    show(form, lambda: Table.of_rows(rows, title="conformance"), people=people, document=lambda: rows)
    if verdict.settled():
        raise click.exceptions.Exit(verdict.settled())
