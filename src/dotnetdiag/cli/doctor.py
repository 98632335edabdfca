"""``doctor``."""

from __future__ import annotations

from typing import Any

import click

from dotnetdiag.cli import verdict
from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import process_options
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.render import echo, is_terminal, write_raw
from dotnetdiag.tui.resuming import how_to_resume

MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "ok": ("ok  ", {"fg": "green"}),
    "warning": ("warn", {"fg": "yellow"}),
    "failure": ("FAIL", {"fg": "red", "bold": True}),
}


@click.command(cls=Command)
@process_options
@click.option(
    "--diagnostic-port",
    "--dport",
    "port",
    metavar="ADDRESS[,connect|listen]",
    help="A diagnostic port, as other verbs take it.",
)
@format_option
def doctor(pid: int | None, name: str | None, port: str | None, form: str) -> None:
    """Say why the process PID can or cannot be attached to, or who comes to a port; without one, what this installation can do and sees.

    One finding a line, each with what to do. The process is asked who it is, and otherwise only looked at: no session is started.
    Exit code 1 when something is wrong; a warning is not.

    \b
    dotnetdiag doctor 1234
    dotnetdiag doctor --diagnostic-port /run/app.sock
    dotnetdiag doctor --json
    """
    from dotnetdiag.errors import UsageError
    from dotnetdiag.recipes.examination import examine, examine_installation
    from dotnetdiag.recipes.port_examination import examine_port
    from dotnetdiag.recipes.processes import find_pid

    if sum(one is not None for one in (pid, name, port)) > 1:
        raise UsageError("give one process or port: PID, -p, -n or --diagnostic-port")
    if port is not None:
        findings = examine_port(port)
    else:
        pid = pid if name is None else find_pid(name)
        findings = examine_installation() if pid is None else examine(pid)
    from dotnetdiag._dataclasses import as_dict
    from dotnetdiag.table import Table

    def people() -> None:
        for finding in findings:
            advice = "; ".join(part for part in (finding.advice, _what_to_type(finding.code, pid)) if part)
            word, style = MARKS[finding.level]
            write_raw(click.style(word, **style) if is_terminal() else word)
            echo(f"  {finding.text}" + (f" -> {advice}" if advice else ""))

    rows = [as_dict(finding) for finding in findings]
    code = int(not all(finding.ok for finding in findings))
    verdict.settle(code)
    show(form, lambda: Table.of_rows(rows, title="findings"), people=people, document=lambda: rows)
    if code:
        raise click.exceptions.Exit(code)


def _what_to_type(code: str, pid: int | None) -> str:
    from dotnetdiag.cli.advice import advice_for_finding

    if code != "suspended-by-port" or pid is None:
        return advice_for_finding(code).replace("PID", str(pid or "PID"))
    from dotnetdiag.recipes.examination import holds_of

    return "; ".join(map(how_to_resume, holds_of(pid)))
