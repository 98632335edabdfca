"""What ``ps`` prints. Without click: see ``main``."""

from __future__ import annotations

from dotnetdiag.cli.render import echo, json_text, seconds_text, table


def processes_as_json() -> None:
    """The list of runtimes on stdout, as JSON."""
    from dataclasses import asdict

    from dotnetdiag.recipes.processes import list_processes

    json_text([asdict(process) for process in list_processes()])


def show_processes() -> None:
    """The list of runtimes on stdout."""
    from dotnetdiag.recipes.processes import list_processes

    found = list_processes()
    if not found:
        echo("No supported .NET processes were found")
        return
    table(
        ("pid", "name", "assembly", "runtime", "uptime", "command line"),
        [
            (
                str(process.pid),
                process.name + (f" (pid {process.namespace_pid} in its namespace)" if process.other_namespace else ""),
                process.entry_assembly or "-",
                process.runtime_version or "-",
                "-" if process.uptime_s is None else seconds_text(process.uptime_s),
                process.command_line + (f"  [{process.problem}]" if process.problem else ""),
            )
            for process in found
        ],
        right=("pid", "uptime"),
    )
