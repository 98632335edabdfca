"""``demo``."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.render import echo, size_text


@click.command(cls=Command)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="How long to record.")
@click.option("--force", is_flag=True, help="Overwrite demo.nettrace and demo.flamegraph.html where they are there.")
@click.option("--run", is_flag=True, help="Only run the program, to try things on; Ctrl-C ends it.")
def demo(seconds: float, force: bool, run: bool) -> None:
    """Start a small .NET program, record it, and show what came.

    The program comes with this package and runs on the best runtime found: DOTNET_ROOT, dotnet on PATH, the one from PyPI
    (pip install 'dotnetdiag[demo]'). It is ended in any case. The recording is demo.nettrace in this folder, its picture
    demo.flamegraph.html.

    \b
    dotnetdiag demo --seconds 10
    dotnetdiag demo --run
    """
    if run:
        _run()
        return
    from dotnetdiag.cli.recording import Display, ends_nicely
    from dotnetdiag.recipes.collect import Observer, Stop
    from dotnetdiag.recipes.contents import summarize
    from dotnetdiag.recipes.demonstration import demonstrate

    display = Display(f"{seconds}s", quiet=False)

    def started(host: Any, pid: int, told: dict[str, str]) -> None:
        echo(f"Runtime   {host.version} ({host.source})")
        echo(f"Process   {pid}")
        for key, value in told.items():
            echo(f"  {key:<16} {value}")
        echo(f"Recording {seconds:g} s …", err=True)

    stop = Stop()
    observer = Observer(started=display.started, progress=display.progress, stopping=display.stopping)
    with ends_nicely(stop, observer, enter=True):
        done = demonstrate(
            Path("demo.nettrace"), duration_s=seconds, started=started, observer=observer, stop=stop, force=force
        )
    collected = done.collected
    display.finish(collected)
    echo(f"Recorded  {collected.path}  {size_text(collected.size_bytes)} ({collected.size_bytes} bytes)")
    for line in summarize(collected.path):
        echo(line)
    echo(f"Where the time went, of {done.report.total:,.0f} {done.report.unit} of all threads:")
    for row in done.report.rows:
        echo(f"  {row.exclusive_percent:6.2f}%  {row.name}")
    echo(f"  ({done.report.shortcomings})")
    echo(f"Picture   {done.flame_graph}")
    echo(f"Next      open {done.flame_graph} in a browser")
    echo("          dotnetdiag ps; dotnetdiag trace collect -p PID --duration 30s")
    echo(f"          dotnetdiag trace info {collected.path}; dotnetdiag trace report {collected.path} topN -n 20")
    if observer.child_signal not in (None, signal.SIGINT):
        raise click.exceptions.Exit(128 + observer.child_signal)


def _run() -> None:
    """Until a signal ends us, or somebody the program."""
    from dotnetdiag.recipes.demonstration import demo_program

    with suppress(KeyboardInterrupt), demo_program() as program:
        echo(f"demo: process {program.pid} on .NET {program.host.version} ({program.host.source}); Ctrl-C ends it")
        program.process.wait()
