"""The ``dotnetdiag`` command."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dotnetdiag.cli.exits import ARGUMENT_ERROR, exit_code
from dotnetdiag.errors import DiagnosticsError, UsageError


def main() -> None:
    """Entry point: one line on stderr for an error, and its exit code."""
    try:
        code = commands.main(standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        sys.exit(ARGUMENT_ERROR)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("error: cancelled", err=True)
        sys.exit(exit_code(KeyboardInterrupt()) if isinstance(error, click.Abort) else exit_code(error))
    except DiagnosticsError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(exit_code(error))
    sys.exit(code if isinstance(code, int) else 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dotnetdiag")
def commands() -> None:
    """Diagnostics for running .NET processes."""


def _json(value: Any) -> None:
    import json

    click.echo(json.dumps(value, indent=2, default=str))


def _target(pid: int | None, name: str | None) -> int:
    from dotnetdiag.recipes.processes import find_pid

    if pid is not None and name is not None:
        raise UsageError("Only one of the --name or --process-id options may be specified.")
    if name is not None:
        return find_pid(name)
    if pid is None:
        raise UsageError("Must specify either --process-id or --name.")
    return pid


def _target_options(function: Any) -> Any:
    function = click.option("-n", "--name", help="Name of the process or of its entry assembly.")(function)
    return click.option("-p", "--process-id", "pid", type=int, help="Process id.")(function)


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def ps(as_json: bool) -> None:
    """List the .NET processes that can be reached."""
    from dotnetdiag.recipes.processes import list_processes

    found = list_processes()
    if as_json:
        _json([asdict(process) for process in found])
        return
    if not found:
        click.echo("No supported .NET processes were found")
        return
    for process in found:
        mark = f" (pid {process.namespace_pid} in its namespace)" if process.other_namespace else ""
        uptime = "" if process.uptime_s is None else f"{process.uptime_s:.0f}s"
        click.echo(
            f"{process.pid:>8}  {process.name:<16} {process.entry_assembly or '-':<20} "
            f"{process.runtime_version or '-':<12} {uptime:>8}  {process.command_line}{mark}"
        )


@commands.command()
@_target_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def info(pid: int | None, name: str | None, as_json: bool) -> None:
    """Show who a runtime is."""
    from dotnetdiag.recipes.details import process_details

    details = process_details(_target(pid, name))
    if as_json:
        _json(details)
        return
    for key, value in details.items():
        click.echo(f"{key.replace('_', ' '):<20} {value}")


@commands.command()
@_target_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def env(pid: int | None, name: str | None, as_json: bool) -> None:
    """Show a runtime's environment."""
    from dotnetdiag.recipes.details import process_environment

    variables = process_environment(_target(pid, name))
    if as_json:
        _json(variables)
        return
    for key in sorted(variables):
        click.echo(f"{key}={variables[key]}")


@commands.command()
@_target_options
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE...")
def setenv(pid: int | None, name: str | None, assignments: tuple[str, ...]) -> None:
    """Set variables of a runtime's environment; NAME alone removes one."""
    from dotnetdiag.recipes.details import set_variables

    set_variables(_target(pid, name), assignments)


@commands.command()
@_target_options
def resume(pid: int | None, name: str | None) -> None:
    """Let a runtime run that is suspended at startup."""
    from dotnetdiag.recipes.details import resume_process

    resume_process(_target(pid, name))


@commands.command("startup-hook")
@_target_options
@click.argument("path")
def startup_hook(pid: int | None, name: str | None, path: str) -> None:
    """Run the startup hook in the assembly PATH (as the target sees it)."""
    from dotnetdiag.recipes.details import apply_hook

    apply_hook(_target(pid, name), path)


@commands.group()
def perfmap() -> None:
    """Write a map of jitted code for perf."""


@perfmap.command("enable")
@_target_options
@click.option("--type", "kind", type=click.Choice(["All", "JitDump", "PerfMap"], case_sensitive=False), default="All")
def perfmap_enable(pid: int | None, name: str | None, kind: str) -> None:
    """Start writing /tmp/perf-PID.map and /tmp/jit-PID.dump."""
    from dotnetdiag.recipes.details import enable_perf_map

    enable_perf_map(_target(pid, name), kind)


@perfmap.command("disable")
@_target_options
def perfmap_disable(pid: int | None, name: str | None) -> None:
    """Stop writing them."""
    from dotnetdiag.recipes.details import disable_perf_map

    disable_perf_map(_target(pid, name))


@commands.group()
def profiler() -> None:
    """Load a native profiler into a runtime."""


@profiler.command("attach")
@_target_options
@click.argument("clsid", type=click.UUID)
@click.argument("path")
@click.option("--data", default="", help="Client data, sent as UTF-8.")
def profiler_attach(pid: int | None, name: str | None, clsid: UUID, path: str, data: str) -> None:
    """Attach the profiler CLSID in the library PATH (as the target sees it)."""
    from dotnetdiag.recipes.details import attach_profiler

    attach_profiler(_target(pid, name), clsid, path, data)


@profiler.command("startup")
@_target_options
@click.argument("clsid", type=click.UUID)
@click.argument("path")
def profiler_startup(pid: int | None, name: str | None, clsid: UUID, path: str) -> None:
    """Register a profiler with a runtime that is suspended at startup."""
    from dotnetdiag.recipes.details import startup_profiler

    startup_profiler(_target(pid, name), clsid, path)


@commands.group()
def dump() -> None:
    """Write core dumps."""


@dump.command("collect")
@_target_options
@click.option("-o", "--output", help="Path, as the target sees it; made absolute here.")
@click.option(
    "--type", "kind", type=click.Choice(["Full", "Heap", "Mini", "Triage"], case_sensitive=False), default="Full"
)
def dump_collect(pid: int | None, name: str | None, output: str | None, kind: str) -> None:
    """Have a runtime write a dump of itself. Takes up to minutes."""
    from datetime import datetime

    from dotnetdiag.recipes.details import write_dump

    path = write_dump(_target(pid, name), output or f"core_{datetime.now():%Y%m%d_%H%M%S}", kind)
    click.echo(path)


@commands.command()
@click.argument("pid", type=int)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def doctor(pid: int, as_json: bool) -> None:
    """Say why a process can or cannot be attached to."""
    from dotnetdiag.recipes.details import examine

    findings = examine(pid)
    if as_json:
        _json([asdict(finding) for finding in findings])
        return
    for finding in findings:
        click.echo(
            f"{'ok  ' if finding.ok else 'FAIL'}  {finding.text}" + (f" -> {finding.advice}" if finding.advice else "")
        )


@commands.group()
def trace() -> None:
    """Record traces."""


@trace.command("collect")
@_target_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option("--providers", help="Name[:keywords[:level[:arguments]]],…")
@click.option("--buffersize", type=click.IntRange(min=1), default=256, show_default=True, help="MB, in the target.")
@click.option("--duration", help="30s, 5m, or dd:hh:mm:ss.")
def trace_collect(
    pid: int | None,
    name: str | None,
    output: Path | None,
    providers: str | None,
    buffersize: int,
    duration: str | None,
) -> None:
    """Record a trace of one process."""
    from datetime import datetime

    from dotnetdiag.recipes.collect import DEFAULT_PROVIDERS, CollectOptions, collect
    from dotnetdiag.client.duration import parse_duration

    target = _target(pid, name)
    stamp = datetime.now().strftime("%Y%m%d_%H%M%S")
    options = CollectOptions(
        pid=target,
        output=output or Path(f"trace_{target}_{stamp}.nettrace"),
        providers=providers or DEFAULT_PROVIDERS,
        buffer_mb=buffersize,
        duration_s=None if duration is None else parse_duration(duration),
    )
    collected = collect(options, _progress)
    click.echo(err=True)
    click.echo(f"{collected.path}: {collected.size_bytes} bytes")


def _progress(size_bytes: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r  {size_bytes / 1e6:8.2f} MB", nl=False, err=True)


@commands.command()
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True)
def demo(seconds: float) -> None:
    """Start a small .NET program, record it, and say what to do next."""
    from dotnetdiag.recipes.demonstration import demonstrate

    def started(host: Any, pid: int, told: dict[str, str]) -> None:
        click.echo(f"Runtime   {host.version} ({host.source})")
        click.echo(f"Process   {pid}")
        for key, value in told.items():
            click.echo(f"  {key:<16} {value}")
        click.echo(f"Recording {seconds:g} s …", err=True)

    done = demonstrate(Path("demo.nettrace"), duration_s=seconds, started=started, progress=_progress)
    click.echo(err=True)
    click.echo(f"Recorded  {done.collected.size_bytes} bytes into {done.collected.path}")
    from dotnetdiag.recipes.contents import summarize

    for line in summarize(done.collected.path):
        click.echo(line)
    click.echo("Next      dotnetdiag ps; dotnetdiag trace collect -p PID --duration 30s")


if __name__ == "__main__":
    main()
