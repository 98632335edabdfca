"""What ``ps`` prints. Without click: see ``main``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo, json_text, seconds_text, table

if TYPE_CHECKING:
    from dotnetdiag.recipes.processes import Process


def processes_as_json() -> None:
    """The list of runtimes on stdout, as JSON."""
    from dotnetdiag._dataclasses import as_dict
    from dotnetdiag.recipes.processes import list_processes

    found = list_processes()
    json_text([as_dict(process) for process in found])
    say_foreign(found)


def say_foreign(known: Iterable[Process]) -> None:
    """Of runtimes that have no pid here, and how they are reached all the same."""
    import shlex

    from dotnetdiag.recipes.processes import list_foreign_sockets

    for path in list_foreign_sockets(known):
        echo(
            f"A runtime whose process is not seen from here listens at {path}: "
            f"dotnetdiag info --diagnostic-port {shlex.quote(path)},connect",
            err=True,
        )


def show_processes() -> None:
    """The list of runtimes on stdout."""
    from dotnetdiag.recipes.processes import list_processes, runtime_text

    found = list_processes()
    if not found:
        echo("No supported .NET processes were found")
        say_foreign(found)
        return
    table(
        ("pid", "name", "assembly", "runtime", "uptime", "command line"),
        [
            (
                str(process.pid),
                process.name + (f" (pid {process.namespace_pid} in its namespace)" if process.other_namespace else ""),
                process.entry_assembly or "-",
                runtime_text(process) or "-",
                "-" if process.uptime_s is None else seconds_text(process.uptime_s),
                process.command_line + (f"  [{process.problem}]" if process.problem else ""),
            )
            for process in found
        ],
        right=("pid", "uptime"),
    )
    say_foreign(found)
